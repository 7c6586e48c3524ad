//! Counters for people to read.

#[cfg(not(any(loom, shuttle)))]
use super as plain;
#[cfg(any(loom, shuttle))]
use core::sync::atomic as plain;

use plain::AtomicU64;
use plain::Ordering::Relaxed;

/// A number that one thread at a time counts up and any thread reads.
///
/// No decision rests on it, so a model checker is not shown it: each of its steps would double
/// what there is to explore.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Counts up. Only one thread may at a time: this is no atomic addition.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(more), Relaxed);
    }

    /// Counts up, by any thread.
    pub(crate) fn add_shared(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Raises it to a value, by any thread.
    pub(crate) fn raise_to(&self, value: u64) {
        self.0.fetch_max(value, Relaxed);
    }

    /// Sets it.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// What it is.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
