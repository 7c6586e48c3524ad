//! What a stress run is to do.

use pool_core::SharedConfig;

/// Whose caches the threads go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caches {
    /// What the allocator does by itself: with pool-core's feature `std` a cache for each thread.
    #[default]
    ByItself,
    /// A [`Cache`](pool_core::Cache) that each thread makes and drops.
    Explicit,
}

/// What a stress run is to do.
///
/// # Example
///
/// ```
/// use pool_core::RangeConfig;
/// use pool_mock::stress::{Caches, Plan};
///
/// let shared = RangeConfig::new(64 << 20);
/// let plan = Plan { threads: 8, caches: Caches::Explicit, ..Plan::new(shared) };
/// assert_eq!(plan.threads, 8);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What is shared.
    pub shared: SharedConfig,
    /// How many threads there are.
    pub threads: u32,
    /// How many blocks each thread gets (and as many are freed).
    pub allocations: u64,
    /// Two runs of one seed ask for the same sizes; who is first differs.
    pub seed: u64,
    /// The most blocks that a thread holds.
    pub live_blocks: usize,
    /// The largest size asked for; most are of at most 16 KiB.
    pub largest_bytes: u64,
    /// How many owner numbers the blocks are for, the clean one among them; at least 1.
    pub owners: u32,
    /// Whose caches the threads go through.
    pub caches: Caches,
    /// Whether the map of granules is kept. Without it the time is the allocator's and the
    /// threads' own, and only the end is checked.
    pub shadow: bool,
}

impl Plan {
    /// Four threads, each with 10,000 allocations of up to 1 MiB, at most 64 of them live.
    #[must_use]
    pub fn new(shared: impl Into<SharedConfig>) -> Self {
        Self {
            shared: shared.into(),
            threads: 4,
            allocations: 10_000,
            seed: 0,
            live_blocks: 64,
            largest_bytes: 1 << 20,
            owners: 1,
            caches: Caches::ByItself,
            shadow: true,
        }
    }
}
