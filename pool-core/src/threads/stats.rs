//! The books of a shared allocator.

use super::SharedAllocator;
use super::inner::Inner;
use super::platform::Threads;
use super::stock::{Counts, Large};
use crate::sync::Lock;

/// The books of a shared allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SharedStats {
    /// Bytes that the range manages.
    pub capacity_bytes: u64,
    /// Bytes of blocks that the program holds, each at its usable size.
    pub live_bytes: u64,
    /// The highest that live and cached bytes together have been: what a range would have
    /// needed. In one shard exact; in several, up to 1 MiB a shard below the truth.
    pub peak_live_bytes: u64,
    /// Bytes of free blocks in caches and on their way between them.
    pub cached_bytes: u64,
    /// Bytes of free blocks in the range and its shards.
    pub free_bytes: u64,
    /// Blocks that the program holds.
    pub live_blocks: u64,
    /// Free blocks in caches and on their way between them.
    pub cached_blocks: u64,
    /// What was done where.
    pub work: Work,
}

/// Which layer did the work, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Work {
    /// Requests served and blocks freed.
    pub operations: u64,
    /// Of these, those that a cache did alone.
    pub in_cache: u64,
    /// Magazines that went from cache to cache.
    pub magazines: u64,
    /// Locks taken at the centre.
    pub locks: u64,
    /// Of these, those that were held by another thread.
    pub lock_waits: u64,
    /// Atomic steps that another thread got in before, and were tried again.
    pub retries: u64,
    /// Times that all shards were merged to serve a request.
    pub recalls: u64,
    /// Times that all caches were emptied to serve a request.
    pub flushes: u64,
}

/// How often the caches are read at most, for two readings between which nothing was done.
const READINGS: u32 = 4;

/// Sums over all caches, the present and the past.
#[derive(Default, PartialEq)]
struct Totals {
    allocated: u64,
    allocated_bytes: u64,
    freed: u64,
    freed_bytes: u64,
    missed: u64,
    large: u64,
    magazines: u64,
}

impl Totals {
    fn of<T: Threads>(inner: &Inner<T>) -> Self {
        let mut totals = Self::default();
        let stocks = inner.stocks.lock();
        for stock in stocks.iter() {
            totals.add(inner, &stock.counts);
        }
        totals.add(inner, &inner.retired);
        totals.add_large(&inner.loose);
        totals
    }

    fn add<T: Threads>(&mut self, inner: &Inner<T>, counts: &Counts) {
        for class in 0..inner.classes.count() {
            let bytes = inner.classes.bytes(class);
            // Frees first: a block that is freed between the two looks is not counted twice.
            let (freed, allocated) = (counts.freed[class].get(), counts.allocated[class].get());
            self.freed += freed;
            self.freed_bytes += freed * bytes;
            self.allocated += allocated;
            self.allocated_bytes += allocated * bytes;
        }
        self.missed += counts.missed.get();
        self.magazines += counts.magazines.get();
        self.add_large(&counts.large);
    }

    fn add_large(&mut self, large: &Large) {
        self.large += large.freed.get() + large.allocated.get();
        self.freed += large.freed.get();
        self.freed_bytes += large.freed_bytes.get();
        self.allocated += large.allocated.get();
        self.allocated_bytes += large.allocated_bytes.get();
    }
}

impl<T: Threads> SharedAllocator<T> {
    /// The books. When no other thread works they are exact, but for the peak, as it says. While
    /// others do, caches and shards are read at different moments: the call looks a few times for
    /// a moment in which nothing is done, and what it returns in the end is off by no more than
    /// what was done and in flight during its last reading.
    ///
    /// # Complexity
    ///
    /// Linear in caches and shards, each of which is locked for a moment.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate(1 << 20)?;
    /// let stats = shared.stats();
    /// assert_eq!((stats.live_blocks, stats.live_bytes), (1, 1 << 20));
    /// assert_eq!(
    ///     stats.live_bytes + stats.cached_bytes + stats.free_bytes,
    ///     stats.capacity_bytes,
    /// );
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> SharedStats {
        let inner = self.inner();
        let mut totals = Totals::of(inner);
        let mut centre = inner.centre.totals();
        for _ in 1..READINGS {
            let again = Totals::of(inner);
            if again == totals {
                break;
            }
            totals = again;
            centre = inner.centre.totals();
        }
        let shape = inner.shape();
        let capacity_bytes = self.capacity_bytes();
        let used_bytes = shape.bytes(centre.used_granules);
        // Another thread may have freed what was allocated before the look at its cache.
        let live_bytes = totals.allocated_bytes.saturating_sub(totals.freed_bytes).min(used_bytes);
        let live_blocks = totals.allocated.saturating_sub(totals.freed).min(centre.used_blocks);
        let operations = totals.allocated + totals.freed;
        SharedStats {
            capacity_bytes,
            live_bytes,
            peak_live_bytes: shape.bytes(centre.peak_granules),
            cached_bytes: used_bytes - live_bytes,
            free_bytes: capacity_bytes - used_bytes.min(capacity_bytes),
            live_blocks,
            cached_blocks: centre.used_blocks - live_blocks,
            work: Work {
                operations,
                in_cache: operations.saturating_sub(totals.large + totals.missed),
                magazines: totals.magazines,
                locks: centre.locks,
                lock_waits: centre.waits,
                retries: inner.depot.retries(),
                recalls: centre.recalls,
                flushes: inner.flushes.get(),
            },
        }
    }

    /// Starts the peak anew from what is in use now. Nothing else changes.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// shared.free(shared.allocate(1 << 20)?.handle())?;
    /// assert_eq!(shared.stats().peak_live_bytes, 1 << 20);
    /// shared.reset_peak();
    /// assert_eq!(shared.stats().peak_live_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn reset_peak(&self) {
        self.inner().centre.reset_peak();
    }
}
