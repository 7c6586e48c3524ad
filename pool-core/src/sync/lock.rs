//! What a lock must do to be used here.

use core::ops::DerefMut;

/// A lock around a value: one thread at a time.
///
/// An embedding runtime implements it for the lock it has: one that yields to its scheduler,
/// raises a priority, or parks. It has no constant to start from, so that locks of a model
/// checker fit. A lock is held for one operation of a range, never while a device or foreign
/// code is called.
///
/// # Example
///
/// ```
/// use pool_core::sync::{Lock, Spinning};
///
/// let lock = Spinning::new(1);
/// *lock.lock() += 1;
/// assert_eq!(*lock.lock(), 2);
/// ```
pub trait Lock<V>: Send + Sync {
    /// Gives access to the value, and the lock back when it is dropped.
    type Guard<'a>: DerefMut<Target = V>
    where
        Self: 'a;

    /// A lock around a value, open.
    fn new(value: V) -> Self;

    /// Waits until the lock is this caller's.
    fn lock(&self) -> Self::Guard<'_>;

    /// Takes the lock if that needs no waiting.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
}
