//! Threads that start at once, and the time until the last of them ends.

use core::time::Duration;
use std::{
    panic,
    sync::Barrier,
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

/// What all threads did, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// From the start of the first thread, when all are ready, to the end of the last one.
    pub elapsed: Duration,
    /// Allocations and frees that were done.
    pub operations: u64,
    /// Requests that were refused. They count as no operations, nor do their blocks' frees.
    pub refused: u64,
}

impl Pass {
    /// Operations a second, all threads together.
    ///
    /// ```
    /// use core::time::Duration;
    /// use peers::crowd::Pass;
    ///
    /// let pass = Pass { elapsed: Duration::from_millis(2), operations: 4000, refused: 0 };
    /// assert_eq!(pass.operations_a_second(), 2e6);
    /// ```
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a rate is read to a few digits")]
    pub fn operations_a_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// What one thread did, and when.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    start: Instant,
    end: Instant,
    operations: u64,
    refused: u64,
}

/// The line that all threads wait at until all are ready.
#[derive(Debug)]
pub struct Line<'a>(&'a Barrier);

impl Line<'_> {
    /// Waits for the other threads, then works, timed. `work` says how many requests were
    /// refused. Of the `operations` that it does if none are, a refused request costs two: itself
    /// and the free of its block.
    pub fn lap(&self, operations: u64, work: impl FnOnce() -> u64) -> Lap {
        self.0.wait();
        let start = Instant::now();
        let refused = work();
        let end = Instant::now();
        let operations = operations.saturating_sub(refused.saturating_mul(2));
        Lap { start, end, operations, refused }
    }
}

/// Runs a thread for each part. Each prepares what it needs, does one lap and tidies up; only the
/// laps count. Returns when all threads are gone, with what they keep in thread-locals.
///
/// ```
/// use peers::crowd::together;
///
/// let pass = together(["a", "b"], |name, line| {
///     let prepared = name.repeat(3);
///     line.lap(100, || (prepared == "bbb").into())
/// });
/// assert_eq!((pass.operations, pass.refused), (198, 1));
/// ```
///
/// # Panics
///
/// If a thread did.
pub fn together<P: Send>(
    parts: impl IntoIterator<Item = P>,
    work: impl Fn(P, &Line<'_>) -> Lap + Sync,
) -> Pass {
    let parts: Vec<P> = parts.into_iter().collect();
    let barrier = Barrier::new(parts.len());
    let (work, barrier) = (&work, &barrier);
    let laps: Vec<Lap> = thread::scope(|scope| {
        let threads: Vec<_> =
            parts.into_iter().map(|part| scope.spawn(move || work(part, &Line(barrier)))).collect();
        // The end of the scope would not wait for the threads' thread-locals; a join does.
        threads.into_iter().map(finished).collect()
    });
    let start = laps.iter().map(|lap| lap.start).min();
    let end = laps.iter().map(|lap| lap.end).max();
    Pass {
        elapsed: start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start),
        operations: laps.iter().map(|lap| lap.operations).sum(),
        refused: laps.iter().map(|lap| lap.refused).sum(),
    }
}

fn finished<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| panic::resume_unwind(panic))
}
