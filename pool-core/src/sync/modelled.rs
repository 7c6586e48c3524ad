//! The lock of a model checker.

#[cfg(loom)]
use loom::sync::{Mutex, MutexGuard};
#[cfg(all(shuttle, not(loom)))]
use shuttle::sync::{Mutex, MutexGuard};

use super::lock::Lock;

/// A lock that the model checker knows, which explores who gets it.
#[derive(Debug)]
pub struct Modelled<V>(Mutex<V>);

impl<V: Send> Lock<V> for Modelled<V> {
    type Guard<'a>
        = MutexGuard<'a, V>
    where
        Self: 'a;

    fn new(value: V) -> Self {
        Self(Mutex::new(value))
    }

    fn lock(&self) -> Self::Guard<'_> {
        // A panic while it is held ends the model anyway.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        self.0.try_lock().ok()
    }
}
