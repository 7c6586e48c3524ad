//! What a shared allocator is to be.

use crate::range::RangeConfig;

/// A range to be shared by threads: its configuration, shards and caches.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator, SharedConfig};
///
/// let config = SharedConfig::new(RangeConfig::new(24 << 30)).shards(4).cache_bytes(256 << 10);
/// let shared = SharedAllocator::new(config)?;
/// # let _ = shared;
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedConfig {
    pub(crate) range: RangeConfig,
    pub(crate) shards: u32,
    pub(crate) cache_bytes: u64,
}

impl SharedConfig {
    /// A range under a configuration, in up to 16 shards, with caches of up to 1 MiB a thread.
    #[must_use]
    pub const fn new(range: RangeConfig) -> Self {
        Self { range, shards: 16, cache_bytes: 1 << 20 }
    }

    /// The most parts that the range is worked on in at once (1 to 64; other numbers count as the
    /// nearest). Small ranges, and those of first fit and buddy, have one. A program of one thread
    /// uses one; a further thread gets its own when it has to wait.
    #[must_use]
    pub const fn shards(mut self, shards: u32) -> Self {
        self.shards = shards;
        self
    }

    /// The most bytes of free blocks that one cache keeps; zero: no caches.
    #[must_use]
    pub const fn cache_bytes(mut self, cache_bytes: u64) -> Self {
        self.cache_bytes = cache_bytes;
        self
    }
}

impl From<RangeConfig> for SharedConfig {
    fn from(range: RangeConfig) -> Self {
        Self::new(range)
    }
}
