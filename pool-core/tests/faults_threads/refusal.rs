//! Requests that are refused although what would serve them is only elsewhere.

use fastrand::Rng;
use pool_core::{Owner, RangeConfig, Request, SharedConfig};

use crate::support::{
    GRANULE, KIB, MIB, PLACEMENTS, assert_empty, assert_refused, caches, each_kind, served, shared,
};
use crate::threads::on_threads;

/// Everything is free, in the caches of others, under other owners, in other shards: the whole
/// range is served by one call.
#[test]
fn p001_p019_one_call_gets_what_is_free_anywhere() {
    for shared in each_kind(4 * MIB) {
        for size in [GRANULE, 3 * KIB, 16 * KIB, 100 * KIB] {
            let mut caches: [_; 4] = caches(&shared);
            let mut blocks = vec![];
            // Turn by turn, so that the blocks of all lie between each other.
            'full: loop {
                for (owner, cache) in (0..).zip(&mut caches) {
                    match cache.allocate_for(Owner(owner), size) {
                        Ok(block) => blocks.push(block),
                        Err(_) => break 'full,
                    }
                }
            }
            assert!(blocks.len() >= 4);
            assert_refused(&shared, Request::new(size));
            Rng::with_seed(size).shuffle(&mut blocks);
            for (turn, block) in blocks.iter().enumerate() {
                let owner = Owner(u32::try_from(turn % 4).unwrap());
                caches[turn % 4].free_for(owner, block.handle()).unwrap();
            }
            let whole = caches[0].allocate(4 * MIB).unwrap();
            assert_eq!(whole.size_bytes(), 4 * MIB);
            assert_eq!(shared.stats().cached_bytes, 0);
            assert_refused(&shared, Request::new(GRANULE));
            caches[1].free(whole.handle()).unwrap();
        }
        assert_empty(&shared);
    }
}

/// The last block that was freed is all that is missing, and it is in a cache that nobody uses.
#[test]
fn p001_p019_a_block_in_an_idle_cache_is_found() {
    for shared in each_kind(MIB) {
        let [mut idle, mut busy] = caches(&shared);
        for size in [GRANULE, KIB, 16 * KIB] {
            let block = idle.allocate_for(Owner(7), size).unwrap();
            let mut rest = vec![];
            while let Ok(block) = busy.allocate(size) {
                rest.push(block);
            }
            idle.free_for(Owner(7), block.handle()).unwrap();
            // Another owner's, on another shard, in another cache: but it is free.
            let again = busy.allocate_for(Owner(9), size).unwrap();
            assert!(again.size_bytes() >= size);
            assert_refused(&shared, Request::new(size));
            for block in rest.into_iter().chain([again]) {
                busy.free(block.handle()).unwrap();
            }
        }
        assert_empty(&shared);
    }
}

/// What a refusal says is so: a block of the largest size that it names is served, a larger one
/// is not.
#[test]
fn p019_a_refusal_names_what_would_be_served() {
    for shared in each_kind(4 * MIB) {
        let mut cache = shared.cache();
        let mut numbers = Rng::with_seed(19);
        let mut blocks = vec![];
        while let Ok(block) = cache.allocate(numbers.u64(1..64 * KIB)) {
            blocks.push(block);
        }
        for at in (0..blocks.len()).rev().step_by(2) {
            cache.free(blocks.swap_remove(at).handle()).unwrap();
        }
        assert_refused(&shared, Request::new(4 * MIB));
        let largest = shared.largest_free_bytes();
        assert_refused(&shared, Request::new(largest + 1));
        blocks.push(cache.allocate(largest).unwrap());
        for block in blocks {
            cache.free(block.handle()).unwrap();
        }
        drop(cache);
        assert_empty(&shared);
    }
}

/// Threads that all come first to an empty allocator: what one of them takes for its own use is
/// no loss to the others, up to the last byte.
#[test]
fn p047_threads_that_start_at_once_get_all_there_is() {
    for (threads, size) in [(16, 512 * KIB), (8, MIB), (16, 16 * KIB)] {
        for shared in each_kind(8 * MIB) {
            let each = 8 * MIB / size / threads as u64;
            let held = on_threads(threads, |_| {
                (0..each).map(|_| served(|| shared.allocate(size))).collect::<Vec<_>>()
            });
            assert_eq!(shared.stats().live_bytes, 8 * MIB);
            assert_refused(&shared, Request::new(GRANULE));
            on_threads(threads, |number| {
                for block in &held[(number + 1) % threads] {
                    shared.free(block.handle()).unwrap();
                }
            });
            assert_empty(&shared);
        }
    }
}

/// A chunk cut into 64 by one thread and freed by another in random order, with sizes that drift:
/// whole again each time.
#[test]
fn p048_pieces_freed_by_another_thread_become_the_chunk_again() {
    for placement in PLACEMENTS {
        let range = RangeConfig::new(16 * MIB).placement(placement);
        let shared = shared(SharedConfig::new(range).shards(4));
        let mut numbers = Rng::with_seed(48);
        let [mut first, mut second] = caches(&shared);
        let mut piece_bytes = KIB;
        for _ in 0..200 {
            let mut pieces: Vec<_> =
                (0..64).map(|_| first.allocate(piece_bytes).unwrap()).collect();
            numbers.shuffle(&mut pieces);
            for piece in pieces {
                second.free(piece.handle()).unwrap();
            }
            piece_bytes = piece_bytes * 13 / 10;
            if piece_bytes > 128 * KIB {
                piece_bytes = 1 + piece_bytes / 256;
            }
            let chunk = first.allocate(4 * MIB).unwrap();
            let whole_rest = second.allocate(8 * MIB).unwrap();
            first.free(whole_rest.handle()).unwrap();
            second.free(chunk.handle()).unwrap();
        }
        drop((first, second));
        assert_empty(&shared);
    }
}

/// The same with threads that run side by side, each freeing what the one before it cut.
#[test]
fn p048_chunks_cut_and_freed_side_by_side_leave_no_pieces() {
    for shared in each_kind(32 * MIB) {
        for round in 0..8 {
            let piece_bytes = KIB * 13u64.pow(round) / 10u64.pow(round);
            let cut = on_threads(4, |_| {
                let mut cache = shared.cache();
                (0..64).map(|_| cache.allocate(piece_bytes).unwrap()).collect::<Vec<_>>()
            });
            on_threads(4, |number| {
                let mut pieces = cut[(number + 1) % 4].clone();
                Rng::with_seed(number as u64).shuffle(&mut pieces);
                for piece in pieces {
                    shared.free(piece.handle()).unwrap();
                }
            });
            let chunk = shared.allocate(32 * MIB).unwrap();
            shared.free(chunk.handle()).unwrap();
        }
        assert_empty(&shared);
    }
}
