//! Models of a pool's end, explored by loom: every order of two or three threads, one handle, one or
//! two buffers. Each has something to lose: memory that the end takes away.

use loom::cell::UnsafeCell;
use loom::sync::Arc as Shared;
use loom::thread;
use std::sync::Arc;

use super::tally::{Slot, Tally};

/// What stands for the parts of a pool: used by whoever has a buffer, taken away by the end.
struct Pool {
    tally: Arc<Tally>,
    memory: UnsafeCell<bool>,
    ends: UnsafeCell<u32>,
}

impl Pool {
    fn new() -> Shared<Self> {
        let memory = UnsafeCell::new(true);
        Shared::new(Self { tally: Tally::new(), memory, ends: UnsafeCell::new(0) })
    }

    /// A buffer is given out, while there is a handle.
    fn give(&self, slot: &Slot) {
        slot.give();
    }

    /// A buffer comes back: first its memory, then the count.
    fn take(&self, slot: &Slot) {
        // SAFETY: a read, while the buffer is out.
        assert!(self.memory.with(|memory| unsafe { *memory }), "the pool has ended");
        if slot.take(self.tally.fences()) && self.tally.is_over() {
            self.end();
        }
    }

    /// The last handle is dropped.
    fn close(&self) {
        if self.tally.close() {
            self.end();
        }
    }

    fn end(&self) {
        // SAFETY: nobody else has it, or the model fails.
        self.memory.with_mut(|memory| unsafe { *memory = false });
        self.ends.with_mut(|ends| unsafe { *ends += 1 });
    }
}

/// Drops the last handle while `others` run; when all are done, the pool has ended, once.
fn close_against<const N: usize>(pool: &Pool, others: [thread::JoinHandle<()>; N]) {
    pool.close();
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(pool.ends.with(|ends| unsafe { *ends }), 1);
}

#[test]
fn the_last_buffer_against_the_last_handle() {
    loom::model(|| {
        let pool = Pool::new();
        let slot = pool.tally.enter();
        pool.give(&slot);
        let other = {
            let (pool, slot) = (pool.clone(), slot.clone());
            thread::spawn(move || pool.take(&slot))
        };
        close_against(&pool, [other]);
    });
}

#[test]
fn two_buffers_on_two_threads_against_the_last_handle() {
    loom::model(|| {
        let pool = Pool::new();
        let slots = [pool.tally.enter(), pool.tally.enter()];
        pool.give(&slots[0]);
        pool.give(&slots[0]);
        let others = slots.map(|slot| {
            let pool = pool.clone();
            thread::spawn(move || pool.take(&slot))
        });
        close_against(&pool, others);
    });
}

#[test]
fn a_buffer_on_a_new_thread_against_the_last_handle() {
    loom::model(|| {
        let pool = Pool::new();
        let slot = pool.tally.enter();
        pool.give(&slot);
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                let slot = pool.tally.enter();
                pool.take(&slot);
            })
        };
        close_against(&pool, [other]);
    });
}

#[test]
fn a_thread_that_ends_against_the_last_handle() {
    loom::model(|| {
        let pool = Pool::new();
        let slot = pool.tally.enter();
        pool.give(&slot);
        let other = {
            let (pool, slot) = (pool.clone(), slot.clone());
            thread::spawn(move || {
                pool.take(&slot);
                pool.tally.leave(&slot);
            })
        };
        close_against(&pool, [other]);
    });
}

#[test]
fn a_thread_without_a_slot_against_the_last_handle() {
    loom::model(|| {
        let pool = Pool::new();
        pool.tally.give_apart();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || {
                // SAFETY: a read, while the buffer is out.
                assert!(pool.memory.with(|memory| unsafe { *memory }), "the pool has ended");
                if pool.tally.take_apart() {
                    pool.end();
                }
            })
        };
        close_against(&pool, [other]);
    });
}
