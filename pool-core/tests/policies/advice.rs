//! What a run tells the next one.

use pool_core::policy::{Growth, Preallocation, Settings};
use pool_core::{Advice, On, PoolConfig, Reason, StreamId, Tag};
use pool_mock::device::SimConfig;

use crate::support::{Buffer, GIB, KIB, LATE, MIB, World};

fn world(config: PoolConfig) -> World {
    World::new(LATE.device().memory_bytes(8 * GIB), config)
}

/// A program of rounds: each keeps some blocks of every size, and frees what the round before it
/// kept. Streams take turns, a round each.
fn rounds(world: &World, streams: &[StreamId], seed: u64) -> u64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kept: Vec<(StreamId, Buffer)> = Vec::new();
    let (mut live, mut peak) = (0, 0);
    for round in 0..60 {
        let stream = streams[round % streams.len()];
        let mut next = Vec::new();
        for _ in 0..40 {
            let most_bytes = 1 << random.u32(10..=23);
            let size_bytes = random.u64(1..most_bytes);
            let buffer = world.allocate(stream, size_bytes);
            live += buffer.size_bytes;
            peak = peak.max(live);
            if random.bool() {
                next.push((stream, buffer));
            } else {
                live -= buffer.size_bytes;
                world.free(stream, buffer);
            }
        }
        for (stream, buffer) in core::mem::replace(&mut kept, next) {
            live -= buffer.size_bytes;
            world.free(stream, buffer);
        }
    }
    for (stream, buffer) in kept {
        world.free(stream, buffer);
    }
    peak
}

/// What a run reserved, how often it grew, how often streams waited, and what it recommends.
struct Ran {
    peak_bytes: u64,
    reserved_bytes: u64,
    growths: u64,
    waits: u64,
    advice: Advice,
}

fn run(config: PoolConfig, streams: usize, seed: u64) -> Ran {
    let world = world(config);
    let streams: Vec<_> = (0..streams).map(|_| world.stream()).collect();
    let peak_bytes = rounds(&world, &streams, seed);
    let stats = world.pool.stats();
    let advice = world.pool.advice();
    world.end();
    Ran {
        peak_bytes,
        reserved_bytes: stats.peak_reserved_bytes,
        growths: stats.growths,
        waits: stats.calls.device_waits,
        advice,
    }
}

#[test]
fn the_second_run_of_one_stream_grows_no_more_and_changes_nothing() {
    let arenas_of_8_mib = || PoolConfig::new().arena_bytes(8 * MIB);
    let mut reserved = [0, 0];
    for seed in 0..8 {
        let first = run(arenas_of_8_mib(), 1, seed);
        assert!(first.growths >= 5, "{seed}: {}", first.growths);
        let second = run(PoolConfig::from(&first.advice), 1, seed);
        assert_eq!((second.growths, second.waits), (0, 0), "{seed}");
        assert_eq!(second.advice.reasons, [], "{seed}");
        // The peak with what caches have, a third, and less than a window.
        let most = second.peak_bytes * 136 / 100 + 2 * MIB;
        assert!(second.reserved_bytes <= most, "{seed}: {} > {most}", second.reserved_bytes);
        reserved[0] += first.reserved_bytes;
        reserved[1] += second.reserved_bytes;
        assert_eq!(PoolConfig::from(second.advice).settings(), &first.advice.settings);
    }
    assert!(reserved[1] < reserved[0], "{reserved:?}");
}

/// Streams that need memory by turns keep it together: that takes less of it, and more waits.
#[test]
fn the_second_run_of_several_streams_keeps_memory_together() {
    let (mut reserved, mut waits) = ([0, 0], [0, 0]);
    for seed in 0..8 {
        let first = run(PoolConfig::new().arena_bytes(8 * MIB), 4, seed);
        let second = run(PoolConfig::from(&first.advice), 4, seed);
        let together =
            first.advice.reasons.iter().any(|why| matches!(why, Reason::ShortFrom { .. }));
        let bytes = together.then_some(second.reserved_bytes);
        assert_eq!(first.advice.settings.short_from_bytes, bytes, "{seed}");
        assert_eq!(second.growths, 0, "{seed}");
        assert_eq!(second.advice.reasons, [], "{seed}");
        for (place, run) in [first, second].iter().enumerate() {
            reserved[place] += run.reserved_bytes;
            waits[place] += run.waits;
        }
    }
    assert!(reserved[1] * 6 < reserved[0] * 5, "{reserved:?}");
    assert!(waits[1] > waits[0], "{waits:?}");
}

#[test]
fn a_start_that_is_never_filled_is_lowered_and_one_that_fits_stays() {
    for (start, advised) in [(1024, 134), (200, 134), (160, 160), (134, 134)] {
        let world = world(PoolConfig::new().initial_bytes(start * MIB));
        let stream = world.stream();
        let block = world.allocate(stream, 100 * MIB);
        world.free(stream, block);
        let advice = world.pool.advice();
        assert_eq!(advice.settings.preallocation, Preallocation::Bytes(advised * MIB), "{start}");
        let percent = (100 * 100_u64).div_ceil(start);
        assert_eq!(advice.evidence.start_in_use_percent(), Some(percent), "{start}");
        world.end();
    }
}

#[test]
fn a_limit_stays_and_bounds_the_start() {
    let world = world(PoolConfig::new().limit_bytes(120 * MIB));
    let stream = world.stream();
    let block = world.allocate(stream, 100 * MIB);
    let advice = world.pool.advice();
    assert_eq!(advice.settings.limit_bytes, Some(120 * MIB));
    assert_eq!(advice.settings.preallocation, Preallocation::Bytes(120 * MIB));
    world.free(stream, block);
    world.end();
}

#[test]
fn what_was_changed_while_the_pool_ran_is_what_the_next_run_starts_from() {
    let world = world(PoolConfig::new());
    world.pool.set_limit(Some(GIB)).unwrap();
    assert_eq!(world.pool.advice().settings.limit_bytes, Some(GIB));
    world.end();
}

#[test]
fn a_pool_that_was_never_used_advises_nothing_and_asking_makes_no_call() {
    let world = world(PoolConfig::new().initial_bytes(GIB));
    let before = world.device.calls();
    let advice = world.pool.advice();
    assert_eq!(
        (advice.reasons.len(), advice.settings.preallocation),
        (0, Preallocation::Bytes(GIB))
    );
    assert_eq!(world.device.calls().since(&before).total(), 0);
    world.end();
}

/// The number of growths, their bytes, and what was missing.
#[test]
fn growths_are_kept_with_what_they_cost() {
    let growth = Growth { floor_bytes: 10 * MIB, ahead: None, ..Growth::default() };
    let settings =
        Settings { preallocation: Preallocation::Bytes(20 * MIB), growth, ..Settings::default() };
    let config = PoolConfig::from(settings);
    let world = world(config);
    let stream = world.stream();
    let blocks = [12, 6, 12, 1].map(|mib| world.allocate(stream, mib * MIB));
    let (stats, evidence) = (world.pool.stats(), world.pool.evidence());
    assert_eq!((stats.initial_bytes, stats.growths, stats.growth_bytes), (20 * MIB, 1, 12 * MIB));
    assert_eq!((evidence.growths, evidence.growth_bytes), (1, 12 * MIB));
    // 20 MiB there, 12 more needed; 2 of them were free, which is not enough to be scattered.
    assert_eq!((evidence.most_needed_bytes, evidence.scattered_growths), (32 * MIB, 0));
    assert_eq!(evidence.peak_bytes, 31 * MIB);
    for block in blocks {
        world.free(stream, block);
    }
    world.end();
}

#[test]
fn free_memory_that_is_scattered_over_streams_is_told_from_none() {
    let world = world(PoolConfig::new().initial_bytes(16 * MIB).arena_bytes(2 * MIB));
    let [first, second] = world.streams();
    let blocks: Vec<_> = (0..16)
        .map(|place| [first, second][place % 2])
        .map(|stream| (stream, world.allocate(stream, MIB)))
        .collect();
    let mut held = Vec::new();
    for (place, (stream, block)) in blocks.into_iter().enumerate() {
        if place % 2 == 0 { world.free(stream, block) } else { held.push((stream, block)) }
    }
    // At least 8 MiB are free, in pieces of one.
    let before = world.pool.evidence();
    held.push((second, world.allocate(second, 4 * MIB)));
    let after = world.pool.evidence();
    assert_eq!(after.growths - before.growths, 1);
    assert_eq!((after.scattered_growths - before.scattered_growths, after.streams), (1, 2));
    for (stream, block) in held {
        world.free(stream, block);
    }
    world.end();
}

/// What waits for work of the device is waited for before a pool grows, so no run needs room for it.
#[test]
fn memory_that_waits_is_in_the_peak_but_not_needed() {
    let world = world(PoolConfig::new().initial_bytes(GIB));
    let [first, second] = world.streams();
    for _ in 0..10 {
        let block = world.used(first, 50 * MIB);
        world.share(&block, second);
        world.free(first, block);
    }
    assert_eq!(world.pool.stats().deferred_bytes, 500 * MIB);
    let evidence = world.pool.evidence();
    assert_eq!(world.pool.stats().peak_bytes, 500 * MIB);
    assert!(evidence.peak_bytes <= 100 * MIB, "{}", evidence.peak_bytes);
    assert_eq!((evidence.deferred_blocks, evidence.drains), (10, 1));
    world.end();
}

#[test]
fn hits_are_counted_by_class_and_change_the_caches() {
    let config = PoolConfig::new().initial_bytes(512 * MIB);
    let world = world(config);
    let stream = world.stream();
    // One block at a time always hits; forty at a time are more than the places of a class.
    for _ in 0..10_000 {
        let block = world.pool.allocate_on(stream, KIB).unwrap();
        world.pool.free_on(stream, block.handle()).unwrap();
    }
    for _ in 0..200 {
        let blocks: Vec<_> =
            (0..40).map(|_| world.pool.allocate_on(stream, 64 * KIB).unwrap()).collect();
        for block in blocks {
            world.pool.free_on(stream, block.handle()).unwrap();
        }
    }
    let evidence = world.pool.evidence();
    let class = |bytes| *evidence.classes.iter().find(|class| class.size_bytes == bytes).unwrap();
    assert_eq!((class(KIB).operations, class(64 * KIB).operations), (20_000, 16_000));
    assert!(class(KIB).hits_per_mille() >= 999, "{:?}", class(KIB));
    assert!(class(64 * KIB).hits_per_mille() < 600, "{:?}", class(64 * KIB));
    let missed: u64 = evidence.classes.iter().map(|class| class.missed).sum();
    let work = world.pool.stats().shared.work;
    assert_eq!(work.operations - work.in_cache, missed);
    // Sixteen places of 64 KiB, in a quarter of a cache.
    assert_eq!(world.pool.advice().settings.cache_bytes, 4 * MIB);
    world.end();
}

#[test]
fn the_peak_of_each_tag_is_kept_after_its_blocks_are_gone() {
    let world = world(PoolConfig::new());
    let stream = world.stream();
    for (tag, mib) in [(1, 3), (2, 5), (1, 4)] {
        let block = world.pool.allocate_tagged(On::Stream(stream), Tag(tag), mib * MIB).unwrap();
        world.pool.free_on(stream, block.handle()).unwrap();
    }
    let peaks: Vec<_> =
        world.pool.evidence().tags.iter().map(|peak| (peak.tag, peak.peak_bytes)).collect();
    assert_eq!(peaks, [(Tag(2), 5 * MIB), (Tag(1), 4 * MIB)]);
    assert_eq!(
        (world.pool.tag_live_bytes(Tag(2)), world.pool.tag_peak_bytes(Tag(2))),
        (0, 5 * MIB)
    );
    world.pool.reset_peak();
    assert_eq!(world.pool.tag_peak_bytes(Tag(2)), 0);
    world.end();
}

/// From the start's bytes on memory lies together; below them streams have some to themselves.
#[test]
fn memory_is_short_from_where_the_settings_say() {
    let offsets = |short_from: Option<u64>| {
        let config = PoolConfig::new().initial_bytes(64 * MIB);
        let config = match short_from {
            Some(bytes) => config.short_from_bytes(bytes),
            None => config,
        };
        let world = World::new(SimConfig::new().memory_bytes(GIB), config);
        let [first, second] = world.streams();
        let one = world.used(first, 4 * MIB);
        let offset_bytes = one.offset_bytes;
        world.free(first, one);
        let two = world.used(second, 4 * MIB);
        let again = two.offset_bytes == offset_bytes;
        world.free(second, two);
        let waits = world.pool.stats().calls.device_waits;
        world.end();
        (again, waits)
    };
    assert_eq!(offsets(None), (false, 0));
    assert_eq!(offsets(Some(65 * MIB)), (false, 0));
    assert_eq!(offsets(Some(64 * MIB)), (true, 1));
}
