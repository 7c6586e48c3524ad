//! Whether there is a pool, and whether it serves. It is made when a program first asks for memory or
//! begins a capture; until then, and in a process that never does, nothing is called.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use pool_cuda::Driver;

use crate::{loader, report};

/// The codes of the driver that this library answers by itself.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const DEINITIALIZED: c_int = 4;
pub(crate) const NOT_SUPPORTED: c_int = 801;

/// Blocks begin at multiples of it, as the driver's memory does: textures want it.
pub(crate) const ALIGN: u64 = 512;

static STARTED: OnceLock<bool> = OnceLock::new();
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// Whether the pool serves now; it is made if there is none. Not in a forked child of a process that used
/// the driver, nor while the process ends: there the driver answers.
pub(crate) fn serves() -> bool {
    Driver::check_process().is_ok() && !is_over() && *STARTED.get_or_init(start)
}

/// Whether there is a pool that may be called, made by an earlier call.
pub(crate) fn is_there() -> bool {
    STARTED.get().is_some_and(|&is_started| is_started)
        && !is_over()
        && Driver::check_process().is_ok()
}

/// The program has ended a device's context with all that is in it: the pool's memory and streams, too.
pub(crate) fn end() {
    IS_OVER.store(true, Ordering::Release);
}

/// Whether it has.
pub(crate) fn is_over() -> bool {
    IS_OVER.load(Ordering::Acquire)
}

fn start() -> bool {
    let lookup = |name: &CStr| loader::in_driver(name).cast_const();
    // SAFETY: the names are looked up in the driver's own library, which stays.
    let Ok(driver) = (unsafe { Driver::from_symbols(lookup) }) else { return false };
    let is_started = pool_cuda_c::start_aligned(Box::leak(Box::new(driver)), ALIGN).is_ok();
    if is_started {
        report::at_the_end();
    } else {
        report::no_pool();
    }
    is_started
}
