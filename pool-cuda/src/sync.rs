//! Atomics and locks: those of std, or a model checker's in its models.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use pool_core::sync::Modelled as Below;
#[cfg(not(loom))]
pub(crate) use pool_core::sync::Yielding as Below;
#[cfg(not(loom))]
pub(crate) use std::sync::{Mutex, MutexGuard};

/// So many short pauses before a waiter gives the processor away.
#[cfg(not(loom))]
const SHORT_PAUSES: u32 = 64;

/// Waits a little for another thread; longer from some time on.
pub(crate) fn pause(pauses: &mut u32) {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    if *pauses < SHORT_PAUSES {
        core::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
    *pauses = pauses.saturating_add(1);
}
