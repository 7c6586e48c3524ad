//! Work of a stream that needs no kernel: copies, fills, and the host's wait for it.

use core::ffi::c_void;

use super::{CudaDevice, CudaStream};
use crate::error::CudaError;
use crate::process;
use crate::sys::RawStream;

impl CudaDevice {
    fn queue(
        &self,
        stream: &CudaStream,
        work: impl FnOnce(RawStream) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        process::check()?;
        self.within(|| work(stream.raw()))
    }

    /// Has the host wait for all that is queued on a stream.
    pub(crate) fn synchronize_stream(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        self.queue(stream, |raw| unsafe { self.driver().functions.synchronize_stream(raw) })
    }

    /// Copies bytes of the device to the host.
    ///
    /// # Safety
    ///
    /// The stream is alive, and both places have so many bytes until it has passed.
    pub(crate) unsafe fn copy_to_host(
        &self,
        stream: &CudaStream,
        from: u64,
        to: *mut c_void,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe {
            self.driver().functions.copy_to_host(to, from, bytes, raw)
        })
    }

    /// Copies bytes of the host to the device.
    ///
    /// # Safety
    ///
    /// As [`copy_to_host`](Self::copy_to_host).
    pub(crate) unsafe fn copy_from_host(
        &self,
        stream: &CudaStream,
        from: *const c_void,
        to: u64,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe {
            self.driver().functions.copy_to_device(to, from, bytes, raw)
        })
    }

    /// Copies bytes from one place of the device, or of a peer, to another.
    ///
    /// # Safety
    ///
    /// As [`copy_to_host`](Self::copy_to_host).
    pub(crate) unsafe fn copy_between(
        &self,
        stream: &CudaStream,
        from: u64,
        to: u64,
        bytes: usize,
    ) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe { self.driver().functions.copy(to, from, bytes, raw) })
    }

    /// Sets bytes of the device, in a stream: for memory that the program has by its address, such
    /// as a block of a [`Pool`](pool_core::Pool). No bytes are no call.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], also for work that failed earlier.
    ///
    /// # Safety
    ///
    /// The stream is alive and of this device, and the place has so many bytes until the stream has
    /// passed. What else uses them is ordered with it.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// use pool_core::{Pool, PoolConfig};
    ///
    /// let pool = Pool::new(CudaDevice::open_on(driver, 0)?, PoolConfig::new())?;
    /// let id = pool.create_stream()?;
    /// let block = pool.allocate_on(id, 4096)?;
    /// if let (Some(stream), Some(address)) = (pool.stream(id), pool.address(&block)) {
    ///     // SAFETY: both are the pool's, and the block is freed behind the fill.
    ///     unsafe { pool.device().fill(&stream, address, 0, 4096) }?;
    /// }
    /// pool.free_on(id, block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub unsafe fn fill(
        &self,
        stream: &CudaStream,
        address: u64,
        byte: u8,
        bytes: usize,
    ) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe { self.driver().functions.fill(address, byte, bytes, raw) })
    }
}
