//! The books of a shared allocator.

use alloc::vec::Vec;

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

/// What the caches did with the requests of one size class, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClassUse {
    /// Bytes of a block of the class.
    pub size_bytes: u64,
    /// Requests served and blocks freed.
    pub operations: u64,
    /// Of these, those that a cache did not do alone.
    pub missed: u64,
}

impl ClassUse {
    /// The part that a cache did alone, in thousandths; all of nothing.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::ClassUse;
    ///
    /// assert_eq!(ClassUse::default().hits_per_mille(), 1000);
    /// ```
    #[must_use]
    pub fn hits_per_mille(&self) -> u64 {
        let hits = u128::from(self.operations.saturating_sub(self.missed));
        let hits = (hits * 1000).checked_div(self.operations.into());
        hits.and_then(|hits| u64::try_from(hits).ok()).unwrap_or(1000)
    }
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
            self.missed += counts.missed[class].get();
        }
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

    /// What the caches did with the requests of each size class that they keep, the smallest
    /// first. Requests that no cache serves are in none.
    ///
    /// # Complexity
    ///
    /// Linear in caches and classes, under one lock that no operation takes.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// for _ in 0..100 {
    ///     shared.free(shared.allocate(4096)?.handle())?;
    /// }
    /// let of_4_kib = shared.classes().into_iter().find(|class| class.size_bytes == 4096);
    /// assert!(of_4_kib.is_some_and(|class| class.hits_per_mille() > 950));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn classes(&self) -> Vec<ClassUse> {
        let inner = self.inner();
        let stocks = inner.stocks.lock();
        let all = || stocks.iter().map(|stock| &stock.counts).chain([&inner.retired]);
        let sum = |of: &dyn Fn(&Counts) -> u64| all().map(of).fold(0, u64::wrapping_add);
        (0..inner.classes.count())
            .map(|class| ClassUse {
                size_bytes: inner.classes.bytes(class),
                operations: sum(&|counts| {
                    counts.allocated[class].get() + counts.freed[class].get()
                }),
                missed: sum(&|counts| counts.missed[class].get()),
            })
            .collect()
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
