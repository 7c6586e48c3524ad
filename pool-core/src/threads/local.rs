//! A cache for every thread of an operating system, by itself.

use core::cell::RefCell;
use std::vec::Vec;

use super::{Cache, SharedAllocator, Threads};

std::thread_local! {
    /// This thread's caches, the one used last in front. A thread uses few allocators.
    static CACHES: RefCell<Vec<Cache<OsThreads>>> = const { RefCell::new(Vec::new()) };
}

/// The threads of an operating system (feature `std`): locks yield, and every thread has its
/// caches in a thread-local, which go back to their allocators when the thread ends.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator};
///
/// let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
/// let block = shared.allocate(4096)?;
/// std::thread::scope(|scope| {
///     // On another thread, into that thread's cache, which goes back when the thread ends.
///     scope.spawn(|| shared.free(block.handle()));
/// });
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OsThreads;

impl Threads for OsThreads {
    type Lock<V: Send> = crate::sync::Yielding<V>;

    #[inline(always)]
    fn with_cache<R>(
        shared: &SharedAllocator<Self>,
        work: impl FnOnce(&mut Cache<Self>) -> R,
    ) -> Option<R> {
        // No access once the thread's locals are gone, nor from within a use of them: then the
        // centre serves.
        CACHES
            .try_with(|caches| {
                let mut caches = caches.try_borrow_mut().ok()?;
                if !caches.first().is_some_and(|cache| cache.is_of(shared)) {
                    bring_to_front(&mut caches, shared);
                }
                let cache = caches.first_mut().filter(|cache| cache.is_of(shared));
                cache.map(work)
            })
            .ok()
            .flatten()
    }
}

/// Brings this thread's cache of an allocator to the front, or a new one.
#[cold]
fn bring_to_front(caches: &mut Vec<Cache<OsThreads>>, shared: &SharedAllocator<OsThreads>) {
    if let Some(place) = caches.iter().position(|cache| cache.is_of(shared)) {
        caches.swap(0, place);
        return;
    }
    // The caches of allocators that nobody holds any more.
    caches.retain(|cache| !cache.is_orphaned());
    if caches.try_reserve(1).is_ok() {
        caches.insert(0, shared.cache());
    }
}
