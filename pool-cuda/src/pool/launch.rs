//! Kernels.

use core::ffi::c_void;

use super::stream::PoolStream;
use crate::error::CudaError;
use crate::process;

/// How many threads run a kernel, and with how much shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of shared memory that a block gets beside the kernel's own.
    pub shared_bytes: u32,
}

impl PoolStream {
    /// Queues a kernel by the driver's handle of it (its `CUfunction`): what `cust::launch!` does
    /// by itself.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], also for work that failed earlier.
    ///
    /// # Safety
    ///
    /// The function is of the stream's context, and the arguments point to what it takes. Guards
    /// among them name this stream, and the kernel stays in their elements, and only reads what a
    /// [`DeviceRef`](crate::DeviceRef) has.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # use core::ffi::c_void;
    /// # use pool_cuda::LaunchShape;
    /// # fn kernel() -> *mut c_void { core::ptr::null_mut() }
    /// let pool = pool_cuda::CudaPool::open(0)?;
    /// let stream = pool.create_stream()?;
    /// let mut buffer = pool.alloc::<u8>(1000, &stream)?;
    /// let all = buffer.on_mut(&stream)?;
    /// let (address, len) = (all.address(), all.len());
    /// let arguments = [(&raw const address).cast_mut().cast(), (&raw const len).cast_mut().cast()];
    /// let shape = LaunchShape { grid: [4, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
    /// // SAFETY: the kernel takes a pointer and a length, and stays within.
    /// unsafe { stream.launch_raw(kernel(), shape, &arguments) }?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub unsafe fn launch_raw(
        &self,
        function: *mut c_void,
        shape: LaunchShape,
        arguments: &[*mut c_void],
    ) -> Result<(), CudaError> {
        process::check()?;
        let LaunchShape { grid, block, shared_bytes } = shape;
        let device = self.device();
        device.within(|| {
            // SAFETY: the stream is alive, and the rest is passed on to the caller.
            unsafe {
                device.driver().functions.launch_kernel(
                    function,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    shared_bytes,
                    self.cuda().raw(),
                    arguments.as_ptr().cast_mut(),
                    core::ptr::null_mut(),
                )
            }
        })
    }
}
