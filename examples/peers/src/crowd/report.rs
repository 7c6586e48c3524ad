//! What a run found, as rows for programs and as tables for people.

use comfy_table::Table;
use pool_core::Work;
use serde::Serialize;

use super::{Contestant, Outcome};
use crate::table::{self, figure};

/// One contestant in one mix on so many threads.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What the threads did.
    pub mix: String,
    /// How many there were.
    pub threads: u32,
    /// The contestant's name.
    pub allocator: &'static str,
    /// Operations a second in millions, all threads together.
    pub mops: f64,
    /// Nanoseconds that a thread took for an operation. With more threads than cores it includes
    /// the time in which the thread did not run.
    pub ns_per_operation: f64,
    /// Allocations and frees that were done.
    pub operations: u64,
    /// Requests that were refused: work that is not done.
    pub refused: u64,
    /// Of pool-core's, which layer did the work.
    pub work: Option<Shares>,
}

/// Which layer did the work, for each operation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shares {
    /// Operations that a cache did alone, in hundredths.
    pub in_cache_percent: f64,
    /// Magazines that went from cache to cache, for a thousand operations.
    pub magazines: f64,
    /// Locks taken, for a thousand operations.
    pub locks: f64,
    /// Locks that were held by another thread, for a thousand operations.
    pub lock_waits: f64,
    /// Atomic steps that were tried again, for a thousand operations.
    pub retries: f64,
    /// Times that all shards were merged, in all.
    pub recalls: u64,
    /// Times that all caches were emptied, in all.
    pub flushes: u64,
}

impl Shares {
    #[expect(clippy::cast_precision_loss, reason = "shares are read to a few digits")]
    fn new(work: &Work) -> Option<Self> {
        let operations = work.operations as f64;
        let per_mille = |count: u64| count as f64 * 1e3 / operations;
        (work.operations > 0).then(|| Self {
            in_cache_percent: per_mille(work.in_cache) / 10.0,
            magazines: per_mille(work.magazines),
            locks: per_mille(work.locks),
            lock_waits: per_mille(work.lock_waits),
            retries: per_mille(work.retries),
            recalls: work.recalls,
            flushes: work.flushes,
        })
    }
}

impl Row {
    /// What a contestant did.
    #[must_use]
    pub fn new(mix: &str, threads: u32, contestant: Contestant, outcome: &Outcome) -> Self {
        let pass = &outcome.pass;
        let speed = pass.operations_a_second();
        Self {
            mix: mix.to_owned(),
            threads,
            allocator: contestant.name(),
            mops: speed / 1e6,
            ns_per_operation: f64::from(threads) * 1e9 / speed,
            operations: pass.operations,
            refused: pass.refused,
            work: outcome.work.as_ref().and_then(Shares::new),
        }
    }
}

/// Speeds, and the ratios that count: over mimalloc and over private work on as many threads, and
/// over the same contestant on two.
#[must_use]
pub fn speeds(rows: &[Row]) -> Table {
    let header = [
        "mix",
        "allocator",
        "threads",
        "million operations\na second",
        "ns an operation\na thread",
        "refused",
        "time over\nmimalloc",
        "speed over\nprivate work",
        "speed over\n2 threads",
    ];
    let mut table = table::new(&header, 2);
    for row in rows {
        let beside = |threads, allocator| {
            let mut rows = rows.iter().filter(|other| other.mix == row.mix);
            rows.find(|other| other.threads == threads && other.allocator == allocator)
        };
        let mimalloc = beside(row.threads, Contestant::MiMalloc.name());
        let private = beside(row.threads, Contestant::Private.name());
        let two = beside(2, row.allocator);
        table.add_row([
            row.mix.clone(),
            row.allocator.to_owned(),
            row.threads.to_string(),
            figure(Some(row.mops), 1),
            figure(Some(row.ns_per_operation), 1),
            row.refused.to_string(),
            figure(mimalloc.map(|mimalloc| mimalloc.mops / row.mops), 2),
            figure(private.map(|private| row.mops / private.mops), 2),
            figure(two.map(|two| row.mops / two.mops), 2),
        ]);
    }
    table
}

/// Which layer of pool-core did the work.
#[must_use]
pub fn work(rows: &[Row]) -> Table {
    let header = [
        "mix",
        "allocator",
        "threads",
        "in cache\n%",
        "of 1,000 operations:\nmagazines",
        "locks",
        "lock\nwaits",
        "retries",
        "in all:\nrecalls",
        "flushes",
    ];
    let mut table = table::new(&header, 2);
    for row in rows {
        let Some(work) = &row.work else { continue };
        table.add_row([
            row.mix.clone(),
            row.allocator.to_owned(),
            row.threads.to_string(),
            figure(Some(work.in_cache_percent), 2),
            figure(Some(work.magazines), 2),
            figure(Some(work.locks), 2),
            figure(Some(work.lock_waits), 3),
            figure(Some(work.retries), 3),
            work.recalls.to_string(),
            work.flushes.to_string(),
        ]);
    }
    table
}
