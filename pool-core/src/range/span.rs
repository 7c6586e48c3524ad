//! One span: a stretch of 64 to 4,096 granules cut by binary buddy, as bitmaps alone.
//!
//! A span is a bit for each granule, set while the granule is free. Buddies are not kept: a free
//! buddy of order k is 2^k set bits at a multiple of 2^k, found by shifting and masking a word
//! of 64 granules, so that freeing sets bits and merging happens by itself. A *word* is a buddy
//! of order 6; larger orders are found in the same way in the map of wholly free words. For
//! each order up to 6 the span knows which words have that as their largest free buddy, so
//! that a block is found by two counts of trailing zeros.
//!
//! The words of a span's table:
//!
//! | words | what |
//! | --- | --- |
//! | 1 | the span's node, and its free granules |
//! | 1 | the spans before and after it in a list |
//! | 1 | the order of that list |
//! | 7 | for each order to 6, the words with that as their largest free buddy |
//! | granules / 64 | the free bits |
//! | granules / 16 | tags: 4 bits a granule, the order plus one where a live block starts |
//! | granules / 2 | generations: 32 bits a granule, valid where a live block starts |

use super::storage::NO_SPAN;

/// The order of a word.
pub(crate) const WORD_ORDER: u32 = 6;
/// The largest order: 64 words.
pub(crate) const MAX_ORDER: u32 = 12;

const NODE: usize = 0;
const NEIGHBOURS: usize = 1;
const LISTED: usize = 2;
const BY_ORDER: usize = 3;
const BITS: usize = BY_ORDER + 7;

/// Not in a list.
const UNLISTED: u64 = u64::MAX;

/// Bits at multiples of 2^order.
const STARTS: [u64; 7] = [
    u64::MAX,
    0x5555_5555_5555_5555,
    0x1111_1111_1111_1111,
    0x0101_0101_0101_0101,
    0x0001_0001_0001_0001,
    0x0000_0001_0000_0001,
    1,
];

/// The words that a span's table takes.
pub(crate) const fn words(granules: u32) -> usize {
    let granules = granules as usize;
    BITS + granules / 64 + granules / 16 + granules / 2
}

/// The lowest 2^order bits.
#[inline]
fn ones(order: u32) -> u64 {
    u64::MAX >> (64 - (1u32 << order))
}

/// The starts of the free buddies of the next order, given those of `order`.
#[inline]
fn next_order(starts: u64, order: u32) -> u64 {
    starts & starts >> (1 << order) & STARTS[order as usize + 1]
}

/// The starts of the free buddies of an order, whether or not they are part of larger ones.
#[inline]
fn buddies(free: u64, order: u32) -> u64 {
    (0..order).fold(free, next_order)
}

/// The order of the largest free buddy, if there is one.
#[inline]
fn largest(free: u64) -> Option<u32> {
    if free == 0 {
        return None;
    }
    let mut starts = free;
    let mut order = 0;
    while order < WORD_ORDER {
        starts = next_order(starts, order);
        if starts == 0 {
            break;
        }
        order += 1;
    }
    Some(order)
}

/// Where a block of `order` goes at a start that is a multiple of 2^`align_order`: the lowest
/// start in the smallest free buddy, so that larger ones stay whole.
#[inline]
fn pick(free: u64, order: u32, align_order: u32) -> Option<u32> {
    let mut starts = buddies(free, order);
    let aligned = STARTS[align_order as usize];
    if starts & aligned == 0 {
        return None;
    }
    let wanted = starts & aligned;
    let mut now = order;
    while now < WORD_ORDER {
        let larger = next_order(starts, now);
        let both_halves = larger | larger << (1 << now);
        let exact = starts & !both_halves & aligned;
        if exact != 0 {
            return Some(exact.trailing_zeros());
        }
        starts = larger;
        now += 1;
    }
    Some(wanted.trailing_zeros())
}

/// Reads a span's table.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    words: &'a [u64],
    word_count: usize,
}

/// Reads and changes a span's table.
pub(crate) struct SpanMut<'a> {
    words: &'a mut [u64],
    word_count: usize,
}

impl<'a> Span<'a> {
    #[inline]
    pub(crate) fn new(words: &'a [u64], granules: u32) -> Self {
        Self { words, word_count: granules as usize / 64 }
    }

    #[inline]
    pub(crate) fn node(self) -> u32 {
        self.words[NODE] as u32
    }

    #[inline]
    pub(crate) fn free_granules(self) -> u32 {
        (self.words[NODE] >> 32) as u32
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.free_granules() as usize == self.word_count * 64
    }

    #[inline]
    pub(crate) fn before(self) -> u32 {
        self.words[NEIGHBOURS] as u32
    }

    #[inline]
    pub(crate) fn after(self) -> u32 {
        (self.words[NEIGHBOURS] >> 32) as u32
    }

    /// The order of the list it is in.
    #[inline]
    pub(crate) fn listed(self) -> Option<u32> {
        (self.words[LISTED] != UNLISTED).then_some(self.words[LISTED] as u32)
    }

    #[inline]
    fn by_order(self, order: u32) -> u64 {
        self.words[BY_ORDER + order as usize]
    }

    #[inline]
    fn bits(self, word: usize) -> u64 {
        self.words[BITS + word]
    }

    /// The order of the largest free buddy.
    #[inline]
    pub(crate) fn largest(self) -> Option<u32> {
        if let Some(order) = largest(self.by_order(WORD_ORDER)) {
            return Some(WORD_ORDER + order);
        }
        (0..WORD_ORDER).rev().find(|&order| self.by_order(order) != 0)
    }

    /// The order of the live block that starts at a granule.
    #[inline]
    pub(crate) fn live_order(self, granule: u32) -> Option<u32> {
        let tags = self.words[BITS + self.word_count + granule as usize / 16];
        ((tags >> (granule % 16 * 4)) as u32 & 15).checked_sub(1)
    }

    /// The generation of the live block that starts at a granule.
    #[inline]
    pub(crate) fn generation(self, granule: u32) -> u32 {
        let pair = self.words[BITS + self.word_count * 5 + granule as usize / 2];
        (pair >> (granule % 2 * 32)) as u32
    }

    /// Whether a naturally aligned piece is free.
    pub(crate) fn is_free(self, granule: u32, order: u32) -> bool {
        let word = granule as usize / 64;
        if order < WORD_ORDER {
            let mask = ones(order) << (granule % 64);
            self.bits(word) & mask == mask
        } else {
            let mask = ones(order - WORD_ORDER) << word;
            self.by_order(WORD_ORDER) & mask == mask
        }
    }

    /// The order of the largest free buddy that starts at a granule.
    pub(crate) fn free_order(self, granule: u32) -> Option<u32> {
        let limit = (self.word_count as u32 * 64 | granule).trailing_zeros();
        (0..=limit).rev().find(|&order| self.is_free(granule, order))
    }

    /// Where a block would go: the granule. Looks at one word.
    #[inline]
    fn find(self, order: u32, align_order: u32) -> Option<u32> {
        let wanted = order.max(align_order);
        if wanted <= WORD_ORDER {
            let order_found = (wanted..=WORD_ORDER).find(|&o| self.by_order(o) != 0)?;
            let word = self.by_order(order_found).trailing_zeros();
            Some(word * 64 + pick(self.bits(word as usize), order, align_order)?)
        } else {
            let whole = self.by_order(WORD_ORDER);
            let above = |order: u32| order.saturating_sub(WORD_ORDER);
            Some(pick(whole, above(order), above(align_order))? * 64)
        }
    }

    /// The first granule whose bookkeeping is not what the live tags and free bits say.
    pub(crate) fn fault(self) -> Option<u32> {
        let mut granule = 0;
        let mut free = 0;
        let granules = self.word_count as u32 * 64;
        while granule < granules {
            let order = match (self.live_order(granule), self.free_order(granule)) {
                (Some(order), None) if (granule | 1 << MAX_ORDER).trailing_zeros() >= order => {
                    if (granule + 1..granule + (1 << order))
                        .any(|g| self.live_order(g).is_some() || self.is_free(g, 0))
                    {
                        return Some(granule);
                    }
                    order
                }
                (None, Some(order)) => {
                    if (granule + 1..granule + (1 << order)).any(|g| self.live_order(g).is_some()) {
                        return Some(granule);
                    }
                    free += 1 << order;
                    order
                }
                _ => return Some(granule),
            };
            granule += 1 << order;
        }
        let words_fault = (0..self.word_count).find(|&word| {
            let expected = largest(self.bits(word));
            (0..=WORD_ORDER)
                .any(|order| (self.by_order(order) >> word & 1 != 0) != (expected == Some(order)))
        });
        if let Some(word) = words_fault {
            return Some(word as u32 * 64);
        }
        (granule != granules || free != self.free_granules()).then_some(granules)
    }
}

impl<'a> SpanMut<'a> {
    #[inline]
    pub(crate) fn new(words: &'a mut [u64], granules: u32) -> Self {
        Self { words, word_count: granules as usize / 64 }
    }

    #[inline]
    pub(crate) fn read(&self) -> Span<'_> {
        Span { words: self.words, word_count: self.word_count }
    }

    /// Makes the table that of an empty span, in no list.
    pub(crate) fn clear(&mut self, node: u32) {
        let generations = BITS + self.word_count * 5;
        self.words[..generations].fill(0);
        self.words[BITS..BITS + self.word_count].fill(u64::MAX);
        self.words[NODE] = u64::from(node) | (self.word_count as u64 * 64) << 32;
        self.words[NEIGHBOURS] = u64::from(NO_SPAN) | u64::from(NO_SPAN) << 32;
        self.words[LISTED] = UNLISTED;
        self.words[BY_ORDER + WORD_ORDER as usize] = u64::MAX >> (64 - self.word_count);
    }

    #[inline]
    pub(crate) fn set_before(&mut self, slot: u32) {
        self.words[NEIGHBOURS] = self.words[NEIGHBOURS] & !0xFFFF_FFFF | u64::from(slot);
    }

    #[inline]
    pub(crate) fn set_after(&mut self, slot: u32) {
        self.words[NEIGHBOURS] = self.words[NEIGHBOURS] & 0xFFFF_FFFF | u64::from(slot) << 32;
    }

    #[inline]
    pub(crate) fn set_listed(&mut self, order: Option<u32>) {
        self.words[LISTED] = order.map_or(UNLISTED, u64::from);
    }

    #[inline]
    fn set_bits(&mut self, word: usize, bits: u64) {
        let old = core::mem::replace(&mut self.words[BITS + word], bits);
        let (old, new) = (largest(old), largest(bits));
        if old != new {
            if let Some(order) = old {
                self.words[BY_ORDER + order as usize] &= !(1 << word);
            }
            if let Some(order) = new {
                self.words[BY_ORDER + order as usize] |= 1 << word;
            }
        }
    }

    /// Marks a naturally aligned piece as free or not.
    #[inline]
    fn mark(&mut self, granule: u32, order: u32, free: bool) {
        let word = granule as usize / 64;
        if order < WORD_ORDER {
            let mask = ones(order) << (granule % 64);
            let bits = self.words[BITS + word];
            self.set_bits(word, if free { bits | mask } else { bits & !mask });
        } else {
            let words = 1 << (order - WORD_ORDER);
            self.words[BITS + word..BITS + word + words].fill(if free { u64::MAX } else { 0 });
            let mask = ones(order - WORD_ORDER) << word;
            let whole = &mut self.words[BY_ORDER + WORD_ORDER as usize];
            *whole = if free { *whole | mask } else { *whole & !mask };
        }
        let granules = 1u64 << (order + 32);
        let head = self.words[NODE];
        self.words[NODE] =
            if free { head.wrapping_add(granules) } else { head.wrapping_sub(granules) };
    }

    #[inline]
    fn set_tag(&mut self, granule: u32, tag: u64) {
        let tags = &mut self.words[BITS + self.word_count + granule as usize / 16];
        let shift = granule % 16 * 4;
        *tags = *tags & !(15 << shift) | tag << shift;
    }

    /// Takes a block of an order at a multiple of 2^`align_order`. Touches a constant number of
    /// words (for an order above 6, as many as the block has).
    #[inline]
    pub(crate) fn allocate(
        &mut self,
        order: u32,
        align_order: u32,
        generation: u32,
    ) -> Option<u32> {
        let granule = self.read().find(order, align_order)?;
        self.mark(granule, order, false);
        self.set_tag(granule, u64::from(order) + 1);
        let pair = &mut self.words[BITS + self.word_count * 5 + granule as usize / 2];
        let shift = granule % 2 * 32;
        *pair = *pair & !(0xFFFF_FFFF << shift) | u64::from(generation) << shift;
        Some(granule)
    }

    /// Frees the live block of an order that starts at a granule.
    #[inline]
    pub(crate) fn free(&mut self, granule: u32, order: u32) {
        self.set_tag(granule, 0);
        self.mark(granule, order, true);
    }

    /// Changes the order of a live block; the granules for it [are free](Span::is_free).
    pub(crate) fn resize(&mut self, granule: u32, from: u32, to: u32) {
        // The upper halves between the two orders, lowest first.
        for half in from.min(to)..from.max(to) {
            self.mark(granule + (1 << half), half, to < from);
        }
        self.set_tag(granule, u64::from(to) + 1);
    }
}

/// The highest order that a live block can grow to where it lies.
pub(crate) fn most_order(span: Span<'_>, granule: u32, order: u32) -> u32 {
    let limit = (span.word_count as u32 * 64 | granule).trailing_zeros();
    (order..limit)
        .find(|&half| !span.is_free(granule + (1 << half), half))
        .unwrap_or(limit.max(order))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buddies_in_a_word_are_the_aligned_free_runs() {
        // A full check of every order over random words.
        let mut word = 0x9E37_79B9_7F4A_7C15_u64;
        for round in 0..20_000u32 {
            word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            // Mostly full, mostly empty and mixed words.
            let free = match round % 4 {
                0 => word,
                1 => word | word.rotate_left(7) | word.rotate_left(23) | word.rotate_left(41),
                2 => word & word.rotate_left(11),
                _ => !(1 << (word >> 58)),
            };
            let mut expected_largest = None;
            for order in 0..=WORD_ORDER {
                let run = 1u32 << order;
                let expected = (0..64 / run)
                    .filter(|i| free >> (i * run) & ones(order) == ones(order))
                    .fold(0u64, |starts, i| starts | 1 << (i * run));
                assert_eq!(buddies(free, order), expected, "{free:#x}, order {order}");
                if expected != 0 {
                    expected_largest = Some(order);
                }
            }
            assert_eq!(largest(free), expected_largest, "{free:#x}");
        }
    }

    #[test]
    fn a_pick_splits_the_smallest_buddy_that_serves() {
        // Free: granule 1, granules 4 to 7, granules 8 to 15.
        let free = 0b1111_1111_1111_0010;
        assert_eq!(pick(free, 0, 0), Some(1));
        assert_eq!(pick(free, 1, 0), Some(4));
        assert_eq!(pick(free, 2, 0), Some(4));
        assert_eq!(pick(free, 3, 0), Some(8));
        assert_eq!(pick(free, 4, 0), None);
        assert_eq!(pick(free, 0, 2), Some(4));
        assert_eq!(pick(free, 0, 3), Some(8));
    }

    #[test]
    fn blocks_of_all_orders_come_and_go() {
        for granules in [64, 128, 1024, 4096] {
            let mut table = [0; words(4096)];
            let mut span = SpanMut::new(&mut table[..words(granules)], granules);
            span.clear(7);
            let top = granules.trailing_zeros();
            assert_eq!(span.read().largest(), Some(top));
            for order in 0..=top {
                for align in 0..=top {
                    let granule = span.allocate(order, align, 9).unwrap();
                    assert_eq!(granule % (1 << order.max(align)), 0);
                    assert_eq!(span.read().live_order(granule), Some(order));
                    assert_eq!(span.read().generation(granule), 9);
                    assert_eq!(span.read().fault(), None);
                    assert_eq!(most_order(span.read(), granule, order), top);
                    span.resize(granule, order, top);
                    assert_eq!(span.read().fault(), None);
                    assert_eq!(span.read().largest(), None);
                    span.resize(granule, top, 0);
                    assert_eq!(span.read().fault(), None);
                    span.free(granule, 0);
                    assert_eq!(span.read().fault(), None);
                    assert!(span.read().is_empty());
                    assert_eq!(span.read().node(), 7);
                }
            }
        }
    }
}
