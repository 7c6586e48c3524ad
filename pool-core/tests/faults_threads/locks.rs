//! Waiting for each other, and work that could call itself.

use core::time::Duration;
use std::time::Instant;

use pool_core::{Options, RangeConfig, Request, SharedAllocator, SharedConfig};

use crate::support::{GRANULE, KIB, MIB, assert_empty, books, each_kind, shared};
use crate::threads::on_threads;

/// Many more threads than cores, all through one lock: it takes little longer than one thread
/// alone with all of the work.
#[test]
fn p072_many_threads_on_few_cores_make_progress() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 500;
    let one_lock =
        || shared(SharedConfig::new(RangeConfig::new(64 * MIB)).shards(1).cache_bytes(0));
    let work = |shared: &SharedAllocator, rounds: usize| {
        for round in 0..rounds {
            let block = shared.allocate(GRANULE << (round % 8)).unwrap();
            shared.free(block.handle()).unwrap();
        }
    };
    let alone = one_lock();
    let start = Instant::now();
    work(&alone, THREADS * ROUNDS);
    let one_thread = start.elapsed();
    let crowded = one_lock();
    let start = Instant::now();
    on_threads(THREADS, |_| work(&crowded, ROUNDS));
    let elapsed = start.elapsed();
    // A waiter that only spins sits out the holder's time slice: milliseconds for each of them.
    let most = 20 * one_thread + Duration::from_secs(2);
    assert!(elapsed < most, "{elapsed:?}, alone {one_thread:?}");
    assert_empty(&crowded);
}

/// Emptying what is empty ends, and changes nothing.
#[test]
fn p110_a_flush_of_nothing_ends() {
    for shared in each_kind(4 * MIB) {
        let untouched = books(&shared);
        shared.flush();
        shared.flush();
        let mut cache = shared.cache();
        cache.flush();
        shared.flush();
        assert_eq!(books(&shared), untouched);
        let block = cache.allocate(KIB).unwrap();
        let live = shared.stats().live_bytes;
        for _ in 0..3 {
            cache.flush();
            shared.flush();
            let stats = shared.stats();
            assert_eq!((stats.live_bytes, stats.cached_bytes), (live, 0));
        }
        cache.free(block.handle()).unwrap();
        drop(cache);
        assert_empty(&shared);
    }
}

/// What a refusal tries first, it tries once, and a request that can never be served not at all.
#[test]
fn p110_a_refusal_tries_everything_once() {
    for shared in each_kind(4 * MIB) {
        let mut cache = shared.cache();
        let blocks: Vec<_> = (0..64).map(|_| cache.allocate(64 * KIB).unwrap()).collect();
        assert_eq!(shared.stats().live_bytes, 4 * MIB);
        let requests = [
            Request::new(GRANULE),
            Request::new(MIB),
            Request::new(KIB).align_bytes(MIB),
            Request::new(KIB).options(Options::OUTSIDE_SPANS),
        ];
        for request in requests {
            for _ in 0..2 {
                let before = shared.stats().work;
                assert!(cache.allocate(request).is_err());
                let work = shared.stats().work;
                assert!(work.recalls - before.recalls <= 1, "{request:?}");
                assert!(work.flushes - before.flushes <= 1, "{request:?}");
            }
        }
        let before = shared.stats().work;
        let never = [
            Request::new(0),
            Request::new(4 * MIB + 1),
            Request::new(u64::MAX),
            Request::new(1).align_bytes(3),
            Request::new(1).align_bytes(0),
        ];
        for request in never {
            assert!(cache.allocate(request).is_err());
            assert!(shared.allocate(request).is_err());
        }
        let work = shared.stats().work;
        assert_eq!((work.recalls, work.flushes), (before.recalls, before.flushes));
        for block in blocks {
            cache.free(block.handle()).unwrap();
        }
        drop(cache);
        assert_empty(&shared);
    }
}
