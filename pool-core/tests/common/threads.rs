//! Threads that start together, for the tests of several kinds.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Where threads wait for each other, so that what follows happens at once.
#[derive(Debug)]
pub(crate) struct Gate {
    missing: AtomicUsize,
}

impl Gate {
    pub(crate) fn new(threads: usize) -> Self {
        Self { missing: AtomicUsize::new(threads) }
    }

    pub(crate) fn wait(&self) {
        self.missing.fetch_sub(1, Ordering::AcqRel);
        while self.missing.load(Ordering::Acquire) > 0 {
            thread::yield_now();
        }
    }
}

/// Runs `work` on so many threads that start together, and waits for their ends.
pub(crate) fn on_threads<R: Send>(threads: usize, work: impl Fn(usize) -> R + Sync) -> Vec<R> {
    let gate = Gate::new(threads);
    let (gate, work) = (&gate, &work);
    thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    gate.wait();
                    work(number)
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
