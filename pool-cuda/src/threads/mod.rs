//! The threads of a process with CUDA, as the pool sees them.
//!
//! | module | its one job |
//! | --- | --- |
//! | `biased` | a lock that costs nothing as long as one thread takes it |

use core::cell::{Cell, RefCell};
use core::num::NonZeroUsize;
use core::ptr;

use pool_core::SharedAllocator;
use pool_core::sync::UnevenFences;
use pool_core::threads::{Cache, OsThreads, Threads};

use crate::fences::Fences;

mod biased;

#[cfg(all(test, loom))]
mod models;

pub use biased::{Biased, BiasedGuard};

thread_local! {
    /// The cache that was used last. Null while it is in use. No destructor, so that to find it takes
    /// one load.
    static LAST: Cell<*mut Cache<CudaThreads>> = const { Cell::new(ptr::null_mut()) };
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches(Vec::new())) };
}

/// Threads as [`OsThreads`] are, whose caches are found sooner (by a pointer, where `pool-core`, which
/// has no unsafe code, takes a guarded cell), and whose locks are [`Biased`].
#[derive(Clone, Copy, Debug)]
pub struct CudaThreads;

/// A thread's caches. It uses few pools.
struct Caches(Vec<*mut Cache<CudaThreads>>);

impl Threads for CudaThreads {
    type Lock<V: Send> = Biased<V>;

    #[expect(clippy::inline_always, reason = "a hit is a few dozen instructions")]
    #[inline(always)]
    fn with_cache<R>(
        shared: &SharedAllocator<Self>,
        work: impl FnOnce(&mut Cache<Self>) -> R,
    ) -> Option<R> {
        let last = LAST.with(|last| last.replace(ptr::null_mut()));
        // SAFETY: what `LAST` names is one of `CACHES`, which keeps it, and nobody else has it: it is
        // named here alone, and not while it is in use.
        let mut cache = unsafe { last.as_mut() };
        if !cache.as_ref().is_some_and(|cache| cache.is_of(shared)) {
            // SAFETY: as above.
            cache = unsafe { turn_to(shared, last).as_mut() };
        }
        let Some(cache) = cache else {
            // Null if this is called from within a use.
            LAST.with(|place| place.set(last));
            return None;
        };
        let used = ptr::from_mut(cache);
        let result = work(cache);
        LAST.with(|last| last.set(used));
        Some(result)
    }

    fn thread_number() -> Option<NonZeroUsize> {
        OsThreads::thread_number()
    }

    fn uneven_fences() -> Option<UnevenFences> {
        Fences::of_process().uneven()
    }
}

/// This thread's cache of an allocator, made if there is none; null if this is called from within
/// a use of one, or once the thread's locals are gone.
#[cold]
fn turn_to(
    shared: &SharedAllocator<CudaThreads>,
    last: *mut Cache<CudaThreads>,
) -> *mut Cache<CudaThreads> {
    let found = CACHES.try_with(|caches| {
        let caches = &mut caches.try_borrow_mut().ok()?.0;
        if last.is_null() && !caches.is_empty() {
            // One of them is in use.
            return None;
        }
        caches.retain(|&cache| {
            // SAFETY: none is in use, and each is a box's until it is taken back here.
            let orphaned = unsafe { (*cache).is_orphaned() };
            if orphaned {
                // SAFETY: as above.
                drop(unsafe { Box::from_raw(cache) });
            }
            !orphaned
        });
        // SAFETY: as above.
        let known = caches.iter().copied().find(|&cache| unsafe { (*cache).is_of(shared) });
        if known.is_none() {
            caches.try_reserve(1).ok()?;
        }
        Some(known.unwrap_or_else(|| {
            let cache = Box::into_raw(Box::new(shared.cache()));
            caches.push(cache);
            cache
        }))
    });
    found.ok().flatten().unwrap_or(ptr::null_mut())
}

impl Drop for Caches {
    fn drop(&mut self) {
        LAST.set(ptr::null_mut());
        for cache in self.0.drain(..) {
            // SAFETY: each is a box's, and the thread, which alone uses them, ends.
            drop(unsafe { Box::from_raw(cache) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pool_core::RangeConfig;

    fn shared() -> SharedAllocator<CudaThreads> {
        SharedAllocator::on_platform(RangeConfig::new(64 << 20)).unwrap()
    }

    #[test]
    fn a_use_within_a_use_gets_no_cache() {
        let (one, other) = (shared(), shared());
        let within = CudaThreads::with_cache(&one, |_| {
            let same = CudaThreads::with_cache(&one, |_| ());
            let another = CudaThreads::with_cache(&other, |_| ());
            (same, another)
        });
        assert_eq!(within, Some((None, None)));
        assert!(CudaThreads::with_cache(&one, |_| ()).is_some());
        assert!(CudaThreads::with_cache(&other, |_| ()).is_some());
    }

    #[test]
    fn each_allocator_has_its_own_cache_and_the_gone_have_none() {
        let one = shared();
        let place = |shared: &SharedAllocator<CudaThreads>| {
            CudaThreads::with_cache(shared, |cache| {
                assert!(cache.is_of(shared));
                ptr::from_mut(cache).addr()
            })
        };
        let first = place(&one);
        for _ in 0..10 {
            let other = shared();
            assert_ne!(place(&other), first);
            assert_eq!(place(&one), first);
        }
        let other = shared();
        assert!(place(&other).is_some());
        assert!(CACHES.with_borrow(|caches| caches.0.len()) <= 3);
    }

    /// What is left of a thread that had many blocks, once it has ended.
    fn after_a_thread<T: Threads>() -> u64 {
        let shared = SharedAllocator::<T>::on_platform(RangeConfig::new(64 << 20)).unwrap();
        let during = std::thread::scope(|scope| {
            let job = scope.spawn(|| {
                let blocks: Vec<_> = (0..100).map(|_| shared.allocate(256).unwrap()).collect();
                for block in blocks {
                    shared.free(block.handle()).unwrap();
                }
                shared.stats().cached_bytes
            });
            job.join().unwrap()
        });
        let after = shared.stats().cached_bytes;
        assert!(after < during, "{after} of {during} bytes");
        after
    }

    #[test]
    fn a_thread_that_ends_gives_its_blocks_back() {
        assert_eq!(after_a_thread::<CudaThreads>(), after_a_thread::<OsThreads>());
    }
}
