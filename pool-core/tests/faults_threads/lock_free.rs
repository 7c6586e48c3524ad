//! What is done without a lock, or between two of them.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;
use pool_core::{HandleError, RangeConfig, SharedConfig};
use pool_mock::stress::{Mark, Shadow};

use crate::support::{GRANULE, KIB, MIB, SMALL_SPANS, assert_empty, each_kind, served, shared};
use crate::threads::on_threads;

/// Threads that split a block into pieces and free them in random order: one block in the end.
#[test]
fn p014_pieces_that_threads_free_become_one_block() {
    for (capacity_bytes, piece_bytes) in [(64 * KIB, KIB), (8 * MIB, 128 * KIB), (8 * MIB, 5 * KIB)]
    {
        for shared in each_kind(capacity_bytes) {
            on_threads(8, |number| {
                let mut numbers = Rng::with_seed(number as u64);
                let mut cache = shared.cache();
                for _ in 0..50 {
                    let mut pieces: Vec<_> =
                        (0..8).map(|_| served(|| cache.allocate(piece_bytes))).collect();
                    numbers.shuffle(&mut pieces);
                    for piece in pieces {
                        assert_eq!(cache.free(piece.handle()), Ok(piece));
                    }
                }
            });
            assert_empty(&shared);
        }
    }
}

/// Few magazines that are handed over again and again: each block has one holder.
#[test]
fn p033_a_magazine_that_comes_and_goes_is_nobody_elses() {
    // A cache keeps eight blocks, so that most of a round's blocks pass through the depot.
    let range = RangeConfig::new(8 * MIB);
    let shared = shared(SharedConfig::new(range).shards(4).cache_bytes(64 * GRANULE));
    let shadow = Shadow::new(shared.capacity_bytes(), GRANULE);
    on_threads(6, |number| {
        let mut cache = shared.cache();
        let mut count = 0;
        for _ in 0..500 {
            let mut held = vec![];
            for _ in 0..40 {
                let block = served(|| cache.allocate(GRANULE));
                let mark = Mark::new(count, u32::try_from(number).unwrap(), 6);
                shadow.fill(&block, mark).unwrap();
                held.push((block, mark));
                count += 1;
            }
            for (block, mark) in held {
                shadow.clear(&block, mark).unwrap();
                cache.free(block.handle()).unwrap();
            }
        }
    });
    let work = shared.stats().work;
    assert!(work.magazines > 0, "{work:?}");
    assert_empty(&shared);
}

/// What a block's last holder wrote is there for the next one: the word is even while nobody
/// holds the block, and rises by one each time that it changes hands.
#[test]
fn p070_what_was_written_before_a_free_is_seen_after_the_allocation() {
    let range = RangeConfig::new(128 * GRANULE).spans(SMALL_SPANS);
    for cache_bytes in [0, 64 * GRANULE, MIB] {
        let shared = shared(SharedConfig::new(range).cache_bytes(cache_bytes));
        let words: Vec<_> = (0..128).map(|_| AtomicU64::new(0)).collect();
        let sums = on_threads(4, |_| {
            let mut cache = shared.cache();
            let mut count = 0;
            for turn in 0..2000 {
                let block = served(|| cache.allocate(GRANULE));
                let word = &words[(block.offset_bytes() / GRANULE) as usize];
                // Relaxed: the order is the allocator's to make. No atomic step of two: it would
                // hide that another thread is here.
                let before = word.load(Relaxed);
                assert_eq!(before % 2, 0, "somebody holds the block");
                word.store(before + 1, Relaxed);
                if turn % 8 == 0 {
                    std::thread::yield_now();
                }
                assert_eq!(word.load(Relaxed), before + 1);
                word.store(before + 2, Relaxed);
                cache.free(block.handle()).unwrap();
                count += 2;
            }
            count
        });
        // No step was lost.
        assert_eq!(sums.iter().sum::<u64>(), words.iter().map(|word| word.load(Relaxed)).sum());
        assert_empty(&shared);
    }
}

/// A place that changes hands at once: its handle is known from the allocation to the free, and no
/// longer, whoever has it next.
#[test]
fn p071_a_handle_is_known_exactly_while_its_block_is_live() {
    for (places, size) in [(4, GRANULE), (4, 16 * KIB), (4, 128 * KIB)] {
        for shared in each_kind(places * size) {
            on_threads(3, |_| {
                let mut cache = shared.cache();
                for _ in 0..300 {
                    let block = served(|| cache.allocate(size));
                    let (handle, at) = (block.handle(), block.offset_bytes());
                    assert_eq!(shared.block(handle), Ok(block));
                    assert_eq!(shared.block_at(at), Some(handle));
                    assert_eq!(cache.free(handle), Ok(block));
                    assert_eq!(shared.block(handle), Err(HandleError::Stale));
                    assert_ne!(shared.block_at(at), Some(handle));
                }
            });
            assert_empty(&shared);
        }
    }
}
