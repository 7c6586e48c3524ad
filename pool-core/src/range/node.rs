//! A node: what a range knows of one block, free run or span outside the memory, in 32 bytes.

/// No node. Tables hold fewer nodes than this.
pub(crate) const NONE: u32 = (1 << 30) - 1;

/// What a node describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Nothing: the node is in no use.
    Unused,
    /// A free run of granules, or a free buddy.
    Free,
    /// A live block.
    Live,
    /// A span.
    Span,
}

/// The metadata of one piece of a range: 32 bytes, of which the caller lends a slice
/// ([`OffsetAllocator::in_storage`](crate::OffsetAllocator::in_storage)).
///
/// # Example
///
/// ```
/// use pool_core::Node;
///
/// let nodes = [Node::UNUSED; 1024];
/// assert_eq!(size_of_val(&nodes), 32 << 10);
/// ```
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub struct Node {
    /// First granule.
    pub(crate) start: u32,
    /// Granules less one, so that 2^32 of them fit.
    last: u32,
    /// The piece before this one in address order (30 bits), and the state (2 bits).
    before: u32,
    /// The piece after this one in address order (30 bits), [`BARE`] and [`TWIN`].
    after: u32,
    /// While free: the links of the index that holds it. While live: the generation, in the
    /// first. For a span: its slot, in the first.
    pub(crate) links: [u32; 4],
}

/// Set on a free node that hangs in the list of another of its size.
const TWIN: u32 = 1 << 31;

/// Set on a live node that stands for addresses that no memory is behind.
#[cfg(feature = "alloc")]
const BARE: u32 = 1 << 30;

const STATE_SHIFT: u32 = 30;

const _: () = assert!(size_of::<Node>() == 32);

impl Node {
    /// A node that describes nothing.
    pub const UNUSED: Self = Self { start: 0, last: 0, before: 0, after: 0, links: [0; 4] };

    /// A piece of `len` granules (1 to 2^32) that is in no chain and no index yet.
    #[inline]
    pub(crate) fn piece(state: State, start: u32, len: u64) -> Self {
        let mut node = Self { start, last: 0, before: NONE, after: NONE, links: [NONE; 4] };
        node.set_len(len);
        node.set_state(state);
        node
    }

    /// A live block.
    #[inline]
    pub(crate) fn live(start: u32, len: u64, generation_bits: u32) -> Self {
        let mut node = Self::piece(State::Live, start, len);
        node.links[0] = generation_bits;
        node
    }

    /// Whether it is a live block of a generation.
    #[inline(always)]
    pub(crate) fn is_live(&self, generation_bits: u32) -> bool {
        self.state() == State::Live && self.links[0] == generation_bits
    }

    /// Makes a piece a live block.
    #[inline]
    pub(crate) fn make_live(&mut self, generation_bits: u32) {
        self.set_state(State::Live);
        self.links[0] = generation_bits;
    }

    /// Makes a piece a spare node, chained to another.
    #[inline]
    pub(crate) fn make_unused(&mut self, spare: u32) {
        self.before = 0;
        self.after = spare;
    }

    /// The same piece with its neighbours.
    #[inline]
    pub(crate) fn between(mut self, before: u32, after: u32) -> Self {
        self.before = self.before & !NONE | before;
        self.after = after;
        self
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        u64::from(self.last) + 1
    }

    #[inline]
    pub(crate) fn set_len(&mut self, len: u64) {
        debug_assert!((1..=1 << 32).contains(&len), "a length of {len} granules");
        self.last = (len.wrapping_sub(1)) as u32;
    }

    /// The granule after the last one, up to 2^32.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.start) + self.len()
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.before >> STATE_SHIFT {
            0 => State::Unused,
            1 => State::Free,
            2 => State::Live,
            _ => State::Span,
        }
    }

    #[inline]
    pub(crate) fn set_state(&mut self, state: State) {
        self.before = self.before & NONE | (state as u32) << STATE_SHIFT;
    }

    #[inline]
    pub(crate) fn before(&self) -> u32 {
        self.before & NONE
    }

    #[inline]
    pub(crate) fn set_before(&mut self, node: u32) {
        self.before = self.before & !NONE | node;
    }

    #[inline]
    pub(crate) fn after(&self) -> u32 {
        self.after & NONE
    }

    #[inline]
    pub(crate) fn set_after(&mut self, node: u32) {
        self.after = self.after & !NONE | node;
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn is_bare(&self) -> bool {
        self.after & BARE != 0 && self.state() == State::Live
    }

    #[cfg(feature = "alloc")]
    pub(crate) fn set_bare(&mut self, bare: bool) {
        self.after = self.after & !BARE | if bare { BARE } else { 0 };
    }

    #[inline]
    pub(crate) fn is_twin(&self) -> bool {
        self.after & TWIN != 0
    }

    #[inline]
    pub(crate) fn set_twin(&mut self, twin: bool) {
        self.after = self.after & NONE | if twin { TWIN } else { 0 };
    }
}

impl core::fmt::Debug for Node {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Node")
            .field("state", &self.state())
            .field("start", &self.start)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let mut node = Node::piece(State::Span, u32::MAX, 1);
        for value in [0, 1, NONE - 1, NONE] {
            for state in [State::Unused, State::Free, State::Live, State::Span] {
                for twin in [false, true] {
                    node.set_before(value);
                    node.set_after(NONE - value);
                    node.set_twin(twin);
                    node.set_state(state);
                    assert_eq!(node.before(), value);
                    assert_eq!(node.after(), NONE - value);
                    assert_eq!(node.state(), state);
                    assert_eq!(node.is_twin(), twin);
                    #[cfg(feature = "alloc")]
                    for bare in [true, false] {
                        node.set_bare(bare);
                        assert_eq!(node.is_bare(), bare && state == State::Live);
                        assert_eq!((node.after(), node.is_twin()), (NONE - value, twin));
                    }
                }
            }
        }
        node.set_len(1 << 32);
        assert_eq!(node.len(), 1 << 32);
        assert_eq!(Node::piece(State::Free, 0, 1 << 32).end(), 1 << 32);
        assert_eq!(Node::UNUSED.state(), State::Unused);
    }
}
