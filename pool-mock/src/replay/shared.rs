//! A cache of pool-core's shared allocator as a subject of replays.

use pool_core::{Cache, Handle, SharedAllocator};

use super::placer::{Extent, Locate, Placer};

/// A [`Cache`] of a shared allocator, which a [`Script`](super::Script) can be replayed on.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator};
/// use pool_mock::{Trace, replay::{Cached, Script, survey}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0\nallocate,0xb0,3000,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let shared = SharedAllocator::new(RangeConfig::new(1 << 20))?;
/// let seen = survey(&script, &mut Cached::new(&shared));
/// assert_eq!(seen.failures, 0);
/// assert_eq!(shared.stats().live_blocks, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Cached {
    cache: Cache,
    /// Says where a block lies; a cache does not.
    shared: SharedAllocator,
    granule_bytes: u64,
}

impl Cached {
    /// A cache of its own on the shard that the allocator gives it.
    #[must_use]
    pub fn new(shared: &SharedAllocator) -> Self {
        let granule_bytes = shared.granule_bytes();
        Self { cache: shared.cache(), shared: shared.clone(), granule_bytes }
    }

    /// A cache of its own for each of several copies of a program. Copy `i` works on shard
    /// `i % shards`, also where nobody contends for a lock: so what a replay needs does not
    /// depend on when its threads run.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{RangeConfig, SharedAllocator, SharedConfig};
    /// use pool_mock::replay::Cached;
    ///
    /// let shared = SharedAllocator::new(SharedConfig::new(RangeConfig::new(1 << 30)).shards(2))?;
    /// assert_eq!(Cached::copies(&shared, 3, 2).len(), 3);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn copies(shared: &SharedAllocator, copies: u32, shards: u32) -> Vec<Self> {
        let on_shard = |copy: u32| {
            let mut cached = Self::new(shared);
            cached.cache.use_shard(copy % shards.max(1));
            cached
        };
        (0..copies).map(on_shard).collect()
    }
}

impl Placer for Cached {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        // A size past `u64::MAX` is past every range.
        let size_bytes = granules.saturating_mul(self.granule_bytes);
        self.cache.allocate(size_bytes).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        let freed = self.cache.free(block);
        debug_assert!(freed.is_ok(), "{block:?} was live: {freed:?}");
    }
}

impl Locate for Cached {
    fn locate(&self, block: &Handle) -> Extent {
        // A dead handle lies nowhere.
        self.shared.block(*block).map_or(Extent::default(), |block| Extent {
            offset_granules: block.offset_bytes() / self.granule_bytes,
            granules: block.size_bytes() / self.granule_bytes,
        })
    }
}
