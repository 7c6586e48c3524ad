//! What the thread layer takes from the platform: a lock, and a place for each thread's cache.

use core::num::NonZeroUsize;

use super::{Cache, SharedAllocator};
use crate::sync::{Lock, UnevenFences};

/// What threads are on a platform. `OsThreads` (feature `std`) and
/// [`BareThreads`] are given; a runtime implements its own to bring its lock, or to keep caches
/// in its own places (a core's, a queue's).
///
/// # Example
///
/// ```
/// use pool_core::sync::Spinning;
/// use pool_core::threads::Threads;
/// use pool_core::{RangeConfig, SharedAllocator};
///
/// #[derive(Debug)]
/// struct Firmware;
///
/// impl Threads for Firmware {
///     type Lock<V: Send> = Spinning<V>;
/// }
///
/// let shared = SharedAllocator::<Firmware>::on_platform(RangeConfig::new(64 << 20))?;
/// let block = shared.allocate(4096)?;
/// shared.free(block.handle())?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait Threads: Sized + 'static {
    /// The lock around each shard.
    type Lock<V: Send>: Lock<V>;

    /// Does something with the calling thread's cache of an allocator, which is made if there is
    /// none; `None` if the thread has no place for one, or no longer. The default has none: then
    /// every call that names no cache goes to the centre.
    fn with_cache<R>(
        shared: &SharedAllocator<Self>,
        work: impl FnOnce(&mut Cache<Self>) -> R,
    ) -> Option<R> {
        let _ = (shared, work);
        None
    }

    /// A number that no other thread has while the calling one runs. By it a pool tells a call
    /// that comes from within its own call of a device from one of another thread: the one must
    /// not wait for that call to end, the other should. `None`, the default, if there are no such
    /// numbers: then a call waits in both cases, and gives up sooner.
    ///
    /// # Example
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use pool_core::threads::{OsThreads, Threads};
    ///
    /// let here = OsThreads::thread_number();
    /// let there = std::thread::scope(|scope| scope.spawn(OsThreads::thread_number).join());
    /// assert!(here.is_some() && here != there.unwrap());
    /// # }
    /// ```
    #[must_use]
    fn thread_number() -> Option<NonZeroUsize> {
        None
    }

    /// The fences of a platform that has uneven ones: then a hit in a cache needs no atomic exchange,
    /// and a [flush](SharedAllocator::flush) makes the heavy one.
    /// `None`, the default, if it has none.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::threads::{BareThreads, Threads};
    ///
    /// assert!(BareThreads::uneven_fences().is_none());
    /// ```
    #[must_use]
    fn uneven_fences() -> Option<UnevenFences> {
        None
    }
}

/// No operating system: locks spin, caches are kept where the program keeps them.
#[derive(Clone, Copy, Debug)]
pub struct BareThreads;

impl Threads for BareThreads {
    type Lock<V: Send> = crate::sync::Spinning<V>;
}

/// The threads of a model checker.
#[cfg(any(loom, shuttle))]
#[derive(Clone, Copy, Debug)]
pub struct ModelThreads;

#[cfg(any(loom, shuttle))]
impl Threads for ModelThreads {
    type Lock<V: Send> = crate::sync::Modelled<V>;
}

/// The platform unless another is named: [`OsThreads`](super::OsThreads) with the feature `std`,
/// [`BareThreads`] without.
#[cfg(feature = "std")]
pub type DefaultThreads = super::OsThreads;

/// The platform unless another is named: `OsThreads` with the feature `std`, [`BareThreads`]
/// without.
#[cfg(not(feature = "std"))]
pub type DefaultThreads = BareThreads;
