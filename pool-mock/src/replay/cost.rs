//! What a pass on a pool cost.

use core::time::Duration;

use pool_core::pool::{DeviceCalls, PoolStats};

/// What a pass cost: the pool's own calls of the device, and what else it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls of the device.
    pub calls: DeviceCalls,
    /// Stretches that moved from stream to stream.
    pub steals: u64,
    /// Times that the pool took more of the device.
    pub growths: u64,
    /// Pages that were moved.
    pub moved_pages: u64,
    /// The time that it took to have memory put behind addresses, as far as the device has a clock.
    pub paging_time: Duration,
}

impl Cost {
    /// What was done between two looks at the pool's books.
    #[must_use]
    pub fn between(before: &PoolStats, after: &PoolStats) -> Self {
        let (from, to) = (&before.calls, &after.calls);
        let mut calls = DeviceCalls::default();
        calls.records = to.records - from.records;
        calls.queries = to.queries - from.queries;
        calls.device_waits = to.device_waits - from.device_waits;
        calls.host_waits = to.host_waits - from.host_waits;
        calls.allocations = to.allocations - from.allocations;
        calls.frees = to.frees - from.frees;
        calls.creations = to.creations - from.creations;
        calls.destructions = to.destructions - from.destructions;
        calls.commits = to.commits - from.commits;
        calls.decommits = to.decommits - from.decommits;
        Self {
            calls,
            steals: after.steals - before.steals,
            growths: after.growths - before.growths,
            moved_pages: after.moved_pages - before.moved_pages,
            paging_time: after.paging_time.saturating_sub(before.paging_time),
        }
    }

    /// Nanoseconds for pages, over so many operations.
    #[must_use]
    pub fn paging_ns(&self, operations: usize) -> f64 {
        let operations = u32::try_from(operations.max(1)).unwrap_or(u32::MAX);
        self.paging_time.as_secs_f64() * 1e9 / f64::from(operations)
    }

    /// Waits of streams and of the host.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.calls.device_waits + self.calls.host_waits
    }
}
