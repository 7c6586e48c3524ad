//! A forked child, whose locks may be held by threads that it does not have.

use core::sync::atomic::AtomicBool;

use super::Ordering;

/// Not an atomic that a model checker knows: no model forks.
static LEFT: AtomicBool = AtomicBool::new(false);

/// Has this process leave all pools, allocators and budgets as they are, for good: a forked child
/// calls it before anything else. It has its parent's memory but only the thread that forked, and a
/// lock that another one held is never opened.
///
/// From then on nothing that ends here takes a lock, calls a device or waits for a thread: handles of
/// pools, caches of threads that end, guards, tenancies, keepers. What they had stays as it is. To
/// allocate and to free from a pool is refused; calls that ask for figures, and those of
/// a range or an allocator without a device, are not stopped by this.
///
/// It stores to one atomic, so that a handler of `pthread_atfork` may call it.
///
/// # Example
///
/// ```no_run
/// extern "C" fn in_the_child() {
///     pool_core::sync::leave_locks();
/// }
/// # let _ = in_the_child;
/// // … libc::pthread_atfork(None, None, Some(in_the_child)), before a pool is first used.
/// ```
pub fn leave_locks() {
    LEFT.store(true, Ordering::Relaxed);
}

/// Whether no lock may be taken for what ends.
#[inline]
pub(crate) fn is_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}
