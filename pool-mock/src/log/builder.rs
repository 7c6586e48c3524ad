//! From recorded events to a trace: which pointer is which block, and what to do where
//! a file cannot be right.
//!
//! The order of the file is the order of the trace, but where two lines were written in
//! the wrong order and their times prove it ([`puzzle`](super::puzzle)). Otherwise an
//! allocation of a live pointer frees its old block on the spot, and a free of an unknown
//! pointer is an operation of its own. Each case is counted in the report.

use std::collections::HashMap;

use super::{
    details::{Details, LeftOut},
    error::LogError,
    labels::{LabelId, Labels},
    locations::Locations,
    numbers::Numbers,
    puzzle::{DAY_US, Kind, Puzzle, Puzzles},
    recording::{Keep, Recording},
    report::{Location, Oddity, Report},
    trace::{Action, BlockId, Operation, StreamId, ThreadId, Trace},
};

/// The most operations, and blocks: a block's upper bit is needed while reading.
const MAX_OPERATIONS: u32 = (1 << 31) - 1;

/// Marks, while reading, the number of a block that was live at the start: those are
/// found only later, yet come first in the trace.
const AT_START: u32 = 1 << 31;

/// What the events are read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A CSV log: complete from its start, but its lines may be out of order; its
    /// clock has no date.
    Rows,
    /// A snapshot: in order, but the ring buffer may have lost the first events.
    Snapshot,
}

/// One event of a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Its line, or its number in the snapshot's list.
    pub(super) place: u64,
    pub(super) time_us: Option<u64>,
    pub(super) thread: u64,
    pub(super) stream: u64,
    /// The address; with a snapshot's failure, how much of the device was free.
    pub(super) pointer: u64,
    pub(super) size_bytes: u64,
    /// Whose it is; only allocations and failures have one.
    pub(super) label: Option<LabelId>,
}

/// What is known of a pointer.
#[derive(Clone, Copy, Debug)]
enum Pointer {
    /// Live, handed out by this operation.
    Live(u32),
    /// Live, but of no bytes, which makes no operation.
    LiveEmpty,
    /// Seen, and not live. Kept only for snapshots.
    Freed,
}

/// Makes a trace, event by event. Holds the operations and the live pointers (of a
/// snapshot: every pointer seen), labels and details if there are any, and nothing else that
/// grows.
pub(super) struct Builder {
    source: Source,
    operations: Vec<Operation>,
    blocks: u32,
    /// The blocks live at the start, as their allocations.
    start: Vec<(u64, StreamId)>,
    pointers: HashMap<u64, Pointer>,
    streams: Numbers,
    threads: Numbers,
    puzzles: Puzzles,
    last_time_us: Option<u64>,
    /// An allocation was put in before others, so blocks are not in order of it.
    reordered: bool,
    report: Report,
    locations: Locations,
    labels: Labels,
    details: Details,
    left_out: LeftOut,
}

impl Builder {
    pub(super) fn new(source: Source, keep: Keep) -> Self {
        Self {
            source,
            operations: Vec::new(),
            blocks: 0,
            start: Vec::new(),
            pointers: HashMap::new(),
            streams: Numbers::default(),
            threads: Numbers::default(),
            puzzles: Puzzles::default(),
            last_time_us: None,
            reordered: false,
            report: Report::default(),
            locations: Locations::new(match source {
                Source::Rows => Location::Line,
                Source::Snapshot => Location::Event,
            }),
            labels: Labels::default(),
            details: Details::new(keep),
            left_out: LeftOut::default(),
        }
    }

    /// The number of a label; `None` if there are too many.
    pub(super) fn label(&mut self, text: &str) -> Option<LabelId> {
        self.labels.number(text)
    }

    /// What is passed over by whoever reads the log.
    pub(super) fn left_out(&mut self) -> &mut LeftOut {
        &mut self.left_out
    }

    pub(super) fn note(&mut self, oddity: Oddity, location: Location) {
        self.report.add(oddity, location);
    }

    pub(super) fn allocate(&mut self, event: &Event) -> Result<(), LogError> {
        self.begin(event);
        self.begin_block(event, true)
    }

    pub(super) fn reallocate(&mut self, event: &Event) -> Result<(), LogError> {
        self.begin(event);
        self.note_at(Oddity::Reallocation, event);
        self.begin_block(event, false)
    }

    pub(super) fn fail(&mut self, event: &Event) -> Result<(), LogError> {
        self.begin(event);
        self.push(event, Action::Failure { size_bytes: event.size_bytes })
    }

    pub(super) fn free(&mut self, event: &Event) -> Result<(), LogError> {
        self.begin(event);
        if event.pointer == 0 && event.size_bytes == 0 {
            return Ok(());
        }
        let late =
            self.puzzles.solve(event.pointer, event.time_us, |kind| matches!(kind, Kind::Freed));
        if late.is_some() {
            self.note_at(Oddity::LateFree, event);
            return Ok(());
        }
        match self.take(event.pointer) {
            Some(Pointer::Live(index)) => self.free_block(event, index),
            Some(Pointer::LiveEmpty) => Ok(()),
            None if self.may_be_of_before(event) => {
                self.note_at(Oddity::UnknownFree, event);
                self.note_at(Oddity::LiveAtStart, event);
                let stream = StreamId(self.streams.number(event.stream));
                let block = self.block_at_start(event, stream)?;
                self.push(event, Action::Free { block })
            }
            Some(Pointer::Freed) => {
                self.note_at(Oddity::UnknownFree, event);
                self.push(event, Action::UnknownFree)
            }
            None => {
                let index = self.operations.len();
                self.push(event, Action::UnknownFree)?;
                // Not past u32, or the push had failed.
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                self.puzzle(Kind::Unknown(index), event);
                Ok(())
            }
        }
    }

    /// Whether the pointer was handed out and not freed.
    pub(super) fn is_live(&self, pointer: u64) -> bool {
        !matches!(self.pointers.get(&pointer), None | Some(Pointer::Freed))
    }

    /// Whether no event named the pointer.
    pub(super) fn is_new(&self, pointer: u64) -> bool {
        !self.pointers.contains_key(&pointer)
    }

    /// Takes a pointer for freed whose block was gone before the recording began.
    pub(super) fn freed_before(&mut self, pointer: u64) {
        self.pointers.insert(pointer, Pointer::Freed);
    }

    /// Takes note of a block that is live at the end of a snapshot.
    pub(super) fn live_at_end(
        &mut self,
        event: &Event,
        location: Location,
    ) -> Result<(), LogError> {
        match self.pointers.get(&event.pointer) {
            Some(Pointer::Freed) => self.note(Oddity::Contradiction, location),
            Some(Pointer::Live(_) | Pointer::LiveEmpty) => {}
            None if event.size_bytes == 0 => self.note(Oddity::ZeroSize, location),
            None if event.pointer == 0 => self.note(Oddity::NullAllocation, location),
            None => {
                self.note(Oddity::LiveAtStart, location);
                let stream = StreamId(self.streams.number(event.stream));
                self.threads.number(event.thread);
                self.block_at_start(event, stream)?;
                self.pointers.insert(event.pointer, Pointer::LiveEmpty);
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Recording {
        while let Some(puzzle) = self.puzzles.take_oldest() {
            self.give_up(puzzle);
        }
        // Their memory is better used for what follows.
        self.pointers = HashMap::new();
        if self.reordered || !self.start.is_empty() {
            self.put_in_order();
        }
        let trace = Trace {
            // Each part is within the limit, which leaves room for the sum.
            blocks: self.blocks + count(&self.start),
            live_at_start: count(&self.start),
            operations: self.operations,
            streams: self.streams.raw,
            threads: self.threads.raw,
            report: self.report,
            locations: self.locations,
            labels: self.labels,
        };
        Recording { trace, details: self.details, left_out: self.left_out, source: self.source }
    }

    fn begin_block(&mut self, event: &Event, fresh: bool) -> Result<(), LogError> {
        if event.size_bytes == 0 {
            self.note_at(Oddity::ZeroSize, event);
        }
        if event.pointer == 0 {
            if event.size_bytes == 0 {
                return Ok(());
            }
            self.note_at(Oddity::NullAllocation, event);
            return self.push(event, Action::Failure { size_bytes: event.size_bytes });
        }
        let late = match event.size_bytes {
            0 => None,
            _ => self
                .puzzles
                .solve(event.pointer, event.time_us, |kind| matches!(kind, Kind::Unknown(_))),
        };
        // If a still later line explained one of these, two blocks of the pointer would be
        // live between.
        while let Some(puzzle) = self.puzzles.take_unknown(event.pointer) {
            self.give_up(puzzle);
        }
        if let Some(Puzzle { kind: Kind::Unknown(index), .. }) = late {
            return self.allocate_late(event, index);
        }
        match self.take(event.pointer) {
            Some(Pointer::Live(index)) => {
                let Some(block) = self.block_of(index) else { return Ok(()) };
                self.push(event, Action::Free { block })?;
                if fresh {
                    self.puzzle(Kind::Freed, event);
                }
            }
            Some(Pointer::LiveEmpty) if fresh => self.note_at(Oddity::ImplicitFree, event),
            Some(Pointer::LiveEmpty | Pointer::Freed) | None => {}
        }
        if event.size_bytes == 0 {
            self.pointers.insert(event.pointer, Pointer::LiveEmpty);
            return Ok(());
        }
        let index = self.operations.len();
        let block = self.new_block(event)?;
        self.push(event, Action::Allocate { block, size_bytes: event.size_bytes })?;
        // Not past u32, or the push had failed.
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.pointers.insert(event.pointer, Pointer::Live(index));
        Ok(())
    }

    /// Puts an allocation where its free (operation `index`) is, and the free here.
    fn allocate_late(&mut self, event: &Event, index: u32) -> Result<(), LogError> {
        self.note_at(Oddity::LateAllocation, event);
        let block = self.new_block(event)?;
        let allocation =
            self.operation(event, Action::Allocate { block, size_bytes: event.size_bytes });
        let Some(place) = self.operations.get_mut(index as usize) else { return Ok(()) };
        let free = Operation { action: Action::Free { block }, ..*place };
        *place = allocation;
        self.reordered = true;
        let last = self.operations.len();
        self.push_operation(event, free)?;
        self.details.exchange(index as usize, last);
        Ok(())
    }

    /// Whether an unknown pointer can be of a block that was live before the recording.
    fn may_be_of_before(&self, event: &Event) -> bool {
        self.source == Source::Snapshot && event.size_bytes != 0 && event.pointer != 0
    }

    fn free_block(&mut self, event: &Event, index: u32) -> Result<(), LogError> {
        let Some(Operation { action: Action::Allocate { block, size_bytes }, .. }) =
            self.operations.get(index as usize).copied()
        else {
            return Ok(());
        };
        // The oldest form writes no size with a free.
        if event.size_bytes != 0 && event.size_bytes != size_bytes {
            self.note_at(Oddity::SizeMismatch, event);
        }
        self.push(event, Action::Free { block })
    }

    fn block_of(&self, index: u32) -> Option<BlockId> {
        match self.operations.get(index as usize)?.action {
            Action::Allocate { block, .. } => Some(block),
            _ => None,
        }
    }

    /// Takes the pointer out of those that are live; gives what it was.
    fn take(&mut self, pointer: u64) -> Option<Pointer> {
        match self.source {
            Source::Rows => self.pointers.remove(&pointer),
            Source::Snapshot => self.pointers.insert(pointer, Pointer::Freed),
        }
    }

    fn new_block(&mut self, event: &Event) -> Result<BlockId, LogError> {
        if self.blocks >= MAX_OPERATIONS {
            return Err(self.too_many(event));
        }
        let block = BlockId(self.blocks);
        self.blocks += 1;
        Ok(block)
    }

    fn block_at_start(&mut self, event: &Event, stream: StreamId) -> Result<BlockId, LogError> {
        let number = count(&self.start);
        if number >= MAX_OPERATIONS {
            return Err(self.too_many(event));
        }
        self.labels.push_first(self.start.len(), event.label);
        self.details.push_first(event.pointer);
        self.start.push((event.size_bytes, stream));
        Ok(BlockId(AT_START | number))
    }

    fn operation(&mut self, event: &Event, action: Action) -> Operation {
        let thread = ThreadId(self.threads.number(event.thread));
        let stream = StreamId(self.streams.number(event.stream));
        Operation { thread, stream, action }
    }

    fn push(&mut self, event: &Event, action: Action) -> Result<(), LogError> {
        let operation = self.operation(event, action);
        self.push_operation(event, operation)
    }

    fn push_operation(&mut self, event: &Event, operation: Operation) -> Result<(), LogError> {
        if self.operations.len() >= MAX_OPERATIONS as usize {
            return Err(self.too_many(event));
        }
        self.labels.push(self.operations.len(), event.label);
        self.details.push(event, operation.action);
        self.operations.push(operation);
        self.locations.push(event.place);
        Ok(())
    }

    fn too_many(&self, event: &Event) -> LogError {
        let at = self.locations.location(event.place);
        LogError::TooManyOperations { limit: MAX_OPERATIONS, at }
    }

    fn note_at(&mut self, oddity: Oddity, event: &Event) {
        self.report.add(oddity, self.locations.location(event.place));
    }

    /// What every event does: the clock, and an end to puzzles too old to be solved.
    fn begin(&mut self, event: &Event) {
        self.puzzles.count_event();
        if let Some(time_us) = event.time_us {
            let back_us = self.last_time_us.and_then(|last_us| last_us.checked_sub(time_us));
            match back_us {
                None | Some(0) => {}
                Some(back_us) if self.source == Source::Rows && back_us > DAY_US / 2 => {
                    self.note_at(Oddity::MidnightWrap, event);
                    self.details.pass_midnight();
                }
                Some(_) => self.note_at(Oddity::ClockBack, event),
            }
            self.last_time_us = Some(time_us);
        }
        while let Some(puzzle) = self.puzzles.expired() {
            self.give_up(puzzle);
        }
    }

    fn puzzle(&mut self, kind: Kind, event: &Event) {
        let Event { pointer, time_us, place, .. } = *event;
        let puzzle = Puzzle { kind, pointer, time_us, place };
        match self.source {
            Source::Rows => self.puzzles.add(puzzle),
            // Its order is sure.
            Source::Snapshot => self.give_up(puzzle),
        }
    }

    fn give_up(&mut self, puzzle: Puzzle) {
        let oddity = match puzzle.kind {
            Kind::Freed => Oddity::ImplicitFree,
            Kind::Unknown(_) => Oddity::UnknownFree,
        };
        self.report.add(oddity, self.locations.location(puzzle.place));
    }

    /// Puts the blocks live at the start first, and numbers all blocks by the order of
    /// their allocations.
    fn put_in_order(&mut self) {
        let starts = count(&self.start);
        let thread = ThreadId(0);
        let first = self.start.iter().zip(0..).map(|(&(size_bytes, stream), number)| {
            let action = Action::Allocate { block: BlockId(AT_START | number), size_bytes };
            Operation { thread, stream, action }
        });
        // Exact, for this may be the moment of the most memory.
        self.operations.reserve_exact(self.start.len());
        self.operations.splice(0..0, first);
        self.labels.put_in_order(self.start.len());
        self.details.put_in_order();
        let mut numbers = vec![0; self.blocks as usize];
        let mut next = starts;
        for operation in &mut self.operations {
            let (block, is_new) = match &mut operation.action {
                Action::Allocate { block, .. } => (block, true),
                Action::Free { block } => (block, false),
                Action::Failure { .. } | Action::UnknownFree => continue,
            };
            if block.0 & AT_START != 0 {
                block.0 ^= AT_START;
            } else if let Some(number) = numbers.get_mut(block.0 as usize) {
                if is_new {
                    *number = next;
                    next += 1;
                }
                block.0 = *number;
            }
        }
    }
}

fn count<T>(items: &[T]) -> u32 {
    // The limit of operations keeps every list below it.
    u32::try_from(items.len()).unwrap_or(u32::MAX)
}
