//! A replay as a report to look at.

mod cast;

use core::error::Error;
use std::{
    fs::File,
    io::{self, BufWriter},
    path::{Path, PathBuf},
};

use pool_core::{Device, OffsetAllocator, Pool, PoolStats};
use pool_mock::replay::{Pooled, Program, Sight, observe, roomy_capacity};
use pool_report::{Event, Figure, History, Kind, Policy, Unit};

use self::cast::Cast;
use crate::{
    books::Books,
    job::{Job, JobError},
    machine::Machine,
    options::Options,
    pool::{PoolJob, pool},
    row,
};

/// Said of a pool in pages.
const PAGED: &str = " in pages; reserved is what its blocks have touched";

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
        let capacity_bytes = self.capacity_bytes(roomy_capacity(self.script));
        let mut range = OffsetAllocator::new(&self.range_config(capacity_bytes, self.script))
            .map_err(JobError::Config)?;
        let (mut requests, mut end_bytes) = (0, 0);
        let failures = observe(self.script, &mut range, &mut |call: usize, sight| {
            cast.tell_failures(call, &mut history);
            if let Sight::Allocated { offset_bytes, size_bytes, .. } = sight {
                end_bytes = end_bytes.max(offset_bytes + size_bytes);
            }
            requests += u64::from(matches!(sight, Sight::Allocated { .. } | Sight::Refused { .. }));
            cast.tell(call as u64, sight, Kind::Free, &mut history);
        });
        cast.tell_failures(usize::MAX, &mut history);
        range.verify().map_err(JobError::Damaged)?;
        history.arena("range", 0, end_bytes);
        let mut add = |name: &str, value: u64, unit| {
            history.figure(Figure::new(Policy::Reuse, name, to_look_at(value), unit));
        };
        add("requests", requests, Unit::Count);
        add("refused", failures, Unit::Count);
        add("highest end of a block", end_bytes, Unit::Bytes);
        let over_live = row::ratio(end_bytes, self.script.peak_live_bytes()).unwrap_or(1.0);
        history.figure(Figure::new(Policy::Reuse, "over peak live", over_live, Unit::Times));
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
            .source(format!(
                "replay of {} on a pool{}",
                self.path,
                if options.pages { PAGED } else { "" }
            ));
        let mut cast = Cast::new(&self.all, self.trace.as_ref(), &mut history);
        let pool = pool(machine.working(0, self.most_bytes(options)), options, None)?;
        let mut pooled = Pooled::<_, M::Work>::working(&pool, &self.all)?;
        let mut books = Books::default();
        let failures = pooled.observe(&mut |call: usize, sight| {
            cast.tell_failures(call, &mut history);
            tell(&mut books, &pool, call as u64, sight, &cast, &mut history);
        })?;
        cast.tell_failures(usize::MAX, &mut history);
        figures(&pool.stats(), books.requests, failures, &mut history);
        write(&history, out)
    }
}

/// Adds what a call of a pool did: a free is told as asked for, unless it was done at once.
fn tell<D: Device>(
    books: &mut Books,
    pool: &Pool<D>,
    time: u64,
    sight: Sight,
    cast: &Cast,
    history: &mut History,
) {
    let mut news = books.see(pool, sight);
    if let Some((start, bytes)) = news.growth {
        history.push(Event::new(time, Kind::Growth).at(start, bytes));
    }
    let mut free = Kind::Free;
    if let Sight::Freed { offset_bytes, .. } = sight {
        let others = news.done.len();
        news.done.retain(|done| *done != offset_bytes);
        if news.done.len() == others {
            free = Kind::FreeAsked;
        }
    }
    cast.tell(time, sight, free, history);
    for offset_bytes in news.done {
        history.push(Event::new(time, Kind::FreeDone).at(offset_bytes, 0));
    }
}

/// What a pool counted.
fn figures(stats: &PoolStats, requests: u64, failures: u64, history: &mut History) {
    let hits = requests.saturating_sub(stats.growths + stats.steals + stats.calls.host_waits);
    let share = row::ratio(hits, requests).unwrap_or(0.0);
    let mut add = |policy, name: &str, value: u64, unit| {
        history.figure(Figure::new(policy, name, to_look_at(value), unit));
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

#[expect(clippy::cast_precision_loss, reason = "a figure is read to a few digits")]
fn to_look_at(value: u64) -> f64 {
    value as f64
}

fn write(history: &History, out: &Path) -> Result<(), Box<dyn Error>> {
    let file = File::create(out).map_err(|source| PictureError { path: out.to_owned(), source })?;
    pool_report::write(history, BufWriter::new(file))
        .map_err(|source| PictureError { path: out.to_owned(), source })?;
    Ok(())
}

/// The report cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the report {}: {source}", path.display())]
struct PictureError {
    path: PathBuf,
    source: io::Error,
}

/// A log's name without folders and endings: `gpt2_train`.
pub(crate) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let end = name.find('.').filter(|end| *end > 0).unwrap_or(name.len());
    name[..end].to_owned()
}
