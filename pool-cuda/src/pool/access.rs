//! Guards: memory of a buffer, as one stream uses it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Bound, RangeBounds};

use bytemuck::Pod;
use pool_core::device::Device as _;

use super::buffer::bytes_of;
use super::error::Error;
use super::parts::driver_error;
use super::stream::PoolStream;

/// Elements that work on a stream reads.
///
/// As an argument of a kernel it is the address: that is its first field, and the driver reads no
/// more than the kernel's parameter has. A launch is unsafe, and must be queued on the guard's own
/// stream; what it does to the elements is to be no more than read them.
///
/// It is a plain value, for as long as the buffer and the stream are borrowed, and stays on its thread,
/// as the stream may be that thread's.
///
/// # Example
///
/// A guard does not outlive its buffer:
///
/// ```compile_fail,E0505
/// # fn f(pool: &pool_cuda::CudaPool, stream: &pool_cuda::PoolStream) -> Result<(), pool_cuda::Error> {
/// let buffer = pool.alloc::<u8>(100, stream)?;
/// let guard = buffer.on(stream)?;
/// drop(buffer);
/// let address = guard.address();
/// # Ok(())
/// # }
/// ```
#[repr(C)]
pub struct DeviceRef<'b, T> {
    address: u64,
    len: usize,
    stream: &'b PoolStream,
    elements: PhantomData<(&'b [T], *const T)>,
}

/// Elements that work on a stream writes and reads. As [`DeviceRef`] in all else.
///
/// # Example
///
/// As long as it is used, there is no other guard of the buffer, on any stream:
///
/// ```compile_fail,E0502
/// # fn f(pool: &pool_cuda::CudaPool, stream: &pool_cuda::PoolStream) -> Result<(), pool_cuda::Error> {
/// let mut buffer = pool.alloc::<u8>(100, stream)?;
/// let writes = buffer.on_mut(stream)?;
/// let reads = buffer.on(stream)?;
/// writes.fill_bytes(1)?;
/// # Ok(())
/// # }
/// ```
#[repr(C)]
pub struct DeviceMut<'b, T> {
    read: DeviceRef<'b, T>,
}

impl<T> Clone for DeviceRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceRef<'_, T> {}

impl<T> Clone for DeviceMut<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for DeviceMut<'_, T> {}

impl<'b, T> DeviceRef<'b, T> {
    /// # Safety
    ///
    /// So many elements lie at the address as long as `'b` lasts, and reading them on the stream is
    /// ordered with all other uses.
    #[inline]
    pub(super) unsafe fn new(address: u64, len: usize, stream: &'b PoolStream) -> Self {
        Self { address, len, stream, elements: PhantomData }
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The stream that uses them.
    #[must_use]
    pub fn stream(&self) -> &'b PoolStream {
        self.stream
    }

    /// Where they begin on the device. Work that uses it is queued on the guard's stream, while
    /// the guard's lifetime lasts.
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
    /// let buffer = pool.alloc::<u32>(100, &stream)?;
    /// let all = buffer.on(&stream)?;
    /// assert_eq!(all.slice(10..)?.address(), all.address() + 40);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// A part of them.
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`].
    ///
    /// # Example
    ///
    /// See [`address`](Self::address).
    pub fn slice(&self, part: impl RangeBounds<usize>) -> Result<Self, Error> {
        let start = match part.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match part.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        if start > end || end > self.len {
            return Err(Error::Bounds { start, end, len: self.len });
        }
        let skipped_bytes = bytes_of::<T>(start)? as u64;
        Ok(Self { address: self.address + skipped_bytes, len: end - start, ..*self })
    }

    /// Refuses what takes part of the host while the stream is captured.
    pub(super) fn check_not_captured(&self) -> Result<(), Error> {
        let capture = self.stream.device().capture_id(self.stream.cuda()).map_err(driver_error)?;
        if capture.is_some() { Err(Error::Captured) } else { Ok(()) }
    }
}

impl<T: Pod> DeviceRef<'_, T> {
    /// Copies the elements to the host, and waits for that, and for what is queued on the stream
    /// before.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::Captured`], [`Error::Driver`]: also for work that failed
    /// earlier.
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
    /// let buffer = pool.alloc_from(&[1_u8, 2, 3], &stream)?;
    /// let mut last = [0];
    /// buffer.on(&stream)?.slice(2..)?.copy_to(&mut last)?;
    /// assert_eq!(last, [3]);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn copy_to(&self, host: &mut [T]) -> Result<(), Error> {
        if host.len() != self.len {
            return Err(Error::Length { from: self.len, to: host.len() });
        }
        self.check_not_captured()?;
        let device = self.stream.device();
        let bytes = size_of_val(host);
        if bytes > 0 {
            let to = host.as_mut_ptr().cast();
            // SAFETY: the host's memory is borrowed until the copy is waited for; the device's is
            // the guard's.
            unsafe { device.copy_to_host(self.stream.cuda(), self.address, to, bytes) }?;
        }
        device.synchronize_stream(self.stream.cuda())?;
        Ok(())
    }

    /// The elements on the host: [`copy_to`](Self::copy_to) something new.
    ///
    /// # Errors
    ///
    /// As [`copy_to`](Self::copy_to).
    ///
    /// # Example
    ///
    /// See [`PoolBuffer`](super::PoolBuffer).
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut host = vec![T::zeroed(); self.len];
        self.copy_to(&mut host)?;
        Ok(host)
    }
}

impl<'b, T> DeviceMut<'b, T> {
    /// # Safety
    ///
    /// As [`DeviceRef::new`], for writes as well.
    #[inline]
    pub(super) unsafe fn new(address: u64, len: usize, stream: &'b PoolStream) -> Self {
        // SAFETY: passed on to the caller.
        Self { read: unsafe { DeviceRef::new(address, len, stream) } }
    }

    /// The same elements, to read.
    #[must_use]
    pub fn as_ref(&self) -> DeviceRef<'b, T> {
        self.read
    }

    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read.len == 0
    }

    /// The stream that uses them.
    #[must_use]
    pub fn stream(&self) -> &'b PoolStream {
        self.read.stream
    }

    /// Where they begin on the device; see [`DeviceRef::address`].
    #[must_use]
    pub fn address(&self) -> u64 {
        self.read.address
    }

    /// A part of them.
    ///
    /// # Errors
    ///
    /// [`Error::Bounds`].
    ///
    /// # Example
    ///
    /// See [`PoolBuffer`](super::PoolBuffer).
    pub fn slice(&self, part: impl RangeBounds<usize>) -> Result<Self, Error> {
        Ok(Self { read: self.read.slice(part)? })
    }
}

impl<T: Pod> DeviceMut<'_, T> {
    /// The elements on the host: see [`DeviceRef::to_vec`].
    ///
    /// # Errors
    ///
    /// As [`DeviceRef::copy_to`].
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        self.read.to_vec()
    }

    /// Copies elements of the host, and waits for that.
    ///
    /// # Errors
    ///
    /// As [`DeviceRef::copy_to`].
    ///
    /// # Example
    ///
    /// See [`PoolBuffer`](super::PoolBuffer).
    pub fn copy_from(&self, host: &[T]) -> Result<(), Error> {
        let Self { read } = self;
        if host.len() != read.len {
            return Err(Error::Length { from: host.len(), to: read.len });
        }
        read.check_not_captured()?;
        let device = read.stream.device();
        let bytes = size_of_val(host);
        if bytes > 0 {
            let from = host.as_ptr().cast();
            // SAFETY: the host's memory is borrowed until the copy is waited for; the device's is
            // the guard's.
            unsafe { device.copy_from_host(read.stream.cuda(), from, read.address, bytes) }?;
        }
        device.synchronize_stream(read.stream.cuda())?;
        Ok(())
    }

    /// Copies elements on the device, in the stream that both guards name. The two may overlap
    /// only as a whole.
    ///
    /// # Errors
    ///
    /// [`Error::Length`], [`Error::OtherStream`], [`Error::Driver`].
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
    /// let from = pool.alloc_from(&[1_u8, 2, 3], &stream)?;
    /// let mut to = pool.alloc(3, &stream)?;
    /// to.on_mut(&stream)?.copy_from_device(from.on(&stream)?)?;
    /// assert_eq!(to.on(&stream)?.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn copy_from_device(&self, from: DeviceRef<'_, T>) -> Result<(), Error> {
        let Self { read } = self;
        if from.len != read.len {
            return Err(Error::Length { from: from.len, to: read.len });
        }
        if !from.stream.is(read.stream) {
            return Err(Error::OtherStream);
        }
        let bytes = bytes_of::<T>(read.len)?;
        // SAFETY: both are their guards', on the stream that both name.
        unsafe {
            read.stream.device().copy_between(read.stream.cuda(), from.address, read.address, bytes)
        }?;
        Ok(())
    }

    /// Sets every byte, in the stream.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`].
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
    /// let mut buffer = pool.alloc::<u16>(2, &stream)?;
    /// buffer.on_mut(&stream)?.fill_bytes(0xab)?;
    /// assert_eq!(buffer.on(&stream)?.to_vec()?, [0xabab; 2]);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn fill_bytes(&self, byte: u8) -> Result<(), Error> {
        let Self { read } = self;
        let bytes = bytes_of::<T>(read.len)?;
        // SAFETY: they are the guard's, on its stream; any bytes are valid elements.
        unsafe { read.stream.device().fill(read.stream.cuda(), read.address, byte, bytes) }?;
        Ok(())
    }
}

impl<T> fmt::Debug for DeviceRef<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceRef({:#x}, {} elements, {:?})", self.address, self.len, self.stream)
    }
}

impl<T> fmt::Debug for DeviceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceMut({:#x}, {} elements, {:?})", self.address(), self.len(), self.stream())
    }
}
