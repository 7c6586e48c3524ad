//! Counters that say what is.

use pool_core::device::Call;
use pool_core::{On, PoolError, PoolStats, Tag, Work};
use pool_mock::device::SimConfig;

use crate::support::{GIB, KIB, LATE, MIB, Walk, World, each_way};

/// All counters but those of the work that looking for something takes.
fn books(world: &World) -> PoolStats {
    let mut stats = world.pool.stats();
    stats.shared.work = Work::default();
    stats
}

/// A refused free changes no counter.
#[test]
fn p039_what_is_refused_is_not_counted() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let elsewhere = way.fixed(4 * MIB);
        let [stream, other] = world.streams();
        let strange = elsewhere.allocate(On::Nothing, MIB);
        let (live, dead) = (world.used(stream, MIB), world.used(stream, 64 * KIB));
        let (dead_handle, unknown) = (dead.handle, world.foreign());
        world.share(&dead, other);
        world.free(stream, dead);
        let before = books(&world);
        for handle in [dead_handle, strange.handle] {
            for on in [On::Nothing, stream.into(), other.into(), On::Raw(&unknown)] {
                let refused = match on {
                    On::Nothing => world.pool.free(handle),
                    on => world.pool.free_on(on, handle),
                };
                assert!(matches!(refused, Err(PoolError::Handle(_))), "{refused:?}");
                let refused = world.pool.record_use(handle, on);
                assert!(matches!(refused, Err(PoolError::Handle(_))), "{refused:?}");
            }
            assert!(world.pool.location(handle).is_err());
        }
        assert_eq!(books(&world), before);
        world.free(stream, live);
        elsewhere.free(On::Nothing, strange);
        elsewhere.end();
        world.end();
    });
}

/// What is live is what the program holds, through all that happens.
#[test]
fn p039_live_bytes_are_what_the_program_holds() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let streams: [_; 3] = world.streams();
        let mut walk = Walk::new(&world, &streams, 77, MIB);
        for _ in 0..150 {
            walk.step();
            let held: u64 = walk.live.iter().map(|(_, buffer)| buffer.size_bytes).sum();
            let stats = world.pool.stats();
            assert_eq!((stats.live_bytes, stats.live_blocks), (held, walk.live.len() as u64));
            assert!(stats.peak_bytes >= held);
        }
        walk.end();
        assert_eq!(world.pool.stats().live_bytes, 0);
        world.end();
    });
}

/// A new peak begins at what is live.
#[test]
fn p086_a_new_peak_begins_at_what_is_live() {
    let world = World::new(SimConfig::new(), LATE.pool().arena_bytes(GIB));
    let stream = world.stream();
    let first = world.allocate(stream, 30 * GIB);
    let early = world.allocate(stream, 5 * GIB);
    world.free(stream, early);
    assert_eq!(world.pool.stats().peak_bytes, 35 * GIB);
    let before = world.pool.stats();
    world.pool.reset_peak();
    let after = world.pool.stats();
    assert_eq!((after.live_bytes, after.peak_bytes), (30 * GIB, 30 * GIB));
    assert_eq!(
        (after.calls, after.growths, after.steals),
        (before.calls, before.growths, before.steals)
    );
    let second = world.allocate(stream, GIB);
    world.free(stream, second);
    assert_eq!(world.pool.stats().peak_bytes, 31 * GIB);
    world.free(stream, first);
    assert_eq!((world.pool.stats().live_bytes, world.pool.stats().peak_bytes), (0, 31 * GIB));
    world.pool.trim_waiting(0).unwrap();
    assert_eq!(world.pool.stats().peak_reserved_bytes, after.peak_reserved_bytes);
    world.pool.reset_peak();
    assert_eq!((world.pool.stats().peak_bytes, world.pool.stats().peak_reserved_bytes), (0, 0));
    world.end();
}

/// The limit is of what the pool reserves: it is never more, and what others have counts where the
/// device says no.
#[test]
fn p112_a_limit_is_of_what_the_pool_reserves() {
    each_way(|way| {
        let memory = 64 * MIB;
        let limit = memory / 2;
        let config = way.pool().limit_bytes(limit).arena_bytes(4 * MIB);
        let world = World::new(way.device().memory_bytes(memory), config);
        world.device.set_foreign_bytes(40 * MIB);
        let stream = world.stream();
        let mut buffers = Vec::new();
        while let Ok(buffer) = world.try_allocate(stream, MIB) {
            world.touch(&buffer, world.raw(stream));
            buffers.push(buffer);
            assert!(world.pool.stats().reserved_bytes <= limit);
        }
        // The device has no more, though the limit would allow it.
        assert_eq!(buffers.len(), 24);
        world.device.set_foreign_bytes(0);
        while let Ok(buffer) = world.try_allocate(stream, MIB) {
            world.touch(&buffer, world.raw(stream));
            buffers.push(buffer);
        }
        assert_eq!(buffers.len(), 32);
        assert_eq!(world.pool.stats().reserved_bytes, limit);
        assert_eq!(world.device.balance().bytes, limit);
        for buffer in buffers {
            world.free(stream, buffer);
        }
        world.end();
    });
}

/// A lower limit holds from then on, and memory that can go goes.
#[test]
fn p112_a_lower_limit_holds() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().arena_bytes(2 * MIB));
        let stream = world.stream();
        let buffers: Vec<_> = (0..8).map(|_| world.used(stream, 2 * MIB)).collect();
        world.pool.set_limit(Some(4 * MIB)).unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 16 * MIB);
        assert!(world.try_allocate(stream, 2 * MIB).is_err());
        for buffer in buffers {
            world.free(stream, buffer);
        }
        world.pool.trim_waiting(4 * MIB).unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 4 * MIB);
        world.pass(stream, 4 * MIB);
        assert!(world.try_allocate(stream, 6 * MIB).is_err());
        assert!(world.pool.stats().reserved_bytes <= 4 * MIB);
        world.end();
    });
}

/// A tag's bytes are those of its live blocks, whichever way they go.
#[test]
fn p039_a_tags_bytes_are_its_live_blocks() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let [stream, other] = world.streams();
        let (tag, size_bytes) = (Tag(3), 100 * KIB);
        world.pool.set_quota(tag, Some(10 * size_bytes));
        let captured = world.stream();
        for way_out in 0..4 {
            let blocks: Vec<_> = (0..10)
                .map(|_| world.pool.allocate_tagged(stream, tag, size_bytes).unwrap())
                .collect();
            let held: u64 = blocks.iter().map(pool_core::Block::size_bytes).sum();
            assert_eq!(world.pool.tag_live_bytes(tag), held);
            let over = world.pool.allocate_tagged(stream, tag, size_bytes);
            assert!(matches!(over, Err(PoolError::Quota { .. })));
            assert_eq!(world.pool.tag_live_bytes(tag), held);
            // A request that fails is not charged.
            assert!(world.pool.allocate_tagged(stream, Tag(4), 8 * MIB).is_err());
            assert_eq!(world.pool.tag_live_bytes(Tag(4)), 0);
            for block in &blocks {
                match way_out {
                    0 => world.pool.free(block.handle()),
                    1 => world.pool.free_on(stream, block.handle()),
                    2 => world.pool.free_on(other, block.handle()),
                    _ => {
                        world.pool.record_use(block.handle(), captured).unwrap();
                        world.pool.free_on(stream, block.handle())
                    }
                }
                .unwrap();
                assert!(world.pool.free(block.handle()).is_err());
            }
            assert_eq!(world.pool.tag_live_bytes(tag), 0);
        }
        world.end();
    });
}

/// Calls are counted as the device counts them.
#[test]
fn p039_calls_are_counted_as_the_device_counts_them() {
    each_way(|way| {
        let config = way.pool().arena_bytes(2 * MIB).limit_bytes(8 * MIB);
        let world = World::new(way.device(), config);
        let streams: [_; 3] = world.streams();
        let mut walk = Walk::new(&world, &streams, 78, 2 * MIB);
        for _ in 0..150 {
            walk.step();
        }
        let (calls, device) = (world.pool.stats().calls, world.device.calls());
        assert_eq!(calls.queries, device.of(Call::IsDone));
        assert_eq!(calls.device_waits, device.of(Call::Wait));
        assert_eq!(calls.allocations, device.of(Call::Allocate));
        assert_eq!(calls.frees, device.of(Call::Free));
        assert!(calls.records >= device.of(Call::Record));
        assert!(calls.host_waits >= device.of(Call::WaitOnHost));
        walk.end();
        world.end();
    });
}
