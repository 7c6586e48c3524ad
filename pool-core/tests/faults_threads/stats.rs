//! Books that threads keep together.

use core::sync::atomic::{AtomicBool, Ordering};

use pool_core::{Handle, RangeConfig, SharedConfig, SharedStats};

use crate::support::{GRANULE, KIB, MIB, assert_empty, books, caches, each_kind, shared};
use crate::threads::on_threads;

const GIB: u64 = 1 << 30;

/// Frees of what is foreign or gone, by several threads at once: no figure moves.
#[test]
fn p039_frees_of_nothing_move_no_figure() {
    for shared in each_kind(4 * MIB) {
        let [mut first, second] = caches(&shared);
        let held = first.allocate(3 * KIB).unwrap();
        let gone = [1, 16 * KIB, 100 * KIB].map(|size| first.allocate(size).unwrap());
        for block in gone {
            first.free(block.handle()).unwrap();
        }
        drop(second);
        let before = books(&shared);
        on_threads(3, |number| {
            let mut cache = shared.cache();
            for bits in 1..200 {
                let foreign = Handle::from_raw(bits << (8 * number + 16));
                if let Some(foreign) = foreign.filter(|&handle| handle != held.handle()) {
                    assert!(shared.free(foreign).is_err());
                }
                for block in gone {
                    assert!(cache.free(block.handle()).is_err());
                }
            }
        });
        assert_eq!(books(&shared), before);
        first.free(held.handle()).unwrap();
        drop(first);
        assert_empty(&shared);
    }
}

/// While threads work, what is read is never more than there is, nor wraps.
#[test]
fn p039_figures_read_in_between_are_in_bounds() {
    for shared in each_kind(4 * MIB) {
        let done = AtomicBool::new(false);
        // Each worker holds at most eight blocks of 16 KiB, and a magazine may be on its way.
        let most_live = 3 * 8 * 16 * KIB;
        on_threads(4, |number| {
            if number == 0 {
                while !done.load(Ordering::Acquire) {
                    let stats = shared.stats();
                    assert!(stats.live_bytes <= most_live, "{stats:?}");
                    assert!(stats.live_blocks <= 3 * 8, "{stats:?}");
                    assert!(stats.peak_live_bytes <= stats.capacity_bytes, "{stats:?}");
                    assert!(stats.cached_bytes <= stats.capacity_bytes, "{stats:?}");
                    assert!(stats.free_bytes <= stats.capacity_bytes, "{stats:?}");
                    std::thread::yield_now();
                }
                return;
            }
            let mut cache = shared.cache();
            for turn in 0..100u64 {
                let size = GRANULE << ((turn + number as u64) % 7);
                let blocks: Vec<_> = (0..8).map(|_| cache.allocate(size).unwrap()).collect();
                for block in blocks {
                    cache.free(block.handle()).unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        assert_eq!(books(&shared).live_blocks, 0);
        assert_empty(&shared);
    }
}

/// A new peak starts at what is live; what is counted from the start goes on.
#[test]
fn p086_a_peak_is_based_anew_on_what_is_live() {
    let shared = shared(SharedConfig::new(RangeConfig::new(64 * GIB)));
    let [mut first, mut second] = caches(&shared);
    let before = first.allocate(33 * GIB).unwrap();
    second.free(before.handle()).unwrap();
    let a = first.allocate(30 * GIB).unwrap();
    assert_eq!(shared.stats().peak_live_bytes, 33 * GIB);
    shared.reset_peak();
    assert_eq!(shared.stats().peak_live_bytes, 30 * GIB);
    assert_eq!(shared.stats().live_bytes, 30 * GIB);
    assert_eq!(shared.stats().work.operations, 3);
    let b = second.allocate(GIB).unwrap();
    first.free(b.handle()).unwrap();
    assert_eq!(shared.stats().peak_live_bytes, 31 * GIB);
    second.free(a.handle()).unwrap();
    assert_eq!(shared.stats().live_bytes, 0);
    assert_eq!(shared.stats().peak_live_bytes, 31 * GIB);
    shared.reset_peak();
    assert_eq!(shared.stats().peak_live_bytes, 0);
    drop((first, second));
    assert_empty(&shared);
}

/// The same for blocks that caches keep: the peak counts those in caches too.
#[test]
fn p086_the_peak_of_small_blocks_is_based_anew() {
    let used = |stats: &SharedStats| stats.live_bytes + stats.cached_bytes;
    for shared in each_kind(64 * MIB) {
        let [mut first, mut second] = caches(&shared);
        let blocks: Vec<_> = (0..64).map(|_| first.allocate(4 * KIB).unwrap()).collect();
        let highest = shared.stats();
        assert_eq!(highest.live_bytes, 256 * KIB);
        assert_eq!(highest.peak_live_bytes, used(&highest));
        for block in &blocks[16..] {
            second.free(block.handle()).unwrap();
        }
        first.flush();
        second.flush();
        let stats = shared.stats();
        assert_eq!(stats.live_bytes, 64 * KIB);
        assert_eq!(stats.peak_live_bytes, used(&highest));
        shared.reset_peak();
        let stats = shared.stats();
        assert_eq!(stats.live_bytes, 64 * KIB);
        assert_eq!(stats.peak_live_bytes, used(&stats));
        assert!(stats.peak_live_bytes < used(&highest));
        assert_eq!(stats.work.operations, 64 + 48);
        let more: Vec<_> = (0..8).map(|_| second.allocate(4 * KIB).unwrap()).collect();
        let highest = shared.stats();
        assert_eq!(highest.live_bytes, 96 * KIB);
        for block in more.iter().chain(&blocks[..16]) {
            first.free(block.handle()).unwrap();
        }
        shared.flush();
        let stats = shared.stats();
        assert_eq!((stats.live_bytes, stats.peak_live_bytes), (0, used(&highest)));
        drop((first, second));
        assert_empty(&shared);
    }
}
