//! What threads keep for themselves, and what becomes of it.

use core::cell::RefCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::thread;
use std::time::Instant;

use crossbeam_queue::ArrayQueue;
use pool_core::{Block, HandleError, RangeConfig, SharedAllocator, SharedConfig};

use crate::support::{KIB, MIB, assert_empty, each_kind, served, shared};
use crate::threads::{Gate, on_threads};

/// Takes what comes, until the queue is empty and `done` producers have ended.
fn take_all(
    queue: &ArrayQueue<Block>,
    done: &AtomicUsize,
    producers: usize,
    mut take: impl FnMut(Block),
) {
    loop {
        let ended = done.load(Ordering::Acquire) == producers;
        while let Some(block) = queue.pop() {
            take(block);
        }
        if ended {
            return;
        }
        thread::yield_now();
    }
}

/// Gives a block away, and waits while there are too many on their way.
fn give(queue: &ArrayQueue<Block>, mut block: Block) {
    let start = Instant::now();
    while let Err(back) = queue.push(block) {
        block = back;
        assert!(start.elapsed() < Duration::from_secs(30), "nobody takes blocks out");
        thread::yield_now();
    }
}

/// A thread whose first call is a free and that never allocates: what it frees serves the others.
#[test]
fn p031_a_thread_that_only_frees_does_not_hoard() {
    const PRODUCERS: usize = 4;
    const HELD: usize = 1024;
    const CACHE_BYTES: u64 = 64 * KIB;
    for explicit in [false, true] {
        // Live are 4 MiB at the most, 1 KiB for each block; the range has half as much again.
        let range = RangeConfig::new(6 * MIB + 256 * KIB);
        let shared = shared(SharedConfig::new(range).cache_bytes(CACHE_BYTES));
        let queue = ArrayQueue::new(64);
        let done = AtomicUsize::new(0);
        let (all_freed, all_read) = (Gate::new(PRODUCERS + 1), Gate::new(PRODUCERS + 1));
        on_threads(PRODUCERS + 1, |number| {
            let mut cache = shared.cache();
            if number == PRODUCERS {
                take_all(&queue, &done, PRODUCERS, |block| {
                    let freed = if explicit {
                        cache.free(block.handle())
                    } else {
                        shared.free(block.handle())
                    };
                    assert_eq!(freed, Ok(block));
                });
            } else {
                let mut ask = || {
                    let answer = if explicit { cache.allocate(592) } else { shared.allocate(592) };
                    answer.expect("half as much again as is live is enough")
                };
                let mut held: Vec<_> = (0..HELD).map(|_| ask()).collect();
                for turn in 0..4 * HELD {
                    let place = turn * 7 % HELD;
                    give(&queue, held[place]);
                    held[place] = ask();
                }
                for block in held {
                    give(&queue, block);
                }
                done.fetch_add(1, Ordering::Release);
            }
            all_freed.wait();
            if number == PRODUCERS {
                // Nobody works, and every cache is still there.
                let stats = shared.stats();
                assert_eq!(stats.live_blocks, 0);
                let most = (PRODUCERS as u64 + 2) * CACHE_BYTES;
                assert!(stats.cached_bytes <= most, "{stats:?}");
            }
            all_read.wait();
        });
        assert_empty(&shared);
    }
}

/// One thread allocates, one frees, in a range that holds a small part of what passes through.
#[test]
fn p032_a_consumers_cache_is_no_grave() {
    for size in [4 * KIB, 16 * KIB, 64 * KIB] {
        for shared in each_kind(4 * MIB) {
            // At most 1 MiB is on its way.
            let queue = ArrayQueue::new(16);
            let done = AtomicUsize::new(0);
            let end = Gate::new(2);
            on_threads(2, |number| {
                if number == 0 {
                    for _ in 0..1000 {
                        give(&queue, shared.allocate(size).unwrap());
                    }
                    done.fetch_add(1, Ordering::Release);
                    end.wait();
                } else {
                    take_all(&queue, &done, 1, |block| {
                        shared.free(block.handle()).unwrap();
                    });
                    // The other thread is idle by now, and what it keeps is no obstacle.
                    let whole = shared.allocate(4 * MIB).unwrap();
                    shared.free(whole.handle()).unwrap();
                    end.wait();
                }
            });
            assert_empty(&shared);
        }
    }
}

/// Frees a block, allocates another and leaves it behind, when a thread's locals are destroyed.
struct LastWish<'a> {
    shared: SharedAllocator,
    block: Block,
    left: &'a ArrayQueue<Block>,
}

impl Drop for LastWish<'_> {
    fn drop(&mut self) {
        assert_eq!(self.shared.free(self.block.handle()), Ok(self.block));
        assert_eq!(self.shared.free(self.block.handle()), Err(HandleError::Stale));
        self.left.push(self.shared.allocate(2 * KIB).unwrap()).unwrap();
    }
}

thread_local! {
    static LAST_WISH: RefCell<Option<LastWish<'static>>> = const { RefCell::new(None) };
}

/// A thread that ends: its last wish comes when the allocator's own local is gone, or before.
fn end_a_thread(shared: &SharedAllocator, left: &'static ArrayQueue<Block>, when_gone: bool) {
    let block = shared.allocate(2 * KIB).unwrap();
    let shared = shared.clone();
    let thread = thread::spawn(move || {
        if when_gone {
            // Locals are destroyed in the reverse order of their first use.
            LAST_WISH.with_borrow(|wish| assert!(wish.is_none()));
        }
        let kept = [KIB, 2 * KIB, 2 * KIB].map(|size| shared.allocate(size).unwrap());
        for block in kept {
            shared.free(block.handle()).unwrap();
        }
        let wish = LastWish { shared, block, left };
        LAST_WISH.with_borrow_mut(|place| *place = Some(wish));
    });
    thread.join().unwrap();
}

#[test]
fn p068_p069_a_thread_may_come_back_while_it_ends() {
    let left: &'static ArrayQueue<Block> = Box::leak(Box::new(ArrayQueue::new(1)));
    for shared in each_kind(4 * MIB) {
        let mut cached_bytes = [0; 2];
        for turn in 0..100 {
            end_a_thread(&shared, left, turn % 2 == 0);
            let block = left.pop().expect("the destructor ran");
            // Freed by the thread that lives on.
            shared.cache().free(block.handle()).unwrap();
            assert_eq!(shared.stats().live_blocks, 0);
            if turn == 19 || turn == 99 {
                cached_bytes[turn / 99] = shared.stats().cached_bytes;
            }
        }
        // What ended threads kept does not add up.
        assert!(cached_bytes[1] <= cached_bytes[0].max(64 * KIB), "{cached_bytes:?}");
        assert_empty(&shared);
    }
}

/// A thread's cache is its own, not that of an ended one with the same number; and who frees is
/// not asked for.
#[test]
fn p124_an_ended_threads_blocks_are_anyones_to_free() {
    for shared in each_kind(4 * MIB) {
        for _ in 0..25 {
            // The ended thread leaves a live block and a cache with others.
            let block = on_threads(1, |_| {
                let kept = [(); 4].map(|()| shared.allocate(KIB).unwrap());
                for block in kept {
                    shared.free(block.handle()).unwrap();
                }
                shared.allocate(KIB).unwrap()
            })[0];
            let answers = on_threads(2, |_| {
                let answer = shared.free(block.handle());
                // This thread's own cache works, whatever it inherited.
                let own = served(|| shared.allocate(KIB));
                assert_eq!(shared.free(own.handle()), Ok(own));
                answer
            });
            assert_eq!(answers.iter().filter(|&&answer| answer == Ok(block)).count(), 1);
            let stale = Err(HandleError::Stale);
            assert_eq!(answers.iter().filter(|&&answer| answer == stale).count(), 1);
        }
        assert_empty(&shared);
    }
}

/// An allocator that is gone before the caches on it: nothing happens.
#[test]
fn p068_a_cache_may_outlive_its_allocator() {
    for shared in each_kind(4 * MIB) {
        let mut cache = shared.cache();
        let block = cache.allocate(KIB).unwrap();
        drop(shared);
        assert_eq!(cache.free(block.handle()), Ok(block));
        cache.flush();
        thread::spawn(move || drop(cache)).join().unwrap();
    }
}
