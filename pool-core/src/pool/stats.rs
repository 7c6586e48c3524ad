//! The books of a pool, for people to read.

use core::time::Duration;

use super::Pool;
use super::advice::Kept;
use super::inner::Inner;
use crate::device::Device;
use crate::sync::Counter;
use crate::threads::{SharedStats, Threads};

/// Calls of the device, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DeviceCalls {
    /// Fences recorded.
    pub records: u64,
    /// Fences asked whether they are done.
    pub queries: u64,
    /// Waits of a stream for a fence.
    pub device_waits: u64,
    /// Waits of the host.
    pub host_waits: u64,
    /// Arenas asked for, with success or not.
    pub allocations: u64,
    /// Arenas to be made longer, with success or not.
    pub extensions: u64,
    /// Arenas given back, with success or not.
    pub frees: u64,
    /// Copies of blocks that were moved, with success or not.
    pub copies: u64,
    /// Handles of pages that were made, with success or not.
    pub creations: u64,
    /// Handles of pages that were given back.
    pub destructions: u64,
    /// Rows of pages that were mapped, with success or not.
    pub commits: u64,
    /// Handles of pages that were unmapped, with success or not.
    pub decommits: u64,
}

impl DeviceCalls {
    /// All calls.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.records
            + self.queries
            + self.device_waits
            + self.host_waits
            + self.allocations
            + self.extensions
            + self.frees
            + self.copies
            + self.creations
            + self.destructions
            + self.commits
            + self.decommits
    }
}

/// How long blocks waited from their free until they were free, where there is a clock or
/// [`tick_at`](Pool::tick_at) was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Latency {
    /// Parcels of blocks that waited together.
    pub parcels: u64,
    /// The sum of their waits.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

/// The books of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct PoolStats {
    /// Held by the program.
    pub live_bytes: u64,
    /// Blocks held by the program.
    pub live_blocks: u64,
    /// The most that was in use at once, caches and what was deferred included.
    pub peak_bytes: u64,
    /// In caches of threads, and on shelves.
    pub cached_bytes: u64,
    /// On shelves, of [these](Self::cached_bytes): freed under an affinity.
    pub shelved_bytes: u64,
    /// Freed, and waiting for work of the device or for a graph.
    pub deferred_bytes: u64,
    /// Blocks that wait.
    pub deferred_blocks: u64,
    /// Of the deferred bytes, those that [rest](super::policy::CoolDown): their own stream does not
    /// get them either.
    pub resting_bytes: u64,
    /// Free in arenas.
    pub free_bytes: u64,
    /// Taken from the device.
    pub reserved_bytes: u64,
    /// The most that was taken from the device at once.
    pub peak_reserved_bytes: u64,
    /// The most that may be taken; `None`: as much as there is.
    pub limit_bytes: Option<u64>,
    /// Arenas.
    pub arenas: u64,
    /// Streams that the pool knows.
    pub streams: u64,
    /// Calls of the device.
    pub calls: DeviceCalls,
    /// Stretches that went from one stream to another behind a fence.
    pub steals: u64,
    /// Requests that were served from a shelf.
    pub shelf_hits: u64,
    /// Taken from the device before anyone asked.
    pub initial_bytes: u64,
    /// Times that the pool grew after the start.
    pub growths: u64,
    /// Of these, before the memory was needed.
    pub growths_ahead: u64,
    /// How often blocks were moved together for a request.
    pub migrations: u64,
    /// Bytes of blocks that were moved.
    pub migrated_bytes: u64,
    /// Pages that were taken from where they held no block, and serve elsewhere.
    pub moved_pages: u64,
    /// How long requests had memory put behind addresses, the device's calls and waits included; zero
    /// on a device without a clock.
    pub paging_time: Duration,
    /// By how many bytes.
    pub growth_bytes: u64,
    /// How long the device took for that; zero on one without a clock.
    pub growth_time: Duration,
    /// From free to reuse, of blocks that had to wait.
    pub latency: Latency,
    /// What the layer of threads did.
    pub shared: SharedStats,
}

/// What is counted off the way of a hit.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) records: Counter,
    pub(super) queries: Counter,
    pub(super) device_waits: Counter,
    pub(super) host_waits: Counter,
    pub(super) allocations: Counter,
    pub(super) extensions: Counter,
    pub(super) frees: Counter,
    pub(super) steals: Counter,
    pub(super) shelf_hits: Counter,
    pub(super) growths: Counter,
    pub(super) growths_ahead: Counter,
    pub(super) copies: Counter,
    pub(super) creations: Counter,
    pub(super) destructions: Counter,
    pub(super) commits: Counter,
    pub(super) decommits: Counter,
    pub(super) moved_pages: Counter,
    pub(super) paging_nanoseconds: Counter,
    pub(super) migrations: Counter,
    pub(super) migrated_bytes: Counter,
    pub(super) kept: Kept,
    /// Nanoseconds of the last tick, plus one; zero: there was none.
    tick: Counter,
    parcels: Counter,
    waited: Counter,
    longest: Counter,
}

impl Counters {
    pub(super) fn set_tick(&self, now: Duration) {
        self.tick.raise_to(nanoseconds(now).saturating_add(1));
    }

    /// The time of the last tick.
    pub(super) fn last_tick(&self) -> Option<Duration> {
        self.tick.get().checked_sub(1).map(Duration::from_nanos)
    }

    /// A parcel's blocks are free.
    pub(super) fn note_reclaim(&self, since: Option<Duration>, now: Option<Duration>) {
        self.parcels.add_shared(1);
        if let (Some(since), Some(now)) = (since, now) {
            let waited = nanoseconds(now.saturating_sub(since));
            self.waited.add_shared(waited);
            self.longest.raise_to(waited);
        }
    }
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<D: Device, T: Threads> Inner<D, T> {
    pub(super) fn stats(&self) -> PoolStats {
        let shared = self.shared.stats();
        let counters = &self.counters;
        let (deferred, resting_bytes, reserved, arenas, streams, in_transit) =
            self.with_books(|books| {
                let reserved = (books.reserved_bytes, books.peak_reserved_bytes);
                let counts = (books.arenas.len() as u64, books.streams.len() as u64);
                let resting = books.resting_bytes;
                (books.deferred(), resting, reserved, counts.0, counts.1, books.in_transit_bytes)
            });
        let (shelved_bytes, limit_bytes) =
            self.with_books(|books| (books.shelves.size_bytes(), books.limit_bytes));
        let (deferred_blocks, deferred_bytes) = deferred;
        let cached_bytes = shared.cached_bytes.saturating_sub(deferred_bytes);
        let used_bytes = shared.live_bytes + cached_bytes + deferred_bytes + in_transit;
        PoolStats {
            live_bytes: shared.live_bytes,
            live_blocks: shared.live_blocks,
            peak_bytes: shared.peak_live_bytes,
            cached_bytes,
            shelved_bytes,
            deferred_bytes,
            deferred_blocks,
            resting_bytes,
            free_bytes: reserved.0.saturating_sub(used_bytes) + in_transit,
            reserved_bytes: reserved.0,
            peak_reserved_bytes: reserved.1,
            limit_bytes,
            arenas,
            streams,
            calls: DeviceCalls {
                records: counters.records.get(),
                queries: counters.queries.get(),
                device_waits: counters.device_waits.get(),
                host_waits: counters.host_waits.get(),
                allocations: counters.allocations.get(),
                extensions: counters.extensions.get(),
                frees: counters.frees.get(),
                copies: counters.copies.get(),
                creations: counters.creations.get(),
                destructions: counters.destructions.get(),
                commits: counters.commits.get(),
                decommits: counters.decommits.get(),
            },
            moved_pages: counters.moved_pages.get(),
            paging_time: Duration::from_nanos(counters.paging_nanoseconds.get()),
            steals: counters.steals.get(),
            initial_bytes: counters.kept.initial_bytes.get(),
            shelf_hits: counters.shelf_hits.get(),
            growths: counters.growths.get(),
            growths_ahead: counters.growths_ahead.get(),
            migrations: counters.migrations.get(),
            migrated_bytes: counters.migrated_bytes.get(),
            growth_bytes: counters.kept.growth_bytes.get(),
            growth_time: Duration::from_nanos(counters.kept.growth_nanoseconds.get()),
            latency: Latency {
                parcels: counters.parcels.get(),
                total: Duration::from_nanos(counters.waited.get()),
                longest: Duration::from_nanos(counters.longest.get()),
            },
            shared,
        }
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// The books. Exact when no other thread works; else off by what is in flight.
    ///
    /// # Complexity
    ///
    /// Linear in caches and spaces, each of which is locked for a moment.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(1 << 20)?;
    /// assert_eq!(pool.stats().live_bytes, 1 << 20);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.inner().stats()
    }

    /// Starts the peaks anew from what is in use now. Nothing else changes.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.free(pool.allocate(1 << 20)?.handle())?;
    /// pool.reset_peak();
    /// assert_eq!(pool.stats().peak_reserved_bytes, pool.stats().reserved_bytes);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn reset_peak(&self) {
        let inner = self.inner();
        inner.shared.reset_peak();
        inner.counters.kept.reset_peaks();
        inner.tags.reset_peaks();
        #[cfg(feature = "record")]
        if let Some(recorder) = inner.recorder() {
            recorder.reset_peaks();
        }
        inner.with_books(|books| books.peak_reserved_bytes = books.reserved_bytes);
    }
}
