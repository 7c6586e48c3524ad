//! What the process has: a driver, and a pool for each device that was used.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use pool_core::{Handle, PoolError, StreamId};
use pool_cuda::{CudaError, Driver};

use crate::code::{Code, Result};
use crate::conf::Conf;
use crate::device::DevicePool;
use crate::handle::StreamHandle;
use crate::last;
use crate::runtime;
use crate::thread::{self, Seen};
use crate::torch::Torch;

/// It lasts as long as the process: at its end the driver takes all back.
static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(ptr::null_mut());

/// The driver and the devices that it shows.
pub(crate) struct Library {
    driver: &'static Driver,
    conf: Conf,
    torch: Torch,
    pools: Box<[OnceLock<DevicePool>]>,
    /// One thread at a time makes a pool.
    opening: Mutex<()>,
}

/// Whose stream a handle is.
#[derive(Clone, Copy)]
pub(crate) enum Route {
    /// One that the pool knows.
    Known(&'static DevicePool, StreamId),
    /// The calling thread's default stream.
    PerThread(&'static DevicePool),
}

impl Route {
    pub(crate) fn pool(self) -> &'static DevicePool {
        match self {
            Self::Known(pool, _) | Self::PerThread(pool) => pool,
        }
    }
}

/// The library, started if it is not. In a child that may not call the driver nothing is looked at.
pub(crate) fn library() -> Result<&'static Library> {
    Driver::check_process()?;
    // SAFETY: it is leaked, and ends only as `stop` says.
    if let Some(library) = unsafe { LIBRARY.load(Ordering::Acquire).as_ref() } {
        return Ok(library);
    }
    start(Driver::system()?, Conf::of_environment()?)
}

/// What this thread has seen of the handle: of the legacy default stream, where there are several devices,
/// that of the current context.
#[inline]
pub(crate) fn seen(handle: StreamHandle) -> Option<Seen> {
    thread::seen(handle).or_else(|| seen_here(handle))
}

fn seen_here(handle: StreamHandle) -> Option<Seen> {
    if handle != StreamHandle::LEGACY {
        return None;
    }
    // SAFETY: as in `library`.
    let library = unsafe { LIBRARY.load(Ordering::Acquire).as_ref() }?;
    if library.is_single() {
        return None;
    }
    // In a child that may not call the driver this is an error.
    let context = library.driver.current_context().ok()?;
    thread::seen(handle.in_context(context))
}

/// Starts on a driver, unless another thread has: then that one's is kept.
fn start(driver: &'static Driver, conf: Conf) -> Result<&'static Library> {
    let devices = driver.device_count()?;
    if devices == 0 {
        return Err(Code::NO_DEVICE);
    }
    let pools = (0..devices).map(|_| OnceLock::new()).collect();
    let new = Box::into_raw(Box::new(Library {
        driver,
        conf,
        torch: Torch::default(),
        pools,
        opening: Mutex::default(),
    }));
    let put = LIBRARY.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
    let kept = put.map_or_else(
        |first| {
            // SAFETY: it was made just now, and nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
            first
        },
        |_| new,
    );
    // SAFETY: as above.
    Ok(unsafe { &*kept })
}

/// Starts on a driver of the caller's, for tests.
///
/// # Errors
///
/// A `cudaError_t`, if there is no device or another was started before.
#[doc(hidden)]
pub fn start_on(driver: &'static Driver) -> core::result::Result<(), core::ffi::c_int> {
    start_with(driver, Conf::of_environment())
}

/// The same for `pool-cuda-preload`, whose blocks begin at multiples of so many bytes.
///
/// # Errors
///
/// As [`start_on`].
#[doc(hidden)]
pub fn start_aligned(
    driver: &'static Driver,
    align_bytes: u64,
) -> core::result::Result<(), core::ffi::c_int> {
    start_with(driver, Conf::of_environment().map(|conf| conf.aligned(align_bytes)))
}

fn start_with(
    driver: &'static Driver,
    conf: Result<Conf>,
) -> core::result::Result<(), core::ffi::c_int> {
    let started = conf.and_then(|conf| start(driver, conf)).and_then(|library| {
        if ptr::eq(library.driver, driver) { Ok(()) } else { Err(Code::UNKNOWN) }
    });
    match last::answer(started) {
        0 => Ok(()),
        code => Err(code),
    }
}

/// Ends it, and gives all memory back, for tests: the next call starts it anew.
///
/// # Safety
///
/// No call is under way, and no other thread that made one lives.
#[doc(hidden)]
pub unsafe fn stop() {
    // SAFETY: the pools end below.
    unsafe { thread::forget() };
    let library = LIBRARY.swap(ptr::null_mut(), Ordering::AcqRel);
    if !library.is_null() {
        // SAFETY: it is a box's, and by the caller's promise nobody uses it.
        drop(unsafe { Box::from_raw(library) });
    }
}

impl Library {
    /// The library, if it was started. Its books may be looked at wherever the driver may not be called.
    pub(crate) fn started() -> Option<&'static Self> {
        // SAFETY: as in `library`.
        unsafe { LIBRARY.load(Ordering::Acquire).as_ref() }
    }

    /// The pool of the current context, which there has to be: a driver has no other idea of a device.
    pub(crate) fn in_context(&'static self) -> Result<&'static DevicePool> {
        let context = self.driver.current_context()?;
        if context.is_null() {
            return Err(Code::INVALID_CONTEXT);
        }
        self.pool_in(context, Code::INVALID_CONTEXT)
    }

    /// The ordinal of a device by its number in C.
    pub(crate) fn ordinal(&self, device: core::ffi::c_int) -> Result<usize> {
        let ordinal = usize::try_from(device).ok().filter(|&ordinal| ordinal < self.pools.len());
        ordinal.ok_or(Code::INVALID_DEVICE)
    }

    /// The pool of a device, if there is one.
    pub(crate) fn opened(&self, ordinal: usize) -> Option<&DevicePool> {
        self.pools.get(ordinal)?.get()
    }

    pub(crate) fn driver(&self) -> &'static Driver {
        self.driver
    }

    /// What is remembered for PyTorch.
    pub(crate) fn torch(&self) -> &Torch {
        &self.torch
    }

    /// The name that a thread remembers a stream of a pool's device by.
    #[inline]
    pub(crate) fn key(&self, handle: StreamHandle, pool: &DevicePool) -> StreamHandle {
        let is_same_everywhere = !handle.is_default() || self.is_single();
        if is_same_everywhere { handle } else { handle.in_context(pool.device().context()) }
    }

    pub(crate) fn conf(&self) -> &Conf {
        &self.conf
    }

    /// The pool of the device that this thread works on, for calls that name no stream.
    #[inline]
    pub(crate) fn here(&'static self) -> Result<&'static DevicePool> {
        match self.pools.first().and_then(OnceLock::get) {
            Some(only) if self.is_single() && thread::has_entered() => Ok(only),
            _ => {
                self.enter_thread()?;
                self.current()
            }
        }
    }

    /// Makes a context current, as the runtime does, on a thread that has none when it names no stream for
    /// the first time: the primary one of the runtime's current device.
    pub(crate) fn enter_thread(&'static self) -> Result<()> {
        if thread::has_entered() {
            return Ok(());
        }
        if self.driver.current_context()?.is_null() {
            let ordinal = self.ordinal(runtime::device().unwrap_or(0))?;
            // It stays current.
            core::mem::forget(self.pool(ordinal)?.device().enter()?);
        }
        thread::set_entered();
        Ok(())
    }

    /// Whether an address is of a pool's memory.
    pub(crate) fn has(&'static self, address: u64) -> bool {
        self.all_opened().any(|pool| pool.core.has_address(address))
    }

    pub(crate) fn all_opened(&'static self) -> impl Iterator<Item = &'static DevicePool> {
        self.pools.iter().filter_map(OnceLock::get)
    }

    /// The pool of a device, made if there is none.
    pub(crate) fn pool(&'static self, ordinal: usize) -> Result<&'static DevicePool> {
        let place = self.pools.get(ordinal).ok_or(Code::INVALID_DEVICE)?;
        if let Some(pool) = place.get() {
            return Ok(pool);
        }
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = place.get() {
            return Ok(pool);
        }
        let number = u32::try_from(ordinal).map_err(|_| Code::INVALID_DEVICE)?;
        let pool = DevicePool::open(self.driver, number, &self.conf)?;
        Ok(place.get_or_init(|| pool))
    }

    /// Whether a default stream's handle means the same stream wherever it is named: there is one device,
    /// and so one primary context.
    fn is_single(&self) -> bool {
        self.pools.len() == 1
    }

    /// Finds out whose stream a handle is, and remembers it for this thread where it stays so.
    pub(crate) fn route(&'static self, handle: StreamHandle) -> Result<Route> {
        if handle == StreamHandle::PER_THREAD {
            return Ok(Route::PerThread(self.current()?));
        }
        let pool = if handle.is_default() { self.current()? } else { self.pool_of(handle)? };
        let known = pool.adopt(handle)?;
        thread::remember(self.key(handle, pool), pool, known);
        Ok(Route::Known(pool, known.stream))
    }

    /// Does something on a stream that is in no capture which nobody announced. What this thread has seen
    /// of the handle counts if it still is that stream's.
    pub(crate) fn on<R>(
        &'static self,
        handle: StreamHandle,
        work: impl Fn(Route) -> core::result::Result<R, PoolError<CudaError>>,
    ) -> Result<R> {
        if !handle.is_default()
            && let Some(seen) = thread::seen(handle)
            // Without a current context the driver may not answer.
            && matches!(seen.pool.is_still(handle, seen.number), Ok(true))
        {
            match work(Route::Known(seen.pool, seen.stream)) {
                // The pool has let go of it meanwhile.
                Err(PoolError::UnknownStream(_)) => {}
                done => return done.map_err(|error| seen.pool.code(error)),
            }
        }
        let route = self.route(handle)?;
        route.pool().check_capture(handle)?;
        work(route).map_err(|error| route.pool().code(error))
    }

    /// The pool of the current context; where none is, of the first device, as the runtime would.
    fn current(&'static self) -> Result<&'static DevicePool> {
        let context = self.driver.current_context()?;
        if context.is_null() { self.pool(0) } else { self.pool_in(context, Code::INVALID_CONTEXT) }
    }

    /// The pool whose context a stream is of.
    fn pool_of(&'static self, handle: StreamHandle) -> Result<&'static DevicePool> {
        // The driver may want one, whichever.
        let entered = if self.driver.current_context()?.is_null() {
            let any = self.all_opened().next().map_or_else(|| self.pool(0), Ok)?;
            Some(any.device().enter()?)
        } else {
            None
        };
        // SAFETY: the program names it in a call, so it is there.
        let context = unsafe { self.driver.context_of_stream(handle.raw()) }?;
        drop(entered);
        self.pool_in(context, Code::INVALID_HANDLE)
    }

    /// The pool of a context, which has to be its device's primary one.
    pub(crate) fn pool_in(
        &'static self,
        context: *mut core::ffi::c_void,
        refused: Code,
    ) -> Result<&'static DevicePool> {
        let is_in = |pool: &&DevicePool| pool.device().context() == context;
        if let Some(pool) = self.all_opened().find(is_in) {
            return Ok(pool);
        }
        // SAFETY: it is current, or a stream's that the program names.
        let ordinal = unsafe { self.driver.ordinal_of_context(context) }?;
        let pool = self.pool(ordinal as usize)?;
        if is_in(&pool) { Ok(pool) } else { Err(refused) }
    }

    /// The live block that begins at an address, and whose it is.
    pub(crate) fn find(&'static self, address: u64) -> Option<(&'static DevicePool, Handle)> {
        self.all_opened()
            .find_map(|pool| pool.core.block_at_address(address).map(|handle| (pool, handle)))
    }

    /// Lets go of a stream that is about to be destroyed, if a pool knows it.
    pub(crate) fn retire(&'static self, handle: StreamHandle) -> Result<()> {
        self.all_opened().try_for_each(|pool| pool.retire(handle).map(|_| ()))
    }
}
