//! The edge to cust: its devices and streams serve as ours, and ours where it wants its own.

use core::ffi::c_void;
use core::mem::ManuallyDrop;

use cust::error::{CudaError as CustError, CudaResult};
use cust::function::{BlockSize, Function, GridSize};
use cust::memory::{DeviceBuffer, DeviceCopy, DeviceMemory, DevicePointer, DeviceSlice};

use crate::device::CudaDevice;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::pool::{CudaPool, DeviceMut, DeviceRef, Error, LaunchShape, PoolStream};

impl CudaDevice {
    /// Opens the device that cust has chosen (feature `cust`). Both share its primary context.
    ///
    /// A program that calls cust is linked to the driver, and starts only where there is one.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; nothing stays retained.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_cuda::{CudaDevice, Driver};
    ///
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// cust::init(cust::CudaFlags::empty())?;
    /// let chosen = cust::device::Device::get_device(1)?;
    /// let device = CudaDevice::from_cust(driver, chosen)?; // or Driver::system()?
    /// assert_eq!(device.name(), chosen.name()?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_cust(
        driver: &'static Driver,
        device: cust::device::Device,
    ) -> Result<Self, CudaError> {
        Self::from_raw(driver, device.as_raw())
    }
}

impl CudaPool {
    /// Takes a stream of cust's (feature `cust`), which is destroyed when nothing uses it any
    /// more. It is ordered with the legacy default stream, as all of cust's are.
    ///
    /// # Errors
    ///
    /// [`Error::Pool`]; the stream is destroyed.
    ///
    /// # Safety
    ///
    /// The stream is of the pool's context, and that lasts longer.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// use cust::stream::{Stream, StreamFlags};
    ///
    /// # let _current = device.enter()?;
    /// let pool = pool_cuda::CudaPool::new(device.clone(), Default::default())?;
    /// let stream = Stream::new(StreamFlags::DEFAULT, None)?;
    /// // SAFETY: it is of the primary context, as is the pool.
    /// let stream = unsafe { pool.adopt(stream)? };
    /// let buffer = pool.alloc::<u8>(100, &stream)?;
    /// # let _ = buffer;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn adopt(&self, stream: cust::stream::Stream) -> Result<PoolStream, Error> {
        let handle = stream.as_inner().cast::<c_void>();
        // SAFETY: it lasts as long as cust's stream, and the rest is passed on to the caller.
        unsafe { self.adopt_raw(handle, stream) }
    }
}

impl PoolStream {
    /// What `cust::launch!` calls (feature `cust`): the macro takes a stream of a pool by its name
    /// as it takes cust's own.
    ///
    /// # Errors
    ///
    /// The driver's, as cust names it; [`CustError::UnknownError`] for codes that cust does not
    /// know.
    ///
    /// # Safety
    ///
    /// The arguments are what the kernel takes. Guards among them name this stream, and the kernel
    /// stays in their elements, and only reads what a [`DeviceRef`] has.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use cust::launch;
    /// use cust::module::Module;
    /// use pool_cuda::CudaPool;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let ptx = "";
    /// let _context = cust::quick_init()?;
    /// let pool = CudaPool::open(0)?;
    /// let stream = pool.create_stream()?;
    /// let kernels = Module::from_ptx(ptx, &[])?;
    /// let mut numbers = pool.alloc_zeroed::<f32>(1000, &stream)?;
    /// let all = numbers.on_mut(&stream)?;
    /// // SAFETY: the kernel takes a pointer and a length, and stays within.
    /// unsafe { launch!(kernels.twice<<<4, 256, 0, stream>>>(all, all.len()))? };
    /// # Ok(())
    /// # }
    /// ```
    pub unsafe fn launch<G, B>(
        &self,
        function: &Function<'_>,
        grid_size: G,
        block_size: B,
        shared_mem_bytes: u32,
        arguments: &[*mut c_void],
    ) -> CudaResult<()>
    where
        G: Into<GridSize>,
        B: Into<BlockSize>,
    {
        let (grid, block) = (grid_size.into(), block_size.into());
        let shape = LaunchShape {
            grid: [grid.x, grid.y, grid.z],
            block: [block.x, block.y, block.z],
            shared_bytes: shared_mem_bytes,
        };
        // SAFETY: the function is cust's, and the rest is passed on to the caller.
        let launched = unsafe { self.launch_raw(function.to_raw().cast(), shape, arguments) };
        launched.map_err(|error| cust_error(&error))
    }
}

/// An error as cust names it.
fn cust_error(error: &CudaError) -> CustError {
    match error.code() {
        Some(1) => CustError::InvalidValue,
        Some(2) => CustError::OutOfMemory,
        Some(3) => CustError::NotInitialized,
        Some(4) => CustError::Deinitialized,
        Some(201) => CustError::InvalidContext,
        Some(400) => CustError::InvalidHandle,
        Some(700) => CustError::IllegalAddress,
        Some(701) => CustError::LaunchOutOfResources,
        Some(702) => CustError::LaunchTimeout,
        Some(709) => CustError::ContextIsDestroyed,
        Some(719) => CustError::LaunchFailed,
        _ => CustError::UnknownError,
    }
}

// SAFETY: a kernel reads of a guard what its parameter has bytes for: the address, which is first. A
// guard that was copied to the device and back is the same value.
unsafe impl<T> DeviceCopy for DeviceRef<'_, T> {}
// SAFETY: as above.
unsafe impl<T> DeviceCopy for DeviceMut<'_, T> {}

impl<T> DeviceMemory for DeviceRef<'_, T> {
    fn as_raw_ptr(&self) -> cust::sys::CUdeviceptr {
        self.address()
    }

    fn size_in_bytes(&self) -> usize {
        self.len().saturating_mul(size_of::<T>())
    }
}

impl<T: DeviceCopy> DeviceRef<'_, T> {
    /// cust's pointer to the elements (feature `cust`), for a kernel on the guard's stream.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePointer<T> {
        DevicePointer::from_raw(self.address())
    }

    /// cust's slice of the elements (feature `cust`).
    ///
    /// # Safety
    ///
    /// It can be copied, and outlives the guard: it is used only as long as that could be, in work
    /// that the guard's stream orders. Its copies that name no stream run on the legacy default
    /// stream, which is ordered with no stream that the pool made.
    #[must_use]
    pub unsafe fn as_cust_slice(&self) -> DeviceSlice<T> {
        // SAFETY: so many elements are there; the rest is passed on to the caller.
        unsafe { DeviceSlice::from_raw_parts(self.as_device_ptr(), self.len()) }
    }

    /// cust's buffer over the elements (feature `cust`), for what takes nothing else.
    ///
    /// # Safety
    ///
    /// As [`as_cust_slice`](Self::as_cust_slice). It is never dropped, nor cast to elements of
    /// another size: both would free the pool's memory.
    #[must_use]
    pub unsafe fn as_cust_buffer(&self) -> ManuallyDrop<DeviceBuffer<T>> {
        // SAFETY: as above.
        let buffer = unsafe { DeviceBuffer::from_raw_parts(self.as_device_ptr(), self.len()) };
        ManuallyDrop::new(buffer)
    }
}
