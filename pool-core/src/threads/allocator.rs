//! The shared allocator: what programs hold.

use alloc::sync::{Arc, Weak};

use super::cache::Cache;
use super::config::SharedConfig;
use super::inner::Inner;
use super::owner::Owner;
use super::platform::{DefaultThreads, Threads};
use crate::range::{AllocError, Block, ConfigError, Handle, HandleError, Need, Request, Slot};

/// A range that many threads use at once.
///
/// Cheap to clone: all clones are the same allocator. Small blocks pass through
/// [`Cache`]s without a lock; the rest is served by the range, in shards once threads wait for
/// each other.
///
/// # Promises
///
/// - **No block is given out twice**, whatever threads do: one atomic word decides whose it is.
/// - **A second free is an error**, on whichever thread, also when both come at the same time.
/// - **A request is refused only when nothing fits**, once all caches were emptied and all
///   shards merged: what [`OffsetAllocator`](crate::OffsetAllocator) promises of a range holds
///   here too when no other operation is in flight.
/// - **No call panics**, and no device or foreign code is called under a lock. A new cache needs
///   some memory of the host's, and is the one thing that does not do without.
///
/// A handle that was never given out is refused, but for the one number in 2^31 that a block has
/// next.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator};
///
/// let shared = SharedAllocator::new(RangeConfig::new(1 << 30))?;
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for size_bytes in 1..1000 {
///                 let block = shared.allocate(size_bytes * 100).unwrap();
///                 shared.free(block.handle()).unwrap();
///             }
///         });
///     }
/// });
/// assert_eq!(shared.stats().live_bytes, 0);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
pub struct SharedAllocator<T: Threads = DefaultThreads> {
    inner: Arc<Inner<T>>,
    /// Alive while any handle is: caches are not handles.
    alive: Arc<()>,
}

impl SharedAllocator {
    /// A shared allocator on the [default platform](DefaultThreads).
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the configuration is none, or the heap refuses the tables.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{RangeConfig, SharedAllocator};
    ///
    /// let shared = SharedAllocator::new(RangeConfig::new(24 << 30))?;
    /// assert_eq!(shared.capacity_bytes(), 24 << 30);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    pub fn new(config: impl Into<SharedConfig>) -> Result<Self, ConfigError> {
        Self::on_platform(config)
    }
}

impl<T: Threads> SharedAllocator<T> {
    /// A shared allocator on a platform of the program's choice.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the configuration is none, or the heap refuses the tables.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::threads::BareThreads;
    /// use pool_core::{RangeConfig, SharedAllocator};
    ///
    /// let shared = SharedAllocator::<BareThreads>::on_platform(RangeConfig::new(64 << 20))?;
    /// let mut cache_of_this_core = shared.cache();
    /// cache_of_this_core.allocate(4096)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn on_platform(config: impl Into<SharedConfig>) -> Result<Self, ConfigError> {
        Ok(Self::over(Inner::new(&config.into())?))
    }

    pub(super) fn over(inner: Inner<T>) -> Self {
        Self { inner: Arc::new(inner), alive: Arc::new(()) }
    }

    #[inline(always)]
    pub(super) fn inner(&self) -> &Arc<Inner<T>> {
        &self.inner
    }

    /// What ends with the last handle.
    pub(super) fn life(&self) -> Weak<()> {
        Arc::downgrade(&self.alive)
    }

    /// A new cache, empty.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let mut cache = shared.cache();
    /// let block = cache.allocate(300)?;
    /// cache.free(block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cache(&self) -> Cache<T> {
        Cache::new(self)
    }

    /// Serves a request for nobody in particular: from the calling thread's cache where the
    /// platform has one for each thread ([`Threads::with_cache`]), else from the centre.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing is changed, but that caches may have been emptied.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate(10 << 20)?;
    /// assert!(shared.allocate(60 << 20).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate(&self, request: impl Into<Request>) -> Result<Block, AllocError> {
        self.allocate_for(Owner::CLEAN, request)
    }

    /// Serves a request with a block that was cached for the same owner, or that no cache has
    /// (see [`Owner`]).
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing is changed, but that caches may have been emptied.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Owner, RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate_for(Owner(1), 4096)?;
    /// shared.free_for(Owner(1), block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate_for(
        &self,
        owner: Owner,
        request: impl Into<Request>,
    ) -> Result<Block, AllocError> {
        self.allocate_by(owner, &request.into())
    }

    /// The same, without a copy of the request: one that was just written would be waited for.
    #[inline(always)]
    pub(super) fn allocate_by(&self, owner: Owner, request: &Request) -> Result<Block, AllocError> {
        let plain_len = Need::plain_len(request, self.inner.shape());
        if let Some(class) = self.inner.classes.of_len(plain_len) {
            if let Some(Some(handle)) = T::with_cache(self, |cache| cache.hit(owner, class)) {
                return Ok(self.inner.describe(handle, class));
            }
        } else if let Some(len) = plain_len
            && len > self.inner.shape().small_granules
            && let Some(Some(packed)) = T::with_cache(self, |cache| cache.hit_large(owner, len))
        {
            return Ok(packed.unfold().block(self.inner.shape()));
        }
        self.allocate_slowly(owner, request, plain_len)
    }

    /// What is not a hit. Apart from it, so that a hit passes a number or two, not a whole result,
    /// through the platform's hands.
    #[inline(never)]
    pub(super) fn allocate_slowly(
        &self,
        owner: Owner,
        request: &Request,
        plain_len: Option<u64>,
    ) -> Result<Block, AllocError> {
        let served = T::with_cache(self, |cache| match self.inner.classes.of_len(plain_len) {
            Some(class) => cache.allocate_slowly(owner, class, request),
            None => cache.allocate_large(owner, request, plain_len),
        });
        served.unwrap_or_else(|| self.inner.allocate_loosely(owner, request))
    }

    /// Frees a block for nobody in particular. Any thread may.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block, also when another thread freed it at
    /// the same time; nothing is changed.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{HandleError, RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate(4096)?;
    /// assert_eq!(shared.free(block.handle()), Ok(block));
    /// assert_eq!(shared.free(block.handle()), Err(HandleError::Stale));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn free(&self, handle: Handle) -> Result<Block, HandleError> {
        self.free_for(Owner::CLEAN, handle)
    }

    /// Frees a block that only requests of an owner get from a cache again (see [`Owner`]).
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block; nothing is changed.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Owner, RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate(4096)?;
    /// assert_eq!(shared.free_for(Owner(3), block.handle()), Ok(block));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn free_for(&self, owner: Owner, handle: Handle) -> Result<Block, HandleError> {
        match handle.slot() {
            Slot::Granule(granule) => {
                if let Some(Some(class)) =
                    T::with_cache(self, |cache| cache.absorb(owner, handle, granule))
                {
                    return Ok(self.inner.describe(handle, class));
                }
            }
            Slot::Node(_) => {
                if let Some(Some(freed)) =
                    T::with_cache(self, |cache| cache.free_large_by_call(handle))
                {
                    return Ok(freed.unfold().block(self.inner.shape()));
                }
            }
        }
        self.free_slowly(owner, handle)
    }

    /// What is not a hit.
    #[inline(never)]
    pub(super) fn free_slowly(&self, owner: Owner, handle: Handle) -> Result<Block, HandleError> {
        let freed = T::with_cache(self, |cache| match handle.slot() {
            Slot::Granule(granule) => cache.free_slowly(owner, handle, granule),
            Slot::Node(_) => Ok(cache.free_large(handle)?.block(self.inner.shape())),
        });
        freed.unwrap_or_else(|| self.inner.free_loosely(handle))
    }

    /// The live block that a handle names. Takes the lock of its shard if it lies outside spans.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if it names none.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate(1 << 20)?;
    /// assert_eq!(shared.block(block.handle()), Ok(block));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn block(&self, handle: Handle) -> Result<Block, HandleError> {
        match handle.slot() {
            Slot::Node(_) => self.inner.centre.block_outside(handle),
            Slot::Granule(granule) => match self.inner.words.live_at(granule) {
                Some(word) if word.handle(granule) == handle => {
                    Ok(self.inner.describe(handle, word.cut().order() as usize))
                }
                _ => {
                    // Unused or another generation's, or free and not given yet.
                    let error = self.inner.words.find(handle, granule).err();
                    Err(error.unwrap_or(HandleError::Stale))
                }
            },
        }
    }

    /// The live block that begins at an offset. Takes no lock.
    ///
    /// # Complexity
    ///
    /// Constant.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let block = shared.allocate(4096)?;
    /// assert_eq!(shared.block_at(block.offset_bytes()), Some(block.handle()));
    /// assert_eq!(shared.block_at(block.offset_bytes() + 1), None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn block_at(&self, offset_bytes: u64) -> Option<Handle> {
        let shape = self.inner.shape();
        let granule = offset_bytes >> shape.granule_shift;
        let granule = u32::try_from(granule).ok()?;
        let (words, starts) = (&self.inner.words, &self.inner.starts);
        let in_span = words.live_at(granule).map(|word| word.handle(granule));
        let handle = in_span.or_else(|| starts.live_at(granule))?;
        (shape.bytes(granule.into()) == offset_bytes).then_some(handle)
    }

    /// Empties the caches of all threads, also of those that are idle, and what is on its way
    /// between them: every free block is the range's again.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// shared.free(shared.allocate(4096)?.handle())?;
    /// shared.flush();
    /// assert_eq!(shared.stats().cached_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn flush(&self) {
        self.inner.flush();
    }

    /// The largest request that would be served now, at the granule's alignment, without
    /// options. Empties all caches and merges all shards to find it.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// assert_eq!(shared.largest_free_bytes(), 64 << 20);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        self.inner.flush();
        self.inner.centre.recall();
        self.inner.centre.largest_free_bytes()
    }

    /// The bytes that the range manages: a whole number of granules.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// assert_eq!(SharedAllocator::new(RangeConfig::new(1023))?.capacity_bytes(), 768);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.inner.shape().bytes(self.inner.shape().capacity)
    }

    /// The unit of sizes and offsets.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// assert_eq!(SharedAllocator::new(RangeConfig::new(1 << 20))?.granule_bytes(), 256);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        self.inner.shape().bytes(1)
    }
}

impl<T: Threads> Clone for SharedAllocator<T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), alive: self.alive.clone() }
    }
}

impl<T: Threads> core::fmt::Debug for SharedAllocator<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("SharedAllocator").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
