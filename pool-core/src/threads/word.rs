//! The atomic word of a block: whether it is live, under which generation, and whose it is.

use crate::range::{Handle, Slot};

/// What a block is to the thread layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its granules are the range's, free or part of another block.
    Central,
    /// Free, in a cache or on its way between caches.
    Cached,
    /// The program's.
    Live,
}

/// Where a block is kept: by which shard, and where in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shard: u32,
    pub(crate) inside: Inside,
}

/// A block of a shard's range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// A block in a span, of 2^order granules.
    Span {
        /// The order.
        order: u32,
    },
    /// A block outside spans, by its node.
    Node(u32),
}

/// From the top: generation (31 bits), state (2), outside spans (1), shard (5), and the order or
/// the node (25).
///
/// The generation is where a [`Handle`] has its own, and is the block's next one as soon as the
/// block is freed: a word and the handle of the block that it speaks of agree in these bits, a
/// stale handle and the word do not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

const GENERATION_SHIFT: u32 = 33;
const STATE_SHIFT: u32 = 31;
const OUTSIDE: u64 = 1 << 30;
const SHARD_SHIFT: u32 = 25;

/// The most shards that a word can tell apart.
pub(crate) const MOST_SHARDS: u32 = 1 << (30 - SHARD_SHIFT);

/// One more than the last node that a word can name.
pub(crate) const MOST_NODES: u32 = 1 << SHARD_SHIFT;

impl Word {
    /// The word of a granule at which no block ever began.
    pub(crate) const UNUSED: Self = Self(0);

    /// Packs a word. The node is below [`MOST_NODES`], the shard below [`MOST_SHARDS`].
    #[inline(always)]
    pub(crate) fn new(generation_bits: u32, state: State, place: Place) -> Self {
        let inside = match place.inside {
            Inside::Span { order } => u64::from(order),
            Inside::Node(node) => OUTSIDE | u64::from(node),
        };
        let shard = u64::from(place.shard) << SHARD_SHIFT;
        Self(u64::from(generation_bits) << GENERATION_SHIFT | shard | inside).with(state)
    }

    /// The same block in another state.
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

    /// Whether a handle is of this generation.
    #[inline(always)]
    pub(crate) fn is_of(self, handle: Handle) -> bool {
        self.generation_bits() == handle.generation_bits()
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
    pub(crate) fn place(self) -> Place {
        let value = (self.0 & (MOST_NODES as u64 - 1)) as u32;
        let inside =
            if self.0 & OUTSIDE == 0 { Inside::Span { order: value } } else { Inside::Node(value) };
        Place { shard: (self.0 >> SHARD_SHIFT) as u32 & (MOST_SHARDS - 1), inside }
    }

    /// The handle of the block at a granule that the word speaks of.
    #[inline(always)]
    pub(crate) fn handle(self, granule: u32) -> Handle {
        let slot = if self.0 & OUTSIDE == 0 { Slot::Granule(granule) } else { Slot::Node(granule) };
        Handle::with_bits(slot, self.generation_bits())
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (state, place) = (self.state(), self.place());
        write!(f, "Word({state:?}, generation {}, {place:?})", self.generation_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_survive_the_packing() {
        let insides = [Inside::Span { order: 0 }, Inside::Span { order: 12 }, Inside::Node(0)];
        for inside in insides.into_iter().chain([Inside::Node(MOST_NODES - 1)]) {
            for shard in [0, 1, MOST_SHARDS - 1] {
                for generation in [1, 2, u32::MAX >> 1] {
                    for state in [State::Central, State::Cached, State::Live] {
                        let place = Place { shard, inside };
                        let word = Word::new(generation, state, place);
                        assert_eq!(word.state(), state);
                        assert_eq!(word.place(), place);
                        assert_eq!(word.generation_bits(), generation);
                        assert!(word.is_of(word.handle(77)));
                        let next = word.of_next_generation();
                        assert!(!next.is_of(word.handle(77)));
                        assert_eq!((next.state(), next.place()), (state, place));
                    }
                }
            }
        }
    }

    #[test]
    fn generations_wrap_to_one_and_never_to_zero() {
        let place = Place { shard: 3, inside: Inside::Node(5) };
        let last = Word::new(u32::MAX >> 1, State::Live, place);
        assert_eq!(last.of_next_generation().generation_bits(), 1);
        assert_eq!(last.of_next_generation().place(), place);
    }
}
