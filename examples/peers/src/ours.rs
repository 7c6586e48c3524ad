//! The ranges and shared allocators of pool-core that take part.

use pool_core::{
    Cache, Chunked, ConfigError, Handle, OffsetAllocator, Placement, RangeConfig, SharedAllocator,
    SharedConfig,
};
use pool_mock::replay::{Cached, Lockstep, Placer, Script, smallest_capacity};

/// The granule of every measurement.
pub const GRANULE_BYTES: u64 = 256;

/// The placements, with the names that the output gives them; the default first.
pub const PLACEMENTS: [(Placement, &str); 3] = [
    (Placement::BestFit, "pool-core best-fit"),
    (Placement::FirstFit, "pool-core first-fit"),
    (Placement::Buddy, "pool-core buddy"),
];

/// A range as anyone would make it: a capacity, a placement, and room for so many blocks.
///
/// # Errors
///
/// The capacity is past 2^32 granules.
///
/// # Example
///
/// ```
/// use pool_core::Placement;
///
/// let range = peers::ours::range(1000, Placement::Buddy, 10)?;
/// assert_eq!(range.capacity_bytes(), 256_000);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
pub fn range(
    capacity_granules: u64,
    placement: Placement,
    blocks: u32,
) -> Result<OffsetAllocator<Chunked>, ConfigError> {
    OffsetAllocator::new(&config(capacity_granules, placement, blocks))
}

fn config(capacity_granules: u64, placement: Placement, blocks: u32) -> RangeConfig {
    let capacity_bytes = capacity_granules.saturating_mul(GRANULE_BYTES);
    RangeConfig::new(capacity_bytes).placement(placement).expect_blocks(blocks)
}

/// A [`range`] that is asked in bytes, as programs ask: the foreign allocators take granules, and
/// a factor that is known when this is compiled costs the same as none.
///
/// # Example
///
/// ```
/// use peers::ours::{InBytes, range};
/// use pool_core::Placement;
/// use pool_mock::replay::Placer;
///
/// let mut range = InBytes(range(100, Placement::BestFit, 10)?);
/// let block = range.place(64).unwrap();
/// assert!(range.place(37).is_none());
/// range.release(block);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct InBytes(pub OffsetAllocator<Chunked>);

impl Placer for InBytes {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        self.0.allocate(granules.checked_mul(GRANULE_BYTES)?).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        self.0.release(block);
    }
}

/// The configuration of a shared allocator on a [`range`] of the default placement, its caches
/// and shards as they are by default.
///
/// ```
/// let shared = pool_core::SharedAllocator::new(peers::ours::shared(1000, 10))?;
/// assert_eq!(shared.capacity_bytes(), 256_000);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[must_use]
pub fn shared(capacity_granules: u64, blocks: u32) -> SharedConfig {
    SharedConfig::new(config(capacity_granules, PLACEMENTS[0].0, blocks))
}

/// A cache of a shared allocator that is asked in bytes, as [`InBytes`] is.
///
/// # Example
///
/// ```
/// use peers::ours::{CacheInBytes, shared};
/// use pool_mock::replay::Placer;
///
/// let shared = pool_core::SharedAllocator::new(shared(100, 10))?;
/// let mut cache = CacheInBytes(shared.cache());
/// let block = cache.place(64).unwrap();
/// cache.release(block);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct CacheInBytes(pub Cache);

impl Placer for CacheInBytes {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        self.0.allocate(granules.checked_mul(GRANULE_BYTES)?).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        let freed = self.0.free(block);
        debug_assert!(freed.is_ok(), "{block:?} was live: {freed:?}");
    }
}

/// A shared allocator that is asked in bytes and uses the cache of whatever thread asks.
///
/// # Example
///
/// ```
/// use peers::ours::{SharedInBytes, shared};
/// use pool_mock::replay::Placer;
///
/// let mut shared = SharedInBytes(pool_core::SharedAllocator::new(shared(100, 10))?);
/// let block = shared.place(64).unwrap();
/// shared.release(block);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct SharedInBytes(pub SharedAllocator);

impl Placer for SharedInBytes {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        self.0.allocate(granules.checked_mul(GRANULE_BYTES)?).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        let freed = self.0.free(block);
        debug_assert!(freed.is_ok(), "{block:?} was live: {freed:?}");
    }
}

/// The smallest capacity in granules that serves a program of several [`Script::copies`] in
/// lockstep, each on its own cache, on so many shards; none if none is found.
///
/// # Errors
///
/// There is no such range, or not so many shards.
///
/// # Example
///
/// ```
/// use peers::ours::smallest_of_copies;
/// use pool_mock::{Trace, replay::Script};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,100000,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256).copies(4).unwrap();
/// let smallest = smallest_of_copies(&script, 4, 1)?;
/// assert!(smallest.is_some_and(|granules| granules >= script.peak_live_granules()));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub fn smallest_of_copies(
    script: &Script,
    copies: u32,
    shards: u32,
) -> Result<Option<u64>, ConfigError> {
    let blocks = script.peak_live_blocks().saturating_mul(2);
    smallest_capacity(script, |granules| {
        let shared = SharedAllocator::new(shared(granules, blocks).shards(shards))?;
        Ok(Lockstep::new(Cached::copies(&shared, copies, shards)))
    })
}
