//! One span: a stretch of 64 to 4,096 granules cut by binary buddy, as bits alone.
//!
//! Each 64 granules, a *word*, have a [tree](super::buddy_tree) of the buddies below order 6;
//! one more tree has the words that are wholly free. For each order below 6 the span knows which
//! words have that as their largest free buddy, so that a block is found by counting trailing
//! zeros. *Ranks* are orders plus one; rank zero is of what has nothing free.
//!
//! The 64-bit words of a span's table, its first lines what every block touches:
//!
//! | how many | what |
//! | --- | --- |
//! | 1 | the span's node; the rank of the list it is in |
//! | 1 | the spans before and after it in that list |
//! | 1 | the ranks below 7 that some word has; how many live blocks start here |
//! | 2 | the tree of wholly free words |
//! | 6 | for each rank from 1 to 6, the words that have it |
//! | 2 a word | the trees of the words |
//! | 4 a word | tags: 4 bits a granule, the order plus one where a block starts that is not merged |
//! | 32 a word | generations: 32 bits a granule, valid where a tag is; zero: freed, not merged |

use super::buddy_tree::{self, FULL, TREE_ORDER, Tree};
use super::storage::NO_SPAN;

/// The order of a word.
pub(crate) const WORD_ORDER: u32 = TREE_ORDER;
/// The largest order: 64 words.
pub(crate) const MAX_ORDER: u32 = WORD_ORDER + TREE_ORDER;

const NODE: usize = 0;
const NEIGHBOURS: usize = 1;
const RANKS: usize = 2;
const WHOLE_WORDS: usize = 3;
/// Rank 1 comes first.
const BY_RANK: usize = WHOLE_WORDS + 2 - 1;
const TREES: usize = BY_RANK + 1 + WORD_ORDER as usize;

const TREE_WORDS: usize = 2;
const TAG_WORDS: usize = 4;
const GENERATION_WORDS: usize = 32;

/// The 64-bit words that a span's table takes.
pub(crate) const fn words(granules: u32) -> usize {
    TREES + granules as usize / 64 * (TREE_WORDS + TAG_WORDS + GENERATION_WORDS)
}

/// The order of a whole span.
#[inline]
fn top_order(granules: u32) -> u32 {
    granules.trailing_zeros()
}

#[inline(always)]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// A block that was freed and is not merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unmerged {
    /// Counted from the range's start.
    pub(crate) granule: u32,
    pub(crate) order: u32,
}

/// A live block, or a buddy without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanPiece {
    /// Counted from the span's start.
    pub(crate) granule: u32,
    pub(crate) order: u32,
    /// Of a live block.
    pub(crate) generation: Option<u32>,
}

/// Reads a span's table.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    words: &'a [u64],
    granules: u32,
}

/// Reads and changes a span's table.
pub(crate) struct SpanMut<'a> {
    words: &'a mut [u64],
    granules: u32,
}

#[inline(always)]
fn tags_at(granules: u32) -> usize {
    TREES + granules as usize / 64 * TREE_WORDS
}

#[inline(always)]
fn generations_at(granules: u32) -> usize {
    TREES + granules as usize / 64 * (TREE_WORDS + TAG_WORDS)
}

#[inline(always)]
fn tree_at(words: &[u64], at: usize) -> Tree {
    [words[at], words[at + 1]]
}

impl<'a> Span<'a> {
    #[inline(always)]
    pub(crate) fn new(words: &'a [u64], granules: u32) -> Self {
        Self { words, granules }
    }

    #[inline(always)]
    pub(crate) fn node(self) -> u32 {
        self.words[NODE] as u32
    }

    /// The rank of the list it is in, zero for none.
    #[inline(always)]
    pub(crate) fn listed(self) -> u32 {
        (self.words[NODE] >> 32) as u32
    }

    /// How many live blocks are in it.
    #[inline(always)]
    pub(crate) fn live(self) -> u32 {
        (self.words[RANKS] >> 32) as u32
    }

    /// The ranks below 7 that some word has.
    #[inline(always)]
    fn ranks(self) -> u32 {
        self.words[RANKS] as u32
    }

    #[inline]
    pub(crate) fn before(self) -> u32 {
        self.words[NEIGHBOURS] as u32
    }

    #[inline]
    pub(crate) fn after(self) -> u32 {
        (self.words[NEIGHBOURS] >> 32) as u32
    }

    #[inline(always)]
    fn whole_words(self) -> Tree {
        tree_at(self.words, WHOLE_WORDS)
    }

    #[inline(always)]
    fn tree(self, word: u32) -> Tree {
        tree_at(self.words, TREES + word as usize * TREE_WORDS)
    }

    /// The rank of the largest free buddy.
    #[inline(always)]
    pub(crate) fn rank(self) -> u32 {
        let whole = buddy_tree::rank(&self.whole_words());
        if whole != 0 { WORD_ORDER + whole } else { self.ranks().checked_ilog2().unwrap_or(0) }
    }

    /// The same once some blocks of it, freed but not merged, are. They are sorted.
    pub(crate) fn settled_rank(self, unmerged: &[Unmerged]) -> u32 {
        let mut whole = self.whole_words();
        let mut rank = self.rank();
        let word = |block: &Unmerged| block.granule % self.granules / 64;
        for blocks in unmerged.chunk_by(|a, b| word(a) == word(b)) {
            let Some(word) = blocks.first().map(word) else { continue };
            let mut tree = self.tree(word);
            let mut stays_in_word = true;
            for block in blocks {
                if block.order < WORD_ORDER {
                    let index = (block.granule % 64) >> block.order;
                    stays_in_word = buddy_tree::give(&mut tree, block.order, index);
                } else {
                    let order = block.order - WORD_ORDER;
                    buddy_tree::give_up_to_whole(&mut whole, order, word >> order);
                }
            }
            if !stays_in_word {
                buddy_tree::give_up_to_whole(&mut whole, 0, word);
            }
            rank = rank.max(buddy_tree::rank(&tree));
        }
        match buddy_tree::rank(&whole) {
            0 => rank,
            whole => rank.max(WORD_ORDER + whole),
        }
    }

    /// The order of the live block that starts at a granule.
    #[inline(always)]
    pub(crate) fn live_order(self, granule: u32) -> Option<u32> {
        self.taken_order(granule).filter(|_| self.generation(granule) != 0)
    }

    /// The order of the block that starts at a granule and is live, or freed but not merged.
    #[inline(always)]
    pub(crate) fn taken_order(self, granule: u32) -> Option<u32> {
        let tags = self.words[tags_at(self.granules) + granule as usize / 16];
        ((tags >> (granule % 16 * 4)) as u32 & 15).checked_sub(1)
    }

    /// The generation of the live block that starts at a granule.
    #[inline(always)]
    pub(crate) fn generation(self, granule: u32) -> u32 {
        let pair = self.words[generations_at(self.granules) + granule as usize / 2];
        (pair >> (granule % 2 * 32)) as u32
    }

    /// The piece that holds a granule: a live block, or the largest buddy without one, which is
    /// what is free once everything freed is merged.
    pub(crate) fn piece_over(self, granule: u32) -> SpanPiece {
        let top = top_order(self.granules);
        let start = |order: u32| granule >> order << order;
        if let Some(order) = (0..=top).find(|&order| self.live_order(start(order)) == Some(order)) {
            let generation = Some(self.generation(start(order)));
            return SpanPiece { granule: start(order), order, generation };
        }
        let is_clear = |order: u32| {
            let buddy = start(order) ^ 1 << order;
            (buddy..buddy + (1 << order)).all(|inside| self.live_order(inside).is_none())
        };
        let order = (0..top).find(|&order| !is_clear(order)).unwrap_or(top);
        SpanPiece { granule: start(order), order, generation: None }
    }

    /// Whether a naturally aligned piece is free and merged.
    pub(crate) fn is_free(self, granule: u32, order: u32) -> bool {
        let word = granule / 64;
        if order < WORD_ORDER
            && buddy_tree::is_free(&self.tree(word), order, (granule % 64) >> order)
        {
            return true;
        }
        let order = order.saturating_sub(WORD_ORDER);
        buddy_tree::is_free(&self.whole_words(), order, word >> order)
    }

    /// The order of the largest free buddy that starts at a granule.
    fn free_order(self, granule: u32) -> Option<u32> {
        let limit = (self.granules | granule).trailing_zeros();
        (0..=limit).rev().find(|&order| self.is_free(granule, order))
    }

    /// The highest order that the live block at a granule can grow to where it lies, once
    /// everything freed is merged.
    pub(crate) fn most_order(self, granule: u32, order: u32) -> u32 {
        let limit = (self.granules | granule).trailing_zeros();
        let clear = |half: u32| {
            let mut upper = granule + (1 << half)..granule + (2 << half);
            upper.all(|inside| self.live_order(inside).is_none())
        };
        (order..limit).find(|&half| !clear(half)).unwrap_or(limit.max(order))
    }

    /// The first granule whose bookkeeping is not what the tags and the trees say together.
    pub(crate) fn fault(self) -> Option<u32> {
        let mut granule = 0;
        while granule < self.granules {
            let aligned = (self.granules | granule).trailing_zeros();
            let taken = self.taken_order(granule);
            let order = match (taken, self.free_order(granule)) {
                (Some(order), None) | (None, Some(order)) if order <= aligned => order,
                _ => return Some(granule),
            };
            let clean = (granule + 1..granule + (1 << order)).all(|inside| {
                self.taken_order(inside).is_none() && (taken.is_none() || !self.is_free(inside, 0))
            });
            if !clean {
                return Some(granule);
            }
            granule += 1 << order;
        }
        self.fault_of_ranks().map(|word| word * 64)
    }

    fn fault_of_ranks(self) -> Option<u32> {
        let mut ranks = 0;
        for word in 0..self.granules / 64 {
            let tree = self.tree(word);
            let merged = buddy_tree::free_buddies(&tree).all(|(order, index)| {
                order < WORD_ORDER && !buddy_tree::is_free(&tree, order, index ^ 1)
            });
            let expected = buddy_tree::rank(&tree);
            let noted = (1..=WORD_ORDER).all(|rank| {
                let by_rank = self.words[BY_RANK + rank as usize];
                (by_rank >> word & 1 != 0) == (rank == expected)
            });
            if !merged || !noted {
                return Some(word);
            }
            ranks |= 1 << expected;
        }
        (self.ranks() & !1 != ranks & !1).then_some(0)
    }
}

impl<'a> SpanMut<'a> {
    #[inline(always)]
    pub(crate) fn new(words: &'a mut [u64], granules: u32) -> Self {
        Self { words, granules }
    }

    #[inline(always)]
    pub(crate) fn read(&self) -> Span<'_> {
        Span { words: self.words, granules: self.granules }
    }

    /// Makes the table that of an empty span, in no list.
    pub(crate) fn clear(&mut self, node: u32) {
        let generations = generations_at(self.granules);
        self.words[..generations].fill(0);
        self.words[NODE] = pair(node, 0);
        self.words[NEIGHBOURS] = pair(NO_SPAN, NO_SPAN);
        self.give_words(top_order(self.granules) - WORD_ORDER, 0);
    }

    #[inline]
    pub(crate) fn set_listed(&mut self, rank: u32) {
        self.words[NODE] = pair(self.words[NODE] as u32, rank);
    }

    #[inline]
    pub(crate) fn set_before(&mut self, slot: u32) {
        self.words[NEIGHBOURS] = pair(slot, (self.words[NEIGHBOURS] >> 32) as u32);
    }

    #[inline]
    pub(crate) fn set_after(&mut self, slot: u32) {
        self.words[NEIGHBOURS] = pair(self.words[NEIGHBOURS] as u32, slot);
    }

    #[inline(always)]
    pub(crate) fn set_live(&mut self, live: u32) {
        self.words[RANKS] = pair(self.words[RANKS] as u32, live);
    }

    #[inline(always)]
    fn set_whole_words(&mut self, tree: Tree) {
        self.words[WHOLE_WORDS] = tree[0];
        self.words[WHOLE_WORDS + 1] = tree[1];
    }

    #[inline(always)]
    fn give_words(&mut self, order: u32, index: u32) {
        let mut whole = self.read().whole_words();
        buddy_tree::give_up_to_whole(&mut whole, order, index);
        self.set_whole_words(whole);
    }

    /// Writes a word's tree and notes its rank.
    #[inline(always)]
    fn set_tree(&mut self, word: u32, old_rank: u32, tree: Tree) {
        let at = TREES + word as usize * TREE_WORDS;
        self.words[at] = tree[0];
        self.words[at + 1] = tree[1];
        let rank = buddy_tree::rank(&tree);
        if rank != old_rank {
            self.note_rank(word, old_rank);
            self.note_rank(word, rank);
        }
    }

    /// Notes that a word has a rank, or has it no more.
    #[inline(always)]
    fn note_rank(&mut self, word: u32, rank: u32) {
        if rank != 0 {
            let by_rank = &mut self.words[BY_RANK + rank as usize];
            *by_rank ^= 1 << word;
            let bit = u64::from(*by_rank != 0) << rank;
            self.words[RANKS] = self.words[RANKS] & !(1 << rank) | bit;
        }
    }

    /// Takes the first pieces of an order of the smallest free buddy that serves a block of it at
    /// a multiple of 2^`align_order`: the first granule, and how many pieces, at most `most` (a
    /// power of two) or as many as the buddy has in one word. Touches one word and the tree of
    /// whole words, with at most one split for each order.
    #[inline(always)]
    fn take(&mut self, order: u32, align_order: u32, most: u32) -> Option<(u32, u32)> {
        let wanted = order.max(align_order);
        if wanted < WORD_ORDER {
            let ranks = self.read().ranks() >> (wanted + 1);
            if ranks != 0 {
                let rank = wanted + 1 + ranks.trailing_zeros();
                let word = self.words[BY_RANK + rank as usize].trailing_zeros();
                let mut tree = self.read().tree(word);
                let taken_order = order + most.ilog2().min(rank - 1 - wanted);
                let index = buddy_tree::take(&mut tree, taken_order, wanted.max(taken_order))?;
                self.set_tree(word, rank, tree);
                return Some((word * 64 + (index << taken_order), 1 << (taken_order - order)));
            }
        }
        let words = |order: u32| order.saturating_sub(WORD_ORDER);
        let mut whole = self.read().whole_words();
        let index = buddy_tree::take(&mut whole, words(order), words(wanted))?;
        self.set_whole_words(whole);
        let word = index << words(order);
        if order >= WORD_ORDER {
            return Some((word * 64, 1));
        }
        let taken_order = order + most.ilog2().min(WORD_ORDER - order);
        let mut tree = FULL;
        for half in taken_order..WORD_ORDER {
            buddy_tree::give(&mut tree, half, 1);
        }
        self.set_tree(word, 0, tree);
        Some((word * 64, 1 << (taken_order - order)))
    }

    /// Makes a buddy free.
    #[inline(always)]
    fn give(&mut self, granule: u32, order: u32) {
        let word = granule / 64;
        if order < WORD_ORDER {
            let mut tree = self.read().tree(word);
            let rank = buddy_tree::rank(&tree);
            let in_word = buddy_tree::give(&mut tree, order, (granule % 64) >> order);
            self.set_tree(word, rank, tree);
            if !in_word {
                self.give_words(0, word);
            }
        } else {
            let order = order - WORD_ORDER;
            self.give_words(order, word >> order);
        }
    }

    #[inline(always)]
    fn set_tag(&mut self, granule: u32, tag: u64) {
        let tags = &mut self.words[tags_at(self.granules) + granule as usize / 16];
        let shift = granule % 16 * 4;
        *tags = *tags & !(15 << shift) | tag << shift;
    }

    /// Takes a block of an order at a multiple of 2^`align_order` and, if a larger buddy is split
    /// for it, up to `spare` more behind it: the first granule, and how many blocks. Their
    /// generations are to be set.
    pub(crate) fn allocate(
        &mut self,
        order: u32,
        align_order: u32,
        spare: u32,
    ) -> Option<(u32, u32)> {
        let most = 1 << (spare + 1).ilog2();
        let (granule, count) = self.take(order, align_order, most)?;
        for i in 0..count {
            self.set_tag(granule + (i << order), u64::from(order) + 1);
        }
        Some((granule, count))
    }

    /// Stamps the block that starts at a granule; zero for one that is freed.
    #[inline(always)]
    pub(crate) fn set_generation(&mut self, granule: u32, generation: u32) {
        let at = generations_at(self.granules) + granule as usize / 2;
        let shift = granule % 2 * 32;
        self.words[at] = self.words[at] & !(0xFFFF_FFFF << shift) | u64::from(generation) << shift;
    }

    /// Makes the block of an order free that starts at a granule.
    #[inline(always)]
    pub(crate) fn free(&mut self, granule: u32, order: u32) {
        self.set_tag(granule, 0);
        self.give(granule, order);
    }

    /// Changes the order of a live block, at most to [`Span::most_order`].
    pub(crate) fn resize(&mut self, granule: u32, from: u32, to: u32) {
        for half in to..from {
            self.give(granule + (1 << half), half);
        }
        for half in from..to {
            self.take_at(granule + (1 << half), half);
        }
        self.set_tag(granule, u64::from(to) + 1);
    }

    /// Takes a free buddy that is known, by itself or out of a larger one.
    fn take_at(&mut self, granule: u32, order: u32) {
        let word = granule / 64;
        let mut tree = self.read().tree(word);
        let index = (granule % 64) >> order;
        if order < WORD_ORDER && buddy_tree::is_free(&tree, order, index) {
            let rank = buddy_tree::rank(&tree);
            buddy_tree::take_at(&mut tree, order, index);
            self.set_tree(word, rank, tree);
            return;
        }
        let words_order = order.saturating_sub(WORD_ORDER);
        let mut whole = self.read().whole_words();
        buddy_tree::take_at(&mut whole, words_order, word >> words_order);
        self.set_whole_words(whole);
        if order < WORD_ORDER {
            let mut tree = FULL;
            buddy_tree::give_up_to_whole(&mut tree, WORD_ORDER, 0);
            buddy_tree::take_at(&mut tree, order, index);
            self.set_tree(word, 0, tree);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate alloc;

    use alloc::vec;

    use super::*;

    #[test]
    fn blocks_of_all_orders_come_and_go() {
        for granules in [64, 128, 1024, 4096] {
            let mut table = vec![0; words(granules)];
            let mut span = SpanMut::new(&mut table, granules);
            span.clear(7);
            let top = top_order(granules);
            assert_eq!(span.read().rank(), top + 1);
            for order in 0..=top {
                for align in 0..=top {
                    let (granule, count) = span.allocate(order, align, 0).unwrap();
                    assert_eq!(count, 1);
                    span.set_generation(granule, 9);
                    assert_eq!(granule % (1 << order.max(align)), 0);
                    assert_eq!(span.read().live_order(granule), Some(order));
                    assert_eq!(span.read().generation(granule), 9);
                    assert_eq!(span.read().fault(), None);
                    assert_eq!(span.read().most_order(granule, order), top);
                    span.resize(granule, order, top);
                    assert_eq!(span.read().fault(), None);
                    assert_eq!(span.read().rank(), 0);
                    span.resize(granule, top, 0);
                    assert_eq!(span.read().fault(), None);
                    span.free(granule, 0);
                    assert_eq!(span.read().fault(), None);
                    assert_eq!(span.read().rank(), top_order(granules) + 1);
                    assert_eq!(span.read().node(), 7);
                }
            }
        }
    }

    #[test]
    fn any_order_of_frees_makes_the_span_whole() {
        let granules = 256;
        for step in [1, 3, 7, 85, 255] {
            let mut table = vec![0; words(granules)];
            let mut span = SpanMut::new(&mut table, granules);
            span.clear(0);
            for granule in 0..granules {
                assert_eq!(span.allocate(0, 0, 0), Some((granule, 1)));
                span.set_generation(granule, 1);
            }
            assert_eq!(span.allocate(0, 0, 0), None);
            for i in 0..granules {
                span.free(i * step % granules, 0);
                assert_eq!(span.read().fault(), None);
            }
            assert_eq!(span.read().rank(), top_order(granules) + 1);
        }
    }
}
