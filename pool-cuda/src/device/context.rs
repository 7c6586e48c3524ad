//! A context: the device's primary one, or one that the program gave; current only in a scope.

use core::marker::PhantomData;

use crate::driver::Driver;
use crate::error::CudaError;
use crate::sys::{RawContext, RawDevice};

/// A context that lasts as long as this.
#[derive(Debug)]
pub(crate) struct Context {
    driver: &'static Driver,
    raw: RawContext,
    /// The device whose primary context it is: one reference to give back.
    primary_of: Option<RawDevice>,
}

impl Context {
    /// The primary context of a device, the one that the CUDA runtime uses too.
    pub(crate) fn retain(driver: &'static Driver, device: RawDevice) -> Result<Self, CudaError> {
        let mut raw = RawContext::NULL;
        // SAFETY: the pointer is to a local.
        unsafe { driver.functions.retain_context(&raw mut raw, device) }?;
        Ok(Self { driver, raw, primary_of: Some(device) })
    }

    /// A context of the program's.
    ///
    /// # Safety
    ///
    /// It lasts longer than this.
    pub(crate) unsafe fn given(driver: &'static Driver, raw: RawContext) -> Self {
        Self { driver, raw, primary_of: None }
    }

    /// The device that it is of.
    pub(crate) fn device(&self) -> Result<RawDevice, CudaError> {
        self.within(|| {
            let mut device = 0;
            // SAFETY: the pointer is to a local.
            unsafe { self.driver.functions.device_of_context(&raw mut device) }?;
            Ok(device)
        })
    }

    pub(crate) fn raw(&self) -> RawContext {
        self.raw
    }

    /// Makes it current on this thread, unless it is.
    pub(crate) fn enter(&self) -> Result<ContextGuard<'_>, CudaError> {
        let mut current = RawContext::NULL;
        // SAFETY: the pointer is to a local.
        unsafe { self.driver.functions.current_context(&raw mut current) }?;
        let pushed = current != self.raw;
        if pushed {
            // SAFETY: the context lasts as long as `self` lives.
            unsafe { self.driver.functions.push_context(self.raw) }?;
        }
        Ok(ContextGuard { context: self, pushed, on_this_thread: PhantomData })
    }

    /// Does something while it is current, and restores the caller's.
    pub(crate) fn within<R>(
        &self,
        work: impl FnOnce() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        let guard = self.enter()?;
        let result = work();
        // What was done is done, and must be known to the caller, even if the thread's context
        // before could not be restored: that only fails where the driver is lost.
        drop(guard);
        result
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(device) = self.primary_of
            && crate::process::is_usable()
        {
            // Nobody is left to tell.
            // SAFETY: no pointers; this gives back the one reference that `retain` took.
            let _ = unsafe { self.driver.functions.release_context(device) };
        }
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
/// # use pool_cuda::{CudaDevice, Driver};
/// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
/// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
/// let device = CudaDevice::open_on(driver, 0)?;
/// let current = device.enter()?;
/// // ... calls that need a current context ...
/// current.leave()?;
/// # Ok::<(), pool_cuda::CudaError>(())
/// ```
#[derive(Debug)]
#[must_use = "the context is current only as long as the guard lives"]
pub struct ContextGuard<'device> {
    context: &'device Context,
    pushed: bool,
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
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// device.enter()?.leave()?;
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn leave(self) -> Result<(), CudaError> {
        let result = self.pop();
        core::mem::forget(self);
        result
    }

    fn pop(&self) -> Result<(), CudaError> {
        if !self.pushed {
            return Ok(());
        }
        let mut popped = RawContext::NULL;
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
