//! The pool as a Rust CUDA program uses it.
//!
//! | module | its one job |
//! | --- | --- |
//! | `parts` | the pool below, which buffers and streams share |
//! | `stream`, `launch` | streams, and kernels on them |
//! | `buffer`, `access` | typed buffers, and guards that name who uses them |
//! | `travels` | uses on several streams, in order |
//! | `movable` | buffers that the pool may move |
//! | `sleep` | a pool whose memory is the device's for a while |
//! | `recorded`, `reported` | what the pool below has noted, and the page of it |
//! | `pinned`, `registered` | memory of the host, for copies that do not wait |

mod access;
mod buffer;
mod error;
mod launch;
mod movable;
mod parts;
mod pinned;
#[cfg(feature = "record")]
mod recorded;
mod registered;
#[cfg(feature = "report")]
mod reported;
mod sleep;
mod stream;
mod travels;

use core::ffi::c_void;
use core::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use pool_core::policy::{Growth, Reclaim};
use pool_core::pool::Warmed;
use pool_core::{Advice, GraphId, Pool, PoolConfig, PoolError, PoolStats, StreamId, Trimmed};

use self::parts::Owner;
use self::stream::Name;
use crate::device::{CudaDevice, CudaStream};
use crate::process;
use crate::threads::CudaThreads;

pub use access::{DeviceMut, DeviceRef};
pub use buffer::{PoolBuffer, RawBuffer};
pub use error::Error;
pub use launch::LaunchShape;
pub use movable::{MovableBuffer, MovableUse};
pub use pinned::{PinnedBuffer, PinnedPool};
pub use registered::RegisteredHost;
pub use sleep::Contents;
pub use stream::PoolStream;

/// Memory of a CUDA device, in typed buffers, for many threads and streams. A clone is the same
/// pool, which gives everything back when the last clone, stream and buffer is dropped.
///
/// # Example
///
/// ```
/// # use pool_cuda::{CudaDevice, Driver};
/// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
/// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
/// # let device = CudaDevice::open_on(driver, 0)?;
/// use pool_cuda::CudaPool;
///
/// let pool = CudaPool::new(device, Default::default())?; // or CudaPool::open(0)?
/// let stream = pool.create_stream()?;
/// let mut buffer = pool.alloc_zeroed::<f32>(1000, &stream)?;
/// buffer.on_mut(&stream)?.slice(..2)?.copy_from(&[1.0, 2.0])?;
/// drop(buffer); // the next allocation on the stream may have the memory, with no wait
/// # Ok::<(), pool_cuda::Error>(())
/// ```
#[derive(Clone)]
pub struct CudaPool {
    parts: Arc<Owner>,
}

/// Settings under which memory comes in pages where the device has them, as chosen or by default.
fn in_pages(config: PoolConfig) -> PoolConfig {
    let pages = config.settings().pages.unwrap_or_default();
    config.pages(pages)
}

impl CudaPool {
    /// A pool over a device of this machine, with default settings.
    ///
    /// # Errors
    ///
    /// As [`CudaDevice::open`] and [`new`](Self::new).
    ///
    /// # Example
    ///
    /// ```
    /// match pool_cuda::CudaPool::open(0) {
    ///     Ok(pool) => println!("{}", pool.device().name()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn open(ordinal: u32) -> Result<Self, Error> {
        Self::new(CudaDevice::open(ordinal)?, PoolConfig::new())
    }

    /// A pool over a device.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`]: settings that cannot be, or initial bytes that the device refuses;
    /// [`Error::Granule`].
    ///
    /// # Example
    ///
    /// See [`CudaPool`].
    pub fn new(device: CudaDevice, config: PoolConfig) -> Result<Self, Error> {
        process::check()?;
        buffer::check_granule(&config)?;
        let core = Pool::on_platform(device, in_pages(config))?;
        Ok(Self { parts: Owner::new(core) })
    }

    /// The device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// assert_eq!(pool.device().ordinal(), 0);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn device(&self) -> &CudaDevice {
        self.parts.core.device()
    }

    /// The pool below, with blocks and handles instead of buffers.
    ///
    /// # Safety
    ///
    /// What belongs to buffers and streams of this pool is left to them: no block of theirs is
    /// freed, and no stream retired.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// // SAFETY: no buffer has the block.
    /// let core = unsafe { pool.core() };
    /// let block = core.allocate(4096)?;
    /// core.free(block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub unsafe fn core(&self) -> &Pool<CudaDevice, CudaThreads> {
        &self.parts.core
    }

    /// Takes what failed in a drop: the first failure since this was called last. The memory is
    /// lost by it at most until the pool ends.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// assert!(pool.take_failure().is_none());
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn take_failure(&self) -> Option<Error> {
        self.parts.take_failure()
    }
}

/// Streams.
impl CudaPool {
    /// A stream of the pool's own, which is not ordered with the legacy default stream.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`] if the driver refuses.
    ///
    /// # Example
    ///
    /// See [`CudaPool`].
    pub fn create_stream(&self) -> Result<PoolStream, Error> {
        process::check()?;
        let id = self.parts.core.create_stream()?;
        let raw = self.parts.core.stream(id).ok_or(PoolError::UnknownStream(id))?;
        Ok(PoolStream::new(Arc::clone(&self.parts), Name::Known(id), raw, None))
    }

    /// A stream that something else owns, which is dropped when the pool has let go of the stream,
    /// while the pool's context is current. The handles of the default streams (null, 1 and 2) give
    /// what [`legacy_stream`](Self::legacy_stream) and
    /// [`per_thread_stream`](Self::per_thread_stream) do.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`] if the pool knows it already; the owner is dropped.
    ///
    /// # Safety
    ///
    /// The handle is of a stream of the pool's context, which lasts as long as its owner.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # use core::ffi::c_void;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// # let of_a_library = pool.create_stream()?;
    /// # let handle: *mut c_void = of_a_library.as_raw();
    /// # let pool = pool_cuda::CudaPool::new(pool.device().clone(), Default::default())?;
    /// // SAFETY: the stream lives as long as `of_a_library`.
    /// let stream = unsafe { pool.adopt_raw(handle, of_a_library) }?;
    /// let buffer = pool.alloc::<u8>(100, &stream)?;
    /// # let _ = buffer;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub unsafe fn adopt_raw(
        &self,
        handle: *mut c_void,
        owner: impl Send + Sync + 'static,
    ) -> Result<PoolStream, Error> {
        process::check()?;
        // SAFETY: passed on to the caller.
        let raw = unsafe { CudaStream::from_raw(handle) };
        let name = if raw == CudaStream::LEGACY {
            Name::Lasting(self.legacy_id()?)
        } else if raw == CudaStream::PER_THREAD {
            Name::PerThread
        } else {
            // SAFETY: the owner is dropped once it is retired.
            Name::Known(unsafe { self.parts.core.adopt(raw.clone()) }?)
        };
        let owner = Some(Box::new(owner) as _);
        Ok(PoolStream::new(Arc::clone(&self.parts), name, raw, owner))
    }

    /// The legacy default stream of the device's context, which libraries use that name no other.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`] if the pool's tables cannot grow.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// let buffer = pool.alloc::<u8>(100, &pool.legacy_stream()?)?;
    /// # let _ = buffer;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn legacy_stream(&self) -> Result<PoolStream, Error> {
        process::check()?;
        let name = Name::Lasting(self.legacy_id()?);
        Ok(PoolStream::new(Arc::clone(&self.parts), name, CudaStream::LEGACY, None))
    }

    /// The legacy default stream as the pool knows it, from the first time on.
    fn legacy_id(&self) -> Result<StreamId, Error> {
        let parts = &self.parts;
        if let Some(&id) = parts.legacy.get() {
            return Ok(id);
        }
        // SAFETY: it lasts as long as the context.
        let adopted = unsafe { parts.core.adopt(CudaStream::LEGACY) };
        let id = match adopted {
            // Another thread was first.
            Err(PoolError::KnownStream(id)) => id,
            adopted => adopted?,
        };
        Ok(*parts.legacy.get_or_init(|| id))
    }

    /// The default stream of whichever thread names it: at each call, that of the thread that makes it.
    /// A use by one thread is waited for by way of all work of the context where another thread must wait for
    /// it, as no other can name that stream. Each free records a fence.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// let stream = pool.per_thread_stream();
    /// let buffer = pool.alloc_zeroed::<u8>(100, &stream)?;
    /// assert_eq!(buffer.on(&stream)?.to_vec()?, [0; 100]);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn per_thread_stream(&self) -> PoolStream {
        PoolStream::new(Arc::clone(&self.parts), Name::PerThread, CudaStream::PER_THREAD, None)
    }
}

/// Buffers.
impl CudaPool {
    fn check_stream(&self, stream: &PoolStream) -> Result<(), Error> {
        if Arc::ptr_eq(&self.parts, stream.pool()) { Ok(()) } else { Err(Error::OtherPool) }
    }

    /// A buffer of so many elements, with whatever was there before.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`] if memory is short, and says what would help; [`Error::TooLarge`],
    /// [`Error::OtherPool`].
    ///
    /// # Complexity
    ///
    /// That of [`Pool::allocate_on`]: a hit makes no call of the driver.
    ///
    /// # Example
    ///
    /// See [`CudaPool`].
    #[inline]
    pub fn alloc<T: Pod>(&self, len: usize, stream: &PoolStream) -> Result<PoolBuffer<T>, Error> {
        self.check_stream(stream)?;
        PoolBuffer::new(len, stream)
    }

    /// A buffer of zeros, which the stream writes.
    ///
    /// # Errors
    ///
    /// As [`alloc`](Self::alloc), and [`Error::Driver`].
    ///
    /// # Example
    ///
    /// See [`CudaPool`].
    pub fn alloc_zeroed<T: Pod>(
        &self,
        len: usize,
        stream: &PoolStream,
    ) -> Result<PoolBuffer<T>, Error> {
        let mut buffer = self.alloc(len, stream)?;
        buffer.on_mut(stream)?.fill_bytes(0)?;
        Ok(buffer)
    }

    /// A buffer with elements of the host, which are copied before this returns.
    ///
    /// # Errors
    ///
    /// As [`alloc`](Self::alloc), and [`DeviceMut::copy_from`].
    ///
    /// # Example
    ///
    /// See [`PoolBuffer`].
    pub fn alloc_from<T: Pod>(
        &self,
        host: &[T],
        stream: &PoolStream,
    ) -> Result<PoolBuffer<T>, Error> {
        let mut buffer = self.alloc(host.len(), stream)?;
        buffer.on_mut(stream)?.copy_from(host)?;
        Ok(buffer)
    }

    /// A buffer that the pool may move while nobody has its address: see [`MovableBuffer`].
    ///
    /// # Errors
    ///
    /// As [`alloc`](Self::alloc).
    ///
    /// # Example
    ///
    /// See [`MovableBuffer`].
    pub fn alloc_movable<T: Pod>(
        &self,
        len: usize,
        stream: &PoolStream,
    ) -> Result<MovableBuffer<T>, Error> {
        self.check_stream(stream)?;
        MovableBuffer::new(len, stream)
    }
}

/// What the pool below is told and asked.
impl CudaPool {
    /// What the pool has, and did.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// assert_eq!(pool.stats().live_bytes, 0);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.parts.core.stats()
    }

    /// Gives memory back to the device that nothing uses, but for so many bytes.
    ///
    /// # Errors
    ///
    /// As [`Pool::trim`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// let stream = pool.create_stream()?;
    /// drop(pool.alloc::<u8>(100, &stream)?);
    /// pool.trim(0)?;
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn trim(&self, keep_bytes: u64) -> Result<Trimmed, Error> {
        process::check()?;
        Ok(self.parts.core.trim(keep_bytes)?)
    }

    /// Takes a part of the preallocation: see [`Pool::warm`].
    ///
    /// # Errors
    ///
    /// As [`Pool::warm`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// pool.warm(64 << 20)?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn warm(&self, step_bytes: u64) -> Result<Warmed, Error> {
        process::check()?;
        Ok(self.parts.core.warm(step_bytes)?)
    }

    /// Changes how the pool grows: see [`Pool::set_growth`].
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] in a forked child.
    pub fn set_growth(&self, growth: Growth) -> Result<(), Error> {
        process::check()?;
        self.parts.core.set_growth(growth);
        Ok(())
    }

    /// Changes what goes back: see [`Pool::set_reclaim`].
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] in a forked child.
    pub fn set_reclaim(&self, reclaim: Reclaim) -> Result<(), Error> {
        process::check()?;
        self.parts.core.set_reclaim(reclaim);
        Ok(())
    }

    /// What this run tells the next one: see [`Pool::advice`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// println!("{:?}", pool.advice());
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn advice(&self) -> Advice {
        self.parts.core.advice()
    }

    /// Announces that a stream is about to be captured: see [`Pool::begin_capture`]. Each pool of the
    /// context that is used meanwhile, by any thread, is to be told, pinned ones too.
    ///
    /// # Errors
    ///
    /// As [`Pool::begin_capture`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// use pool_core::GraphId;
    ///
    /// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// let stream = pool.create_stream()?;
    /// pool.begin_capture(&stream, GraphId(1))?;
    /// // Here the driver begins to capture, and ends.
    /// pool.end_capture(&stream)?;
    /// pool.release_graph(GraphId(1))?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn begin_capture(&self, stream: &PoolStream, graph: GraphId) -> Result<(), Error> {
        process::check()?;
        Ok(self.parts.core.begin_capture(stream.named_to(&self.parts)?.on(), graph)?)
    }

    /// Announces that a capture has ended, well or not: see [`Pool::end_capture`].
    ///
    /// # Errors
    ///
    /// As [`Pool::end_capture`].
    ///
    /// # Example
    ///
    /// See [`begin_capture`](Self::begin_capture).
    pub fn end_capture(&self, stream: &PoolStream) -> Result<(), Error> {
        process::check()?;
        Ok(self.parts.core.end_capture(stream.named_to(&self.parts)?.on())?)
    }

    /// Announces that a graph is launched no more: see [`Pool::release_graph`].
    ///
    /// # Errors
    ///
    /// As [`Pool::release_graph`].
    ///
    /// # Example
    ///
    /// See [`begin_capture`](Self::begin_capture).
    pub fn release_graph(&self, graph: GraphId) -> Result<(), Error> {
        process::check()?;
        Ok(self.parts.core.release_graph(graph)?)
    }
}

impl fmt::Debug for CudaPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaPool").field("device", self.device()).finish_non_exhaustive()
    }
}
