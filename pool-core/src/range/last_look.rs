//! What a request goes through when the way of most shows nothing: every place that may serve it,
//! in order.

use super::allocator::{Free, OffsetAllocator};
use super::block::Block;
use super::buddies::order_of;
use super::error::{AllocError, Metadata};
use super::handle::Slot;
use super::need::Need;
use super::node::{NONE, State};
use super::request::{Options, Request};
use super::runs::{Place, Runs};
use super::spans::Spans;
use super::storage::Storage;
use super::table::Table;

impl<S: Storage> OffsetAllocator<S> {
    /// Every way to serve a request, or what would serve it.
    #[inline(never)]
    pub(super) fn allocate_at_last(&mut self, request: &Request) -> Result<Block, AllocError> {
        match self.look(request)? {
            Some(block) => Ok(block),
            None => Err(self.refusal(request)),
        }
    }

    /// Every way to serve a request, in order; none if no free block does.
    pub(super) fn look(&mut self, request: &Request) -> Result<Option<Block>, AllocError> {
        let need = &Need::of(request, &self.shape)?;
        let result = match &mut self.free {
            Free::Runs(..) => self.allocate_from_runs_or_spans(need),
            Free::Buddies(_) => self.allocate_buddy(need),
        };
        result.map_err(AllocError::OutOfMetadata)
    }

    /// Orders of a request in a span, if it may lie in one at all.
    #[inline]
    pub(super) fn span_orders(&self, need: &Need) -> Option<(u32, u32)> {
        let forbidden = Options::LIMIT_SPLIT | Options::OUTSIDE_SPANS;
        if need.has(forbidden) || need.len.max(need.align) > u64::from(self.shape.span_granules) {
            return None;
        }
        Some((order_of(need.len), need.align.trailing_zeros()))
    }

    /// Whether a request comes from spans first.
    #[inline]
    pub(super) fn is_small(&self, need: &Need) -> bool {
        need.len <= self.shape.small_granules
            && !need.has(Options::LIMIT_SPLIT | Options::OUTSIDE_SPANS | Options::HIGH_END)
    }

    fn allocate_buddy(&mut self, need: &Need) -> Result<Option<Block>, Metadata> {
        let Free::Buddies(buddies) = &mut self.free else { return Ok(None) };
        let Some(node) = buddies.find(&self.table, need, &mut 0) else { return Ok(None) };
        let node = buddies.claim(&mut self.table, node, need, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// In order: an open span and a new one (small requests), the first look, the second look,
    /// the granules of the empty span, a free buddy of any span.
    fn allocate_from_runs_or_spans(&mut self, need: &Need) -> Result<Option<Block>, Metadata> {
        if let Some(start) = need.place() {
            return self.allocate_at(start, need.len);
        }
        let mut missing = None;
        if self.is_small(need) {
            let block = self.allocate_in_spans(need);
            if block.is_some() {
                return Ok(block);
            }
            match self.open_span_for(need) {
                Ok(true) => return Ok(self.allocate_in_spans(need)),
                Ok(false) => {}
                // Where metadata can be had, what is spare must not decide where a block lies.
                Err(step) if S::GROWS => return Err(step),
                // Without nodes to cut a span out, the block itself may still find some.
                Err(nodes) => missing = Some(nodes),
            }
        }
        let block = self.allocate_from_runs(need)?;
        if block.is_some() {
            return Ok(block);
        }
        let Free::Runs(_, spans) = &self.free else { return Ok(None) };
        if let Some(start) = Self::place_over_empty_span(&self.table, spans, need) {
            return self.allocate_over_empty_span(start, need);
        }
        let block = self.allocate_in_settled_spans(need);
        match missing {
            Some(missing) if block.is_none() => Err(missing),
            _ => Ok(block),
        }
    }

    /// A block at a place, if it is free. Linear in the nodes.
    fn allocate_at(&mut self, start: u64, len: u64) -> Result<Option<Block>, Metadata> {
        let node = (0..self.table.touched()).find(|&node| {
            let run = self.table.storage.node(node);
            run.state() == State::Free && u64::from(run.start) <= start && start + len <= run.end()
        });
        let (Some(node), Free::Runs(runs, _)) = (node, &mut self.free) else { return Ok(None) };
        let node = runs.claim(&mut self.table, Place { node, start }, len, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// A free buddy of an open span, once everything freed is merged: an earlier free is finished
    /// here at the latest, so it costs nothing anew.
    fn allocate_in_settled_spans(&mut self, need: &Need) -> Option<Block> {
        if let Free::Runs(_, spans) = &mut self.free {
            spans.settle(&mut self.table);
        }
        self.allocate_in_spans(need)
    }

    /// A block of the run that a look shows.
    fn allocate_from_runs(&mut self, need: &Need) -> Result<Option<Block>, Metadata> {
        let Free::Runs(runs, _) = &self.free else { return Ok(None) };
        let place = runs
            .first_look(&self.table, need, &mut 0)
            .or_else(|| runs.second_look(&self.table, need, &mut 0));
        let Some(place) = place else { return Ok(None) };
        let (place, len) = self.with_crumbs(place, need);
        let Free::Runs(runs, _) = &mut self.free else { return Ok(None) };
        let node = runs.claim(&mut self.table, place, len, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// Where a block begins and how long it is that a request gets at a place: what would be left
    /// of the run behind it, or for the high end before it, is given with it if that is within the
    /// tolerance.
    fn with_crumbs(&self, place: Place, need: &Need) -> (Place, u64) {
        let run = self.table.storage.node(place.node);
        let (run_start, end) = (u64::from(run.start), run.end());
        let is_whole = need.has(Options::HIGH_END)
            && run_start & (need.align - 1) == 0
            && self.tolerance.covers(need.len, run.len() - need.len);
        let start = if is_whole { run_start } else { place.start };
        let most = end - start;
        let covers = self.tolerance.covers(need.len, most - need.len);
        (Place { start, ..place }, if covers { most } else { need.len })
    }

    /// A block in an open span.
    fn allocate_in_spans(&mut self, need: &Need) -> Option<Block> {
        let (order, align_order) = self.span_orders(need)?;
        let Free::Runs(_, spans) = &mut self.free else { return None };
        let generation = self.generation.bits();
        let block = spans.allocate(&mut self.table, order, align_order, generation)?;
        let (granule, len) = (block.granule, 1 << block.order);
        let handle = self.admit(Slot::Granule(granule), len);
        Some(self.describe(handle, granule, len))
    }

    /// Opens a span, if there is a run for one, or makes the empty one whole.
    fn open_span_for(&mut self, need: &Need) -> Result<bool, Metadata> {
        let Free::Runs(runs, spans) = &mut self.free else { return Ok(false) };
        let len = u64::from(self.shape.span_granules);
        if need.has(Options::NO_NEW_SPAN) || need.align > len {
            return Ok(false);
        }
        if spans.empty_node(&self.table) != NONE {
            // There is one, but for blocks that were freed and not merged.
            spans.settle(&mut self.table);
            return Ok(true);
        }
        let Some(place) = Self::place_for_span(&self.table, runs, need, len) else {
            return Ok(false);
        };
        let span_place = (place.start / len) as u32;
        if !spans.has_room(&self.table, span_place) {
            let missing = Metadata::Span { place: span_place };
            return if S::GROWS { Err(missing) } else { Ok(false) };
        }
        let node = runs.claim(&mut self.table, place, len, self.generation)?;
        spans.open(&mut self.table, node);
        Ok(true)
    }

    /// Where a new span of a length would lie, if it serves the request.
    fn place_for_span(table: &Table<S>, runs: &Runs, need: &Need, len: u64) -> Option<Place> {
        if need.align > len {
            return None;
        }
        let span = Need { len, align: len, ..*need };
        runs.first_look(table, &span, &mut 0).or_else(|| runs.second_look(table, &span, &mut 0))
    }

    /// Whether a small request would be served by opening a span.
    pub(super) fn would_open_span(&self, runs: &Runs, spans: &Spans, need: &Need) -> bool {
        let len = u64::from(self.shape.span_granules);
        self.is_small(need)
            && !need.has(Options::NO_NEW_SPAN)
            && Self::place_for_span(&self.table, runs, need, len).is_some_and(|place| {
                S::GROWS || spans.has_room(&self.table, (place.start / len) as u32)
            })
    }

    /// Closes the empty span and cuts a block out of the run that makes.
    fn allocate_over_empty_span(
        &mut self,
        start: u64,
        need: &Need,
    ) -> Result<Option<Block>, Metadata> {
        let Free::Runs(runs, spans) = &mut self.free else { return Ok(None) };
        let span = self.table.storage.node(spans.empty_node(&self.table));
        let merged = [span.before(), span.after()]
            .into_iter()
            .filter_map(|neighbour| self.table.free_neighbour(neighbour))
            .count() as u32;
        let Some((run_start, run_end)) = Self::run_over_empty_span(&self.table, spans) else {
            return Ok(None);
        };
        let pieces = u32::from(run_start < start) + u32::from(start + need.len < run_end);
        // Merging gives a node back for each neighbour before cutting takes any.
        self.table.require(pieces.saturating_sub(merged))?;
        let Some(node) = spans.close_empty(&mut self.table) else { return Ok(None) };
        let node = runs.release_span(&mut self.table, node);
        let (place, len) = self.with_crumbs(Place { node, start }, need);
        let Free::Runs(runs, _) = &mut self.free else { return Ok(None) };
        let node = runs.claim(&mut self.table, place, len, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// Where a request would lie in the run that closing the empty span would make.
    pub(super) fn place_over_empty_span(
        table: &Table<S>,
        spans: &Spans,
        need: &Need,
    ) -> Option<u64> {
        let (start, end) = Self::run_over_empty_span(table, spans)?;
        need.place_in(start, end - start)
    }

    /// The run that closing the empty span would make.
    pub(super) fn run_over_empty_span(table: &Table<S>, spans: &Spans) -> Option<(u64, u64)> {
        let node = spans.empty_node(table);
        if node == NONE {
            return None;
        }
        let span = table.storage.node(node);
        let before = table.free_neighbour(span.before());
        let after = table.free_neighbour(span.after());
        let start = before.map_or(span.start, |n| table.storage.node(n).start);
        let end = after.map_or(span.end(), |n| table.storage.node(n).end());
        Some((u64::from(start), end))
    }

    #[cold]
    pub(super) fn refusal(&self, request: &Request) -> AllocError {
        AllocError::OutOfMemory {
            size_bytes: request.size_bytes,
            align_bytes: request.align_bytes.max(self.granule_bytes()),
            free_bytes: self.stats().free_bytes,
            largest_free_bytes: self.largest_free_bytes(),
        }
    }
}
