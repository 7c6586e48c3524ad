//! The lock where there is an operating system.

use core::hint::spin_loop;

use spin::mutex::{SpinMutex, SpinMutexGuard};

use super::lock::Lock;

/// How long a waiter pauses before it looks again: at first for less than an operation of a range
/// takes, then twice as long each time. Waiters that look often take the lock's cache line away
/// from its holder.
const FIRST_PAUSES: u32 = 4;
const MOST_PAUSES: u32 = 64;

/// A lock whose waiters pause for longer and longer, and in the end yield to the operating system
/// at each look, so that a holder that was preempted gets the processor back (feature `std`).
/// Free, it costs one atomic exchange.
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
    let mut pauses = FIRST_PAUSES;
    loop {
        for _ in 0..pauses {
            spin_loop();
        }
        if !lock.is_locked()
            && let Some(guard) = lock.try_lock()
        {
            return guard;
        }
        if pauses < MOST_PAUSES {
            pauses *= 2;
        } else {
            std::thread::yield_now();
        }
    }
}
