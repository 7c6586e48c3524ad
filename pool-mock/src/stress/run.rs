//! A stress run from its start to its end.

use std::thread;
use std::time::Instant;

use pool_core::SharedAllocator;

use super::finding::Finding;
use super::outcome::{Outcome, Tally};
use super::plan::Plan;
use super::worker::{Floor, Worker};

/// Lets the threads of a plan work, and looks at what they leave behind.
///
/// # Errors
///
/// The first [`Finding`], after all threads have ended.
///
/// # Panics
///
/// If a thread panics, and if the system has no more threads.
///
/// # Example
///
/// ```
/// use pool_core::RangeConfig;
/// use pool_mock::stress::{Plan, run};
///
/// let plan = Plan { threads: 2, allocations: 500, ..Plan::new(RangeConfig::new(16 << 20)) };
/// let outcome = run(&plan)?;
/// assert_eq!(outcome.tally.allocations, 1000);
/// assert_eq!(outcome.stats.live_bytes, 0);
/// # Ok::<(), pool_mock::stress::Finding>(())
/// ```
pub fn run(plan: &Plan) -> Result<Outcome, Finding> {
    let shared = SharedAllocator::new(plan.shared)?;
    let floor = Floor::new(plan, &shared);
    let start = Instant::now();
    let tally = let_work(&floor, plan.threads)?;
    let elapsed = start.elapsed();
    let stats = shared.stats();
    check_end(&shared, &tally)?;
    Ok(Outcome { elapsed, tally, stats })
}

fn let_work(floor: &Floor<'_>, threads: u32) -> Result<Tally, Finding> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .zip(0..)
            .map(|(number, mailbox)| {
                scope.spawn(move || Worker::new(floor, number, mailbox).work())
            })
            .collect();
        // All are joined, also after a finding: only then have their caches gone back.
        let ends: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let mut sum = Tally::default();
        for end in ends {
            sum.add(&end.expect("a thread of the run panicked")?);
        }
        Ok(sum)
    })
}

/// Everything was freed: nothing is live, nothing is kept once flushed, and the range is whole.
fn check_end(shared: &SharedAllocator, tally: &Tally) -> Result<(), Finding> {
    let books = |figure, got, expected| {
        if got == expected { Ok(()) } else { Err(Finding::Books { figure, got, expected }) }
    };
    books("blocks freed", tally.frees, tally.allocations)?;
    shared.flush();
    shared.verify()?;
    let stats = shared.stats();
    let capacity_bytes = shared.capacity_bytes();
    books("live_bytes", stats.live_bytes, 0)?;
    books("live_blocks", stats.live_blocks, 0)?;
    books("cached_bytes", stats.cached_bytes, 0)?;
    books("cached_blocks", stats.cached_blocks, 0)?;
    books("free_bytes", stats.free_bytes, capacity_bytes)?;
    books("largest_free_bytes", shared.largest_free_bytes(), capacity_bytes)?;
    books("work.operations", stats.work.operations, tally.operations())?;
    let whole = shared.allocate(capacity_bytes).map_err(Finding::WholeRange)?;
    shared.free(whole.handle()).map_err(Finding::Live)?;
    shared.verify()?;
    Ok(())
}
