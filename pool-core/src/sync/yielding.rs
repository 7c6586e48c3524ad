//! The lock where there is an operating system.

use core::hint::spin_loop;

use spin::mutex::{SpinMutex, SpinMutexGuard};

use super::lock::Lock;

/// How often a waiter looks before it yields: about as long as one operation of a range takes.
const LOOKS: u32 = 64;

/// A lock that spins for about as long as an operation takes and then yields to the operating
/// system at each look, so that a holder that was preempted gets the processor back (feature
/// `std`). Free, it costs one atomic exchange.
///
/// # Example
///
/// ```
/// use pool_core::sync::{Lock, Yielding};
///
/// let lock = Yielding::new(7);
/// let held = lock.lock();
/// assert!(lock.try_lock().is_none());
/// # drop(held);
/// ```
#[derive(Debug)]
pub struct Yielding<V>(SpinMutex<V>);

impl<V: Send> Lock<V> for Yielding<V> {
    type Guard<'a>
        = SpinMutexGuard<'a, V>
    where
        Self: 'a;

    fn new(value: V) -> Self {
        Self(SpinMutex::new(value))
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        match self.0.try_lock() {
            Some(guard) => guard,
            None => wait(&self.0),
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock()
    }
}

#[cold]
fn wait<V>(lock: &SpinMutex<V>) -> SpinMutexGuard<'_, V> {
    let mut looks = 0;
    loop {
        if !lock.is_locked()
            && let Some(guard) = lock.try_lock()
        {
            return guard;
        }
        if looks < LOOKS {
            looks += 1;
            spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
