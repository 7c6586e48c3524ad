//! The atomic word of a block in a span: whose it is, and under which generation.

use crate::range::{Handle, Slot};

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

/// From the top: generation (31 bits), state (2), the shard that the block is cut from, its
/// order.
///
/// The generation is where a [`Handle`] has its own, and is the block's next one as soon as the
/// block is freed: a word and the handle of the block that it speaks of agree in these bits, a
/// stale handle and the word do not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

const GENERATION_SHIFT: u32 = 33;
const STATE_SHIFT: u32 = 31;
const SHARD_SHIFT: u32 = 8;

impl Word {
    /// The word of a granule at which no block ever began.
    pub(crate) const UNUSED: Self = Self(0);

    /// Packs a word.
    #[inline(always)]
    pub(crate) fn new(generation_bits: u32, state: State, shard: u32, order: u32) -> Self {
        let place = u64::from(shard) << SHARD_SHIFT | u64::from(order);
        Self(u64::from(generation_bits) << GENERATION_SHIFT | place).with(state)
    }

    /// The same block in another hand.
    #[inline(always)]
    pub(crate) fn with(self, state: State) -> Self {
        Self(self.0 & !(3 << STATE_SHIFT) | (state as u64) << STATE_SHIFT)
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

    /// Whether it speaks of a handle's block, in a state.
    #[inline(always)]
    pub(crate) fn is(self, handle: Handle, state: State) -> bool {
        // Generation and state together: all that is above the place.
        let wanted = u64::from(handle.generation_bits()) << 2 | state as u64;
        self.0 >> STATE_SHIFT == wanted
    }

    #[inline(always)]
    pub(crate) fn state(self) -> State {
        match self.0 >> STATE_SHIFT & 3 {
            0 => State::Central,
            1 => State::Cached,
            _ => State::Live,
        }
    }

    #[inline(always)]
    pub(crate) fn shard(self) -> u32 {
        (self.0 as u32 & !(3 << STATE_SHIFT)) >> SHARD_SHIFT
    }

    /// The block has 2^order granules.
    #[inline(always)]
    pub(crate) fn order(self) -> u32 {
        self.0 as u32 & ((1 << SHARD_SHIFT) - 1)
    }

    /// The handle of the block at a granule that the word speaks of.
    #[inline(always)]
    pub(crate) fn handle(self, granule: u32) -> Handle {
        Handle::with_bits(Slot::Granule(granule), self.generation_bits())
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Word")
            .field("generation", &self.generation_bits())
            .field("state", &self.state())
            .field("shard", &self.shard())
            .field("order", &self.order())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 3] = [State::Central, State::Cached, State::Live];

    #[test]
    fn parts_survive_the_packing() {
        for order in [0, 12] {
            for shard in [0, 1, 31, 1000] {
                for generation in [1, 2, u32::MAX >> 1] {
                    for state in STATES {
                        let word = Word::new(generation, state, shard, order);
                        assert_eq!((word.state(), word.shard()), (state, shard));
                        assert_eq!((word.generation_bits(), word.order()), (generation, order));
                        let handle = word.handle(77);
                        for other in STATES {
                            assert_eq!(word.is(handle, other), state == other);
                        }
                        let next = word.of_next_generation();
                        assert!(!next.is(handle, state));
                        assert_eq!((next.state(), next.shard()), (state, shard));
                    }
                }
            }
        }
    }

    #[test]
    fn generations_wrap_to_one_and_never_to_zero() {
        let last = Word::new(u32::MAX >> 1, State::Live, 3, 5);
        assert_eq!(last.of_next_generation().generation_bits(), 1);
        assert_eq!(last.of_next_generation().order(), 5);
    }
}
