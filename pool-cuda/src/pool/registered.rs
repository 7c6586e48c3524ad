//! Memory of the host that the program has, pinned for a while.

use core::fmt;

use crate::device::CudaDevice;
use crate::error::CudaError;
use crate::process;
use crate::sys::HOST_PORTABLE;

/// Memory of the host, pinned until this is dropped: copies from and to it run in their stream,
/// without being staged.
///
/// The memory is borrowed as long, so that it is unpinned before it goes away, on every path. To
/// leak this leaves it pinned, and borrowed as far as Rust knows: so that is only for memory that
/// lasts as long as the process.
#[must_use = "the memory is unpinned when this is dropped"]
pub struct RegisteredHost<'h> {
    device: CudaDevice,
    memory: &'h mut [u8],
}

impl CudaDevice {
    /// Pins memory of the host.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]: for memory that is pinned already, for example; nothing is pinned.
    ///
    /// # Safety
    ///
    /// What is returned is dropped before the memory goes away, and after all device work that
    /// uses the memory: to leak it is no way out.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let mut memory = vec![0_u8; 1 << 20];
    /// // SAFETY: it is dropped here, and no work uses it.
    /// drop(unsafe { device.register_host(&mut memory)? });
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub unsafe fn register_host<'h>(
        &self,
        memory: &'h mut [u8],
    ) -> Result<RegisteredHost<'h>, CudaError> {
        process::check()?;
        let (start, bytes) = (memory.as_mut_ptr().cast(), memory.len());
        self.within(|| {
            // SAFETY: the memory is there, and the caller's promise is that it stays.
            unsafe { self.driver().functions.register_host(start, bytes, HOST_PORTABLE) }
        })?;
        Ok(RegisteredHost { device: self.clone(), memory })
    }
}

impl RegisteredHost<'_> {
    /// The memory.
    #[must_use]
    pub fn memory(&mut self) -> &mut [u8] {
        self.memory
    }
}

impl fmt::Debug for RegisteredHost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegisteredHost({} bytes)", self.memory.len())
    }
}

impl Drop for RegisteredHost<'_> {
    fn drop(&mut self) {
        if process::is_usable() {
            let start = self.memory.as_mut_ptr().cast();
            // SAFETY: it was registered, and is so once.
            // Nobody is left to tell of a failure.
            let _ = self
                .device
                .within(|| unsafe { self.device.driver().functions.unregister_host(start) });
        }
    }
}
