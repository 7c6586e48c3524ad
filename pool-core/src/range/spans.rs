//! The spans of a range: which are open, and which of them serves a small request.

use super::config::Shape;
use super::node::{NONE, State};
use super::quick::QuickLists;
use super::sort::sort;
use super::span::{MAX_ORDER, Span, SpanMut, Unmerged};
use super::storage::NO_SPAN;
use super::storage::sealed::Tables;
use super::table::Table;

/// Ranks: one more than the order of the largest free buddy; zero, of a full span, has no list.
const RANKS: usize = MAX_ORDER as usize + 2;

/// The open spans, in lists by the order of their largest free buddy, so that the fullest span
/// that can serve a request does.
pub(crate) struct Spans {
    granules: u32,
    /// A bit for each list that holds a span.
    ranks: u32,
    lists: [u32; RANKS],
    /// Slots below this were used at least once.
    touched: u32,
    /// Slots that were used before and are not now, chained through `after`.
    spare: u32,
    open: u32,
    /// The one span without a live block, kept so that a block that comes and goes opens none.
    empty: u32,
    /// Freed blocks that still look taken to their spans.
    quick: QuickLists,
}

/// A block in a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanBlock {
    pub(crate) slot: u32,
    /// Counted from the range's start.
    pub(crate) granule: u32,
    pub(crate) order: u32,
}

impl Spans {
    /// No spans, and none to come.
    pub(crate) const fn new() -> Self {
        Self {
            granules: 0,
            ranks: 0,
            lists: [NO_SPAN; RANKS],
            touched: 0,
            spare: NO_SPAN,
            open: 0,
            empty: NO_SPAN,
            quick: QuickLists::new(),
        }
    }

    /// Opens spans as a shape says from now on; none is open.
    pub(crate) fn set_shape(&mut self, shape: &Shape) {
        self.granules = shape.span_granules;
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

    /// A granule of the range, counted from the start of its span.
    #[inline(always)]
    pub(crate) fn inside(&self, granule: u32) -> u32 {
        // Spans are powers of two, aligned to themselves.
        granule & self.granules.wrapping_sub(1)
    }

    /// The live block that starts at a granule of the range, and its generation.
    #[inline(always)]
    pub(crate) fn live_block<S: Tables>(
        &self,
        table: &Table<S>,
        granule: u32,
        generation: u32,
    ) -> Option<SpanBlock> {
        let slot = table.storage.span_at(granule.checked_div(self.granules)?);
        if slot == NO_SPAN {
            return None;
        }
        let span = self.read(table, slot);
        let inside = self.inside(granule);
        let order = span.taken_order(inside)?;
        (span.generation(inside) == generation).then_some(SpanBlock { slot, granule, order })
    }

    /// The generation of the live block that starts at a granule of the range.
    #[cfg(feature = "alloc")]
    #[inline(always)]
    pub(crate) fn generation<S: Tables>(&self, table: &Table<S>, granule: u32) -> Option<u32> {
        let slot = table.storage.span_at(granule.checked_div(self.granules)?);
        if slot == NO_SPAN {
            return None;
        }
        let generation = self.read(table, slot).generation(self.inside(granule));
        (generation != 0).then_some(generation)
    }

    /// The span that serves a block of an order at an alignment: of those with the smallest
    /// largest free buddy, the one that changed last.
    #[inline(always)]
    fn serving(&self, order: u32, align_order: u32) -> Option<u32> {
        let wanted = order.max(align_order) + 1;
        let lists = self.ranks.checked_shr(wanted)?;
        if lists == 0 {
            return None;
        }
        Some(self.lists[(wanted + lists.trailing_zeros()) as usize])
    }

    /// Whether the open spans serve a block of an order at an alignment, once everything freed
    /// is merged.
    #[inline]
    pub(crate) fn serve<S: Tables>(&self, table: &Table<S>, order: u32, align_order: u32) -> bool {
        self.serving(order, align_order).is_some()
            || self.settled_rank(table) > order.max(align_order)
    }

    /// Takes the block of an order that was freed last.
    #[inline(always)]
    pub(crate) fn allocate_quickly<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        order: u32,
        generation: u32,
    ) -> Option<SpanBlock> {
        let block = self.quick.take(order)?;
        let inside = self.inside(block.granule);
        let mut span = self.write(table, block.slot);
        span.set_generation(inside, generation);
        self.add_live(table, block.slot);
        Some(block)
    }

    /// Takes a block of an order at an alignment from the open spans. If a larger buddy is split
    /// for it, the pieces beside it wait in the quick list for the requests that often follow.
    pub(crate) fn allocate<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        order: u32,
        align_order: u32,
        generation: u32,
    ) -> Option<SpanBlock> {
        let slot = self.serving(order, align_order)?;
        let start = table.storage.node(self.read(table, slot).node()).start;
        let spare = if align_order > order { 0 } else { self.quick.room(order) };
        let mut span = self.write(table, slot);
        let (inside, count) = span.allocate(order, align_order, spare)?;
        span.set_generation(inside, generation);
        for i in (1..count).rev() {
            let inside = inside + (i << order);
            self.write(table, slot).set_generation(inside, 0);
            self.quick.keep(SpanBlock { slot, granule: start + inside, order });
        }
        self.add_live(table, slot);
        self.relist(table, slot);
        Some(SpanBlock { slot, granule: start + inside, order })
    }

    #[inline(always)]
    fn add_live<S: Tables>(&mut self, table: &mut Table<S>, slot: u32) {
        let mut span = self.write(table, slot);
        let live = span.read().live();
        span.set_live(live + 1);
        if self.empty == slot {
            self.empty = NO_SPAN;
        }
    }

    /// Frees a live block. Returns the node of its span, to be given back to the runs, if that
    /// is a second span without a live block: then it is no span any more.
    #[inline(always)]
    pub(crate) fn free<S: Tables>(
        &mut self,
        table: &mut Table<S>,
        block: SpanBlock,
    ) -> Option<u32> {
        let inside = self.inside(block.granule);
        let mut span = self.write(table, block.slot);
        span.set_generation(inside, 0);
        let live = span.read().live() - 1;
        span.set_live(live);
        if live == 0 {
            if self.empty != NO_SPAN {
                return Some(self.close(table, block.slot));
            }
            self.empty = block.slot;
        }
        if !self.quick.keep(block) {
            self.merge(table, block);
        }
        None
    }

    /// Makes a freed block part of its span's free buddies.
    fn merge<S: Tables>(&mut self, table: &mut Table<S>, block: SpanBlock) {
        let inside = self.inside(block.granule);
        self.write(table, block.slot).free(inside, block.order);
        self.relist(table, block.slot);
    }

    /// Merges every block that is kept in a quick list.
    pub(crate) fn settle<S: Tables>(&mut self, table: &mut Table<S>) {
        while let Some(block) = self.quick.take_any() {
            self.merge(table, block);
        }
    }

    /// The rank of the largest free buddy of all spans once everything freed is merged.
    pub(crate) fn settled_rank<S: Tables>(&self, table: &Table<S>) -> u32 {
        let rank = self.ranks.checked_ilog2().unwrap_or(0);
        if self.quick.blocks().next().is_none() { rank } else { self.merged_aside(table, rank) }
    }

    /// The same where some blocks are not merged: their spans are merged aside. Takes some
    /// kilobytes of stack, which is why it stands apart.
    #[inline(never)]
    fn merged_aside<S: Tables>(&self, table: &Table<S>, mut rank: u32) -> u32 {
        let mut unmerged = [Unmerged::default(); QuickLists::MOST];
        let mut count = 0;
        for (place, block) in unmerged.iter_mut().zip(self.quick.blocks()) {
            *place = Unmerged { granule: block.granule, order: block.order };
            count += 1;
        }
        let unmerged = &mut unmerged[..count];
        // By address: span by span, and in a span word by word.
        sort(unmerged);
        let place = |block: &Unmerged| block.granule.checked_div(self.granules).unwrap_or(0);
        for blocks in unmerged.chunk_by(|a, b| place(a) == place(b)) {
            let slot = blocks.first().map_or(NO_SPAN, |block| table.storage.span_at(place(block)));
            if slot != NO_SPAN {
                rank = rank.max(self.read(table, slot).settled_rank(blocks));
            }
        }
        rank
    }

    /// Changes the order of a live block; the granules for it are free.
    pub(crate) fn resize<S: Tables>(&mut self, table: &mut Table<S>, block: SpanBlock, order: u32) {
        let inside = self.inside(block.granule);
        self.write(table, block.slot).resize(inside, block.order, order);
        self.relist(table, block.slot);
    }

    /// That there are tables for one more span in a place.
    #[inline]
    pub(crate) fn has_room<S: Tables>(&self, table: &Table<S>, place: u32) -> bool {
        table.storage.has_span_place(place)
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
        self.quick.forget(slot);
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
    #[inline(always)]
    fn relist<S: Tables>(&mut self, table: &mut Table<S>, slot: u32) {
        let span = self.read(table, slot);
        let rank = span.rank();
        if span.listed() != rank {
            self.move_to(table, slot, rank);
        }
    }

    fn move_to<S: Tables>(&mut self, table: &mut Table<S>, slot: u32, rank: u32) {
        self.unlist(table, slot);
        if rank != 0 {
            let after = core::mem::replace(&mut self.lists[rank as usize], slot);
            self.ranks |= 1 << rank;
            let mut span = self.write(table, slot);
            span.set_listed(rank);
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
        let rank = span.listed();
        if rank == 0 {
            return;
        }
        let (before, after) = (span.before(), span.after());
        if before == NO_SPAN {
            self.lists[rank as usize] = after;
            if after == NO_SPAN {
                self.ranks &= !(1 << rank);
            }
        } else {
            self.write(table, before).set_after(after);
        }
        if after != NO_SPAN {
            self.write(table, after).set_before(before);
        }
        self.write(table, slot).set_listed(0);
    }

    /// Freed blocks that are not merged yet, for checks.
    pub(crate) fn unmerged(&self) -> impl Iterator<Item = SpanBlock> + '_ {
        self.quick.blocks()
    }

    /// The first span whose place in the lists is not what its table says, and what is wrong.
    pub(crate) fn fault<S: Tables>(&self, table: &Table<S>) -> Option<(&'static str, u32)> {
        let mut listed = 0;
        for rank in 0..RANKS as u32 {
            let first = self.lists[rank as usize];
            if (first == NO_SPAN) != (self.ranks >> rank & 1 == 0) {
                return Some(("a list of spans and its mark differ", rank));
            }
            let (mut before, mut slot) = (NO_SPAN, first);
            while slot != NO_SPAN {
                if slot >= self.touched {
                    return Some(("a list of spans leads out of the table", slot));
                }
                let span = self.read(table, slot);
                if span.before() != before || span.listed() != rank || span.rank() != rank {
                    return Some(("a span's links are not those of its list", slot));
                }
                listed += 1;
                if listed > self.open {
                    return Some(("a list of spans has no end", rank));
                }
                (before, slot) = (slot, span.after());
            }
        }
        let full = (0..self.touched)
            .filter(|&slot| self.is_open(table, slot))
            .filter(|&slot| self.read(table, slot).rank() == 0)
            .count() as u32;
        (listed + full != self.open).then_some(("open spans that are in no list", self.open))
    }

    /// Slots that were ever in use, for checks.
    pub(crate) fn touched(&self) -> u32 {
        self.touched
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
