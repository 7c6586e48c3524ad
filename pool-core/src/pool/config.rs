//! What a pool is to be.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;

use super::budget::{Account, Tenancy};
use super::policy::{Deferred, Growth, Pages, Preallocation, Reclaim, Reuse, Settings};
use super::shortage::Shortage;
use crate::threads::Threads;

/// What is asked of the program when nothing else helps: true if it freed something.
pub type OnShortage = Box<dyn Fn(&Shortage) -> bool + Send + Sync>;

/// A pool's configuration: its [`Settings`], and what is no plain data.
///
/// # Example
///
/// ```
/// use pool_core::PoolConfig;
///
/// let config = PoolConfig::new().initial_bytes(1 << 30).limit_bytes(8 << 30);
/// # let _ = config;
/// ```
pub struct PoolConfig {
    pub(crate) settings: Settings,
    pub(crate) on_shortage: Option<OnShortage>,
    pub(crate) tenancy: Option<Arc<dyn Account>>,
    pub(crate) finds_addresses: bool,
}

impl PoolConfig {
    /// Nothing reserved at the start, no limit, arenas of at least 64 MiB, granules of 256 bytes,
    /// caches of 1 MiB a thread, and a queue of up to 1,024 blocks or 256 MiB.
    #[must_use]
    pub const fn new() -> Self {
        Self::of(Settings::new())
    }

    const fn of(settings: Settings) -> Self {
        Self { settings, on_shortage: None, tenancy: None, finds_addresses: false }
    }

    /// All of it that is plain data.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What the pool takes from the device before anyone asks.
    #[must_use]
    pub fn preallocation(mut self, preallocation: Preallocation) -> Self {
        self.settings.preallocation = preallocation;
        self
    }

    /// Bytes to take from the device when the pool is made, as one arena; at most the limit:
    /// [`Preallocation::Bytes`].
    #[must_use]
    pub fn initial_bytes(self, bytes: u64) -> Self {
        self.preallocation(Preallocation::Bytes(bytes))
    }

    /// Leaves the preallocation to [`warm`](crate::Pool::warm), which takes a part at each call:
    /// for programs that would rather start at once.
    #[must_use]
    pub fn warms_later(mut self, later: bool) -> Self {
        self.settings.warms_later = later;
        self
    }

    /// The most bytes that the pool holds of the device. It counts what the pool has reserved,
    /// not what others in the process have, nor the device's own overhead.
    #[must_use]
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.settings.limit_bytes = Some(bytes);
        self
    }

    /// From so many bytes on that the pool has of the device, memory is short: see
    /// [`Settings::short_from_bytes`].
    #[must_use]
    pub fn short_from_bytes(mut self, bytes: u64) -> Self {
        self.settings.short_from_bytes = Some(bytes);
        self
    }

    /// Which free memory serves a request.
    #[must_use]
    pub fn reuse(mut self, reuse: Reuse) -> Self {
        self.settings.reuse = reuse;
        self
    }

    /// When freed memory is free, and when free memory goes back to the device.
    #[must_use]
    pub fn reclaim(mut self, reclaim: Reclaim) -> Self {
        self.settings.reclaim = reclaim;
        self
    }

    /// When blocks that wait for work of the device are looked after.
    #[must_use]
    pub fn deferred(mut self, deferred: Deferred) -> Self {
        self.settings.reclaim.deferred = deferred;
        self
    }

    /// How the pool grows.
    #[must_use]
    pub fn growth(mut self, growth: Growth) -> Self {
        self.settings.growth = growth;
        self
    }

    /// Has memory come and go in pages, where the device has them.
    #[must_use]
    pub fn pages(mut self, pages: Pages) -> Self {
        self.settings.pages = Some(pages);
        self
    }

    /// The least bytes to take from the device at a time: [`Growth::floor_bytes`]. A larger request
    /// gets an arena of its size; a device that refuses is asked for less.
    #[must_use]
    pub fn arena_bytes(mut self, bytes: u64) -> Self {
        self.settings.growth.floor_bytes = bytes;
        self
    }

    /// The space of offsets in which arenas lie: the most that the pool can ever hold. By default
    /// twice the limit, or twice the device's memory (four times under buddy placement), or 64 GiB.
    /// It costs about 1 byte of the host's memory in 4,096, at once.
    #[must_use]
    pub fn address_bytes(mut self, bytes: u64) -> Self {
        self.settings.address_bytes = Some(bytes);
        self
    }

    /// The unit of offsets and sizes: a power of two from 16 bytes. A device that needs more
    /// ([`Device::granule_bytes`](crate::device::Device::granule_bytes)) has it.
    #[must_use]
    pub fn granule_bytes(mut self, bytes: u64) -> Self {
        self.settings.granule_bytes = bytes;
        self
    }

    /// The most bytes of free blocks that one thread's cache keeps; zero: no caches.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.settings.cache_bytes = bytes;
        self
    }

    /// What to ask before a request is refused: called with no lock held, and again only as long
    /// as it says that it freed something and something was freed.
    #[must_use]
    pub fn on_shortage(
        mut self,
        callback: impl Fn(&Shortage) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.on_shortage = Some(Box::new(callback));
        self
    }

    /// The pool's share of a [budget](crate::budget::Budget) that it has in common with others. One
    /// pool at a time has it.
    #[must_use]
    pub fn tenancy<T: Threads>(mut self, tenancy: &Tenancy<T>) -> Self {
        self.tenancy = Some(tenancy.account());
        self
    }

    /// Whether blocks are found by their [addresses](super::Pool::block_at_address), for programs that
    /// keep no handles: 4 to 8 bytes of the host's memory for each 2 MiB of offsets.
    #[must_use]
    pub fn finds_addresses(mut self, finds: bool) -> Self {
        self.finds_addresses = finds;
        self
    }
}

impl From<Settings> for PoolConfig {
    fn from(settings: Settings) -> Self {
        Self::of(settings)
    }
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolConfig")
            .field("settings", &self.settings)
            .field("on_shortage", &self.on_shortage.is_some())
            .field("tenancy", &self.tenancy.as_ref().map(|account| account.stats()))
            .field("finds_addresses", &self.finds_addresses)
            .finish()
    }
}
