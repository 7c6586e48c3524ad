//! Where the memory of a stream that grows for itself alone goes on: behind what it got last.

use super::draft::Grant;
use super::window::{Holes, Window};
use crate::device::Device;
use crate::pool::asker::Asker;
use crate::pool::books::{Books, Holder};
use crate::pool::help::Plea;
use crate::pool::inner::Inner;
use crate::threads::{HUB, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// The pages that a stream which grows for itself alone needs behind those that it got last, with
    /// what is free before them: so that what it has is one run when it is free, as if it were alone.
    /// It begins in the midst of the longest row of addresses, out of others' way, with some granules
    /// apart: small blocks, which stay long, would else lie between large ones.
    ///
    /// None if it is no stream with a space, or there is no room.
    pub(super) fn window_behind(
        &self,
        books: &Books<D>,
        plea: &Plea<'_, D>,
        holes: &Holes,
        room: u64,
    ) -> Option<(Window, Grant)> {
        let paging = books.paging.as_ref().filter(|paging| paging.keeper == HUB)?;
        let Asker::Known { number, space: Some(own), .. } = plea.asker else { return None };
        let known = books.streams.get(number).filter(|_| plea.space == *own)?;
        // A search finds it in what is given.
        let needs = self.needs_of_request(plea, true);
        let grid = &paging.grid;
        let front = known.front.map(|front| (grid.begun(front), false));
        let begin = holes.middle(grid).map(|page| (page, true));
        [front, begin].into_iter().flatten().find_map(|(page, begins)| {
            let end = holes.bare_from(grid, page)?;
            let row = u64::from(grid.stretch(&(page..end)).start)..grid.stretch(&(page..end)).end();
            needs.iter().find_map(|need| {
                let apart = if begins && !need.is_span { self.granules_apart() } else { 0 };
                let free = if begins { 0 } else { self.shared.free_before(*own, row.start) };
                let start = (row.start + apart - free).checked_next_multiple_of(need.align)?;
                let behind = start.checked_add(need.len).filter(|&behind| behind <= row.end)?;
                let last = grid.begun(behind);
                let holder = Holder::Stream(*number);
                let is_there = page < last && u64::from(last - page) <= room;
                is_there.then(|| {
                    let rows = alloc::vec![page..last];
                    let window = Window { rows, granules: start..behind };
                    (window, Grant { space: *own, holder, apart })
                })
            })
        })
    }

    /// The place of a span, where a stream's memory begins.
    fn granules_apart(&self) -> u64 {
        let shape = self.shared.shape();
        if shape.has_spans() { shape.span_granules.into() } else { 0 }
    }
}
