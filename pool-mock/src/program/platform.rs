//! Threads as a program has them: caches that are switched, and locks at which a turn may pass.

use core::cell::RefCell;
use core::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pool_core::sync::Lock;
use pool_core::threads::Threads;
use pool_core::{Cache, SharedAllocator};

use super::turns;

/// Threads of which one runs at a time: each thread of the operating system stands for several,
/// whose caches it has by number, and hands its turn over where another may act.
#[derive(Clone, Copy, Debug)]
pub struct ProgramThreads;

/// The caches of the threads that one thread of the operating system stands for.
struct Caches {
    number: usize,
    caches: Vec<(usize, usize, Cache<ProgramThreads>)>,
}

std::thread_local! {
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches { number: 0, caches: Vec::new() }) };
}

impl Threads for ProgramThreads {
    type Lock<V: Send> = TurnLock<V>;

    fn with_cache<R>(
        shared: &SharedAllocator<Self>,
        work: impl FnOnce(&mut Cache<Self>) -> R,
    ) -> Option<R> {
        // An allocator does not move while its pool lives, and the caches are ended before that.
        let of = core::ptr::from_ref(shared).addr();
        CACHES.with(|all| {
            let mut all = all.try_borrow_mut().ok()?;
            let number = all.number;
            let place = all.caches.iter().position(|known| (known.0, known.1) == (number, of));
            let place = place.unwrap_or_else(|| {
                all.caches.push((number, of, shared.cache()));
                all.caches.len() - 1
            });
            Some(work(&mut all.caches[place].2))
        })
    }
}

/// Has the calling thread stand for another from now on; gives the one before. None in the midst
/// of a use of a cache.
pub(super) fn switch_thread(number: usize) -> Option<usize> {
    CACHES.with(|all| Some(core::mem::replace(&mut all.try_borrow_mut().ok()?.number, number)))
}

/// Ends a thread that the calling one stands for.
pub(super) fn end_thread(number: usize) {
    end_caches(|of| of == number);
}

/// Ends all threads that the calling one stands for.
pub(super) fn end_threads() {
    end_caches(|_| true);
}

fn end_caches(wanted: impl Fn(usize) -> bool) {
    let ended: Vec<_> = CACHES
        .with(|all| all.borrow_mut().caches.extract_if(.., |known| wanted(known.0)).collect());
    drop(ended);
}

/// A lock at which a turn may pass to another thread.
#[derive(Debug)]
pub struct TurnLock<V>(Mutex<V>);

/// What a [`TurnLock`] gives.
#[derive(Debug)]
pub struct TurnGuard<'a, V>(MutexGuard<'a, V>);

impl<V> Deref for TurnGuard<'_, V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0
    }
}

impl<V> DerefMut for TurnGuard<'_, V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.0
    }
}

impl<V: Send> Lock<V> for TurnLock<V> {
    type Guard<'a>
        = TurnGuard<'a, V>
    where
        Self: 'a;

    fn new(value: V) -> Self {
        Self(Mutex::new(value))
    }

    fn lock(&self) -> TurnGuard<'_, V> {
        turns::may_pass();
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            // Its holder has no turn.
            turns::pass();
        }
    }

    fn try_lock(&self) -> Option<TurnGuard<'_, V>> {
        match self.0.try_lock() {
            Ok(guard) => Some(TurnGuard(guard)),
            Err(TryLockError::Poisoned(poisoned)) => {
                Some(TurnGuard(PoisonError::into_inner(poisoned)))
            }
            Err(TryLockError::WouldBlock) => None,
        }
    }
}
