//! The device's primary context: retained, never another created, and current only in a scope.

use core::marker::PhantomData;

use crate::driver::Driver;
use crate::error::CudaError;
use crate::sys::{RawContext, RawDevice};

/// One reference to a device's primary context, the one that the CUDA runtime uses too.
#[derive(Debug)]
pub(crate) struct PrimaryContext {
    driver: &'static Driver,
    device: RawDevice,
    raw: RawContext,
}

impl PrimaryContext {
    pub(crate) fn retain(driver: &'static Driver, device: RawDevice) -> Result<Self, CudaError> {
        let mut raw = RawContext(core::ptr::null_mut());
        // SAFETY: the pointer is to a local.
        unsafe { driver.functions.retain_context(&raw mut raw, device) }?;
        Ok(Self { driver, device, raw })
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    pub(crate) fn enter(&self) -> Result<ContextGuard<'_>, CudaError> {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { self.driver.functions.push_context(self.raw) }?;
        Ok(ContextGuard { context: self, on_this_thread: PhantomData })
    }
}

impl Drop for PrimaryContext {
    fn drop(&mut self) {
        // At the end of a process the driver may be gone already, and nobody is left to tell.
        // SAFETY: no pointers; this gives back the one reference that `retain` took.
        let _ = unsafe { self.driver.functions.release_context(self.device) };
    }
}

/// Keeps a device's context current on this thread; the one before it is current again after.
///
/// Guards of several devices end in the reverse order of their making, as scopes do; in between,
/// another order leaves the wrong one of their contexts current.
///
/// # Example
///
/// ```
/// # use pool_cuda::{Device, Driver};
/// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
/// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
/// let device = Device::open_on(driver, 0)?;
/// let current = device.enter()?;
/// // ... calls that need a current context ...
/// current.leave()?;
/// # Ok::<(), pool_cuda::CudaError>(())
/// ```
#[derive(Debug)]
#[must_use = "the context is current only as long as the guard lives"]
pub struct ContextGuard<'device> {
    context: &'device PrimaryContext,
    // The stack of current contexts is the thread's own, so the guard must not leave it.
    on_this_thread: PhantomData<*const ()>,
}

impl ContextGuard<'_> {
    /// Ends the scope as a drop does, but reports a failure.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{Device, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = Device::open_on(driver, 0)?;
    /// device.enter()?.leave()?;
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn leave(self) -> Result<(), CudaError> {
        let result = self.pop();
        core::mem::forget(self);
        result
    }

    fn pop(&self) -> Result<(), CudaError> {
        let mut popped = RawContext(core::ptr::null_mut());
        // SAFETY: the pointer is to a local.
        unsafe { self.context.driver.functions.pop_context(&raw mut popped) }
    }
}

impl Drop for ContextGuard<'_> {
    fn drop(&mut self) {
        // Whoever wants to know calls `leave`.
        let _ = self.pop();
    }
}
