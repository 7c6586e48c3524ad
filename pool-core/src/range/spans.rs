//! The spans of a range: which are open, and which of them serves a small request.

use super::config::Shape;
use super::node::{NONE, State};
use super::span::{MAX_ORDER, Span, SpanMut};
use super::storage::NO_SPAN;
use super::storage::sealed::Tables;
use super::table::Table;

const ORDERS: usize = MAX_ORDER as usize + 1;

/// The open spans, in lists by the order of their largest free buddy, so that the fullest span
/// that can serve a request does.
pub(crate) struct Spans {
    granules: u32,
    /// A bit for each list that holds a span.
    orders: u32,
    lists: [u32; ORDERS],
    /// Slots below this were used at least once.
    touched: u32,
    /// Slots that were used before and are not now, chained through `after`.
    spare: u32,
    open: u32,
    /// The one span that is empty, kept so that a block that comes and goes opens none.
    empty: u32,
}

/// A block in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanBlock {
    pub(crate) slot: u32,
    /// Counted from the span's start.
    pub(crate) granule: u32,
    pub(crate) order: u32,
}

impl Spans {
    pub(crate) fn new(shape: &Shape) -> Self {
        Self {
            granules: shape.span_granules,
            orders: 0,
            lists: [NO_SPAN; ORDERS],
            touched: 0,
            spare: NO_SPAN,
            open: 0,
            empty: NO_SPAN,
        }
    }

    pub(crate) fn open_count(&self) -> u32 {
        self.open
    }

    /// The node of the empty span, or `NONE`.
    pub(crate) fn empty_node<S: Tables>(&self, table: &Table<S>) -> u32 {
        if self.empty == NO_SPAN { NONE } else { self.read(table, self.empty).node() }
    }

    #[inline]
    pub(crate) fn read<'a, S: Tables>(&self, table: &'a Table<S>, slot: u32) -> Span<'a> {
        Span::new(table.storage.span(slot), self.granules)
    }

    #[inline]
    fn write<'a, S: Tables>(&self, table: &'a mut Table<S>, slot: u32) -> SpanMut<'a> {
        SpanMut::new(table.storage.span_mut(slot), self.granules)
    }

    /// The span that serves a block of an order at an alignment: of those with the smallest
    /// largest free buddy, the one that changed last.
    #[inline]
    fn serving(&self, order: u32, align_order: u32) -> Option<u32> {
        let wanted = order.max(align_order);
        let lists = self.orders.checked_shr(wanted)?;
        if lists == 0 {
            return None;
        }
        Some(self.lists[(wanted + lists.trailing_zeros()) as usize])
    }

    /// Whether an open span serves a block of an order at an alignment.
    #[inline]
    pub(crate) fn serve(&self, order: u32, align_order: u32) -> bool {
        self.serving(order, align_order).is_some()
    }

    /// Takes a block of an order at an alignment from the open spans.
    #[inline]
    pub(crate) fn allocate<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        order: u32,
        align_order: u32,
        generation: u32,
    ) -> Option<SpanBlock> {
        let slot = self.serving(order, align_order)?;
        let granule = self.write(table, slot).allocate(order, align_order, generation)?;
        if self.empty == slot {
            self.empty = NO_SPAN;
        }
        self.relist(table, slot);
        Some(SpanBlock { slot, granule, order })
    }

    /// Frees a live block. Returns the node of a span to be given back to the runs, of which it
    /// is no span any more, if this leaves a second span empty.
    #[inline]
    pub(crate) fn free<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        block: SpanBlock,
    ) -> Option<u32> {
        let SpanBlock { slot, granule, order } = block;
        let mut span = self.write(table, slot);
        span.free(granule, order);
        let is_empty = span.read().is_empty();
        self.relist(table, slot);
        if !is_empty {
            return None;
        }
        if self.empty == NO_SPAN {
            self.empty = slot;
            return None;
        }
        Some(self.close(table, slot))
    }

    /// Changes the order of a live block; the granules for it are free.
    pub(crate) fn resize<S: Tables>(&mut self, table: &mut Table<S>, block: SpanBlock, order: u32) {
        self.write(table, block.slot).resize(block.granule, block.order, order);
        self.relist(table, block.slot);
    }

    /// That there are tables for one more span in a place.
    #[inline]
    pub(crate) fn has_room<S: Tables>(&self, table: &Table<S>, place: u32) -> bool {
        place < table.storage.span_places()
            && (self.spare != NO_SPAN || self.touched < table.storage.span_slots())
    }

    /// Makes a claimed piece a span; there [is room](Self::has_room) for it.
    #[cold]
    pub(crate) fn open<S: Tables>(&mut self, table: &mut Table<S>, node: u32) {
        let slot = if self.spare == NO_SPAN {
            self.touched += 1;
            self.touched - 1
        } else {
            let slot = self.spare;
            self.spare = self.read(table, slot).after();
            slot
        };
        self.write(table, slot).clear(node);
        let piece = table.storage.node_mut(node);
        piece.set_state(State::Span);
        piece.links[0] = slot;
        let place = piece.start / self.granules;
        table.storage.set_span_at(place, slot);
        self.open += 1;
        self.empty = slot;
        self.relist(table, slot);
    }

    /// Ends the empty span, if there is one. Returns its node, to be given back to the runs.
    pub(crate) fn close_empty<S: Tables>(&mut self, table: &mut Table<S>) -> Option<u32> {
        if self.empty == NO_SPAN {
            return None;
        }
        let slot = core::mem::replace(&mut self.empty, NO_SPAN);
        Some(self.close(table, slot))
    }

    #[cold]
    fn close<S: Tables>(&mut self, table: &mut Table<S>, slot: u32) -> u32 {
        self.unlist(table, slot);
        let node = self.read(table, slot).node();
        let place = table.storage.node(node).start / self.granules;
        table.storage.set_span_at(place, NO_SPAN);
        let spare = core::mem::replace(&mut self.spare, slot);
        self.write(table, slot).set_after(spare);
        self.open -= 1;
        node
    }

    /// Moves a span to the list that it belongs to now.
    #[inline]
    fn relist<S: Tables>(&mut self, table: &mut Table<S>, slot: u32) {
        let span = self.read(table, slot);
        let order = span.largest();
        if span.listed() == order {
            return;
        }
        self.unlist(table, slot);
        if let Some(order) = order {
            let after = core::mem::replace(&mut self.lists[order as usize], slot);
            self.orders |= 1 << order;
            let mut span = self.write(table, slot);
            span.set_listed(Some(order));
            span.set_before(NO_SPAN);
            span.set_after(after);
            if after != NO_SPAN {
                self.write(table, after).set_before(slot);
            }
        }
    }

    #[inline]
    fn unlist<S: Tables>(&mut self, table: &mut Table<S>, slot: u32) {
        let span = self.read(table, slot);
        let Some(order) = span.listed() else { return };
        let (before, after) = (span.before(), span.after());
        if before == NO_SPAN {
            self.lists[order as usize] = after;
            if after == NO_SPAN {
                self.orders &= !(1 << order);
            }
        } else {
            self.write(table, before).set_after(after);
        }
        if after != NO_SPAN {
            self.write(table, after).set_before(before);
        }
        self.write(table, slot).set_listed(None);
    }

    /// The order of the largest free buddy of all spans.
    pub(crate) fn largest(&self) -> Option<u32> {
        self.orders.checked_ilog2()
    }

    /// The first span whose place in the lists is not what its table says, and what is wrong.
    pub(crate) fn fault<S: Tables>(&self, table: &Table<S>) -> Option<(&'static str, u32)> {
        let mut listed = 0;
        for order in 0..ORDERS as u32 {
            let first = self.lists[order as usize];
            if (first == NO_SPAN) != (self.orders >> order & 1 == 0) {
                return Some(("a list of spans and its mark differ", order));
            }
            let (mut before, mut slot) = (NO_SPAN, first);
            while slot != NO_SPAN {
                let span = self.read(table, slot);
                if span.before() != before || span.listed() != Some(order) {
                    return Some(("a span's links are not those of its list", slot));
                }
                listed += 1;
                if listed > self.open {
                    return Some(("a list of spans has no end", order));
                }
                (before, slot) = (slot, span.after());
            }
        }
        let full = (0..self.touched)
            .filter(|&slot| self.is_open(table, slot))
            .filter(|&slot| self.read(table, slot).largest().is_none())
            .count() as u32;
        (listed + full != self.open).then_some(("open spans that are in no list", self.open))
    }

    /// Whether a slot that was used is that of an open span, for checks.
    pub(crate) fn is_open<S: Tables>(&self, table: &Table<S>, slot: u32) -> bool {
        let span = self.read(table, slot);
        let node = span.node();
        node < table.touched()
            && table.storage.node(node).state() == State::Span
            && table.storage.node(node).links[0] == slot
    }

    /// Whether a slot is that of the one span that is kept though empty.
    pub(crate) fn is_kept_empty(&self, slot: u32) -> bool {
        self.empty == slot
    }
}
