//! What a pool gave out and what came back, counted by each thread for itself.
//!
//! # Protocol
//!
//! - A thread counts in a slot of its own: it alone writes the numbers there.
//! - To give out takes a handle of the pool, so that whoever drops the last handle sees all that was
//!   given out, and nothing is given out after: it *closes* the tally.
//! - To take back, a thread first does everything with the pool that it will do, then counts, then
//!   makes the light fence, then looks whether its slot is closed. Who closes marks all slots, makes
//!   the heavy fence, then looks at the counts. So one of the two sees the other; and who sees that
//!   all is back, under the lock, ends the pool, once.

use std::sync::{Arc, PoisonError};

use crate::fences::Fences;
use crate::sabotage::Switch;
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering};

/// A thread's counts, on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Slot {
    gave: AtomicU64,
    took: AtomicU64,
    /// Whether the pool's last handle is gone.
    closed: AtomicBool,
}

/// The counts of a pool.
pub(crate) struct Tally {
    /// No other tally of the process has it.
    number: u64,
    fences: Fences,
    book: Mutex<Book>,
}

struct Book {
    /// Of the threads that are there.
    slots: Vec<Arc<Slot>>,
    /// Of those that are gone.
    gave: u64,
    took: u64,
    closed: bool,
    ended: bool,
}

impl Slot {
    /// Counts one that is given out. Only the slot's thread does.
    #[inline]
    pub(super) fn give(&self) {
        // A number of this thread's alone: it needs no addition of the processor's.
        let gave = self.gave.load(Ordering::Relaxed);
        self.gave.store(gave.wrapping_add(1), Ordering::Relaxed);
    }

    /// Counts one that came back. Only the slot's thread does. True if the pool is closed, so that
    /// it may have been the last.
    #[inline]
    pub(super) fn take(&self, fences: Fences) -> bool {
        let took = self.took.load(Ordering::Relaxed);
        // Who sees the count sees what was done before it.
        self.took.store(took.wrapping_add(1), Switch::Count.or_relaxed(Ordering::Release));
        fences.light();
        self.closed.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub(crate) fn new() -> Arc<Self> {
        // Not an atomic that a model knows: no order rests on it.
        static NUMBERS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let book = Book { slots: Vec::new(), gave: 0, took: 0, closed: false, ended: false };
        Arc::new(Self { number, fences: Fences::of_process(), book: Mutex::new(book) })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn fences(&self) -> Fences {
        self.fences
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a thread.
    pub(super) fn enter(&self) -> Arc<Slot> {
        let mut book = self.book();
        let slot = Arc::new(Slot::default());
        slot.closed.store(book.closed, Ordering::Relaxed);
        book.slots.push(Arc::clone(&slot));
        slot
    }

    /// Takes a slot back from a thread that ends.
    pub(super) fn leave(&self, slot: &Arc<Slot>) {
        let mut book = self.book();
        if let Some(place) = book.slots.iter().position(|other| Arc::ptr_eq(other, slot)) {
            book.slots.swap_remove(place);
            book.gave = book.gave.wrapping_add(slot.gave.load(Ordering::Relaxed));
            book.took = book.took.wrapping_add(slot.took.load(Ordering::Acquire));
        }
    }

    /// Counts one that is given out, for a thread that has no slot any more.
    pub(super) fn give_apart(&self) {
        let mut book = self.book();
        book.gave = book.gave.wrapping_add(1);
    }

    /// Counts one that came back, for a thread that has no slot any more. True if it was the last
    /// of a pool that is closed: the caller ends that.
    #[must_use]
    pub(super) fn take_apart(&self) -> bool {
        let mut book = self.book();
        book.took = book.took.wrapping_add(1);
        book.is_over()
    }

    /// The last handle is gone. True if nothing is out: the caller ends the pool.
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        let mut book = self.book();
        book.closed = true;
        for slot in &book.slots {
            slot.closed.store(true, Ordering::Relaxed);
        }
        self.fences.heavy();
        book.is_over()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.book().ended
    }

    /// Whether the pool is closed and all is back: then the caller, and nobody else, ends it.
    #[must_use]
    pub(super) fn is_over(&self) -> bool {
        self.book().is_over()
    }
}

impl Book {
    fn is_over(&mut self) -> bool {
        if !self.closed || self.ended {
            return false;
        }
        // Nothing is given out any more.
        let each = |count: fn(&Slot) -> u64| {
            self.slots.iter().map(|slot| count(slot)).fold(0, u64::wrapping_add)
        };
        let took = each(|slot| slot.took.load(Ordering::Acquire)).wrapping_add(self.took);
        let gave = each(|slot| slot.gave.load(Ordering::Relaxed)).wrapping_add(self.gave);
        self.ended = took == gave;
        self.ended
    }
}
