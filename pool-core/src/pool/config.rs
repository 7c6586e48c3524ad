//! What a pool is to be.

use alloc::boxed::Box;
use core::fmt;

use super::error::Shortage;

/// When blocks that wait for work of the device are looked after.
///
/// # Example
///
/// ```
/// use pool_core::{Deferred, PoolConfig};
///
/// let eager = PoolConfig::new().deferred(Deferred::AtOnce);
/// let lazy = PoolConfig::new().deferred(Deferred::Queue { blocks: 10_000, bytes: 1 << 30 });
/// # let _ = (eager, lazy);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deferred {
    /// Fences are recorded at each free that has to wait, and polled then. Memory comes back
    /// soonest; each such free costs device calls.
    AtOnce,
    /// Blocks wait in a queue, and one fence a stream serves many. It is drained when so many were put
    /// into it since the last time, when memory is short, at a [`tick`](crate::Pool::tick), and on
    /// [request](crate::Pool::reclaim).
    Queue {
        /// The most blocks.
        blocks: u32,
        /// The most bytes.
        bytes: u64,
    },
}

/// What is asked of the program when nothing else helps: true if it freed something.
pub type OnShortage = Box<dyn Fn(&Shortage) -> bool + Send + Sync>;

/// A pool's configuration.
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
    pub(crate) initial_bytes: u64,
    pub(crate) limit_bytes: Option<u64>,
    pub(crate) arena_bytes: u64,
    pub(crate) address_bytes: Option<u64>,
    pub(crate) granule_bytes: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) deferred: Deferred,
    pub(crate) on_shortage: Option<OnShortage>,
}

impl PoolConfig {
    /// Nothing reserved at the start, no limit, arenas of at least 64 MiB, granules of 256 bytes,
    /// caches of 1 MiB a thread, and a queue of up to 1,024 blocks or 256 MiB.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            initial_bytes: 0,
            limit_bytes: None,
            arena_bytes: 64 << 20,
            address_bytes: None,
            granule_bytes: 256,
            cache_bytes: 1 << 20,
            deferred: Deferred::Queue { blocks: 1024, bytes: 256 << 20 },
            on_shortage: None,
        }
    }

    /// Bytes to take from the device when the pool is made, as one arena; at most the limit.
    #[must_use]
    pub fn initial_bytes(mut self, bytes: u64) -> Self {
        self.initial_bytes = bytes;
        self
    }

    /// The most bytes that the pool holds of the device. It counts what the pool has reserved,
    /// not what others in the process have, nor the device's own overhead.
    #[must_use]
    pub fn limit_bytes(mut self, bytes: u64) -> Self {
        self.limit_bytes = Some(bytes);
        self
    }

    /// The least bytes to take from the device at a time. A larger request gets an arena of its
    /// size; a device that refuses is asked for less.
    #[must_use]
    pub fn arena_bytes(mut self, bytes: u64) -> Self {
        self.arena_bytes = bytes;
        self
    }

    /// The space of offsets in which arenas lie: the most that the pool can ever hold. By default
    /// twice the limit, or twice the device's memory, or 64 GiB. It costs about 1 byte of the
    /// host's memory in 4,096, at once.
    #[must_use]
    pub fn address_bytes(mut self, bytes: u64) -> Self {
        self.address_bytes = Some(bytes);
        self
    }

    /// The unit of offsets and sizes: a power of two from 16 bytes.
    #[must_use]
    pub fn granule_bytes(mut self, bytes: u64) -> Self {
        self.granule_bytes = bytes;
        self
    }

    /// The most bytes of free blocks that one thread's cache keeps; zero: no caches.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// When blocks that wait for work of the device are looked after.
    #[must_use]
    pub fn deferred(mut self, deferred: Deferred) -> Self {
        self.deferred = deferred;
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
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for PoolConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolConfig")
            .field("initial_bytes", &self.initial_bytes)
            .field("limit_bytes", &self.limit_bytes)
            .field("arena_bytes", &self.arena_bytes)
            .field("address_bytes", &self.address_bytes)
            .field("granule_bytes", &self.granule_bytes)
            .field("cache_bytes", &self.cache_bytes)
            .field("deferred", &self.deferred)
            .field("on_shortage", &self.on_shortage.is_some())
            .finish()
    }
}
