//! Several devices that use each other's memory.

use super::CudaDevice;
use super::memory::Memory;
use crate::error::CudaError;
use crate::process;

/// Peer access is open already: what was asked for is so.
const ALREADY_ENABLED: i32 = 704;

impl CudaDevice {
    /// Whether kernels of this device can use another's memory.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let (first, second) = (CudaDevice::open_on(driver, 0)?, CudaDevice::open_on(driver, 1)?);
    /// if second.can_access(&first)? {
    ///     first.open_to(&second)?; // kernels of the second may use pools of the first
    /// }
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn can_access(&self, peer: &Self) -> Result<bool, CudaError> {
        process::check()?;
        let mut can = 0;
        // SAFETY: the pointer is to a local.
        unsafe {
            self.driver().functions.can_access_peer(
                &raw mut can,
                self.raw_device(),
                peer.raw_device(),
            )
        }?;
        Ok(can != 0)
    }

    /// Lets kernels of another device use the memory that pools over this one have and will have,
    /// imported bytes too. To ask twice changes nothing.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], with code 217 or 101 where the two cannot. To ask again goes on from there.
    ///
    /// # Example
    ///
    /// See [`can_access`](Self::can_access).
    pub fn open_to(&self, peer: &Self) -> Result<(), CudaError> {
        process::check()?;
        self.open_memory_to(peer)?;
        match &self.inner.pages {
            Some(_) => self.with_pages(|pages| pages.open_to(peer.raw_device())),
            None => Ok(()),
        }
    }

    /// Opens what is allocated in one piece.
    fn open_memory_to(&self, peer: &Self) -> Result<(), CudaError> {
        match &self.inner.memory {
            Memory::DriverPool(pool) => self.within(|| pool.open_to(self.driver(), peer)),
            Memory::Plain => {
                let opened = peer.within(|| {
                    let context = self.core().context.raw();
                    // SAFETY: the context lives as long as `self`.
                    unsafe { self.driver().functions.enable_peer(context, 0) }
                });
                match opened {
                    Err(error) if error.code() == Some(ALREADY_ENABLED) => Ok(()),
                    opened => opened,
                }
            }
            // Every context can use it.
            Memory::Host => Ok(()),
        }
    }
}
