//! A cache for every thread of an operating system, by itself.

use core::cell::RefCell;
use core::num::NonZeroUsize;
use core::ptr;
use std::vec::Vec;

use super::{Cache, SharedAllocator, Threads};

std::thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local { last: 0, caches: Vec::new() }) };
    /// Its address is the thread's number.
    static HERE: u8 = const { 0 };
}

/// A thread's caches. It uses few allocators.
struct Local {
    /// The place of the cache that was used last.
    last: usize,
    caches: Vec<Cache<OsThreads>>,
}

/// The threads of an operating system (feature `std`): locks yield, and every thread has its
/// caches in a thread-local, which go back to their allocators when the thread ends. A cache whose
/// allocator is gone keeps the allocator's tables on the host's heap until its thread ends or
/// turns to another allocator.
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
        LOCAL
            .try_with(|local| {
                let mut local = local.try_borrow_mut().ok()?;
                let last = local.last;
                if !local.caches.get(last).is_some_and(|cache| cache.is_of(shared)) {
                    local.turn_to(shared);
                }
                let last = local.last;
                let cache = local.caches.get_mut(last).filter(|cache| cache.is_of(shared));
                cache.map(work)
            })
            .ok()
            .flatten()
    }

    fn thread_number() -> Option<NonZeroUsize> {
        HERE.try_with(|here| NonZeroUsize::new(ptr::from_ref(here).addr())).ok().flatten()
    }
}

impl Local {
    /// Finds this thread's cache of an allocator, or makes one.
    #[cold]
    fn turn_to(&mut self, shared: &SharedAllocator<OsThreads>) {
        // The caches of allocators that nobody holds any more.
        self.caches.retain(|cache| !cache.is_orphaned());
        let place = self.caches.iter().position(|cache| cache.is_of(shared));
        self.last = place.unwrap_or(self.caches.len());
        if place.is_none() && self.caches.try_reserve(1).is_ok() {
            self.caches.push(shared.cache());
        }
    }
}
