//! The lock where there is no operating system.

use spin::mutex::{SpinMutex, SpinMutexGuard};

use super::lock::Lock;

/// A lock that spins until it is free (`spin`'s): for targets without an operating system, where
/// nobody can be yielded to. Waiting is unbounded if the holder is preempted by the waiter; a
/// runtime with priorities brings a [`Lock`] of its own.
///
/// # Example
///
/// ```
/// use pool_core::sync::{Lock, Spinning};
///
/// let lock = Spinning::new(7);
/// let held = lock.lock();
/// assert!(lock.try_lock().is_none());
/// # drop(held);
/// ```
#[derive(Debug)]
pub struct Spinning<V>(SpinMutex<V>);

impl<V: Send> Lock<V> for Spinning<V> {
    type Guard<'a>
        = SpinMutexGuard<'a, V>
    where
        Self: 'a;

    fn new(value: V) -> Self {
        Self(SpinMutex::new(value))
    }

    #[inline]
    fn lock(&self) -> Self::Guard<'_> {
        self.0.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock()
    }
}
