//! A cache for every thread of an operating system, by itself.

use core::cell::RefCell;
use core::num::NonZeroUsize;
use core::ptr;
use std::vec::Vec;

use super::{Cache, SharedAllocator, Threads};

std::thread_local! {
    static LOCAL: RefCell<Local> = const { RefCell::new(Local { last: None, others: Vec::new() }) };
    /// Its address is the thread's number.
    static HERE: u8 = const { 0 };
}

/// A thread's caches. It uses few allocators.
struct Local {
    /// The cache that was used last.
    last: Option<Cache<OsThreads>>,
    others: Vec<Cache<OsThreads>>,
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
                if !local.last.as_ref().is_some_and(|cache| cache.is_of(shared)) {
                    local.turn_to(shared)?;
                }
                local.last.as_mut().map(work)
            })
            .ok()
            .flatten()
    }

    fn thread_number() -> Option<NonZeroUsize> {
        HERE.try_with(|here| NonZeroUsize::new(ptr::from_ref(here).addr())).ok().flatten()
    }
}

impl Local {
    /// Has the cache of an allocator be the last, which is made if there is none. `None` if the host's
    /// heap refuses.
    #[cold]
    fn turn_to(&mut self, shared: &SharedAllocator<OsThreads>) -> Option<()> {
        let place = self.others.iter().position(|cache| cache.is_of(shared));
        let place = if let Some(place) = place {
            place
        } else {
            self.others.try_reserve(1).ok()?;
            self.others.push(shared.cache());
            self.others.len() - 1
        };
        match &mut self.last {
            Some(last) => core::mem::swap(last, &mut self.others[place]),
            None => self.last = Some(self.others.swap_remove(place)),
        }
        // The caches of allocators that nobody holds any more.
        self.others.retain(|cache| !cache.is_orphaned());
        Some(())
    }
}
