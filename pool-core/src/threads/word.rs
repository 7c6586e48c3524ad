//! The atomic word of a block in a span: in whose hand it is, and under which generation.

use crate::range::Handle;

/// In whose hand a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The range's: its granules are free or part of another block.
    Central,
    /// A cache's, or on its way between caches: free.
    Cached,
    /// The program's.
    Live,
}

/// A generation (31 bits, where a [`Handle`] has its own) and a state (2 bits).
///
/// A handle alone says what the word of its block is as long as it is live (or cached): freeing
/// needs no look at the word before the exchange. The generation is the block's next one as soon
/// as it is freed, so that a stale handle and the word differ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

const GENERATION_SHIFT: u32 = 33;
const STATE_SHIFT: u32 = 31;

impl Word {
    /// The word of a granule at which no block ever began.
    pub(crate) const UNUSED: Self = Self(0);

    #[inline(always)]
    pub(crate) fn new(generation_bits: u32, state: State) -> Self {
        Self(u64::from(generation_bits) << GENERATION_SHIFT | (state as u64) << STATE_SHIFT)
    }

    /// The word of a handle's block while it is in a state.
    #[inline(always)]
    pub(crate) fn of(handle: Handle, state: State) -> Self {
        Self::new(handle.generation_bits(), state)
    }

    /// The same with the next generation, which handles of this one do not agree with.
    #[inline(always)]
    pub(crate) fn of_next_generation(self) -> Self {
        let next = self.0.wrapping_add(1 << GENERATION_SHIFT);
        // A generation is never zero.
        Self(if next >> GENERATION_SHIFT == 0 { next | 1 << GENERATION_SHIFT } else { next })
    }

    #[inline(always)]
    pub(crate) fn generation_bits(self) -> u32 {
        (self.0 >> GENERATION_SHIFT) as u32
    }

    #[inline(always)]
    pub(crate) fn state(self) -> State {
        match self.0 >> STATE_SHIFT & 3 {
            0 => State::Central,
            1 => State::Cached,
            _ => State::Live,
        }
    }

    /// The handle of the block at a granule that the word speaks of.
    #[inline(always)]
    pub(crate) fn handle(self, granule: u32) -> Handle {
        Handle::with_bits(crate::range::Slot::Granule(granule), self.generation_bits())
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Word({:?}, generation {})", self.state(), self.generation_bits())
    }
}

/// How a block in a span is cut: its order, and the shard that it is cut from. It stays while the
/// block passes from hand to hand between caches, so that many threads read it from the same
/// cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut(pub(crate) u16);

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_packing() {
        for generation in [1, 2, u32::MAX >> 1] {
            for state in [State::Central, State::Cached, State::Live] {
                let word = Word::new(generation, state);
                assert_eq!((word.generation_bits(), word.state()), (generation, state));
                assert_eq!(Word::of(word.handle(77), state), word);
                let next = word.of_next_generation();
                assert_ne!(Word::of(next.handle(77), state), word);
                assert_eq!(next.state(), state);
            }
        }
        for (shard, order) in [(0, 0), (63, 12), (255, 255)] {
            let cut = Cut::new(shard, order);
            assert_eq!((cut.shard(), cut.order()), (shard, order));
        }
    }

    #[test]
    fn generations_wrap_to_one_and_never_to_zero() {
        let last = Word::new(u32::MAX >> 1, State::Live);
        assert_eq!(last.of_next_generation(), Word::new(1, State::Live));
    }
}
