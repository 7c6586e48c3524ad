//! Whose process this is: in a forked child a runtime has no threads, and waits for them for ever.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::error::ClError;

/// The process that opened a device; zero: none has.
static HOME: AtomicU32 = AtomicU32::new(0);

/// Notes that this process uses the runtime. One that was forked from such a one cannot.
pub(crate) fn enter() -> Result<(), ClError> {
    let me = std::process::id();
    match HOME.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed) {
        Err(home) if home != me => Err(ClError::Forked),
        _ => Ok(()),
    }
}

/// Whether the runtime can be called.
pub(crate) fn is_usable() -> bool {
    HOME.load(Ordering::Relaxed) == std::process::id()
}
