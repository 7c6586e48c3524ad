//! Typed buffers.

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use bytemuck::Pod;
use pool_core::{Handle, PoolConfig, Request};

use super::access::{DeviceMut, DeviceRef};
use super::error::Error;
use super::parts::{Lent, Parts};
use super::stream::{Name, PoolStream};
use super::travels::{Travels, Use, note_in_pool};
use crate::device::SharedBytes;
use crate::process;

/// Elements in memory of the device, which go back to the pool when this is dropped: in the order
/// of the streams that they were used on, without a wait.
///
/// The address is reachable only by naming the stream that uses it: [`on`](Self::on) and
/// [`on_mut`](Self::on_mut). They order that use behind those on other streams, and have the free
/// wait for it, so that safe code cannot race two streams on the pool's memory.
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
/// let pool = CudaPool::new(device, Default::default())?;
/// let (compute, copies) = (pool.create_stream()?, pool.create_stream()?);
///
/// let mut numbers = pool.alloc_from(&[1.0_f32, 2.0, 3.0], &compute)?;
/// numbers.on_mut(&compute)?.slice(1..2)?.copy_from(&[7.0])?;
/// // The second stream waits for the first, on the device.
/// assert_eq!(numbers.on(&copies)?.to_vec()?, [1.0, 7.0, 3.0]);
/// # Ok::<(), pool_cuda::Error>(())
/// ```
pub struct PoolBuffer<T> {
    pool: Lent,
    /// The stream that it was allocated on. It may be gone: then all work of the device is waited for.
    home: Name,
    handle: Handle,
    address: u64,
    len: usize,
    travels: Travels,
    elements: PhantomData<T>,
}

/// What [`PoolBuffer::into_raw`] takes apart.
#[derive(Debug)]
#[must_use = "the memory is not freed by itself any more"]
pub struct RawBuffer {
    pool: Lent,
    home: Name,
    /// Its block in the pool.
    pub handle: Handle,
    /// Its address on the device.
    pub address: u64,
    /// Its elements.
    pub len: usize,
    travels: Travels,
}

/// The bytes of so many elements.
#[inline]
pub(super) fn bytes_of<T>(len: usize) -> Result<usize, Error> {
    let element_bytes = size_of::<T>();
    // The error is made only where it is needed: the compiler does not see that it has nothing to drop.
    let Some(bytes) = len.checked_mul(element_bytes) else {
        return Err(Error::TooLarge { len, element_bytes });
    };
    Ok(bytes)
}

/// What every block is aligned to.
const GRANULE_BYTES: usize = 256;

/// Refuses settings under which blocks are less aligned.
pub(super) fn check_granule(config: &PoolConfig) -> Result<(), Error> {
    let granule_bytes = config.settings().granule_bytes;
    if granule_bytes < GRANULE_BYTES as u64 {
        return Err(Error::Granule { granule_bytes });
    }
    Ok(())
}

/// The bytes to ask a pool for: some even for no elements, so that every buffer has an address.
#[inline]
fn size_of_block<T>(len: usize) -> Result<u64, Error> {
    Ok(bytes_of::<T>(len)?.max(1) as u64)
}

/// What to ask a pool for.
pub(super) fn request_of<T>(len: usize) -> Result<Request, Error> {
    let request = Request::new(size_of_block::<T>(len)?);
    if align_of::<T>() <= GRANULE_BYTES {
        Ok(request)
    } else {
        Ok(request.align_bytes(align_of::<T>() as u64))
    }
}

impl<T: Pod> PoolBuffer<T> {
    #[inline]
    pub(super) fn new(len: usize, stream: &PoolStream) -> Result<Self, Error> {
        let (pool, home) = (stream.pool().lent(), stream.name());
        let (handle, address, travels) = 'found: {
            if align_of::<T>() <= GRANULE_BYTES
                && let Some(id) = home.id()
                // SAFETY: the stream is an owner.
                && let (Some(handle), address) = unsafe { pool.hit(id, size_of_block::<T>(len)?) }
            {
                break 'found (handle, address, Travels::default());
            }
            take::<T>(len, stream)?
        };
        // Put together in one place: it would else be copied from one result into another.
        Ok(Self { pool, home, handle, address, len, travels, elements: PhantomData })
    }
}

/// The parts of a buffer that is not there at the first look. It is counted as out.
#[cold]
#[inline(never)]
fn take<T>(len: usize, stream: &PoolStream) -> Result<(Handle, u64, Travels), Error> {
    let (pool, home) = (stream.pool().lent(), stream.name());
    let request = request_of::<T>(len)?;
    let travels = Travels::from(stream)?;
    // SAFETY: the stream is an owner.
    let (handle, address) = unsafe { pool.take(home, request) }?;
    Ok((handle, address, travels))
}

impl<T> PoolBuffer<T> {
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

    #[inline]
    fn parts(&self) -> &Parts {
        // SAFETY: the buffer is counted as out.
        unsafe { self.pool.get() }
    }

    /// Whether a use on a stream needs no note.
    #[inline]
    fn is_at_home(&self, stream: &PoolStream) -> bool {
        self.travels.is_empty()
            && stream.name() == self.home
            && stream.pool().lent() == self.pool
            // Then the graph has to be known to use it.
            && !self.parts().core.is_capturing()
    }

    /// To read it on a stream: behind the last write on another one, for which this stream waits.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`] if a fence cannot be recorded or waited for; and if one of the two streams
    /// is being captured, and not the other in the same capture: nothing of outside can be waited
    /// for there ([`on_unordered`](Self::on_unordered) is for buffers that graphs take as they
    /// are).
    ///
    /// # Complexity
    ///
    /// Nothing on a buffer that was used on its own stream alone; else a lock, and a record and a wait of
    /// the device where streams change.
    ///
    /// # Example
    ///
    /// See [`PoolBuffer`].
    #[inline]
    pub fn on<'b>(&'b self, stream: &'b PoolStream) -> Result<DeviceRef<'b, T>, Error> {
        if !self.is_at_home(stream) {
            self.join(stream, Use::Read)?;
        }
        // SAFETY: it is the buffer's memory, which lives as long as the borrow, and the use is
        // ordered and noted.
        Ok(unsafe { DeviceRef::new(self.address, self.len, stream) })
    }

    /// To write it on a stream, or both: behind every use on others since the last write, and that,
    /// for which this stream waits.
    ///
    /// # Errors
    ///
    /// As [`on`](Self::on).
    ///
    /// # Complexity
    ///
    /// As [`on`](Self::on), with a record and a wait for each stream.
    ///
    /// # Example
    ///
    /// See [`PoolBuffer`].
    #[inline]
    pub fn on_mut<'b>(&'b mut self, stream: &'b PoolStream) -> Result<DeviceMut<'b, T>, Error> {
        if !self.is_at_home(stream) {
            self.join(stream, Use::Write)?;
        }
        // SAFETY: as in `on`, and nobody else has it.
        Ok(unsafe { DeviceMut::new(self.address, self.len, stream) })
    }

    #[cold]
    fn join(&self, stream: &PoolStream, what: Use) -> Result<(), Error> {
        process::check()?;
        let note = note_in_pool(self.parts(), self.handle);
        self.travels.join(self.parts(), self.home, stream, what, note)
    }

    /// To use it on a stream that waits for nothing: the program orders the use. The free waits
    /// for it.
    ///
    /// It is the way to have a graph use a buffer that was there before its capture: whoever
    /// launches the graph orders each launch behind the buffer's other uses, and those behind the
    /// launch, and keeps the buffer until the last launch is queued and [noted](Self::on_mut) on the
    /// stream that it is launched on.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`] if the use cannot be noted.
    ///
    /// # Safety
    ///
    /// All work that uses the guard's address is ordered with every other use, as said above.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// # let stream = pool.create_stream()?;
    /// let mut buffer = pool.alloc_zeroed::<u8>(100, &stream)?;
    /// stream.synchronize()?;
    /// let other = pool.create_stream()?;
    /// // SAFETY: nothing is queued that uses it.
    /// let guard = unsafe { buffer.on_unordered(&other)? };
    /// assert_eq!(guard.to_vec()?, [0; 100]);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub unsafe fn on_unordered<'b>(
        &'b self,
        stream: &'b PoolStream,
    ) -> Result<DeviceMut<'b, T>, Error> {
        process::check()?;
        let note = note_in_pool(self.parts(), self.handle);
        self.travels.note(self.parts(), self.home, stream, note)?;
        // SAFETY: passed on to the caller.
        Ok(unsafe { DeviceMut::new(self.address, self.len, stream) })
    }

    /// Frees it behind what is queued on another stream of its pool, too: as a use there, and a
    /// drop.
    ///
    /// # Errors
    ///
    /// As [`on_mut`](Self::on_mut); it is freed all the same, behind all work of the device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// # let (stream, other) = (pool.create_stream()?, pool.create_stream()?);
    /// pool.alloc::<u8>(100, &stream)?.free_on(&other)?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn free_on(self, stream: &PoolStream) -> Result<(), Error> {
        process::check()?;
        let on = stream.named_to(self.parts())?;
        let noted = note_in_pool(self.parts(), self.handle)(on.on());
        if let Err(Error::Pool(error)) = noted {
            let this = self.into_raw();
            // SAFETY: the buffer is out until it is counted, which is the last that is done with it.
            unsafe {
                let parts = this.pool.get();
                let _ = parts.core.free(this.handle);
                let ticket = parts.ticket();
                this.pool.count(ticket);
            }
            return Err(Error::Pool(error));
        }
        noted
    }

    /// Makes the elements ready for another process, which maps them by
    /// [`import_bytes`](crate::CudaDevice::import_bytes): while this buffer lives, and its pool does not
    /// [sleep](super::CudaPool::sleep), they are the same.
    /// After that, what the other process sees is whatever has the pages. What orders the work of the
    /// two processes is theirs.
    ///
    /// # Errors
    ///
    /// [`CudaError::Unsupported`](crate::CudaError::Unsupported) if the pool is not over an
    /// [`exportable`](crate::CudaDevice::exportable) device,
    /// [`CudaError::NotShared`](crate::CudaError::NotShared) if the memory is not in pages, or there
    /// are no elements; [`CudaError::Call`](crate::CudaError::Call).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// use pool_core::PoolConfig;
    /// use pool_core::policy::Pages;
    /// use pool_cuda::CudaPool;
    ///
    /// let config = PoolConfig::new().pages(Pages::new());
    /// let pool = CudaPool::new(device.exportable()?, config)?;
    /// let stream = pool.create_stream()?;
    /// let buffer = pool.alloc_from(&[1.0_f32; 1000], &stream)?;
    /// stream.synchronize()?;
    /// let shared = buffer.share()?;
    /// assert_eq!(shared.len_bytes, 4000);
    /// // ... shared.parts[..].descriptor go over a Unix socket, the rest as plain numbers ...
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn share(&self) -> Result<SharedBytes, Error> {
        let bytes = bytes_of::<T>(self.len)? as u64;
        // SAFETY: the block is live as long as `self`, and so what is committed under it stays.
        Ok(unsafe { self.parts().core.device().export_bytes(self.address, bytes) }?)
    }

    /// Takes it apart, so that nothing is freed by itself. [`from_raw`](Self::from_raw) puts it
    /// together again; until then, and for good if that never happens, it keeps its pool.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # use pool_cuda::PoolBuffer;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// # let stream = pool.create_stream()?;
    /// let raw = pool.alloc::<u32>(100, &stream)?.into_raw();
    /// assert_eq!(raw.address % 256, 0);
    /// // SAFETY: it is what `into_raw` gave, with the same type.
    /// let buffer: PoolBuffer<u32> = unsafe { PoolBuffer::from_raw(raw) };
    /// assert_eq!(buffer.len(), 100);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn into_raw(self) -> RawBuffer {
        let mut this = ManuallyDrop::new(self);
        RawBuffer {
            pool: this.pool,
            home: this.home,
            handle: this.handle,
            address: this.address,
            len: this.len,
            travels: core::mem::take(&mut this.travels),
        }
    }

    /// Puts together what [`into_raw`](Self::into_raw) took apart.
    ///
    /// # Safety
    ///
    /// The parts are those of one buffer, whose memory was not freed meanwhile, and so many
    /// elements of this type fit in it.
    ///
    /// # Example
    ///
    /// See [`into_raw`](Self::into_raw).
    #[must_use]
    pub unsafe fn from_raw(raw: RawBuffer) -> Self {
        let RawBuffer { pool, home, handle, address, len, travels } = raw;
        Self { pool, home, handle, address, len, travels, elements: PhantomData }
    }
}

impl<T> fmt::Debug for PoolBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuffer")
            .field("len", &self.len)
            .field("home", &self.home)
            .finish_non_exhaustive()
    }
}

impl<T> Drop for PoolBuffer<T> {
    #[inline]
    fn drop(&mut self) {
        if process::is_usable() {
            // SAFETY: the buffer is counted as out, and this is the last that is done with it.
            unsafe { self.pool.give_back(self.home, self.handle) };
        }
    }
}
