//! Whether this process may call the driver: not in a forked child, and not while it exits.
//!
//! Handlers of the system say so, which are registered before the driver is first used: to ask for
//! the process's number at each call would cost more than an allocation.

use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Once;

use crate::error::CudaError;

const USABLE: u8 = 0;
const EXITING: u8 = 1;
const FORKED: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(USABLE);

/// Marks a forked child. The driver does not work there, and the locks may be held by threads that
/// the child does not have.
extern "C" fn in_child() {
    STATE.store(FORKED, Ordering::Relaxed);
    pool_core::sync::leave_locks();
}

/// Marks the end of the process: the driver's own handlers run after this one.
extern "C" fn at_exit() {
    // A child that forked without the driver stays one.
    let _ = STATE.compare_exchange(USABLE, EXITING, Ordering::Relaxed, Ordering::Relaxed);
}

/// Has forks be noticed from here on. To be called before the driver starts.
pub(crate) fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to atomics, which is all that a child may do. Where it
        // cannot be registered there is no memory left for anything else.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Has the end of the process be noticed. To be called once the driver has started, whose own
/// handlers, registered earlier, run later.
pub(crate) fn watch_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::atexit(at_exit) };
    });
}

/// Whether the driver may be called.
#[inline]
pub(crate) fn is_usable() -> bool {
    STATE.load(Ordering::Relaxed) == USABLE
}

/// Refuses where the driver may not be called.
#[inline]
pub(crate) fn check() -> Result<(), CudaError> {
    if is_usable() { Ok(()) } else { Err(reason()) }
}

#[cold]
fn reason() -> CudaError {
    if STATE.load(Ordering::Relaxed) == FORKED { CudaError::Forked } else { CudaError::Exiting }
}
