//! What programs hold.

use alloc::sync::Arc;

use super::arenas::Location;
use super::asker::Asker;
use super::config::PoolConfig;
use super::error::PoolError;
use super::free::Waits;
use super::inner::{CLEAN, Inner};
use super::parcel::Needs;
use super::policy::Affinity;
use super::stream::{On, StreamId, Tag};
use crate::device::{Capabilities, Device};
use crate::range::{Block, Handle, HandleError, Request};
use crate::threads::{DefaultThreads, HUB, NotFreed, Owner, Threads};

/// Memory of a device for many threads and streams.
///
/// Cheap to clone: all clones are the same pool, which gives everything back to the device when
/// the last of them is dropped.
///
/// # Promises
///
/// - **No wrong reuse**: bytes that were used on a stream serve another only behind a fence.
/// - **A stream's own memory costs no call of the device**: what is freed on a stream serves that
///   stream again at once, without a fence.
/// - **A refusal is final**: an immediate second call would be refused too, if in between nothing
///   is freed, no other thread acts and no capture ends.
/// - **A failed call of the device leaves the pool as before it**, and is in the error.
/// - **No call of the device is made under a lock**, and none panics on any input.
///
/// Handles are the pool's own: those of another pool, or of a block that was freed, are refused.
/// To free a block means that the program queues no more work on it; work that is queued already
/// may still run.
///
/// # Example
///
/// ```
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
/// let (compute, copies) = (pool.create_stream()?, pool.create_stream()?);
///
/// let tensor = pool.allocate_on(compute, 100 << 20)?;
/// // … work is queued on both streams: the second one is noted, then the block is freed.
/// pool.record_use(tensor.handle(), copies)?;
/// pool.free_on(compute, tensor.handle())?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Pool<D: Device, T: Threads = DefaultThreads> {
    inner: Arc<Inner<D, T>>,
}

impl<D: Device, T: Threads> Clone for Pool<D, T> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<D: Device> Pool<D> {
    /// A pool over a device, on the [default platform](DefaultThreads).
    ///
    /// # Errors
    ///
    /// [`PoolError::Config`], [`PoolError::TenancyTaken`], or [`PoolError::Device`] if the device
    /// refuses the initial bytes.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let device = SimDevice::new(SimConfig::new());
    /// let pool = Pool::new(device, PoolConfig::new().initial_bytes(1 << 30))?;
    /// assert_eq!(pool.stats().reserved_bytes, 1 << 30);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn new(device: D, config: PoolConfig) -> Result<Self, PoolError<D::Error>> {
        Self::on_platform(device, config)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// A pool over a device, on a platform of the program's choice.
    ///
    /// # Errors
    ///
    /// As [`new`](Pool::new).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// use pool_core::threads::BareThreads;
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let pool = Pool::<_, BareThreads>::on_platform(device, PoolConfig::new())?;
    /// # let _ = pool;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn on_platform(device: D, config: PoolConfig) -> Result<Self, PoolError<D::Error>> {
        let inner = Arc::new(Inner::new(device, config)?);
        Inner::be_found(&inner);
        Ok(Self { inner })
    }

    #[inline(always)]
    pub(super) fn inner(&self) -> &Inner<D, T> {
        &self.inner
    }

    /// The pool of its parts.
    #[cfg(feature = "std")]
    pub(super) fn of(inner: Arc<Inner<D, T>>) -> Self {
        Self { inner }
    }

    /// Its parts, as long as there is a handle.
    #[cfg(feature = "std")]
    pub(super) fn downgrade(&self) -> alloc::sync::Weak<Inner<D, T>> {
        Arc::downgrade(&self.inner)
    }

    /// The device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.device().assert_clean();
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> &D {
        &self.inner.device
    }

    /// Serves a request that names no stream, with memory that is clean: never used, or seen to be
    /// done with by the host. Any stream may use it, and the host.
    ///
    /// # Errors
    ///
    /// As [`allocate_on`](Self::allocate_on).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(300)?;
    /// assert_eq!(block.size_bytes(), 512);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate(&self, request: impl Into<Request>) -> Result<Block, PoolError<D::Error>> {
        let request = request.into();
        if self.inner.is_quiet()
            && let Some(block) = self.inner.shared.hit_in(CLEAN, &request)
        {
            return Ok(block.block(self.inner.shared.shape()));
        }
        self.inner.allocate_slowly(&On::Nothing, &request, None, None)
    }

    /// Serves a request whose block is used on a stream: work that is queued there from now on may
    /// use it, without any wait of the program's. For a use on another stream the program has to
    /// order that one behind this, and to [say so](Self::record_use) before it frees the block.
    ///
    /// # Errors
    ///
    /// - [`PoolError::OutOfMemory`] says what is where, once all that could help was tried.
    /// - [`PoolError::Request`] for one that can never be served.
    /// - [`PoolError::UnknownStream`], [`PoolError::UnannouncedCapture`],
    ///   [`PoolError::Poisoned`], [`PoolError::Device`] from a capture's state that could not be
    ///   asked.
    ///
    /// # Complexity
    ///
    /// A hit costs what it costs a [`SharedAllocator`](crate::SharedAllocator), and makes no call
    /// of the device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let block = pool.allocate_on(stream, 1 << 20)?;
    /// pool.free_on(stream, block.handle())?;
    /// // What was freed on the stream serves it again, though its work may still run.
    /// assert_eq!(pool.allocate_on(stream, 1 << 20)?.offset_bytes(), block.offset_bytes());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate_on<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        request: impl Into<Request>,
    ) -> Result<Block, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        let on = on.into();
        let request = request.into();
        if let On::Stream(id) = on
            && self.inner.is_quiet()
            && self.inner.knows(id)
        {
            return match self.inner.shared.hit_in(Owner(id.space), &request) {
                Some(block) => Ok(block.block(self.inner.shared.shape())),
                None => self.inner.allocate_in_own(id, &request),
            };
        }
        self.inner.allocate_slowly(&on, &request, None, None)
    }

    /// What [`allocate_on`](Self::allocate_on) serves at the first look, of so many bytes on a stream
    /// that the pool knows; `None` if that has to look further. For bindings that keep what follows out
    /// of the way of a hit.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// assert_eq!(pool.hit_on(stream, 4096), None, "the pool has no memory yet");
    /// let block = pool.allocate_on(stream, 4096)?;
    /// pool.free_on(stream, block.handle())?;
    /// assert!(pool.hit_on(stream, 4096).is_some());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn hit_on(&self, stream: StreamId, size_bytes: u64) -> Option<Block> {
        if !self.inner.is_quiet() || !self.inner.knows(stream) {
            return self.inner.hit_aside(&On::Stream(stream), size_bytes);
        }
        let block = self.inner.shared.hit_of_size(Owner(stream.space), size_bytes)?;
        Some(block.block(self.inner.shared.shape()))
    }

    /// What [`allocate`](Self::allocate) serves at the first look, of so many bytes; `None` if that has to
    /// look further. For bindings, as [`hit_on`](Self::hit_on).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// assert!(pool.hit_clean(4096).is_none(), "the pool has no memory yet");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn hit_clean(&self, size_bytes: u64) -> Option<Block> {
        if !self.inner.is_quiet() {
            return self.inner.hit_aside(&On::Nothing, size_bytes);
        }
        let block = self.inner.shared.hit_of_size(CLEAN, size_bytes)?;
        Some(block.block(self.inner.shared.shape()))
    }

    /// What [`allocate_on`](Self::allocate_on) serves of the stream's own memory, though not at the first
    /// look; `None` if something else has to help. No call of the device is made, so that a binding can
    /// ask it first whether a handle still names the stream that it takes it for.
    ///
    /// # Complexity
    ///
    /// That of a [`SharedAllocator`](crate::SharedAllocator)'s allocation.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// assert!(pool.own_on(stream, 1 << 20).is_none(), "the pool has no memory yet");
    /// pool.free_on(stream, pool.allocate_on(stream, 4 << 20)?.handle())?;
    /// assert!(pool.own_on(stream, 1 << 20).is_some());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn own_on(&self, stream: StreamId, size_bytes: u64) -> Option<Block> {
        if !self.inner.is_quiet() || !self.inner.knows(stream) {
            return self.inner.hit_aside(&On::Stream(stream), size_bytes);
        }
        self.inner.shared.allocate_in(Owner(stream.space), &Request::new(size_bytes)).ok()
    }

    /// Serves a request that is charged to a tag until the block is freed.
    ///
    /// # Errors
    ///
    /// [`PoolError::Quota`] if the tag's [quota](Self::set_quota) is used up, and as
    /// [`allocate_on`](Self::allocate_on).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{On, Pool, PoolConfig, PoolError, Tag};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.set_quota(Tag(7), Some(1 << 20));
    /// let block = pool.allocate_tagged(On::Nothing, Tag(7), 1 << 20)?;
    /// let over = pool.allocate_tagged(On::Nothing, Tag(7), 256);
    /// assert!(matches!(over, Err(PoolError::Quota { .. })));
    /// pool.free(block.handle())?;
    /// assert_eq!(pool.tag_live_bytes(Tag(7)), 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn allocate_tagged<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        tag: Tag,
        request: impl Into<Request>,
    ) -> Result<Block, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner.allocate_slowly(&on.into(), &request.into(), Some(tag), None)
    }

    /// Frees a block through a call that names no stream: it may still be used by work on any,
    /// also by work that is queued before the memory is needed again. It serves again behind a
    /// fence for all work of the device. Makes no call of the device but to read its clock and, with a
    /// [cool-down](crate::policy::CoolDown), to say that the bytes rest, so that a callback of a
    /// stream may use it; unless a use on a stream was noted that the pool does not know, in which a
    /// fence is recorded.
    ///
    /// # Errors
    ///
    /// [`PoolError::Handle`] if the handle names no live block of this pool; nothing is changed.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig, PoolError};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// pool.free(block.handle())?;
    /// assert!(matches!(pool.free(block.handle()), Err(PoolError::Handle(_))));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn free(&self, handle: Handle) -> Result<Block, PoolError<D::Error>> {
        self.inner.free_slowly(&On::Nothing, handle)
    }

    /// Frees a block on a stream, behind the work that is queued there now, on the stream it was
    /// allocated on, and on those that were [noted](Self::record_use).
    ///
    /// # Errors
    ///
    /// [`PoolError::Handle`] if the handle names no live block, [`PoolError::UnknownStream`],
    /// [`PoolError::Device`] if a fence has to be recorded now (a stream that the pool does not
    /// know) and the device refuses: the block is still live then.
    ///
    /// # Complexity
    ///
    /// Constant, and no call of the device, on the stream that the block was allocated on; unless
    /// blocks [rest](crate::policy::CoolDown).
    ///
    /// # Example
    ///
    /// See [`allocate_on`](Self::allocate_on).
    #[inline(always)]
    pub fn free_on<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        handle: Handle,
    ) -> Result<Block, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        let on = on.into();
        if let On::Stream(id) = on
            && self.inner.is_quiet_for_frees()
            && self.inner.knows(id)
            && !self.inner.notes.may_have(handle)
        {
            return match self.inner.shared.free_hit(Owner(id.space), handle) {
                Some(block) => {
                    // A use that was noted meanwhile, by a fault of the program, is of no block.
                    if self.inner.notes.may_have(handle) {
                        self.inner.notes.take(handle);
                    }
                    Ok(block.block(self.inner.shared.shape()))
                }
                None => self.inner.free_in_own(id, handle),
            };
        }
        self.inner.free_slowly(&on, handle)
    }

    /// What [`free_on`](Self::free_on) does at the first look, by the only one who can free the block:
    /// true if it is freed; if not, `free_on` has to look further. For bindings whose buffers own
    /// their blocks.
    ///
    /// # Safety
    ///
    /// The handle names a live block, and until this returns nobody else frees it, by this call or any
    /// other, notes a use of it, or looks for it by its offset.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let handle = pool.allocate_on(stream, 4096)?.handle();
    /// // SAFETY: nobody else has the handle.
    /// if !unsafe { pool.free_hit_on(stream, handle) } {
    ///     pool.free_on(stream, handle)?;
    /// }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[expect(unsafe_code, reason = "what the caller promises, the compiler cannot check")]
    #[must_use]
    #[inline(always)]
    pub unsafe fn free_hit_on(&self, stream: StreamId, handle: Handle) -> bool {
        if !self.inner.is_quiet_for_frees() {
            return matches!(self.inner.free_aside(stream, handle), Ok(Some(_)));
        }
        self.inner.knows(stream)
            && !self.inner.notes.may_have(handle)
            && self.inner.shared.free_hit_alone(Owner(stream.space), handle).is_some()
    }

    /// What [`free_on`](Self::free_on) frees into the stream's own memory; `None` if the block is not of
    /// that, or waits for something, and is live still. No call of the device is made: see
    /// [`own_on`](Self::own_on).
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let (own, other) = (pool.create_stream()?, pool.create_stream()?);
    /// let block = pool.allocate_on(own, 4096)?;
    /// assert_eq!(pool.free_own_on(other, block.handle())?, None);
    /// assert_eq!(pool.free_own_on(own, block.handle())?, Some(block));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn free_own_on(
        &self,
        stream: StreamId,
        handle: Handle,
    ) -> Result<Option<Block>, HandleError> {
        if !self.inner.is_quiet_for_frees()
            || !self.inner.knows(stream)
            || self.inner.notes.may_have(handle)
        {
            return self.inner.free_aside(stream, handle);
        }
        let own = Owner(stream.space);
        let freed = match self.inner.shared.free_hit(own, handle) {
            Some(block) => Some(block.block(self.inner.shared.shape())),
            None => match self.inner.shared.free_in(own, handle) {
                Ok(block) => Some(block),
                Err(NotFreed::Handle(error)) => return Err(error),
                Err(NotFreed::Elsewhere) => None,
            },
        };
        if freed.is_some() && self.inner.notes.may_have(handle) {
            // As in `free_on`.
            self.inner.notes.take(handle);
        }
        Ok(freed)
    }

    /// Notes that a block is used on a further stream, so that it serves again only once that one
    /// has passed too. Repeated notes of one stream cost a look.
    ///
    /// A stream that the pool does not know must be kept alive by its owner until the block is
    /// freed: the fence is recorded then. It may be of another device, if this one can record in it
    /// and wait for it. [`On::Nothing`] notes a use on a stream that cannot be named: all work of the
    /// device has to be done then.
    ///
    /// # Errors
    ///
    /// [`PoolError::Handle`] if the handle names no live block, [`PoolError::UnknownStream`].
    ///
    /// # Example
    ///
    /// See [`Pool`].
    pub fn record_use<'a>(
        &self,
        handle: Handle,
        on: impl Into<On<'a, D::Stream>>,
    ) -> Result<(), PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner.record_use(handle, &on.into())
    }

    /// The live block that a handle names.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if it names none.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// assert_eq!(pool.block(block.handle()), Ok(block));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn block(&self, handle: Handle) -> Result<Block, HandleError> {
        self.inner.shared.block(handle)
    }

    /// The handle of the live block that begins at an offset.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// assert_eq!(pool.block_at(block.offset_bytes()), Some(block.handle()));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn block_at(&self, offset_bytes: u64) -> Option<Handle> {
        self.inner.shared.block_at(offset_bytes)
    }

    /// The handle of the live block that begins at an address, in a pool that
    /// [finds them](super::PoolConfig::finds_addresses) on a device that has addresses. Takes no lock.
    ///
    /// # Complexity
    ///
    /// Linear in those 2 MiB of memory whose addresses fall into one bucket of a table that has as many
    /// as there are: in practice constant.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let device = SimDevice::new(SimConfig::new());
    /// let pool = Pool::new(device, PoolConfig::new().finds_addresses(true))?;
    /// let block = pool.allocate(4096)?;
    /// let address = pool.address(&block).unwrap();
    /// assert_eq!(pool.block_at_address(address), Some(block.handle()));
    /// assert_eq!(pool.block_at_address(address + 256), None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn block_at_address(&self, address: u64) -> Option<Handle> {
        self.inner.addresses.find(address, |offset_bytes| self.block_at(offset_bytes))
    }

    /// Whether an address is of the pool's memory, or of addresses that it keeps for memory: nobody else
    /// has a block there. Takes a lock.
    ///
    /// # Complexity
    ///
    /// Linear in the arenas.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// let address = pool.address(&block).unwrap();
    /// pool.free(block.handle())?;
    /// assert!(pool.has_address(address + 4095));
    /// assert!(!pool.has_address(0));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn has_address(&self, address: u64) -> bool {
        let device = self.device();
        self.inner.with_books(|books| {
            books.arenas.every().any(|arena| {
                let start = device.address(arena.range());
                start.is_some_and(|start| address.wrapping_sub(start) < arena.size_bytes())
            })
        })
    }

    /// Where a live block lies on the device. Takes a lock.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// let location = pool.location(block.handle())?;
    /// assert!(location.offset_bytes + block.size_bytes() <= location.arena.size_bytes());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn location(&self, handle: Handle) -> Result<Location<D>, HandleError> {
        let block = self.block(handle)?;
        self.inner
            .with_books(|books| {
                let arena = books.arenas.at(block.offset_bytes)?.clone();
                let offset_bytes = block.offset_bytes - arena.origin_bytes;
                Some(Location { arena, offset_bytes })
            })
            .ok_or(HandleError::Stale)
    }

    /// The address of a block that the caller holds, on a device that has addresses. Takes no
    /// lock.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// assert_eq!(pool.address(&block).map(|address| address % 256), Some(0));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline]
    pub fn address(&self, block: &Block) -> Option<u64> {
        if !self.inner.capabilities.contains(Capabilities::ADDRESSES) {
            return None;
        }
        self.inner.addresses.at(block.offset_bytes())
    }

    /// The most bytes that may be live under a tag; `None`: any number.
    ///
    /// # Example
    ///
    /// See [`allocate_tagged`](Self::allocate_tagged).
    pub fn set_quota(&self, tag: Tag, quota_bytes: Option<u64>) {
        self.inner.tags.set_quota(tag, quota_bytes);
    }

    /// Bytes of live blocks that are charged to a tag.
    ///
    /// # Example
    ///
    /// See [`allocate_tagged`](Self::allocate_tagged).
    #[must_use]
    pub fn tag_live_bytes(&self, tag: Tag) -> u64 {
        self.inner.tags.live_bytes(tag)
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// What a stream's own space serves, though not at the first look; or else what helps.
    #[inline(never)]
    fn allocate_in_own(
        &self,
        id: StreamId,
        request: &Request,
    ) -> Result<Block, PoolError<D::Error>> {
        match self.shared.allocate_in(Owner(id.space), request) {
            Ok(block) => Ok(block),
            Err(_) => self.allocate_slowly(&On::Stream(id), request, None, None),
        }
    }

    /// Frees what is no hit, though mostly of the stream's own space.
    #[inline(never)]
    fn free_in_own(&self, id: StreamId, handle: Handle) -> Result<Block, PoolError<D::Error>> {
        match self.shared.free_in(Owner(id.space), handle) {
            Ok(block) => Ok(block),
            Err(NotFreed::Handle(error)) => Err(error.into()),
            Err(NotFreed::Elsewhere) => self.free_slowly(&On::Stream(id), handle),
        }
    }

    /// What is no hit.
    #[inline(never)]
    pub(super) fn allocate_slowly(
        &self,
        on: &On<'_, D::Stream>,
        request: &Request,
        tag: Option<Tag>,
        affinity: Option<&Affinity>,
    ) -> Result<Block, PoolError<D::Error>> {
        #[cfg(feature = "record")]
        if self.is_recording() {
            let is_plain = tag.is_none() && affinity.is_none();
            if let Some(block) = is_plain.then(|| self.hit_recorded(on, request)).flatten() {
                return Ok(block);
            }
            let result = self.allocate_with_help(on, request, tag, affinity);
            self.note_served(on, request, &result);
            return result;
        }
        self.allocate_with_help(on, request, tag, affinity)
    }

    /// The same, unless it is a hit.
    fn allocate_with_help(
        &self,
        on: &On<'_, D::Stream>,
        request: &Request,
        tag: Option<Tag>,
        affinity: Option<&Affinity>,
    ) -> Result<Block, PoolError<D::Error>> {
        self.check_request(request)?;
        let asker = self.resolve(on)?;
        if let Some(tag) = tag {
            // What is given out may be more: then that is charged, or refused.
            self.charge(tag, request.size_bytes)?;
        }
        let served = if self.is_asleep() {
            Err(PoolError::Asleep)
        } else {
            self.serve(&asker, request, affinity)
        };
        let block = match served {
            Ok(block) => {
                self.note_usual(request);
                self.note_need();
                block
            }
            Err(error) => {
                self.tags_credit(tag, request.size_bytes);
                self.trace_refusal(request, &error);
                return Err(error);
            }
        };
        self.note_block(&asker, &block, request, tag, affinity)
    }

    /// Notes what has to be known of a new block.
    fn note_block(
        &self,
        asker: &Asker<D>,
        block: &Block,
        request: &Request,
        tag: Option<Tag>,
        affinity: Option<&Affinity>,
    ) -> Result<Block, PoolError<D::Error>> {
        let key = self.key_of_block(asker, affinity);
        let raw_origin = match asker {
            Asker::Raw { handle } => match self.identity_of(handle) {
                Ok(id) => Some((self.device.stream_key(handle), id)),
                Err(failed) => {
                    self.tags_credit(tag, request.size_bytes);
                    self.refuse(asker, block.handle());
                    return Err(failed.into());
                }
            },
            _ => None,
        };
        let graph = match asker {
            Asker::Captured { graph, .. } => Some(*graph),
            _ => None,
        };
        // Of a space that is not the stream's own: who uses the block has to be known by itself.
        let user = match asker {
            Asker::Known { number, space, .. } => {
                let home = self.shared.space_of(block.handle()).ok();
                let is_own = space.is_some()
                    && (home == *space || self.is_of_stream(home.unwrap_or(HUB), *number));
                if is_own { None } else { Some(*number) }
            }
            _ => None,
        };
        let noted = graph.is_some() || tag.is_some() || user.is_some() || key.is_some();
        if raw_origin.is_none() && !noted {
            return Ok(*block);
        }
        let more = block.size_bytes() - request.size_bytes;
        if let Some(tag) = tag
            && let Err(error) = self.charge(tag, more)
        {
            self.tags_credit(Some(tag), request.size_bytes);
            self.refuse(asker, block.handle());
            return Err(error);
        }
        let noted = self.notes.change(block.handle(), |note| {
            note.raw_origin = raw_origin;
            note.uses.extend(user);
            note.graphs.extend(graph);
            note.tag = tag;
            note.key = key;
        });
        if noted.is_none() {
            self.tags_credit(tag, block.size_bytes());
            self.refuse(asker, block.handle());
            return Err(PoolError::OutOfHostMemory);
        }
        Ok(*block)
    }

    fn tags_credit(&self, tag: Option<Tag>, size_bytes: u64) {
        if let Some(tag) = tag {
            self.tags.credit(tag, size_bytes);
        }
    }

    /// Takes a block back that an asker was just given, as a free by that one: what it waited for
    /// nobody else has waited for.
    pub(super) fn refuse(&self, asker: &Asker<D>, handle: Handle) {
        let (block, since) = (self.shared.block(handle), self.stamp());
        let waits = self.free_behind(asker, handle, None).or_else(|_| {
            let needs = Needs { all: true, ..Needs::nothing() };
            self.shared.set_aside(handle).map(|block| {
                self.defer(block, needs);
                Waits::InParcel
            })
        });
        if let (Ok(block), Ok(waits @ (Waits::InParcel | Waits::ForGraphs))) = (block, waits) {
            // It was never given out; but it is not free either.
            self.notice_free(&On::Nothing, &block, waits, since);
        }
    }
}

impl<D: Device, T: Threads> core::fmt::Debug for Pool<D, T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
