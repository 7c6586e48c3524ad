//! The driver: loaded once, when it is first asked for, and never unloaded.

use core::error::Error as _;
use core::ffi::{CStr, c_int, c_void};
use std::sync::OnceLock;

use libloading::Library;

use crate::device::{Context, ordinal_of};
use crate::error::CudaError;
use crate::process;
use crate::sys::{
    CAPTURE_MODE_RELAXED, CAPTURE_STATUS_NONE, Functions, PageFunctions, RawContext, RawDevice,
    RawStream,
};

/// The name under which the driver is installed.
const LIBRARY: &str = "libcuda.so.1";

/// A CUDA driver, initialized.
#[derive(Debug)]
pub struct Driver {
    pub(crate) functions: Functions,
    /// Those for pages, where the driver has them.
    pub(crate) pages: Option<PageFunctions>,
}

impl Driver {
    /// The driver of this machine. It is loaded by the first call that succeeds and stays.
    ///
    /// # Errors
    ///
    /// [`CudaError::NoDriver`] where there is none, [`CudaError::MissingFunction`] where it is
    /// too old, [`CudaError::Call`] where it does not start (no device, for instance),
    /// [`CudaError::Forked`] in a forked child of a process that used it.
    ///
    /// # Example
    ///
    /// ```
    /// match pool_cuda::Driver::system() {
    ///     Ok(driver) => println!("CUDA {:?}", driver.version()),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn system() -> Result<&'static Self, CudaError> {
        static SYSTEM: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = SYSTEM.get() {
            return Ok(driver);
        }
        // Two threads may both come here; loading twice is harmless, and one table is kept.
        let driver = Self::load(LIBRARY)?;
        Ok(SYSTEM.get_or_init(|| driver))
    }

    /// A driver whose functions are found by name: one that is linked into the program, or a
    /// simulated one.
    ///
    /// # Errors
    ///
    /// [`CudaError::MissingFunction`] at the first null pointer, [`CudaError::Call`] where the
    /// driver does not start.
    ///
    /// # Safety
    ///
    /// Each pointer that `lookup` returns is null, or the function that the CUDA driver's
    /// interface has under that name, callable as long as the program runs.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_cuda::Driver;
    ///
    /// // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?;
    /// assert_eq!(driver.device_count()?, 2);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub unsafe fn from_symbols(
        mut lookup: impl FnMut(&CStr) -> *const c_void,
    ) -> Result<Self, CudaError> {
        process::check()?;
        process::watch_forks();
        // SAFETY: passed on to the caller.
        let functions = unsafe { Functions::find(&mut lookup) }?;
        // SAFETY: as above.
        let pages = unsafe { PageFunctions::find(lookup) }.ok();
        // SAFETY: no pointers.
        unsafe { functions.init(0) }?;
        process::watch_exit();
        Ok(Self { functions, pages })
    }

    /// The newest CUDA version that this driver serves, as 1000 times the major plus 10 times
    /// the minor number.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::Driver;
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?;
    /// assert_eq!(driver.version()?, 12_040);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn version(&self) -> Result<u32, CudaError> {
        let mut version = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.functions.driver_version(&raw mut version) }?;
        Ok(u32::try_from(version).unwrap_or(0))
    }

    /// How many devices there are; their ordinals count from 0.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::Driver;
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?;
    /// assert_eq!(driver.device_count()?, 2);
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn device_count(&self) -> Result<u32, CudaError> {
        let mut count = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.functions.device_count(&raw mut count) }?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    /// Whether this process may call a driver at all, before anything else is looked at: in a child that
    /// may not, locks are as another thread of its parent left them.
    ///
    /// # Errors
    ///
    /// [`CudaError::Forked`], [`CudaError::Exiting`].
    ///
    /// # Example
    ///
    /// ```
    /// pool_cuda::Driver::check_process()?;
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn check_process() -> Result<(), CudaError> {
        process::check()
    }

    /// The context that is current on this thread; null if none is.
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
    /// assert!(driver.current_context()?.is_null());
    /// let device = CudaDevice::open_on(driver, 1)?;
    /// let _current = device.enter()?;
    /// assert_eq!(driver.current_context()?, device.context());
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    pub fn current_context(&self) -> Result<*mut c_void, CudaError> {
        process::check()?;
        let mut context = RawContext::NULL;
        // SAFETY: the pointer is to a local.
        unsafe { self.functions.current_context(&raw mut context) }?;
        Ok(context.0)
    }

    /// The ordinal of the device that a context is of.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`]; the thread's current context is as before.
    ///
    /// # Safety
    ///
    /// The context is one of the driver's, and there until this returns.
    pub unsafe fn ordinal_of_context(
        &'static self,
        context: *mut c_void,
    ) -> Result<u32, CudaError> {
        process::check()?;
        // SAFETY: passed on to the caller.
        let context = unsafe { Context::given(self, RawContext(context)) };
        ordinal_of(self, context.device()?)
    }

    /// The context that a stream is of. A context has to be current, whichever.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// The handle is of a stream that is there until this returns.
    pub unsafe fn context_of_stream(&self, stream: *mut c_void) -> Result<*mut c_void, CudaError> {
        process::check()?;
        let mut context = RawContext::NULL;
        // SAFETY: the pointer is to a local, and the stream is there, by the caller's promise.
        unsafe { self.functions.stream_context(RawStream(stream), &raw mut context) }?;
        Ok(context.0)
    }

    /// Gives memory back that `cuMemAlloc` gave out, to anyone in the process. A context has to be current.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`], also for an address at which nothing of the driver's begins.
    ///
    /// # Safety
    ///
    /// No work uses the memory, nor will.
    pub unsafe fn free(&self, address: u64) -> Result<(), CudaError> {
        process::check()?;
        // SAFETY: passed on to the caller.
        unsafe { self.functions.free(address) }
    }

    /// The number of a stream; `None` where [streams have none](Self::has_stream_ids), and of one that is
    /// captured, as to ask for it would break the capture. No context is looked at: one has to be current,
    /// whichever.
    ///
    /// # Errors
    ///
    /// [`CudaError::Call`].
    ///
    /// # Safety
    ///
    /// The handle is of a stream that is there until this returns, and no default one.
    pub unsafe fn stream_number(&self, stream: *mut c_void) -> Result<Option<u64>, CudaError> {
        process::check()?;
        // SAFETY: passed on to the caller.
        unsafe { self.number_of(RawStream(stream)) }
    }

    /// The same.
    ///
    /// # Safety
    ///
    /// As [`stream_number`](Self::stream_number).
    pub(crate) unsafe fn number_of(&self, stream: RawStream) -> Result<Option<u64>, CudaError> {
        // SAFETY: passed on to the caller.
        if !self.has_stream_ids() || unsafe { self.capture_of(stream) }?.is_some() {
            return Ok(None);
        }
        let mut number = 0;
        // SAFETY: the pointer is to a local, and the stream is there, by the caller's promise.
        let asked = unsafe { self.functions.stream_id(stream, &raw mut number) };
        Ok(asked.transpose()?.map(|()| number))
    }

    /// The number of the capture that a stream is in, if it is in one. No context is looked at.
    ///
    /// # Safety
    ///
    /// The stream is there; for a default one its context is current.
    pub(crate) unsafe fn capture_of(&self, stream: RawStream) -> Result<Option<u64>, CudaError> {
        let (mut status, mut number) = (CAPTURE_STATUS_NONE, 0);
        // SAFETY: two pointers are to locals, the others may be null.
        unsafe {
            self.functions.capture_info(
                stream,
                &raw mut status,
                &raw mut number,
                core::ptr::null_mut(),
                core::ptr::null_mut(),
                core::ptr::null_mut(),
            )
        }?;
        Ok((status != CAPTURE_STATUS_NONE).then_some(number))
    }

    /// Whether streams have numbers that no other stream of their context has or had
    /// (`cuStreamGetId`, from CUDA 12 on), so that a handle that was given to another stream is
    /// noticed.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::Driver;
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?;
    /// assert!(driver.has_stream_ids());
    /// # Ok::<(), pool_cuda::CudaError>(())
    /// ```
    #[must_use]
    pub fn has_stream_ids(&self) -> bool {
        self.functions.has_stream_ids()
    }

    /// Whether a device has something that an attribute says.
    pub(crate) fn has(&self, attribute: c_int, device: RawDevice) -> Result<bool, CudaError> {
        let mut value = 0;
        // SAFETY: the pointer is to a local.
        unsafe { self.functions.device_attribute(&raw mut value, attribute, device) }?;
        Ok(value != 0)
    }

    /// Does something that a capture in the process forbids and that has nothing to do with it:
    /// the driver takes it from this thread meanwhile.
    pub(crate) fn relaxed<R>(
        &self,
        work: impl FnOnce() -> Result<R, CudaError>,
    ) -> Result<R, CudaError> {
        let mut mode = CAPTURE_MODE_RELAXED;
        // SAFETY: the pointer is to a local.
        unsafe { self.functions.exchange_capture_mode(&raw mut mode) }?;
        let result = work();
        // SAFETY: as above. A mode that was valid is taken again.
        let _ = unsafe { self.functions.exchange_capture_mode(&raw mut mode) };
        result
    }

    /// Loads a library for good: its threads and exit handlers outlive any use of ours.
    fn load(name: &str) -> Result<Self, CudaError> {
        // SAFETY: the driver's initializers may run in any program.
        let library = unsafe { Library::new(name) }.map_err(|error| {
            // What the system said is the source; the error itself says only that it failed.
            let said = error.source().map(ToString::to_string);
            CudaError::NoDriver { reason: said.unwrap_or_else(|| error.to_string()) }
        })?;
        let library = Box::leak(Box::new(library));
        let lookup = |name: &CStr| {
            // SAFETY: an untyped pointer is what any symbol's address can be taken as.
            let symbol = unsafe { library.get::<*const c_void>(name) };
            symbol.map_or(core::ptr::null(), |address| *address)
        };
        // SAFETY: the names are looked up in the driver's own library, which is never unloaded.
        unsafe { Self::from_symbols(lookup) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_library_is_no_driver_and_is_named() {
        let error = Driver::load("libcuda-of-no-machine.so.1").unwrap_err();
        let CudaError::NoDriver { reason } = &error else { panic!("{error:?}") };
        assert!(reason.contains("libcuda-of-no-machine.so.1"), "{reason}");
    }

    #[test]
    fn a_library_that_is_no_driver_lacks_the_first_function() {
        let error = Driver::load("libc.so.6").unwrap_err();
        assert_eq!(error, CudaError::MissingFunction { call: "cuInit" });
    }
}
