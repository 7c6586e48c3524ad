//! A lock that costs nothing as long as one thread takes it.
//!
//! # Protocol
//!
//! - The first thread that takes the lock becomes its favourite. It says that it is inside by a plain
//!   store, makes the light fence, and looks whether it still is the favourite.
//! - Any other thread takes the lock below first, which those others share; it says that nobody is the
//!   favourite any more, makes the heavy fence, and waits until the favourite is not inside.
//!   From then on the lock below is the lock.
//!
//! So of the favourite and who ends its favour, one sees the other. (Biased locking, as in Kawachiya,
//! Koseki and Onodera's "Lock Reservation", with a fence that only the rare side pays.)

use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

use pool_core::sync::Lock;

use crate::fences::Fences;
use crate::sabotage::Switch;
use crate::sync::{AtomicBool, AtomicUsize, Below, Ordering, pause};

/// Nobody took the lock yet.
const NOBODY: usize = 0;
/// Several threads take it.
const ALL: usize = usize::MAX;

/// A lock around a value, which the first thread that takes it takes by two plain stores, until
/// another thread wants it: then it is a lock whose waiters yield, for good.
///
/// # Example
///
/// ```
/// use pool_core::sync::Lock;
/// use pool_cuda::Biased;
///
/// let lock = Biased::new(1);
/// *lock.lock() += 1;
/// std::thread::scope(|scope| scope.spawn(|| *lock.lock() += 1).join().unwrap());
/// assert_eq!(*lock.lock(), 3);
/// ```
pub struct Biased<V> {
    favourite: AtomicUsize,
    /// Whether the favourite has the lock. It alone writes this.
    inside: AtomicBool,
    fences: Fences,
    below: Below<()>,
    value: UnsafeCell<V>,
}

// SAFETY: one thread at a time has the value, which may pass between threads.
unsafe impl<V: Send> Send for Biased<V> {}
// SAFETY: as above.
unsafe impl<V: Send> Sync for Biased<V> {}

/// The value of a [`Biased`] lock, until this is dropped.
pub struct BiasedGuard<'l, V> {
    lock: &'l Biased<V>,
    /// The lock below, unless the favourite took it without.
    below: Option<Held<'l>>,
    // The favourite says itself that it is outside.
    on_this_thread: PhantomData<*const ()>,
}

/// The lock below, held.
type Held<'l> = <Below<()> as Lock<()>>::Guard<'l>;

/// What came of an attempt to take the lock as its favourite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entered {
    Yes,
    /// It is somebody else's, or everybody's.
    NotFavourite,
    /// This thread has it already.
    Again,
}

#[cfg(not(loom))]
thread_local! {
    static ME: Cell<usize> = const { Cell::new(NOBODY) };
}

// The threads of a model are not the system's.
#[cfg(loom)]
loom::thread_local! {
    static ME: Cell<usize> = Cell::new(NOBODY);
}

/// A number of the calling thread that no other thread of the process ever has.
#[inline]
fn me() -> usize {
    let me = ME.with(Cell::get);
    if me == NOBODY { first_number() } else { me }
}

#[cold]
fn first_number() -> usize {
    static NEXT: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(NOBODY + 1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    ME.with(|me| me.set(number));
    number
}

impl<V> Biased<V> {
    /// Takes the lock as its favourite.
    #[inline]
    fn enter(&self, me: usize) -> Entered {
        if self.favourite.load(Ordering::Relaxed) != me {
            return Entered::NotFavourite;
        }
        if self.inside.load(Ordering::Relaxed) {
            return Entered::Again;
        }
        // Relaxed, too: what was done under the lock before was done by this thread.
        self.inside.store(true, Ordering::Relaxed);
        self.fences.light();
        if self.favourite.load(Ordering::Relaxed) == me {
            return Entered::Yes;
        }
        self.leave();
        Entered::NotFavourite
    }

    /// Says that the favourite is outside.
    #[inline]
    fn leave(&self) {
        self.inside.store(false, Switch::Leave.or_relaxed(Ordering::Release));
    }

    fn guard<'l>(&'l self, below: Option<Held<'l>>) -> BiasedGuard<'l, V> {
        BiasedGuard { lock: self, below, on_this_thread: PhantomData }
    }

    /// Takes the lock with the lock below in hand; none if the favourite is inside, and it is not to
    /// be waited for.
    fn enter_below<'l>(&'l self, below: Held<'l>, wait: bool) -> Option<BiasedGuard<'l, V>> {
        match self.favourite.load(Ordering::Relaxed) {
            NOBODY => {
                // Others look only with the lock below in hand.
                self.favourite.store(me(), Ordering::Relaxed);
                self.inside.store(true, Ordering::Relaxed);
                drop(below);
                return Some(self.guard(None));
            }
            ALL => {}
            _ => {
                self.favourite.store(ALL, Ordering::Relaxed);
                self.fences.heavy();
            }
        }
        let mut pauses = 0;
        while self.inside.load(Ordering::Acquire) {
            if !wait {
                return None;
            }
            pause(&mut pauses);
        }
        Some(self.guard(Some(below)))
    }

    #[cold]
    fn lock_slowly(&self, entered: Entered) -> BiasedGuard<'_, V> {
        if entered == Entered::Again {
            // As with any lock, a thread that waits for itself waits for good.
            let mut pauses = 0;
            loop {
                pause(&mut pauses);
            }
        }
        loop {
            // What is waited for is taken at the first attempt.
            if let Some(guard) = self.enter_below(self.below.lock(), true) {
                return guard;
            }
        }
    }

    #[cold]
    fn try_lock_slowly(&self, entered: Entered) -> Option<BiasedGuard<'_, V>> {
        if entered == Entered::Again {
            return None;
        }
        self.enter_below(self.below.try_lock()?, false)
    }
}

impl<V: Send> Lock<V> for Biased<V> {
    type Guard<'l>
        = BiasedGuard<'l, V>
    where
        Self: 'l;

    fn new(value: V) -> Self {
        Self {
            favourite: AtomicUsize::new(NOBODY),
            inside: AtomicBool::new(false),
            fences: Fences::of_process(),
            below: Below::new(()),
            value: UnsafeCell::new(value),
        }
    }

    #[inline]
    fn lock(&self) -> BiasedGuard<'_, V> {
        match self.enter(me()) {
            Entered::Yes => self.guard(None),
            entered => self.lock_slowly(entered),
        }
    }

    #[inline]
    fn try_lock(&self) -> Option<BiasedGuard<'_, V>> {
        match self.enter(me()) {
            Entered::Yes => Some(self.guard(None)),
            entered => self.try_lock_slowly(entered),
        }
    }
}

impl<V> Deref for BiasedGuard<'_, V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: the lock is this guard's.
        unsafe { &*self.lock.value.get() }
    }
}

impl<V> DerefMut for BiasedGuard<'_, V> {
    #[inline]
    fn deref_mut(&mut self) -> &mut V {
        // SAFETY: as above.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<V> Drop for BiasedGuard<'_, V> {
    #[inline]
    fn drop(&mut self) {
        if self.below.is_none() {
            self.lock.leave();
        }
    }
}

impl<V> fmt::Debug for Biased<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Biased").finish_non_exhaustive()
    }
}

impl<V: fmt::Debug> fmt::Debug for BiasedGuard<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BiasedGuard").field(&**self).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_has_it_twice() {
        let lock = Biased::new(1);
        for _ in 0..3 {
            let held = lock.lock();
            assert!(lock.try_lock().is_none(), "by the favourite");
            std::thread::scope(|scope| {
                scope.spawn(|| assert!(lock.try_lock().is_none(), "by another"));
            });
            drop(held);
            assert!(lock.try_lock().is_some());
        }
    }

    #[test]
    fn threads_that_come_by_and_by_lose_nothing() {
        for threads in [1, 2, 4] {
            let lock = Biased::new(0_u64);
            std::thread::scope(|scope| {
                for late in 0..threads {
                    let lock = &lock;
                    scope.spawn(move || {
                        for _ in 0..late * 100 {
                            std::thread::yield_now();
                        }
                        for round in 0..20_000 {
                            if round % 3 == 0 {
                                while lock.try_lock().map(|mut count| *count += 1).is_none() {
                                    std::thread::yield_now();
                                }
                            } else {
                                *lock.lock() += 1;
                            }
                        }
                    });
                }
            });
            assert_eq!(*lock.lock(), threads * 20_000);
        }
    }
}
