//! The atomic word of a block in a span: under which generation it is known, and how it is cut.

use crate::range::{Handle, Slot};

/// How a block in a span is cut: its order, and the shard that it is cut from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut(u16);

impl Cut {
    /// Packs an order and a shard, both below 256.
    #[inline(always)]
    pub(crate) fn new(shard: u32, order: u32) -> Self {
        Self((shard << 8 | order) as u16)
    }

    #[inline(always)]
    pub(crate) fn shard(self) -> u32 {
        u32::from(self.0 >> 8)
    }

    /// The block has 2^order granules.
    #[inline(always)]
    pub(crate) fn order(self) -> u32 {
        u32::from(self.0 & 0xFF)
    }
}

/// A generation (31 bits, where a [`Handle`] has its own) and a [`Cut`] (16 bits).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

const GENERATION_SHIFT: u32 = 33;

impl Word {
    /// The word of a granule at which no block ever began.
    pub(crate) const UNUSED: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(generation_bits: u32, cut: Cut) -> Self {
        Self(u64::from(generation_bits) << GENERATION_SHIFT | u64::from(cut.0))
    }

    #[inline(always)]
    pub(crate) fn generation_bits(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32
    }

    #[inline(always)]
    pub(crate) fn cut(self) -> Cut {
        Cut(self.0 as u16)
    }

    /// The same block under another generation, that of `step` frees of one on.
    #[inline(always)]
    pub(crate) fn after(self, step: Step) -> Self {
        let step = u64::from(step.0) << GENERATION_SHIFT;
        let next = self.0.wrapping_add(step);
        // A generation is never zero.
        Self(if next >> GENERATION_SHIFT == 0 { next.wrapping_add(step) } else { next })
    }

    /// The handle of the block at a granule that the word speaks of.
    #[inline(always)]
    pub(crate) fn handle(self, granule: u32) -> Handle {
        Handle::with_bits(Slot::Granule(granule), self.generation_bits())
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Word(generation {}, {:?})", self.generation_bits(), self.cut())
    }
}

/// When a block was given to the program last, and by whom: the low bits of its generation then
/// (24, of which the next generation differs in the lowest) and the giver (8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given(pub(crate) u32);

/// A cache by its number, or a call that named none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Giver(u8);

impl Giver {
    /// A call that named no cache.
    pub(crate) const NO_CACHE: Self = Self(u8::MAX);

    /// A number that caches mostly have to themselves.
    pub(crate) fn number(self) -> u32 {
        self.0.into()
    }

    /// A cache of a number. Of many caches, some have the same giver.
    pub(crate) fn of_cache(number: u32) -> Self {
        Self((number % 254) as u8 + 1)
    }
}

impl Given {
    /// Never: no giver is zero.
    pub(crate) const NEVER: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(generation_bits: u32, giver: Giver) -> Self {
        Self(generation_bits << 8 | u32::from(giver.0))
    }

    /// Whether it was given under the generation of a word.
    #[inline(always)]
    pub(crate) fn is_of(self, word: Word) -> bool {
        self != Self::NEVER && self.0 >> 8 == word.generation_bits() & (u32::MAX >> 8)
    }

    pub(crate) fn giver(self) -> Giver {
        Giver(self.0 as u8)
    }
}

/// From one generation to the next: an odd number, so that all generations come before one
/// comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(u32);

impl Step {
    /// The step that a number gives.
    pub(crate) fn of(number: u32) -> Self {
        Self((number | 1) & (u32::MAX >> 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_packing() {
        for (shard, order) in [(0, 0), (63, 12), (255, 255)] {
            let cut = Cut::new(shard, order);
            assert_eq!((cut.shard(), cut.order()), (shard, order));
            for generation in [1, 2, u32::MAX >> 1] {
                let word = Word::new(generation, cut);
                assert_eq!((word.generation_bits(), word.cut()), (generation, cut));
                assert_eq!(word.handle(77).generation_bits(), generation);
            }
        }
    }

    #[test]
    fn a_block_has_many_generations_and_never_generation_zero() {
        for number in [0, 1, 0x1234_5678, u32::MAX] {
            let step = Step::of(number);
            let first = Word::new(1, Cut::new(3, 5));
            let mut word = first;
            for _ in 0..100_000 {
                word = word.after(step);
                assert_ne!(word.generation_bits(), 0);
                assert_ne!(word, first);
                assert_eq!(word.cut(), first.cut());
            }
        }
        for giver in [Giver::of_cache(0), Giver::of_cache(253), Giver::NO_CACHE] {
            let given = Given::new(u32::MAX >> 1, giver);
            let word = Word::new(u32::MAX >> 1, Cut::new(1, 2));
            assert_eq!(given.giver(), giver);
            assert!(given.is_of(word) && !given.is_of(word.after(Step::of(6))));
            assert!(!Given::NEVER.is_of(word));
        }
        let last = Word::new(u32::MAX >> 1, Cut::new(0, 0));
        assert_eq!(last.after(Step::of(1)).generation_bits(), 1);
    }
}
