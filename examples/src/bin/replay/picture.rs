//! A replay as a report to look at.

use core::error::Error;
use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    path::{Path, PathBuf},
};

use pool_core::{Device, OffsetAllocator, Pool, PoolStats};
use pool_mock::{
    Trace,
    log::Action,
    replay::{Deed, Pooled, Program, Sight, observe},
};
use pool_report::{Event, Figure, History, Kind, LabelId, Policy, StreamId, Unit};

use crate::{
    job::{Job, JobError},
    machine::Machine,
    options::Options,
    pool::{PoolJob, pool},
    row,
};

/// Whom each block of a program is for, and which requests failed when it was recorded.
struct Cast {
    /// Of each request: stream and label.
    requests: Vec<(StreamId, LabelId)>,
    /// Before which call, and what was asked on which stream; the last first.
    failures: Vec<(usize, u64, StreamId)>,
}

impl Cast {
    /// Of a program, whose trace is there unless it was generated.
    fn new(program: &Program, trace: Option<&Trace>, history: &mut History) -> Self {
        let mut name = |stream: u32| {
            let handle = trace.and_then(|trace| trace.streams().get(stream as usize));
            match handle {
                Some(handle) => history.stream(&format!("stream {stream} (0x{handle:x})")),
                None => history.stream(&format!("stream {stream}")),
            }
        };
        let streams: Vec<_> = (0..program.streams()).map(&mut name).collect();
        let requests = program.calls().iter().filter_map(|call| match call.deed {
            Deed::Allocate { stream, .. } => Some((streams[stream as usize], LabelId::default())),
            _ => None,
        });
        let mut cast = Self { requests: requests.collect(), failures: Vec::new() };
        let mut calls = 0;
        for operation in trace.iter().flat_map(|trace| &trace.operations) {
            match operation.action {
                Action::Allocate { .. } | Action::Free { .. } => calls += 1,
                Action::Failure { size_bytes } => {
                    let stream = streams.get(operation.stream.0 as usize).copied();
                    cast.failures.push((calls, size_bytes, stream.unwrap_or_default()));
                }
                Action::UnknownFree => {}
            }
        }
        cast.failures.reverse();
        cast
    }

    fn of(&self, request: u32) -> (StreamId, LabelId) {
        self.requests.get(request as usize).copied().unwrap_or_default()
    }

    /// Adds what the recorded program was refused before a call.
    fn tell_failures(&mut self, call: usize, history: &mut History) {
        while let Some((_, bytes, stream)) = self.failures.pop_if(|failure| failure.0 <= call) {
            history.push(Event::new(call as u64, Kind::Failure).at(0, bytes).on(stream));
        }
    }
}

impl Job<'_> {
    /// Replays once more, and writes what there was to see.
    pub(crate) fn picture(&self, out: &Path) -> Result<(), Box<dyn Error>> {
        let title = format!("{}, {}", name_of(self.path), row::name(self.placement));
        let mut history = History::new(title).source(format!(
            "replay of {} on one range; reserved is what its blocks have touched",
            self.path.display()
        ));
        let program = Program::of(self.trace);
        let mut cast = Cast::new(&program, Some(self.trace), &mut history);
        let capacity_bytes = self.capacity_bytes(pool_mock::replay::roomy_capacity(self.script));
        let mut range = OffsetAllocator::new(&self.range_config(capacity_bytes, self.script))
            .map_err(JobError::Config)?;
        observe(self.script, &mut range, &mut |call: usize, sight| {
            cast.tell_failures(call, &mut history);
            tell(&mut history, &cast, call as u64, sight, Kind::Free);
        });
        cast.tell_failures(usize::MAX, &mut history);
        range.verify().map_err(JobError::Damaged)?;
        write(&history, out)
    }
}

impl PoolJob {
    /// Replays once more on a pool, with work, and writes what there was to see.
    pub(crate) fn picture<M: Machine>(
        &self,
        machine: &M,
        options: &Options,
        out: &Path,
    ) -> Result<(), Box<dyn Error>> {
        let mut history = History::new(format!("{}, on a pool", name_of(Path::new(&self.path))))
            .source(format!("replay of {} on a pool", self.path));
        let mut cast = Cast::new(&self.all, self.trace.as_ref(), &mut history);
        let pool = pool(machine.working(0, self.most_bytes(options)), options, None)?;
        let mut pooled = Pooled::<_, M::Work>::working(&pool, &self.all)?;
        let mut books = Books::default();
        let failures = pooled.observe(&mut |call: usize, sight| {
            cast.tell_failures(call, &mut history);
            books.follow(&pool, options.pages, call as u64, sight, &mut history);
            tell(&mut history, &cast, call as u64, sight, Kind::FreeAsked);
            books.settle(&pool, call as u64, sight, &mut history);
        })?;
        cast.tell_failures(usize::MAX, &mut history);
        figures(&pool.stats(), books.requests, failures, &mut history);
        write(&history, out)
    }
}

/// What a sight is in a history.
fn tell(history: &mut History, cast: &Cast, time: u64, sight: Sight, free: Kind) {
    match sight {
        Sight::Allocated { request, offset_bytes, size_bytes } => {
            let (stream, label) = cast.of(request);
            let event = Event::new(time, Kind::Allocate).at(offset_bytes, size_bytes);
            history.push(event.on(stream).under(label));
        }
        Sight::Freed { request, offset_bytes } => {
            let (stream, label) = cast.of(request);
            history.push(Event::new(time, free).at(offset_bytes, 0).on(stream).under(label));
        }
        Sight::Refused { request, size_bytes } => {
            let (stream, label) = cast.of(request);
            let event = Event::new(time, Kind::Failure).at(0, size_bytes);
            history.push(event.on(stream).under(label));
        }
        Sight::Other => {}
    }
}

/// What can be seen of a pool from outside: its arenas by the blocks in them, and what it defers by
/// its books.
#[derive(Debug, Default)]
struct Books {
    requests: u64,
    /// Where arenas begin that a block was seen in, and their sizes.
    arenas: BTreeMap<u64, u64>,
    /// Freed blocks that may wait, in the order of their frees, with their sizes.
    waiting: VecDeque<(u64, u64)>,
    waiting_bytes: u64,
    live: BTreeMap<u64, u64>,
}

impl Books {
    /// Before a call is told: the arena of a new block, and what no longer waits there.
    fn follow<D: Device>(
        &mut self,
        pool: &Pool<D>,
        is_paged: bool,
        time: u64,
        sight: Sight,
        history: &mut History,
    ) {
        let Sight::Allocated { offset_bytes, size_bytes, .. } = sight else { return };
        self.requests += 1;
        self.live.insert(offset_bytes, size_bytes);
        // Memory that waited for its own stream is its own again.
        let end_bytes = offset_bytes + size_bytes;
        self.waiting.retain(|(offset, size)| {
            let is_taken = *offset < end_bytes && offset_bytes < offset + size;
            if is_taken {
                history.push(Event::new(time, Kind::FreeDone).at(*offset, 0));
                self.waiting_bytes -= size;
            }
            !is_taken
        });
        // Pages come and go where no call tells: what blocks touch is what is shown.
        if is_paged {
            return;
        }
        let Some(handle) = pool.block_at(offset_bytes) else { return };
        let Ok(place) = pool.location(handle) else { return };
        let (start, bytes) = (offset_bytes - place.offset_bytes, place.arena.size_bytes());
        if self.arenas.insert(start, bytes) != Some(bytes) {
            history.push(Event::new(time, Kind::Growth).at(start, bytes));
        }
    }

    /// After a call was told: blocks that wait no longer, and arenas that went back.
    fn settle<D: Device>(
        &mut self,
        pool: &Pool<D>,
        time: u64,
        sight: Sight,
        history: &mut History,
    ) {
        if let Sight::Freed { offset_bytes, .. } = sight {
            let size_bytes = self.live.remove(&offset_bytes).unwrap_or(0);
            self.waiting.push_back((offset_bytes, size_bytes));
            self.waiting_bytes += size_bytes;
        }
        if self.waiting.is_empty() {
            return;
        }
        let deferred_bytes = pool.stats().deferred_bytes;
        while self.waiting_bytes > deferred_bytes {
            let Some((offset_bytes, size_bytes)) = self.waiting.pop_front() else { break };
            self.waiting_bytes -= size_bytes;
            history.push(Event::new(time, Kind::FreeDone).at(offset_bytes, 0));
        }
    }
}

/// What a pool counted.
fn figures(stats: &PoolStats, requests: u64, failures: u64, history: &mut History) {
    let hits = requests.saturating_sub(stats.growths + stats.steals + stats.calls.host_waits);
    let share = row::ratio(hits, requests).unwrap_or(0.0);
    let mut add = |policy, name: &str, value: u64, unit| {
        // To look at, so the digits of a float are enough.
        #[expect(clippy::cast_precision_loss, reason = "to look at")]
        history.figure(Figure::new(policy, name, value as f64, unit));
    };
    add(Policy::Preallocation, "taken at the start", stats.initial_bytes, Unit::Bytes);
    add(Policy::Reuse, "requests", requests, Unit::Count);
    add(Policy::Reuse, "refused", failures, Unit::Count);
    add(Policy::Reuse, "taken from another stream", stats.steals, Unit::Count);
    add(Policy::Reuse, "fences recorded", stats.calls.records, Unit::Count);
    add(Policy::Reuse, "waits of a stream", stats.calls.device_waits, Unit::Count);
    add(Policy::Reuse, "waits of the host", stats.calls.host_waits, Unit::Count);
    add(Policy::Reclaim, "arenas given back", stats.calls.frees, Unit::Count);
    add(Policy::Reclaim, "deferred at the end", stats.deferred_bytes, Unit::Bytes);
    add(Policy::Growth, "growths", stats.growths, Unit::Count);
    add(Policy::Growth, "ahead of need", stats.growths_ahead, Unit::Count);
    add(Policy::Growth, "grown by", stats.growth_bytes, Unit::Bytes);
    add(Policy::Growth, "pages moved", stats.moved_pages, Unit::Count);
    add(Policy::Growth, "peak reserved", stats.peak_reserved_bytes, Unit::Bytes);
    history.figure(Figure::new(Policy::Reuse, "served from free memory", share, Unit::Share));
}

fn write(history: &History, out: &Path) -> Result<(), Box<dyn Error>> {
    let file = File::create(out).map_err(|source| PictureError { path: out.to_owned(), source })?;
    pool_report::write(history, std::io::BufWriter::new(file))
        .map_err(|source| PictureError { path: out.to_owned(), source })?;
    Ok(())
}

/// The report cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report {}: {source}", path.display())]
struct PictureError {
    path: PathBuf,
    source: std::io::Error,
}

/// A log's name without folders and endings: `gpt2_train`.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let end = name.find('.').filter(|end| *end > 0).unwrap_or(name.len());
    name[..end].to_owned()
}
