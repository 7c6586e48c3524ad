//! Pinned memory of the host, from a pool with the same core.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytemuck::Pod;
use pool_core::device::Device as _;
use pool_core::{GraphId, Handle, Pool, PoolConfig, PoolStats, StreamId, Trimmed};

use super::access::{DeviceMut, DeviceRef};
use super::buffer::{bytes_of, check_granule, request_of};
use super::error::Error;
use super::parts::{Parts, driver_error};
use super::stream::PoolStream;
use crate::device::{ArenaSource, CudaDevice, CudaFence, host_pointer};
use crate::process;

/// Pinned memory of the host, for copies that run in their stream while the host goes on. A clone
/// is the same pool.
///
/// # Example
///
/// ```
/// # use pool_cuda::{CudaDevice, Driver};
/// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
/// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
/// # let device = CudaDevice::open_on(driver, 0)?;
/// use pool_cuda::{CudaPool, PinnedPool};
///
/// let pool = CudaPool::new(device, Default::default())?;
/// let staging = PinnedPool::new(pool.device(), Default::default())?;
/// let stream = pool.create_stream()?;
///
/// let mut host = staging.alloc::<f32>(3)?;
/// host.as_mut_slice()?.copy_from_slice(&[1.0, 2.0, 3.0]);
/// let mut buffer = pool.alloc::<f32>(3, &stream)?;
/// buffer.on_mut(&stream)?.async_copy_from(&host)?; // the host goes on
/// buffer.on(&stream)?.async_copy_to(&mut host)?;
/// assert_eq!(host.as_slice()?, [1.0, 2.0, 3.0]); // waits for the copies
/// # Ok::<(), pool_cuda::Error>(())
/// ```
#[derive(Clone)]
pub struct PinnedPool {
    parts: Arc<Pinned>,
}

struct Pinned {
    parts: Parts,
    /// A stream in which nothing is queued: what no copy used is freed on it.
    quiet: StreamId,
}

/// Elements in pinned memory of the host. What reads or writes them on the host waits for the
/// copies that are queued; a drop does not.
pub struct PinnedBuffer<T> {
    pool: Arc<Pinned>,
    handle: Handle,
    start: *mut T,
    len: usize,
    copies: Mutex<Copies>,
    elements: PhantomData<T>,
}

/// The copies of a buffer.
#[derive(Default)]
struct Copies {
    /// Those that may run still.
    queued: Vec<Copy>,
    /// The streams of all: the pool records in them at the free, so they last until then.
    streams: Vec<PoolStream>,
}

/// A copy that is queued.
struct Copy {
    fence: ManuallyDrop<CudaFence>,
    /// Its stream is alive as long.
    stream: PoolStream,
    /// Whether it writes to the host.
    writes: bool,
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: it is not used again.
        let fence = unsafe { ManuallyDrop::take(&mut self.fence) };
        self.stream.device().discard(fence);
    }
}

// SAFETY: the buffer owns its elements, as a box does.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above: a shared buffer gives out shared elements.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl PinnedPool {
    /// A pool of host memory that the contexts of all devices can use. The settings are those of
    /// every pool.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`]: settings that cannot be, or initial bytes that are refused.
    ///
    /// # Example
    ///
    /// See [`PinnedPool`].
    pub fn new(device: &CudaDevice, config: PoolConfig) -> Result<Self, Error> {
        process::check()?;
        check_granule(&config)?;
        let core = Pool::on_platform(device.with_source(ArenaSource::PinnedHost)?, config)?;
        let quiet = core.create_stream()?;
        Ok(Self { parts: Arc::new(Pinned { parts: Parts::new(core), quiet }) })
    }

    /// A buffer of so many elements, with whatever was there before: bytes that were written once,
    /// or zeros.
    ///
    /// # Errors
    ///
    /// As [`CudaPool::alloc`](super::CudaPool::alloc).
    ///
    /// # Example
    ///
    /// See [`PinnedPool`].
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<PinnedBuffer<T>, Error> {
        process::check()?;
        let core = &self.parts.parts.core;
        // One that names no stream gets memory that no work uses any more.
        let block = core.allocate(request_of::<T>(len)?)?;
        let address = core.address(&block).unwrap_or_default();
        let start: *mut T = host_pointer(address).cast();
        let buffer = PinnedBuffer {
            pool: Arc::clone(&self.parts),
            handle: block.handle(),
            start,
            len,
            copies: Mutex::default(),
            elements: PhantomData,
        };
        // Elements of the host have values.
        // SAFETY: the memory is the buffer's, and any bytes are elements.
        unsafe { buffer.start.cast::<u8>().write_bytes(0, bytes_of::<T>(len)?) };
        Ok(buffer)
    }

    /// Takes what failed in a drop: the first failure since this was called last.
    #[must_use]
    pub fn take_failure(&self) -> Option<Error> {
        self.parts.parts.take_failure()
    }

    /// Announces a capture, as [`CudaPool::begin_capture`](super::CudaPool::begin_capture): to this
    /// pool, too, if it is used meanwhile by any thread.
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
    /// let staging = pool_cuda::PinnedPool::new(pool.device(), Default::default())?;
    /// let stream = pool.create_stream()?;
    /// pool.begin_capture(&stream, GraphId(1))?;
    /// staging.begin_capture(&stream, GraphId(1))?;
    /// // Here the driver begins to capture, and ends.
    /// staging.end_capture(&stream)?;
    /// pool.end_capture(&stream)?;
    /// staging.release_graph(GraphId(1))?;
    /// pool.release_graph(GraphId(1))?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn begin_capture(&self, stream: &PoolStream, graph: GraphId) -> Result<(), Error> {
        process::check()?;
        let Parts { core, .. } = &self.parts.parts;
        Ok(core.begin_capture(stream.named_to(&self.parts.parts)?.on(), graph)?)
    }

    /// Announces that a capture has ended, well or not.
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
        let Parts { core, .. } = &self.parts.parts;
        Ok(core.end_capture(stream.named_to(&self.parts.parts)?.on())?)
    }

    /// Announces that a graph is launched no more.
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
        Ok(self.parts.parts.core.release_graph(graph)?)
    }

    /// What the pool has, and did.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let staging = pool_cuda::PinnedPool::new(&device, Default::default())?;
    /// assert_eq!(staging.stats().live_bytes, 0);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.parts.parts.core.stats()
    }

    /// Gives memory back that nothing uses, but for so many bytes. That waits for all work of the
    /// device.
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
    /// let staging = pool_cuda::PinnedPool::new(&device, Default::default())?;
    /// staging.trim(0)?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn trim(&self, keep_bytes: u64) -> Result<Trimmed, Error> {
        process::check()?;
        Ok(self.parts.parts.core.trim(keep_bytes)?)
    }
}

impl<T> PinnedBuffer<T> {
    /// How many elements it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the copies that write, or for all.
    fn wait(&self, for_all: bool) -> Result<(), Error> {
        process::check()?;
        let mut copies = self.copies();
        let copies = &mut copies.queued;
        while let Some(place) = copies.iter().position(|copy| for_all || copy.writes) {
            let copy = &copies[place];
            copy.stream.device().wait_on_host(&copy.fence).map_err(driver_error)?;
            copies.swap_remove(place);
        }
        Ok(())
    }

    /// The elements, once the copies that write them are done: the host waits for those.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`]: also for work that failed.
    ///
    /// # Example
    ///
    /// See [`PinnedPool`].
    pub fn as_slice(&self) -> Result<&[T], Error> {
        self.wait(false)?;
        // SAFETY: the memory is the buffer's, its elements have values, and nothing writes them:
        // a copy that would needs the buffer to itself.
        Ok(unsafe { core::slice::from_raw_parts(self.start, self.len) })
    }

    /// The elements, once all copies are done: the host waits for those.
    ///
    /// # Errors
    ///
    /// As [`as_slice`](Self::as_slice).
    ///
    /// # Example
    ///
    /// See [`PinnedPool`].
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Error> {
        self.wait(true)?;
        // SAFETY: as in `as_slice`, and nobody else has the buffer.
        Ok(unsafe { core::slice::from_raw_parts_mut(self.start, self.len) })
    }

    /// Has a stream wait for the copies that a new one must come after.
    fn follow(&self, stream: &PoolStream, writes: bool) -> Result<(), Error> {
        stream.named_to(&self.pool.parts)?;
        for copy in self.copies().queued.iter().filter(|copy| writes || copy.writes) {
            stream.device().wait(stream.cuda(), &copy.fence).map_err(driver_error)?;
        }
        Ok(())
    }

    /// Notes a copy that was queued; if that fails, waits for it.
    fn note(&self, stream: &PoolStream, writes: bool) -> Result<(), Error> {
        let core = &self.pool.parts.core;
        let noted = core.record_use(self.handle, stream.named_to(&self.pool.parts)?.on());
        let fence = match noted {
            Ok(()) => {
                let streams = &mut self.copies().streams;
                if !streams.iter().any(|known| known.is(stream)) {
                    streams.push(stream.clone());
                }
                stream.device().record(stream.cuda()).map_err(driver_error)
            }
            Err(error) => Err(error.into()),
        };
        match fence {
            Ok(fence) => {
                let fence = ManuallyDrop::new(fence);
                let copy = Copy { fence, stream: stream.clone(), writes };
                let queued = &mut self.copies().queued;
                // The new one is behind what was queued on its stream before.
                let covers = |earlier: &Copy| {
                    earlier.stream.is(stream)
                        && !stream.is_per_thread()
                        && (writes || !earlier.writes)
                };
                queued.retain(|earlier| !covers(earlier));
                queued.push(copy);
                Ok(())
            }
            Err(error) => {
                stream.device().synchronize_stream(stream.cuda())?;
                Err(error)
            }
        }
    }
}

impl<T: Pod> DeviceMut<'_, T> {
    /// Copies elements of pinned memory, in the stream: the host goes on, and may read them.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::Captured`], [`Error::Driver`], [`Error::Pool`].
    ///
    /// # Example
    ///
    /// See [`PinnedPool`].
    pub fn async_copy_from(&self, host: &PinnedBuffer<T>) -> Result<(), Error> {
        let read = self.as_ref();
        if host.len != read.len() {
            return Err(Error::Length { from: host.len, to: read.len() });
        }
        read.check_not_captured()?;
        let bytes = bytes_of::<T>(host.len)?;
        if bytes == 0 {
            return Ok(());
        }
        let stream = read.stream();
        host.follow(stream, false)?;
        let from = host.start.cast_const().cast();
        // SAFETY: the host's memory is given back only behind the copy, and not written before it
        // is done; the device's is the guard's.
        unsafe { stream.device().copy_from_host(stream.cuda(), from, read.address(), bytes) }?;
        host.note(stream, false)
    }
}

impl<T: Pod> DeviceRef<'_, T> {
    /// Copies the elements to pinned memory, in the stream: the host goes on, and waits when it
    /// looks at them.
    ///
    /// # Errors
    ///
    /// As [`DeviceMut::async_copy_from`].
    ///
    /// # Example
    ///
    /// See [`PinnedPool`].
    pub fn async_copy_to(&self, host: &mut PinnedBuffer<T>) -> Result<(), Error> {
        if host.len != self.len() {
            return Err(Error::Length { from: self.len(), to: host.len });
        }
        self.check_not_captured()?;
        let bytes = bytes_of::<T>(host.len)?;
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream();
        host.follow(stream, true)?;
        let to = host.start.cast();
        // SAFETY: as in `async_copy_from`, and nobody else has the host's buffer.
        unsafe { stream.device().copy_to_host(stream.cuda(), self.address(), to, bytes) }?;
        host.note(stream, true)
    }
}

impl fmt::Debug for PinnedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedPool").field("core", &self.parts.parts.core).finish()
    }
}

impl<T> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedBuffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        if !process::is_usable() {
            // The fences are left alone as well.
            let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
            core::mem::take(&mut copies.queued).into_iter().for_each(core::mem::forget);
            return;
        }
        // Copies that were noted are waited for, on the device.
        let freed = self.pool.parts.core.free_on(self.pool.quiet, self.handle);
        if let Err(error) = freed {
            self.pool.parts.give_back_unordered(self.handle, error);
        }
    }
}
