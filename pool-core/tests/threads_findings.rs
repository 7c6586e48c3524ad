//! What reviews found in the thread layer, each as the shortest sequence that shows it.

#![cfg(feature = "alloc")]

use pool_core::threads::BareThreads;
use pool_core::{Handle, Owner, RangeConfig, SharedAllocator, SharedConfig, Spans};

type Shared = SharedAllocator<BareThreads>;

fn shared(config: impl Into<SharedConfig>) -> Shared {
    Shared::on_platform(config).unwrap()
}

/// A number with generation zero named a granule in the middle of a live block, which no block
/// ever began at: it was freed, and given out again.
#[test]
fn no_handle_of_generation_zero_names_a_granule_within_a_block() {
    let shared = shared(RangeConfig::new(1 << 30));
    let mut cache = shared.cache();
    let block = cache.allocate(16 << 10).unwrap();
    let granule = (block.offset_bytes() >> 8) + 5;
    for bits in [granule, 1 << 32 | granule] {
        assert_eq!(Handle::from_raw(bits), None);
    }
}

/// Granules of 16 bytes with the largest small blocks there can be have one class more than those
/// of 256.
#[test]
fn the_smallest_granules_have_the_most_classes() {
    for granule_bytes in [16, 32, 64] {
        let spans =
            Spans::Sized { span_bytes: 4096 * granule_bytes, small_bytes: 2048 * granule_bytes };
        let config = RangeConfig::new(64 << 20).granule_bytes(granule_bytes).spans(spans);
        let shared = shared(config);
        let mut cache = shared.cache();
        for granules in [1, 1024, 1025, 2048, 2049] {
            let block = cache.allocate(granules * granule_bytes).unwrap();
            cache.free(block.handle()).unwrap();
        }
        assert_eq!(shared.stats().live_bytes, 0);
        shared.verify().unwrap();
    }
}

/// What the range itself had live before shards borrowed from it was left out of the peak.
#[test]
fn the_peak_counts_the_range_and_its_shards() {
    let shared = shared(RangeConfig::new(1 << 30));
    let (mut first, mut second) = (shared.cache(), shared.cache());
    second.use_shard(1);
    let held: Vec<_> = (0..8).map(|_| first.allocate(64 << 20).unwrap()).collect();
    let more: Vec<_> = (0..400).map(|_| second.allocate(256 << 10).unwrap()).collect();
    let peak_bytes = (512 + 100) << 20;
    for block in more.iter().chain(&held) {
        first.free(block.handle()).unwrap();
    }
    let found = shared.stats().peak_live_bytes;
    assert!(found <= peak_bytes && found + (16 << 20) >= peak_bytes, "{found}");
}

/// An owner who never came back kept all magazines of its lane from passing on.
#[test]
fn an_owner_who_is_gone_blocks_no_lane() {
    let shared = shared(RangeConfig::new(1 << 30));
    let (mut gives, mut takes) = (shared.cache(), shared.cache());
    let pass = |gives: &mut pool_core::Cache<_>, takes: &mut pool_core::Cache<_>, owner, count| {
        for _ in 0..count {
            let blocks: Vec<_> = (0..64).map(|_| gives.allocate(4096).unwrap()).collect();
            for block in blocks {
                takes.free_for(owner, block.handle()).unwrap();
            }
        }
    };
    // Owners of every lane, who only free.
    for owner in 1..=64 {
        pass(&mut gives, &mut takes, Owner(owner), 8);
    }
    pass(&mut gives, &mut takes, Owner::CLEAN, 64);
    let before = shared.stats().work;
    pass(&mut gives, &mut takes, Owner::CLEAN, 256);
    let after = shared.stats().work;
    let operations = after.operations - before.operations;
    assert!(after.magazines - before.magazines > operations / 100, "{after:?}");
    assert!(after.locks - before.locks < operations / 100, "{after:?}");
}

/// A cache that took magazines of many owners in went over the bytes that it may keep.
#[test]
fn a_cache_keeps_no_more_than_it_may() {
    let cache_bytes = 1 << 20;
    let shared = shared(SharedConfig::new(RangeConfig::new(24 << 30)).cache_bytes(cache_bytes));
    let (mut fills, mut takes) = (shared.cache(), shared.cache());
    let (mut live, mut draw) = (Vec::new(), 77_777_u64);
    for step in 1..=20_000 {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (owner, class) = (Owner((draw >> 40) as u32 % 4), (draw >> 50) % 9);
        for _ in 0..6 {
            let block = shared.allocate(256 << class).unwrap();
            fills.free_for(owner, block.handle()).unwrap();
        }
        if (draw >> 33) % 3 == 0 {
            live.push((owner, takes.allocate_for(owner, 256 << class).unwrap()));
        } else if let Some((owner, block)) = live.pop() {
            takes.free_for(owner, block.handle()).unwrap();
        }
        if step % 2500 == 0 {
            let before = shared.stats().cached_bytes;
            takes.flush();
            let kept_bytes = before - shared.stats().cached_bytes;
            assert!(kept_bytes <= cache_bytes, "{kept_bytes}");
        }
    }
}

/// A cache that had grown was filled with as many blocks again after each flush, for the next one to
/// take away.
#[test]
fn a_cache_that_was_emptied_begins_small_again() {
    let shared = shared(RangeConfig::new(1 << 30));
    let mut cache = shared.cache();
    for _ in 0..8 {
        let blocks: Vec<_> = (0..64).map(|_| cache.allocate(4096).unwrap()).collect();
        for block in blocks {
            cache.free(block.handle()).unwrap();
        }
    }
    let grown = shared.stats().cached_blocks;
    assert!(grown > 16, "{grown}");
    for _ in 0..4 {
        shared.flush();
        let block = cache.allocate(4096).unwrap();
        let filled = shared.stats().cached_blocks;
        assert!(filled <= 2, "{filled}");
        cache.free(block.handle()).unwrap();
    }
}
