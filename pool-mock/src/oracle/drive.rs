//! Makes each call on the range and judges the answer by the model.

use std::collections::{BTreeMap, VecDeque};

use pool_core::{
    AllocError, Block, EndError, Handle, Metadata, OffsetAllocator, Options, Piece, Placement,
    RangeStats, Request, ResizeError, Spans,
};

use super::check::Summary;
use super::discrepancy::Finding;
use super::model::{Demand, Live, Model, Promise, Stretch};
use super::operation::{Forgery, Operation, Size};
use super::shape::{NodeBudget, Shape, Storage};
use super::subject::Subject;

/// How many freed handles and earlier sizes are remembered.
const MEMORY: usize = 32;

/// The most blocks that any search may look at: two for each bit of a size, and a first look.
const MOST_VISITS: u32 = 128;

/// The range, its twin and the model, in step.
pub(crate) struct Driver<'a> {
    shape: &'a Shape,
    range: &'a mut dyn Subject,
    twin: Option<&'a mut dyn Subject>,
    twin_handles: BTreeMap<Handle, Handle>,
    model: Model,
    stats: RangeStats,
    /// Nodes of the range's table, if they are lent.
    nodes: u64,
    /// Whether the table can grow.
    grows: bool,
    /// Live blocks for which the nodes have to suffice.
    block_promise: Option<u32>,
    stale: VecDeque<Handle>,
    foreign: Vec<Handle>,
    earlier: VecDeque<u64>,
    grown: u64,
    summary: Summary,
}

/// What a call did, for what may differ after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing: it failed or only looked.
    Nothing,
    /// It served a request; a span may have been opened, unless that is forbidden.
    Served { may_open: bool },
    /// It changed something else.
    Changed,
}

impl<'a> Driver<'a> {
    pub(crate) fn new(
        shape: &'a Shape,
        range: &'a mut dyn Subject,
        twin: Option<&'a mut dyn Subject>,
    ) -> Self {
        let (nodes, block_promise) = match shape.storage {
            Storage::Chunked => (0, None),
            Storage::Borrowed { nodes, .. } => {
                let promise =
                    if let NodeBudget::Blocks(blocks) = nodes { Some(blocks) } else { None };
                (shape.node_count(nodes), promise)
            }
        };
        let stats = range.stats();
        Self {
            model: Model::new(shape.granules, shape.placement),
            shape,
            range,
            twin,
            twin_handles: BTreeMap::new(),
            stats,
            nodes: nodes as u64,
            grows: shape.storage == Storage::Chunked,
            block_promise,
            stale: VecDeque::new(),
            foreign: Vec::new(),
            earlier: VecDeque::new(),
            grown: 0,
            summary: Summary::default(),
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        self.summary
    }

    /// Makes one call.
    pub(crate) fn step(&mut self, operation: &Operation) -> Result<(), Finding> {
        match *operation {
            Operation::Allocate { size, align_bytes, options, split_limit, no_new_metadata } => {
                let request = self.request(size, align_bytes, options, split_limit);
                self.allocate(&request, no_new_metadata)
            }
            Operation::Fits { size, align_bytes, options, split_limit } => {
                let request = self.request(size, align_bytes, options, split_limit);
                self.fits(&request).map(drop)?;
                self.settle(Effect::Nothing)
            }
            Operation::Free(pick) => match self.pick(pick) {
                Some(index) => self.free(index),
                None => Ok(()),
            },
            Operation::FreeStride { first, step } => self.free_stride(first, step),
            Operation::FreeAll => self.free_stride(0, 1),
            Operation::Misuse(forgery) => self.misuse(forgery),
            Operation::Resize { pick, size } => match self.pick(pick) {
                Some(index) => self.resize(index, self.bytes(size)),
                None => Ok(()),
            },
            Operation::ResizeBy { pick, by } => match self.pick(pick) {
                Some(index) => {
                    let granules = self.model.live()[index].place.granules;
                    self.resize(index, self.to_bytes(plus(granules, by)))
                }
                None => Ok(()),
            },
            Operation::Query(pick) => match self.pick(pick) {
                Some(index) => self.query(index),
                None => Ok(()),
            },
            Operation::Grow { bytes } => self.grow(bytes),
            Operation::Shrink { bytes } => self.shrink(bytes),
            Operation::ShrinkTail { plus: by } => {
                self.shrink(self.to_bytes(plus(self.model.free_tail(), by)))
            }
        }
    }

    /// Frees everything in one of three orders and asks for the whole range.
    pub(crate) fn finish(&mut self) -> Result<(), Finding> {
        let order = self.summary.served % 3;
        while !self.model.live().is_empty() {
            let first = self.model.live_by_address().next().map(|live| live.place.start);
            let last = self.model.live_by_address().last().map(|live| live.place.start);
            let start = match order {
                0 => first,
                1 => last,
                _ => None,
            };
            let index = self.model.live().iter().position(|live| Some(live.place.start) == start);
            self.free(index.unwrap_or(0))?;
        }
        self.go_through()?;
        let whole = self.model.free().largest();
        self.allocate(&Ask::plain(self.to_bytes(whole)), false)?;
        self.go_through()
    }

    // ---- the calls ----

    fn allocate(&mut self, ask: &Ask, no_new_metadata: bool) -> Result<(), Finding> {
        let fits = self.fits(ask)?;
        let request = ask.request();
        let answer = if no_new_metadata {
            self.range.try_allocate(request)
        } else {
            self.range.allocate(request)
        };
        self.remember(ask.size_bytes);
        match answer {
            Ok(block) => {
                self.served(ask, block)?;
                if !fits {
                    return Err(Finding::FitsAndAllocate { fits, served: true });
                }
                self.follow_allocate(ask, Ok(block))?;
                let opens = Options::OUTSIDE_SPANS | Options::NO_NEW_SPAN | Options::LIMIT_SPLIT;
                self.settle(Effect::Served { may_open: !ask.options.intersects(opens) })
            }
            Err(error) => {
                let starved = matches!(error, AllocError::OutOfMetadata(_));
                if fits && !starved {
                    return Err(Finding::FitsAndAllocate { fits, served: false });
                }
                self.refused(ask, error, no_new_metadata)?;
                if !starved {
                    self.follow_allocate(ask, Err(error))?;
                }
                self.settle(Effect::Nothing)
            }
        }
    }

    fn served(&mut self, ask: &Ask, block: Block) -> Result<(), Finding> {
        let place = self.place(block)?;
        let Verdict::Judged(demand, promise) = self.verdict(ask) else {
            return Err(Finding::FalseSuccess {
                demand: ask.demand(self.shape),
                block: place,
                free: self.model.free().all(),
            });
        };
        if !self.model.all_free(&place) {
            return Err(Finding::Overlap { block: place });
        }
        if promise == Promise::Cannot {
            let free = self.model.free().all();
            return Err(Finding::FalseSuccess { demand, block: place, free });
        }
        if !block.offset_bytes().is_multiple_of(ask.align_bytes) {
            let (offset_bytes, align_bytes) = (block.offset_bytes(), ask.align_bytes);
            return Err(Finding::Misaligned { offset_bytes, align_bytes });
        }
        let known = |live: &Live| live.handle == block.handle();
        if self.model.live().iter().any(known) || self.stale.contains(&block.handle()) {
            return Err(Finding::HandleReused);
        }
        self.judge_place(&demand, &place)?;
        self.model.insert(block.handle(), place);
        self.summary.served += 1;
        Ok(())
    }

    /// Whether a served block has the right length and lies where its placement puts it.
    fn judge_place(&mut self, demand: &Demand, place: &Stretch) -> Result<(), Finding> {
        let wrong = |why| Err(Finding::WrongPlace { block: *place, why });
        let spans = self.listed_spans();
        let span = spans.iter().find(|span| span.start <= place.start && place.start < span.end());
        let high = demand.options.contains(Options::HIGH_END);
        let free = self.model.free();
        let outer = || free.runs.iter().chain(&free.narrow_runs).chain(&free.buddies);
        if let Some(span) = span {
            let runs_only =
                demand.options.intersects(Options::OUTSIDE_SPANS | Options::LIMIT_SPLIT);
            if runs_only {
                return wrong("in a span, which its options forbid");
            }
            if place.end() > span.end() {
                return wrong("across the end of a span");
            }
            let run_fits = free.runs.iter().any(|run| run.granules >= demand.granules);
            if high && demand.align == 1 && run_fits {
                return wrong("in a span though a run could serve the high end");
            }
            if let Spans::Sized { small_bytes, .. } = self.shape.spans
                && self.to_bytes(demand.granules) > small_bytes
                && demand.align == 1
                && run_fits
            {
                return wrong("a large block in a span though a run fits it");
            }
            self.summary.from_spans += 1;
        }
        let rounds = span.is_some() || self.model.is_buddy();
        let expected = if rounds { demand.granules.next_power_of_two() } else { demand.granules };
        let right = if rounds { place.granules == expected } else { self.fits_run(demand, place) };
        if !right {
            return Err(Finding::WrongSize { granules: place.granules, expected });
        }
        if rounds && !place.start.is_multiple_of(place.granules) {
            return wrong("a buddy that is not aligned to its size");
        }
        if demand.align > 1 || span.is_some() {
            return Ok(());
        }
        if high && !outer().any(|block| block.end() == place.end()) {
            return wrong("not at the high end of a free block");
        }
        if !high && !outer().any(|block| block.start == place.start) {
            return wrong("not at the low end of a free block");
        }
        let limited = demand.options.contains(Options::LIMIT_SPLIT);
        if self.shape.placement == Placement::FirstFit && !limited {
            let mut fitting = free.runs.iter().filter(|run| run.granules >= demand.granules);
            if high && fitting.next_back().is_none_or(|run| run.end() != place.end()) {
                return wrong("not in the highest run that fits");
            }
            if !high && fitting.next().is_none_or(|run| run.start != place.start) {
                return wrong("not in the lowest run that fits");
            }
        }
        Ok(())
    }

    /// Whether a block outside spans is as long as asked for; and what would be left of its run
    /// behind it (for the high end before it) is its if that is within the tolerance, and only then.
    fn fits_run(&self, demand: &Demand, place: &Stretch) -> bool {
        let asked = demand.granules;
        let percent = u64::from(self.shape.tolerance_percent);
        let covers = |over: u64| over * 100 <= asked * percent;
        let high = demand.options.contains(Options::HIGH_END);
        let Some(over) = place.granules.checked_sub(asked) else { return false };
        let free = self.model.free();
        let mut runs = free.runs.iter().chain(&free.narrow_runs);
        runs.any(|run| {
            if place.start < run.start || run.end() < place.end() {
                return false;
            }
            let behind = run.end() - place.end();
            let whole = covers(run.granules.saturating_sub(asked));
            if high && whole && run.start.is_multiple_of(demand.align) {
                return place == run;
            }
            if over == 0 { behind == 0 || !covers(behind) } else { behind == 0 && covers(over) }
        })
    }

    fn refused(
        &mut self,
        ask: &Ask,
        error: AllocError,
        no_new_metadata: bool,
    ) -> Result<(), Finding> {
        let wrong = |expected| Err(Finding::WrongAllocError { got: error, expected });
        let zero = ask.size_bytes == 0;
        let crooked = !ask.align_bytes.is_power_of_two();
        match (error, self.verdict(ask)) {
            (AllocError::ZeroSize, _) if zero => Ok(()),
            (AllocError::Alignment { align_bytes }, _) if crooked => {
                if align_bytes == ask.align_bytes {
                    Ok(())
                } else {
                    wrong("the alignment that was asked for")
                }
            }
            (_, Verdict::Invalid) => wrong("an error about the size or the alignment"),
            (AllocError::TooLarge { size_bytes, capacity_bytes }, verdict) => {
                let demand = ask.demand(self.shape);
                let empty = self.model.emptied();
                let never = verdict == Verdict::TooLarge
                    || empty.promise(&Demand { options: Options::empty(), ..demand })
                        != Promise::Must;
                if !never {
                    return wrong("no claim that it can never fit: the empty range serves it");
                }
                if size_bytes != ask.size_bytes || capacity_bytes != self.capacity_bytes() {
                    return wrong("the size asked for and the capacity");
                }
                if let Verdict::Judged(demand, Promise::Must) = verdict {
                    let free = self.model.free().all();
                    return Err(Finding::FalseRefusal { demand, error, free });
                }
                self.summary.refused += 1;
                Ok(())
            }
            (_, Verdict::TooLarge) => wrong("TooLarge"),
            (AllocError::OutOfMemory { .. }, Verdict::Judged(demand, Promise::Must)) => {
                let free = self.model.free().all();
                Err(Finding::FalseRefusal { demand, error, free })
            }
            (AllocError::OutOfMemory { size_bytes, free_bytes, largest_free_bytes, .. }, _) => {
                let free = self.model.granules() - self.model.live_granules();
                if size_bytes != ask.size_bytes
                    || free_bytes != self.to_bytes(free)
                    || largest_free_bytes != self.to_bytes(self.model.free().largest())
                {
                    return wrong("the size asked for, the free bytes and the largest free block");
                }
                self.summary.refused += 1;
                Ok(())
            }
            (AllocError::OutOfMetadata(_), Verdict::Judged(_, Promise::Cannot)) => {
                wrong("OutOfMemory: nothing fits, whatever the metadata")
            }
            (AllocError::OutOfMetadata(_), _) => self.starved(error, no_new_metadata),
            _ => wrong("an error that applies"),
        }
    }

    /// Whether metadata may be said to have run out.
    fn starved(&mut self, error: AllocError, no_new_metadata: bool) -> Result<(), Finding> {
        self.summary.starved += 1;
        let AllocError::OutOfMetadata(step) = error else { return Ok(()) };
        if self.grows {
            // The step is for the caller to take, and then the call succeeds.
            return if no_new_metadata && self.range.add_metadata(step) {
                Ok(())
            } else {
                Err(Finding::FalseExhaustion { error, spare: u64::MAX })
            };
        }
        if !self.may_run_short() || matches!(step, Metadata::Span { .. }) {
            return Err(Finding::FalseExhaustion { error, spare: self.spare_nodes() });
        }
        let live = self.model.live().len() as u64;
        match self.block_promise {
            Some(promised) if live < u64::from(promised) => {
                Err(Finding::BrokenNodePromise { error, live, promised: promised.into() })
            }
            _ => Ok(()),
        }
    }

    fn fits(&mut self, ask: &Ask) -> Result<bool, Finding> {
        let answer = self.range.fits(ask.request());
        let right = match self.verdict(ask) {
            Verdict::Invalid | Verdict::TooLarge | Verdict::Judged(_, Promise::Cannot) => !answer,
            Verdict::Judged(_, Promise::Must) => answer,
            Verdict::Judged(_, Promise::May) => true,
        };
        if !right {
            let (demand, free) = (ask.demand(self.shape), self.model.free().all());
            return Err(Finding::Fits { demand, answer, free });
        }
        let visits = self.range.visits(ask.request());
        // First fit under a split limit walks every piece, as its documentation says.
        let walks = self.shape.placement == Placement::FirstFit
            && ask.options.contains(Options::LIMIT_SPLIT);
        if visits.served != answer || (visits.blocks > MOST_VISITS && !walks) {
            return Err(Finding::Visits { what: format!("{visits:?} while fits() says {answer}") });
        }
        Ok(answer)
    }

    fn free(&mut self, index: usize) -> Result<(), Finding> {
        let live = self.model.live()[index];
        let block = self.range.free(live.handle).map_err(Finding::LiveHandle)?;
        self.same_block(block, &live)?;
        self.model.remove(index);
        self.bury(live.handle);
        if let (Some(twin), Some(handle)) =
            (self.twin.as_mut(), self.twin_handles.remove(&live.handle))
        {
            let range = format!("{:?}", extent(block));
            match twin.free(handle) {
                Ok(other) if extent(other) == extent(block) => {}
                other => return Err(Finding::Twin { range, twin: format!("{other:?}") }),
            }
        }
        self.settle(Effect::Changed)
    }

    fn free_stride(&mut self, first: u8, step: u8) -> Result<(), Finding> {
        let doomed: Vec<Handle> = self
            .model
            .live_by_address()
            .skip(first.into())
            .step_by(usize::from(step).max(1))
            .map(|live| live.handle)
            .collect();
        for handle in doomed {
            let index = self.model.live().iter().position(|live| live.handle == handle);
            if let Some(index) = index {
                self.free(index)?;
            }
        }
        Ok(())
    }

    fn query(&mut self, index: usize) -> Result<(), Finding> {
        let live = self.model.live()[index];
        let block = self.range.block(live.handle).map_err(Finding::LiveHandle)?;
        self.same_block(block, &live)?;
        self.settle(Effect::Nothing)
    }

    fn misuse(&mut self, forgery: Forgery) -> Result<(), Finding> {
        let Some(handle) = self.forge(forgery) else { return Ok(()) };
        if self.model.live().iter().any(|live| live.handle == handle) {
            return Ok(());
        }
        if self.range.block(handle).is_ok() {
            return Err(Finding::DeadHandle("block()"));
        }
        match self.range.resize(handle, self.shape.granule_bytes) {
            Err(ResizeError::Handle(_)) => {}
            Err(other) => return Err(Finding::ResizeError(other)),
            Ok(_) => return Err(Finding::DeadHandle("resize()")),
        }
        if self.range.free(handle).is_ok() {
            return Err(Finding::DeadHandle("free()"));
        }
        self.summary.misuses += 1;
        self.settle(Effect::Nothing)?;
        self.go_through()
    }

    fn forge(&mut self, forgery: Forgery) -> Option<Handle> {
        match forgery {
            Forgery::Stale(pick) => choose(&self.stale, pick.into()).copied(),
            Forgery::Foreign(pick) => {
                if self.foreign.is_empty() {
                    self.foreign = strangers(self.shape);
                }
                self.foreign.get(usize::from(pick) % self.foreign.len().max(1)).copied()
            }
            Forgery::Bits(bits) => Handle::from_raw(bits),
            Forgery::Damaged { pick, flip } => {
                let index = self.pick(pick)?;
                Handle::from_raw(self.model.live()[index].handle.to_raw() ^ flip)
            }
        }
    }

    fn resize(&mut self, index: usize, size_bytes: u64) -> Result<(), Finding> {
        let live = self.model.live()[index];
        let granules = size_bytes.div_ceil(self.shape.granule_bytes);
        let home = match self.model.span_at(live.place.start) {
            None if self.model.is_buddy() => {
                Some(Stretch { start: 0, granules: self.model.granules() })
            }
            span => span,
        };
        let old = live.place.granules;
        let (target, most) = if let Some(home) = home {
            let rounded = granules.checked_next_power_of_two().unwrap_or(u64::MAX);
            (rounded, self.model.most_buddy(&live.place, &home))
        } else {
            (granules, old + self.model.free_after(live.place.end()))
        };
        let answer = self.range.resize(live.handle, size_bytes);
        let wrong =
            |expected: String| Err(Finding::Resize { got: format!("{answer:?}"), expected });
        let effect = match answer {
            _ if size_bytes == 0 => {
                if answer != Err(ResizeError::ZeroSize) {
                    return wrong("ZeroSize".into());
                }
                Effect::Nothing
            }
            Ok(block) => {
                let place = self.place(block)?;
                if block.handle() != live.handle || place.start != live.place.start {
                    return wrong("the same handle at the same offset".into());
                }
                if target > most {
                    return wrong(format!("NoRoom: there is room for {most} granules"));
                }
                // With no node for the piece cut off, a block keeps its size.
                let kept = target < old && self.may_run_short();
                if place.granules != target && !(kept && place.granules == old) {
                    return wrong(format!("{target} granules"));
                }
                self.model.set_length(index, place.granules);
                self.summary.resized += 1;
                Effect::Changed
            }
            Err(ResizeError::NoRoom { size_bytes: asked, most_bytes }) => {
                if target <= most {
                    return wrong(format!("{target} granules: there is room for {most}"));
                }
                if asked != size_bytes || most_bytes != self.to_bytes(most) {
                    return wrong(format!("NoRoom with at most {} bytes", self.to_bytes(most)));
                }
                Effect::Nothing
            }
            Err(other) => return Err(Finding::ResizeError(other)),
        };
        self.follow_resize(&live, size_bytes, answer)?;
        self.settle(effect)
    }

    fn grow(&mut self, bytes: u64) -> Result<(), Finding> {
        let more = bytes / self.shape.granule_bytes;
        let most = (1 << 32) - self.model.granules();
        if more <= most && self.grown + more > u64::from(Shape::MOST_GROWTH) {
            return Ok(());
        }
        let answer = self.range.grow(bytes);
        let expected = if more == 0 {
            Err(EndError::BelowGranule { bytes, granule_bytes: self.shape.granule_bytes })
        } else if more > most {
            Err(EndError::TooLarge { bytes, most_bytes: self.to_bytes(most) })
        } else {
            Ok(self.capacity_bytes() + self.to_bytes(more))
        };
        let answer = self.judge_end(answer, expected)?;
        if let Some(twin) = self.twin.as_mut() {
            twin_end(twin.grow(bytes), answer)?;
        }
        if answer.is_ok() {
            self.grown += more;
            self.model.set_granules(self.model.granules() + more);
            if self.shape.spans != Spans::Off {
                // Lent tables name places for spans only as far as the range first reached.
                self.twin = None;
            }
            self.end_moved();
            return self.settle(Effect::Changed);
        }
        self.settle(Effect::Nothing)
    }

    fn shrink(&mut self, bytes: u64) -> Result<(), Finding> {
        let less = bytes / self.shape.granule_bytes;
        let most = self.model.free_tail().min(self.model.granules() - 1);
        let answer = self.range.shrink(bytes);
        let expected = if less == 0 {
            Err(EndError::BelowGranule { bytes, granule_bytes: self.shape.granule_bytes })
        } else if less > most {
            Err(EndError::InUse { bytes, free_bytes: self.to_bytes(most) })
        } else {
            Ok(self.capacity_bytes() - self.to_bytes(less))
        };
        let answer = self.judge_end(answer, expected)?;
        if let Some(twin) = self.twin.as_mut() {
            twin_end(twin.shrink(bytes), answer)?;
        }
        if answer.is_ok() {
            self.model.set_granules(self.model.granules() - less);
            self.end_moved();
            return self.settle(Effect::Changed);
        }
        self.settle(Effect::Nothing)
    }

    fn end_moved(&mut self) {
        self.summary.end_moves += 1;
        // The nodes were counted for another capacity.
        self.block_promise = None;
    }

    fn judge_end(
        &mut self,
        answer: Result<u64, EndError>,
        expected: Result<u64, EndError>,
    ) -> Result<Result<u64, EndError>, Finding> {
        if matches!(answer, Err(EndError::OutOfMetadata(_)))
            && expected.is_ok()
            && self.may_run_short()
        {
            self.summary.starved += 1;
            return Ok(answer);
        }
        if answer == expected {
            Ok(answer)
        } else {
            Err(Finding::End { got: format!("{answer:?}"), expected: format!("{expected:?}") })
        }
    }

    // ---- after each call ----

    /// Compares spans and books, and brings the model up to date.
    fn settle(&mut self, effect: Effect) -> Result<(), Finding> {
        let spans = self.listed_spans();
        self.judge_spans(&spans, effect)?;
        let stats = self.range.stats();
        if effect == Effect::Nothing {
            if stats != self.stats {
                let what = format!("stats were {:?}, are {stats:?}", self.stats);
                return Err(Finding::StateChanged { what });
            }
            if spans != self.model.spans() {
                let what = format!("spans were {:?}, are {spans:?}", self.model.spans());
                return Err(Finding::StateChanged { what });
            }
        } else {
            self.model.set_spans(spans);
            self.model.refresh();
            self.stats = stats;
        }
        self.judge_books()
    }

    fn judge_spans(&self, spans: &[Stretch], effect: Effect) -> Result<(), Finding> {
        let mut wall = 0;
        let mut empty = 0;
        for &extent in spans {
            let wrong = |what| Err(Finding::Spans { what, extent });
            if extent.start < wall || extent.end() > self.model.granules() {
                return wrong("not in address order inside the range");
            }
            wall = extent.end();
            if !extent.granules.is_power_of_two() || !(64..=4096).contains(&extent.granules) {
                return wrong("not a power of two from 64 to 4096 granules");
            }
            if !extent.start.is_multiple_of(extent.granules) {
                return wrong("not aligned to its size");
            }
            if let Spans::Sized { span_bytes, .. } = self.shape.spans
                && self.to_bytes(extent.granules) != span_bytes
            {
                return wrong("not of the size configured");
            }
            if self.shape.spans == Spans::Off || self.shape.placement != Placement::BestFit {
                return wrong("a span in a range that has none");
            }
            let mut inside = self
                .model
                .live_by_address()
                .filter(|live| live.place.end() > extent.start && live.place.start < wall)
                .peekable();
            if inside.peek().is_none() {
                empty += 1;
                if empty > 1 {
                    return wrong("a second empty span");
                }
            }
            if inside.any(|live| live.place.start < extent.start || live.place.end() > wall) {
                return wrong("a live block across its border");
            }
            let new = !self.model.spans().contains(&extent);
            if new && effect != (Effect::Served { may_open: true }) {
                return wrong("opened by a call that may not open one");
            }
        }
        // Those that held a block before the call, and still do.
        for &extent in &self.model.free().walls {
            if !spans.contains(&extent) && !self.model.all_free(&extent) {
                return Err(Finding::Spans { what: "dissolved with a live block in it", extent });
            }
        }
        Ok(())
    }

    fn judge_books(&self) -> Result<(), Finding> {
        let stats = &self.stats;
        let live = self.to_bytes(self.model.live_granules());
        let figures = [
            ("capacity_bytes", stats.capacity_bytes, self.capacity_bytes()),
            ("capacity_bytes()", self.range.capacity_bytes(), self.capacity_bytes()),
            ("live_bytes", stats.live_bytes, live),
            ("peak_live_bytes", stats.peak_live_bytes, self.to_bytes(self.model.peak_granules())),
            ("free_bytes", stats.free_bytes, self.capacity_bytes() - live),
            ("live_blocks", stats.live_blocks, self.model.live().len() as u64),
            ("spans", stats.spans.into(), self.model.spans().len() as u64),
            (
                "largest_free_bytes()",
                self.range.largest_free_bytes(),
                self.to_bytes(self.model.free().largest()),
            ),
        ];
        for (figure, got, expected) in figures {
            if got != expected {
                return Err(Finding::Books { figure, got, expected });
            }
        }
        if !self.grows && u64::from(stats.nodes) > self.nodes {
            let (got, expected) = (stats.nodes.into(), self.nodes);
            return Err(Finding::Books { figure: "nodes", got, expected });
        }
        Ok(())
    }

    /// Compares `blocks()` piece by piece and calls `verify()`.
    pub(crate) fn go_through(&mut self) -> Result<(), Finding> {
        self.range.verify().map_err(Finding::Verify)?;
        if let Some(twin) = self.twin.as_ref() {
            twin.verify().map_err(Finding::Verify)?;
        }
        let pieces = self.range.blocks();
        let expected = self.expected_pieces();
        let length = pieces.len().max(expected.len());
        for piece in 0..length {
            let (got, expected) = (pieces.get(piece), expected.get(piece));
            if got != expected {
                let (got, expected) = (format!("{got:?}"), format!("{expected:?}"));
                return Err(Finding::Blocks { piece, got, expected });
            }
        }
        for live in self.model.live() {
            let block = self.range.block(live.handle).map_err(Finding::LiveHandle)?;
            self.same_block(block, live)?;
        }
        Ok(())
    }

    fn expected_pieces(&self) -> Vec<Piece> {
        let mut free = self.model.free().pieces.iter().peekable();
        let mut pieces = Vec::new();
        let hole = |hole: &Stretch| Piece::Free {
            offset_bytes: self.to_bytes(hole.start),
            size_bytes: self.to_bytes(hole.granules),
        };
        for live in self.model.live_by_address() {
            while let Some(next) = free.next_if(|hole| hole.start < live.place.start) {
                pieces.push(hole(next));
            }
            // That the handle names this block is compared by query.
            if let Ok(block) = self.range.block(live.handle) {
                pieces.push(Piece::Live(block));
            }
        }
        pieces.extend(free.map(hole));
        pieces
    }

    // ---- the twin ----

    fn follow_allocate(
        &mut self,
        ask: &Ask,
        answer: Result<Block, AllocError>,
    ) -> Result<(), Finding> {
        let Some(twin) = self.twin.as_mut() else { return Ok(()) };
        let other = twin.allocate(ask.request());
        match (answer, other) {
            (Ok(block), Ok(other)) if extent(block) == extent(other) => {
                self.twin_handles.insert(block.handle(), other.handle());
                Ok(())
            }
            (Err(error), Err(other)) if error == other => Ok(()),
            _ => Err(Finding::Twin { range: format!("{answer:?}"), twin: format!("{other:?}") }),
        }
    }

    fn follow_resize(
        &mut self,
        live: &Live,
        size_bytes: u64,
        answer: Result<Block, ResizeError>,
    ) -> Result<(), Finding> {
        let (Some(twin), Some(&handle)) = (self.twin.as_mut(), self.twin_handles.get(&live.handle))
        else {
            return Ok(());
        };
        let other = twin.resize(handle, size_bytes);
        if answer.map(extent) == other.map(extent) {
            return Ok(());
        }
        Err(Finding::Twin { range: format!("{answer:?}"), twin: format!("{other:?}") })
    }

    // ---- small things ----

    fn request(&self, size: Size, align_bytes: u64, options: Options, limit: Size) -> Ask {
        Ask {
            size_bytes: self.bytes(size),
            align_bytes,
            options,
            split_limit_bytes: self.bytes(limit),
        }
    }

    /// A size in bytes; too large a one saturates.
    fn bytes(&self, size: Size) -> u64 {
        match size {
            Size::Bytes(bytes) => bytes,
            Size::Granules(granules) => self.to_bytes(granules.into()),
            Size::JustBelow { granules, less_bytes } => self
                .to_bytes(granules.into())
                .saturating_sub(u64::from(less_bytes) % self.shape.granule_bytes),
            Size::Earlier(pick) => {
                choose(&self.earlier, pick.into()).copied().unwrap_or(self.shape.granule_bytes)
            }
            Size::Hole { pick, plus: by } => {
                let free = self.model.free();
                let count = free.runs.len() + free.buddies.len();
                let index = usize::from(pick) % count.max(1);
                let hole = free.runs.iter().chain(&free.buddies).nth(index);
                self.to_bytes(plus(hole.map_or(1, |hole| hole.granules), by))
            }
            Size::LargestHole { plus: by } => self.to_bytes(plus(self.model.free().largest(), by)),
            Size::Capacity { plus: by } => self.to_bytes(plus(self.model.granules(), by)),
        }
    }

    fn to_bytes(&self, granules: u64) -> u64 {
        granules.saturating_mul(self.shape.granule_bytes)
    }

    fn capacity_bytes(&self) -> u64 {
        self.to_bytes(self.model.granules())
    }

    fn place(&self, block: Block) -> Result<Stretch, Finding> {
        let granule_bytes = self.shape.granule_bytes;
        let place = Stretch {
            start: block.offset_bytes() / granule_bytes,
            granules: block.size_bytes() / granule_bytes,
        };
        let whole = block.offset_bytes().is_multiple_of(granule_bytes)
            && block.size_bytes().is_multiple_of(granule_bytes)
            && place.granules > 0
            && place
                .start
                .checked_add(place.granules)
                .is_some_and(|end| end <= self.model.granules());
        if whole {
            return Ok(place);
        }
        let (offset_bytes, size_bytes) = (block.offset_bytes(), block.size_bytes());
        Err(Finding::OffGranule { offset_bytes, size_bytes })
    }

    fn same_block(&self, block: Block, live: &Live) -> Result<(), Finding> {
        if self.place(block)? == live.place && block.handle() == live.handle {
            return Ok(());
        }
        Err(Finding::WrongBlock { got: format!("{block:?}"), expected: format!("{live:?}") })
    }

    fn verdict(&self, ask: &Ask) -> Verdict {
        if ask.size_bytes == 0 || !ask.align_bytes.is_power_of_two() {
            return Verdict::Invalid;
        }
        let demand = ask.demand(self.shape);
        if demand.granules > self.model.granules() {
            return Verdict::TooLarge;
        }
        Verdict::Judged(demand, self.model.promise(&demand))
    }

    fn pick(&self, pick: u16) -> Option<usize> {
        let count = self.model.live().len();
        (count > 0).then(|| usize::from(pick) % count)
    }

    fn bury(&mut self, handle: Handle) {
        if self.stale.len() == MEMORY {
            self.stale.pop_front();
        }
        self.stale.push_back(handle);
    }

    fn remember(&mut self, size_bytes: u64) {
        if self.earlier.len() == MEMORY {
            self.earlier.pop_front();
        }
        self.earlier.push_back(size_bytes);
    }

    /// Nodes of a lent table that are in no use.
    fn spare_nodes(&self) -> u64 {
        self.nodes.saturating_sub(self.stats.nodes.into())
    }

    /// Whether a call may find too few nodes: a table that grows never does.
    fn may_run_short(&self) -> bool {
        !self.grows && self.spare_nodes() < self.most_new_nodes()
    }

    /// The most nodes that one call can need: under buddy placement one for each split, else one
    /// for the block or span and one for what is left on either side.
    fn most_new_nodes(&self) -> u64 {
        if self.model.is_buddy() { 33 } else { 4 }
    }

    fn listed_spans(&self) -> Vec<Stretch> {
        let granule_bytes = self.shape.granule_bytes;
        self.range
            .spans()
            .into_iter()
            .map(|span| Stretch {
                start: span.offset_bytes / granule_bytes,
                granules: span.size_bytes / granule_bytes,
            })
            .collect()
    }
}

/// A request in bytes.
#[derive(Clone, Copy, Debug)]
struct Ask {
    size_bytes: u64,
    align_bytes: u64,
    options: Options,
    split_limit_bytes: u64,
}

impl Ask {
    fn plain(size_bytes: u64) -> Self {
        Self { size_bytes, align_bytes: 1, options: Options::empty(), split_limit_bytes: 0 }
    }

    fn request(&self) -> Request {
        let request =
            Request::new(self.size_bytes).align_bytes(self.align_bytes).options(self.options);
        if self.options.contains(Options::LIMIT_SPLIT) {
            request.never_split_above(self.split_limit_bytes)
        } else {
            request
        }
    }

    fn demand(&self, shape: &Shape) -> Demand {
        Demand {
            granules: self.size_bytes.div_ceil(shape.granule_bytes),
            align: (self.align_bytes / shape.granule_bytes).max(1),
            options: self.options,
            split_limit: self.split_limit_bytes / shape.granule_bytes,
        }
    }
}

/// What the range owes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// An error about size or alignment.
    Invalid,
    /// The size is over the capacity.
    TooLarge,
    /// As the model judges.
    Judged(Demand, Promise),
}

fn plus(granules: u64, by: i8) -> u64 {
    granules.saturating_add_signed(by.into())
}

fn choose<T>(from: &VecDeque<T>, pick: usize) -> Option<&T> {
    from.get(pick % from.len().max(1))
}

fn extent(block: Block) -> (u64, u64) {
    (block.offset_bytes(), block.size_bytes())
}

fn twin_end(other: Result<u64, EndError>, answer: Result<u64, EndError>) -> Result<(), Finding> {
    if other == answer {
        return Ok(());
    }
    Err(Finding::Twin { range: format!("{answer:?}"), twin: format!("{other:?}") })
}

/// Handles of live blocks of another range, of the same shape but for the seed.
fn strangers(shape: &Shape) -> Vec<Handle> {
    let config = Shape { handle_seed: shape.handle_seed.wrapping_add(1), ..*shape }.config();
    let Ok(mut range) = OffsetAllocator::new(&config) else { return Vec::new() };
    (0..8).filter_map(|_| range.allocate(1).ok()).map(|block| block.handle()).collect()
}
