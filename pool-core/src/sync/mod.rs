//! Every atomic, lock and once-cell of this crate: the only place that names where they come
//! from.
//!
//! | built with | atomics | locks |
//! | --- | --- | --- |
//! | nothing | `core`'s; without 64-bit ones, or with the feature `locked-words`, a lock around a number | [`Spinning`], with `std` `Yielding` |
//! | `--cfg loom` | loom's | loom's |
//! | `--cfg shuttle` | shuttle's | shuttle's |

mod counter;
mod left;
mod lock;
#[cfg(any(feature = "locked-words", not(target_has_atomic = "64")))]
mod locked;
#[cfg(any(loom, shuttle))]
mod modelled;
mod padded;
mod spinning;
mod uneven;
#[cfg(feature = "std")]
mod yielding;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};
#[cfg(all(shuttle, not(loom)))]
pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::AtomicU32;
#[cfg(all(not(any(loom, shuttle, feature = "locked-words")), target_has_atomic = "64"))]
pub(crate) use core::sync::atomic::AtomicU64;
#[cfg(all(
    not(any(loom, shuttle)),
    any(feature = "locked-words", not(target_has_atomic = "64"))
))]
pub(crate) use locked::AtomicU64;

pub(crate) use core::sync::atomic::Ordering;
/// A cell that is filled once, by whoever comes first, and never moves again.
pub(crate) use spin::Once;

pub(crate) use counter::Counter;
pub(crate) use left::is_left;
pub use left::leave_locks;
pub use lock::Lock;
#[cfg(any(loom, shuttle))]
pub use modelled::Modelled;
pub(crate) use padded::Padded;
pub use spinning::Spinning;
pub use uneven::UnevenFences;
#[cfg(feature = "std")]
pub use yielding::Yielding;

/// A number that no other call in this process gets, until 2^32 have been made.
pub(crate) fn instance_number() -> u32 {
    // Not one that a model checker knows: nothing is decided by it.
    static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number from 1 to 2^31 - 1 that no other call in this process gets; none once there is no
/// other.
pub(crate) fn unique_number() -> Option<u32> {
    // As above.
    static LAST: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);
    let next = |last: u32| Some(last + 1).filter(|&next| next < 1 << 31);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
    Some(last + 1)
}

/// Lets other threads run, while this one waits for something that is no lock.
pub(crate) fn pause() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(all(shuttle, not(loom)))]
    shuttle::thread::yield_now();
    #[cfg(all(feature = "std", not(any(loom, shuttle))))]
    std::thread::yield_now();
    #[cfg(all(not(feature = "std"), not(any(loom, shuttle))))]
    core::hint::spin_loop();
}

/// A pause of about a millisecond, for a wait that is already long. Without std it is as many spins
/// as take about that.
pub(crate) fn nap() {
    #[cfg(any(loom, shuttle))]
    pause();
    #[cfg(all(feature = "std", not(any(loom, shuttle))))]
    std::thread::sleep(core::time::Duration::from_millis(1));
    #[cfg(all(not(feature = "std"), not(any(loom, shuttle))))]
    for _ in 0..1 << 15 {
        core::hint::spin_loop();
    }
}
