//! What the tests of all kinds share.

use core::time::Duration;
use std::thread;
use std::time::Instant;

use pool_core::{
    Block, Cache, Placement, RangeConfig, Request, SharedAllocator, SharedConfig, SharedStats,
    Spans,
};

pub(crate) const GRANULE: u64 = 256;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) const PLACEMENTS: [Placement; 3] =
    [Placement::BestFit, Placement::FirstFit, Placement::Buddy];

/// An allocator under every placement, in one shard and in several, with caches and without. Those
/// in small spans have caches however small the range is, for blocks of up to 16 KiB.
pub(crate) fn each_kind(capacity_bytes: u64) -> impl Iterator<Item = SharedAllocator> {
    let range = RangeConfig::new(capacity_bytes);
    let small_spans = range.spans(SMALL_SPANS);
    [
        (range, 1, MIB),
        (range, 4, MIB),
        (small_spans, 1, 0),
        (small_spans, 4, 0),
        (small_spans, 1, 64 * KIB),
        (small_spans, 4, 64 * KIB),
        (small_spans, 1, MIB),
        (small_spans, 4, MIB),
        (range.spans(Spans::Off), 4, MIB),
        (range.placement(Placement::FirstFit), 4, MIB),
        (range.placement(Placement::Buddy), 4, MIB),
    ]
    .into_iter()
    .map(|(range, shards, cache_bytes)| {
        shared(SharedConfig::new(range).shards(shards).cache_bytes(cache_bytes))
    })
}

/// Spans in which also blocks of 16 KiB lie.
pub(crate) const SMALL_SPANS: Spans = Spans::Sized { span_bytes: 32 * KIB, small_bytes: 16 * KIB };

pub(crate) fn shared(config: impl Into<SharedConfig>) -> SharedAllocator {
    SharedAllocator::new(config).unwrap()
}

/// Caches on as many shards, as far as there are so many.
pub(crate) fn caches<const COUNT: usize>(shared: &SharedAllocator) -> [Cache; COUNT] {
    let mut next = 0;
    [(); COUNT].map(|()| {
        let mut cache = shared.cache();
        cache.use_shard(next);
        next += 1;
        cache
    })
}

/// The books, but for those of the work, while nothing is in flight; everything must verify and
/// add up.
pub(crate) fn books(shared: &SharedAllocator) -> SharedStats {
    assert_eq!(shared.verify(), Ok(()));
    let mut stats = shared.stats();
    assert_eq!(stats.live_bytes + stats.cached_bytes + stats.free_bytes, stats.capacity_bytes);
    stats.work = pool_core::Work::default();
    stats
}

/// Nothing is live; and when the caches are flushed, the range is one free block.
pub(crate) fn assert_empty(shared: &SharedAllocator) {
    shared.flush();
    let stats = books(shared);
    assert_eq!((stats.live_bytes, stats.live_blocks), (0, 0));
    assert_eq!((stats.cached_bytes, stats.cached_blocks), (0, 0));
    assert_eq!(stats.free_bytes, shared.capacity_bytes());
    assert_eq!(shared.largest_free_bytes(), shared.capacity_bytes());
}

/// Asks until the request is served. A refusal is final only while nobody else is at work; the
/// caller's other threads always leave room for it in the end.
pub(crate) fn served(mut ask: impl FnMut() -> Result<Block, pool_core::AllocError>) -> Block {
    let start = Instant::now();
    loop {
        match ask() {
            Ok(block) => return block,
            Err(error) => assert!(start.elapsed() < Duration::from_secs(30), "starved: {error}"),
        }
        thread::yield_now();
    }
}

/// A request that what is free cannot serve: refused, again, and also after a flush.
pub(crate) fn assert_refused(shared: &SharedAllocator, request: Request) {
    let refusal = shared.allocate(request).unwrap_err();
    assert_eq!(shared.allocate(request), Err(refusal));
    shared.flush();
    assert_eq!(shared.allocate(request), Err(refusal));
    assert_eq!(shared.verify(), Ok(()));
}
