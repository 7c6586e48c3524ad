//! Binary buddy over a whole range: every piece is a power of two of granules, aligned to its
//! size from offset zero, and two free halves of one piece become that piece again.
//!
//! A capacity that is no power of two is a row of naturally aligned pieces, the largest first;
//! the last of them may be as small as a granule. Nothing merges past the end of the range.

use core::num::NonZeroU64;

use super::error::Metadata;
use super::handle::Generation;
use super::need::Need;
use super::node::{NONE, Node, State};
use super::request::Options;
use super::storage::sealed::{Nodes, Tables};
use super::table::Table;

/// Orders: pieces of 2^0 to 2^32 granules.
const ORDERS: usize = 33;

/// Links of a free piece in the list of its order.
const NEXT: usize = 0;
const PREVIOUS: usize = 1;

/// The free pieces of a range by order.
pub(crate) struct Buddies {
    /// A bit for each order that has a free piece.
    orders: u64,
    lists: [u32; ORDERS],
}

/// The order whose pieces hold a length.
#[inline]
pub(crate) fn order_of(len: u64) -> u32 {
    len.next_power_of_two().trailing_zeros()
}

/// The naturally aligned powers of two that make up `start..end`, in order.
pub(crate) fn pieces(start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = start;
    core::iter::from_fn(move || {
        let left = end - at;
        if left == 0 {
            return None;
        }
        let aligned = if at == 0 { u64::MAX } else { at & at.wrapping_neg() };
        let len = aligned.min(1 << left.ilog2());
        at += len;
        Some((at - len, len))
    })
}

impl Buddies {
    pub(crate) fn new() -> Self {
        Self { orders: 0, lists: [NONE; ORDERS] }
    }

    #[inline]
    fn link(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        let order = order_of(nodes.node(node).len());
        let next = core::mem::replace(&mut self.lists[order as usize], node);
        let piece = nodes.node_mut(node);
        piece.set_state(State::Free);
        piece.links[NEXT] = next;
        piece.links[PREVIOUS] = NONE;
        if next != NONE {
            nodes.node_mut(next).links[PREVIOUS] = node;
        }
        self.orders |= 1 << order;
    }

    #[inline]
    pub(crate) fn unlink(&mut self, nodes: &mut (impl Nodes + ?Sized), node: u32) {
        let piece = nodes.node(node);
        let order = order_of(piece.len());
        let [next, previous, ..] = piece.links;
        if next != NONE {
            nodes.node_mut(next).links[PREVIOUS] = previous;
        }
        if previous == NONE {
            self.lists[order as usize] = next;
            if next == NONE {
                self.orders &= !(1 << order);
            }
        } else {
            nodes.node_mut(previous).links[NEXT] = next;
        }
    }

    /// The free piece that serves a request: of the lowest order that does. Visits one piece.
    #[inline]
    pub(crate) fn find<S: Tables>(
        &self,
        table: &Table<S>,
        need: &Need,
        visits: &mut u32,
    ) -> Option<u32> {
        let order = order_of(need.len.max(need.align));
        let orders = self.orders >> order;
        if orders == 0 {
            return None;
        }
        *visits += 1;
        let node = self.lists[(order + orders.trailing_zeros()) as usize];
        let len = table.storage.node(node).len();
        (len == 1 << order_of(need.len) || need.may_split(len)).then_some(node)
    }

    /// Splits a free piece until it is of the request's order. The piece's node is in no list
    /// and marked live.
    pub(crate) fn claim<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        node: u32,
        need: &Need,
        generation: Generation,
    ) -> Result<u32, Metadata> {
        let order = order_of(need.len);
        let aligned_order = order_of(need.len.max(need.align));
        let mut now = order_of(table.storage.node(node).len());
        table.require(now - order)?;
        self.unlink(&mut table.storage, node);
        let mut taken = node;
        while now > order {
            now -= 1;
            let half = 1 << now;
            let lower = table.storage.node_mut(taken);
            lower.set_len(half);
            let start = u64::from(lower.start) + half;
            let upper = table.insert_after(taken, Node::piece(State::Live, start as u32, half));
            // Below the alignment's order only the lower half is aligned.
            let take_upper = need.has(Options::HIGH_END) && now >= aligned_order;
            let free = if take_upper { core::mem::replace(&mut taken, upper) } else { upper };
            self.link(&mut table.storage, free);
        }
        table.storage.node_mut(taken).make_live(generation.bits());
        Ok(taken)
    }

    /// The other half of the piece that this one is a half of, if it is free and whole.
    #[inline]
    fn free_buddy<S: Tables>(table: &Table<S>, node: u32) -> Option<u32> {
        let piece = table.storage.node(node);
        let len = piece.len();
        let start = u64::from(piece.start);
        let neighbour = if start & len == 0 { piece.after() } else { piece.before() };
        let buddy = table.free_neighbour(neighbour)?;
        let other = table.storage.node(buddy);
        (other.len() == len && u64::from(other.start) == start ^ len).then_some(buddy)
    }

    /// Frees the live block of a node, if its generation is this one: its length and start.
    #[inline]
    pub(crate) fn free<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        node: u32,
        generation_bits: u32,
    ) -> (Option<NonZeroU64>, u32) {
        if node >= table.touched() {
            return (None, 0);
        }
        let piece = *table.storage.node(node);
        if !piece.is_live(generation_bits) {
            return (None, 0);
        }
        self.release(table, node);
        (NonZeroU64::new(piece.len()), piece.start)
    }

    /// Makes a piece free and merges it with its buddy as long as that is free.
    #[inline]
    pub(crate) fn release<S: Tables>(&mut self, table: &mut Table<S>, node: u32) {
        let mut piece = node;
        while let Some(buddy) = Self::free_buddy(table, piece) {
            self.unlink(&mut table.storage, buddy);
            let (low, high) = if table.storage.node(piece).start < table.storage.node(buddy).start {
                (piece, buddy)
            } else {
                (buddy, piece)
            };
            table.remove(high);
            let merged = table.storage.node_mut(low);
            merged.set_len(merged.len() * 2);
            piece = low;
        }
        self.link(&mut table.storage, piece);
    }

    /// The longest length that a live piece can have where it lies.
    pub(crate) fn most_len<S: Tables>(table: &Table<S>, node: u32) -> u64 {
        let piece = table.storage.node(node);
        let start = u64::from(piece.start);
        let mut len = piece.len();
        let mut after = piece.after();
        while start & len == 0
            && let Some(buddy) = table.free_neighbour(after)
        {
            let other = table.storage.node(buddy);
            if other.len() != len {
                break;
            }
            len *= 2;
            after = other.after();
        }
        len
    }

    /// Changes the length of a live piece to that of another order, at most
    /// [`most_len`](Self::most_len). Without nodes for what a shrink frees, it keeps its length.
    pub(crate) fn resize<S: Tables>(&mut self, table: &mut Table<S>, node: u32, len: u64) {
        let order = order_of(len);
        let mut now = order_of(table.storage.node(node).len());
        while now < order {
            let buddy = table.storage.node(node).after();
            self.unlink(&mut table.storage, buddy);
            table.remove(buddy);
            now += 1;
            table.storage.node_mut(node).set_len(1 << now);
        }
        if table.require(now - order).is_err() {
            return;
        }
        while now > order {
            now -= 1;
            let piece = table.storage.node_mut(node);
            piece.set_len(1 << now);
            let start = u64::from(piece.start) + (1 << now);
            let upper = table.insert_after(node, Node::piece(State::Live, start as u32, 1 << now));
            self.link(&mut table.storage, upper);
        }
    }

    /// Adds granules at the end of the range.
    pub(crate) fn grow<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        capacity: u64,
        more: u64,
    ) -> Result<(), Metadata> {
        let end = capacity + more;
        table.require(pieces(capacity, end).count() as u32)?;
        for (start, len) in pieces(capacity, end) {
            let piece = Node::piece(State::Live, start as u32, len);
            let piece = table.insert_after(table.chain.last, piece);
            self.release(table, piece);
        }
        Ok(())
    }

    /// Makes a live piece of any length free, as the buddies that it is made up of. The caller has
    /// [required](Table::require) a node for each of them but one.
    #[cfg(feature = "alloc")]
    pub(crate) fn release_in_pieces<S: Tables>(&mut self, table: &mut Table<S>, node: u32) {
        let whole = table.storage.node(node);
        let (start, end) = (u64::from(whole.start), whole.end());
        let mut last = node;
        for (start, len) in pieces(start, end) {
            if start == u64::from(table.storage.node(node).start) {
                table.storage.node_mut(node).set_len(len);
            } else {
                last = table.insert_after(last, Node::piece(State::Live, start as u32, len));
            }
        }
        // What is not free yet is merged with nothing, so that its node stays.
        let mut at = node;
        for _ in pieces(start, end) {
            let after = table.storage.node(at).after();
            self.release(table, at);
            at = after;
        }
    }

    /// Takes a free piece out of its list and away from its neighbours: where it was.
    #[cfg(feature = "alloc")]
    pub(crate) fn cut<S: Tables>(&mut self, table: &mut Table<S>, node: u32) -> (u32, u64) {
        let piece = table.storage.node(node);
        let extent = (piece.start, piece.len());
        self.unlink(&mut table.storage, node);
        table.chain.cut(&mut table.storage, node);
        extent
    }

    /// A longest free piece.
    #[cfg(feature = "alloc")]
    pub(crate) fn longest_piece(&self) -> Option<u32> {
        let order = self.orders.checked_ilog2()?;
        self.lists.get(order as usize).copied()
    }

    /// Free granules at the end of the range.
    pub(crate) fn free_tail<S: Tables>(table: &Table<S>) -> u64 {
        let mut tail = 0;
        let mut at = table.chain.last;
        while let Some(piece) = table.free_neighbour(at) {
            let piece = table.storage.node(piece);
            tail += piece.len();
            at = piece.before();
        }
        tail
    }

    /// Takes granules away from the end, which is free for at least that long.
    pub(crate) fn shrink<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        capacity: u64,
        less: u64,
    ) -> Result<(), Metadata> {
        let end = capacity - less;
        // The free piece that the new end cuts through, and the nodes that go before it.
        let mut given_back = 0;
        let mut cut = table.chain.last;
        while u64::from(table.storage.node(cut).start) > end {
            given_back += 1;
            cut = table.storage.node(cut).before();
        }
        let start = u64::from(table.storage.node(cut).start);
        let kept = pieces(start, end).count() as u32;
        table.require(kept.saturating_sub(given_back + 1))?;
        loop {
            let last = table.chain.last;
            self.unlink(&mut table.storage, last);
            table.remove(last);
            if last == cut {
                break;
            }
        }
        for (start, len) in pieces(start, end) {
            let piece = Node::piece(State::Live, start as u32, len);
            let piece = table.insert_after(table.chain.last, piece);
            self.link(&mut table.storage, piece);
        }
        Ok(())
    }

    /// The length of the longest free piece, or zero.
    pub(crate) fn longest(&self) -> u64 {
        if self.orders == 0 { 0 } else { 1 << self.orders.ilog2() }
    }

    /// Each order's list and whether it is marked as filled, for checks.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (u32, u32, bool)> + '_ {
        (0..ORDERS as u32)
            .map(|order| (order, self.lists[order as usize], self.orders >> order & 1 != 0))
    }

    /// The piece after this one in its order's list, for checks.
    pub(crate) fn next(nodes: &(impl Nodes + ?Sized), node: u32) -> u32 {
        nodes.node(node).links[NEXT]
    }

    /// That a free piece has no free buddy, for checks.
    pub(crate) fn is_merged<S: Tables>(table: &Table<S>, node: u32) -> bool {
        Self::free_buddy(table, node).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tile_and_are_aligned() {
        for start in 0..70u64 {
            for end in start..140 {
                let mut at = start;
                for (piece, len) in pieces(start, end) {
                    assert_eq!(piece, at);
                    assert!(len.is_power_of_two() && piece % len == 0, "{piece}+{len}");
                    at += len;
                }
                assert_eq!(at, end);
            }
        }
        assert!(pieces(0, 1 << 32).eq([(0, 1 << 32)]));
    }
}
