//! Models of the biased lock, explored by loom: every order of two threads that take it twice, and of
//! three that take it once. What it guards is a cell whose unordered accesses loom refuses.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use pool_core::sync::Lock;

use super::Biased;

type Guarded = Biased<UnsafeCell<u32>>;

fn add(lock: &Guarded) {
    // SAFETY: the lock is held.
    lock.lock().with_mut(|count| unsafe { *count += 1 });
}

fn try_add(lock: &Guarded) -> u32 {
    match lock.try_lock() {
        Some(guard) => {
            // SAFETY: the lock is held.
            guard.with_mut(|count| unsafe { *count += 1 });
            1
        }
        None => 0,
    }
}

fn count(lock: &Guarded) -> u32 {
    // SAFETY: the lock is held.
    lock.lock().with(|count| unsafe { *count })
}

#[test]
fn the_favourite_against_another() {
    loom::model(|| {
        let lock = Arc::new(Guarded::new(UnsafeCell::new(0)));
        add(&lock);
        let other = {
            let lock = lock.clone();
            thread::spawn(move || add(&lock))
        };
        add(&lock);
        other.join().unwrap();
        assert_eq!(count(&lock), 3);
    });
}

#[test]
fn the_favourite_against_an_attempt() {
    loom::model(|| {
        let lock = Arc::new(Guarded::new(UnsafeCell::new(0)));
        add(&lock);
        let other = {
            let lock = lock.clone();
            thread::spawn(move || try_add(&lock))
        };
        let here = try_add(&lock);
        let there = other.join().unwrap();
        assert_eq!(count(&lock), 1 + here + there);
    });
}

#[test]
fn two_that_come_first() {
    loom::model(|| {
        let lock = Arc::new(Guarded::new(UnsafeCell::new(0)));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || {
                add(&lock);
                add(&lock);
            })
        };
        add(&lock);
        other.join().unwrap();
        assert_eq!(count(&lock), 3);
    });
}

#[test]
fn two_others_end_the_favour() {
    loom::model(|| {
        let lock = Arc::new(Guarded::new(UnsafeCell::new(0)));
        add(&lock);
        let others = [(); 2].map(|()| {
            let lock = lock.clone();
            thread::spawn(move || add(&lock))
        });
        add(&lock);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(count(&lock), 4);
    });
}
