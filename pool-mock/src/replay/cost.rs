//! What a pass on a pool cost.

use pool_core::pool::{DeviceCalls, PoolStats};

/// What a pass cost: the pool's own calls of the device, and what else it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls of the device.
    pub calls: DeviceCalls,
    /// Stretches that moved from stream to stream.
    pub steals: u64,
    /// Arenas that were added.
    pub growths: u64,
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
        Self {
            calls,
            steals: after.steals - before.steals,
            growths: after.growths - before.growths,
        }
    }

    /// Waits of streams and of the host.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.calls.device_waits + self.calls.host_waits
    }
}
