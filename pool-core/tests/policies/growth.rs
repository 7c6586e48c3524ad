//! How much a pool takes, where, and when.

use pool_core::device::{Call, Capabilities, Device};
use pool_core::policy::{Ahead, Growth, Pages, Reclaim, Steps, Way};
use pool_core::{On, PoolConfig, PoolError, Remedy};
use pool_mock::device::{Fault, Pacing, SimConfig};

use crate::support::{GIB, LATE, MIB, Walk, World, each_way};
use crate::threads::on_threads;

/// A device of which every arena is a range of its own.
fn device() -> SimConfig {
    SimConfig::new().memory_bytes(8 * GIB).without(Capabilities::EXTEND)
}

fn with(growth: Growth) -> PoolConfig {
    PoolConfig::new().growth(Growth { ahead: None, ..growth })
}

/// Takes blocks of 16 MiB up to 2,000 MiB: the device's calls for memory, and what is reserved at
/// the end, in MiB.
fn climb(device: SimConfig, growth: Growth) -> (u64, u64) {
    let world = World::new(device, PoolConfig::new().growth(growth));
    let stream = world.stream();
    let live: Vec<_> = (0..125).map(|_| world.used(stream, 16 * MIB)).collect();
    let asked = world.calls(Call::Allocate) + world.calls(Call::Extend);
    let reserved = world.pool.stats().reserved_bytes / MIB;
    for buffer in live {
        world.free(stream, buffer);
    }
    world.end();
    (asked, reserved)
}

#[test]
fn steps_trade_calls_for_memory() {
    let growth = Growth { ahead: None, ..Growth::new() };
    let steps = |steps| Growth { steps, ..growth };
    assert_eq!(climb(device(), steps(Steps::Fixed)), (32, 2048));
    assert_eq!(climb(device(), steps(Steps::Doubling)), (6, 2048));
    let small = Growth { floor_bytes: 2 * MIB, ..steps(Steps::AsRequested) };
    assert_eq!(climb(device(), small), (125, 2000));
    let capped = Growth { ceiling_bytes: 128 * MIB, ..steps(Steps::Doubling) };
    assert_eq!(climb(device(), capped), (17, 2048));
}

/// In place the free ends of arenas are one piece with what comes behind them.
#[test]
fn in_place_serves_what_arenas_cannot() {
    let largest = |device: SimConfig| {
        let world = World::new(device, with(Growth::new()));
        let stream = world.stream();
        for size in (1..16).map(|times| times * 64 * MIB) {
            world.pass(stream, size - MIB);
        }
        let stats = world.pool.stats();
        world.end();
        (stats.arenas, stats.peak_reserved_bytes / MIB)
    };
    assert_eq!(largest(device()), (15, 7666));
    assert_eq!(largest(device().with(Capabilities::EXTEND)), (1, 959));
}

/// A request larger than a step gets exactly what it needs, and with a watermark that goes back
/// when it is free.
#[test]
fn a_large_request_gets_an_arena_of_its_own_size() {
    for watermark_bytes in [None, Some(64 * MIB), Some(GIB)] {
        let reclaim = Reclaim { watermark_bytes, ..Reclaim::new() };
        let world = World::new(device(), with(Growth::new()).reclaim(reclaim));
        let stream = world.stream();
        let small = world.used(stream, MIB);
        let large = world.used(stream, 300 * MIB + 256);
        assert_eq!(world.pool.stats().reserved_bytes, 364 * MIB + 256);
        world.free(stream, large);
        world.device.run_all();
        world.pool.tick().unwrap();
        world.pool.tick().unwrap();
        let kept = if watermark_bytes == Some(64 * MIB) { 64 * MIB } else { 364 * MIB + 256 };
        assert_eq!(world.pool.stats().reserved_bytes, kept, "{watermark_bytes:?}");
        world.free(stream, small);
        world.end();
    }
}

/// A device that refuses is asked for half, down to what is needed, in place too.
#[test]
fn a_refusal_halves_the_step() {
    for capabilities in [Capabilities::empty(), Capabilities::EXTEND] {
        let growth = Growth { floor_bytes: 512 * MIB, ..Growth::new() };
        let world = World::new(
            device().memory_bytes(700 * MIB).with(capabilities),
            with(growth).address_bytes(4 * GIB),
        );
        let stream = world.stream();
        let live: Vec<_> = [512 * MIB, 64 * MIB].map(|size| world.used(stream, size)).into();
        assert_eq!(world.pool.stats().reserved_bytes, 640 * MIB, "{capabilities:?}");
        for buffer in live {
            world.free(stream, buffer);
        }
        world.end();
    }
}

/// The order is the program's; what is left out is not done.
#[test]
fn ways_are_tried_in_order() {
    let grown = |order| {
        let growth = Growth { order, ..Growth::new() };
        let world = World::new(device().with(Capabilities::EXTEND), with(growth));
        let stream = world.stream();
        let live: Vec<_> =
            (0..4).filter_map(|_| world.try_allocate(stream, 64 * MIB).ok()).collect();
        let (count, arenas) = (live.len(), world.pool.stats().arenas);
        for buffer in live {
            world.free(stream, buffer);
        }
        world.end();
        (count, arenas)
    };
    assert_eq!(grown([Way::InPlace, Way::Overflow, Way::Migration]), (4, 1));
    assert_eq!(grown([Way::Overflow, Way::InPlace, Way::Migration]), (4, 4));
    assert_eq!(grown([Way::Migration, Way::Overflow, Way::Never]), (4, 4));
    assert_eq!(grown([Way::Never; 3]), (0, 0));
    // In place needs something to be in the place of.
    assert_eq!(grown([Way::InPlace, Way::Never, Way::Never]), (0, 0));
}

#[test]
fn a_pool_that_may_not_grow_says_what_would_help() {
    let world = World::new(device(), with(Growth { order: [Way::Never; 3], ..Growth::new() }));
    let Err(PoolError::OutOfMemory { shortage, .. }) = world.try_allocate(On::Nothing, MIB) else {
        panic!("nothing is there");
    };
    assert_eq!(shortage.remedy, Remedy::AllowGrowth);
    world.pool.set_growth(Growth::new());
    let buffer = world.allocate(On::Nothing, MIB);
    world.free(On::Nothing, buffer);
    world.end();
}

/// Growth comes at 80 % of use, in a call that is no hit or at a tick, by a bounded amount.
#[test]
fn growth_comes_before_it_is_needed() {
    let ahead = Some(Ahead { from_percent: 80, most_bytes: 32 * MIB });
    let growth = Growth { floor_bytes: 100 * MIB, ahead, ..Growth::new() };
    let world = World::new(device(), PoolConfig::new().growth(growth));
    let stream = world.stream();
    let mut live = vec![world.used(stream, MIB)];
    for used in 2..=79 {
        live.push(world.used(stream, MIB));
        world.pool.tick().unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 100 * MIB, "{used}");
    }
    // Hits do not grow, whatever is used.
    let calls = world.device.calls();
    for _ in 80..=90 {
        live.push(world.own(world.pool.allocate_on(stream, MIB).unwrap(), None));
    }
    assert_eq!(world.device.calls().since(&calls).total(), 0);
    assert_eq!(world.pool.stats().reserved_bytes, 100 * MIB);
    world.pool.tick().unwrap();
    let stats = world.pool.stats();
    assert_eq!((stats.reserved_bytes, stats.growths_ahead), (132 * MIB, 1));
    // 91 of 132: no more is due.
    world.pool.tick().unwrap();
    assert_eq!(world.pool.stats().reserved_bytes, 132 * MIB);
    // The next call that is no hit does it too.
    live.extend((0..20).map(|_| world.used(stream, MIB)));
    assert_eq!(world.pool.stats().growths_ahead, 1);
    let other = world.stream();
    let first = world.used(other, MIB);
    assert_eq!(world.pool.stats().growths_ahead, 2);
    world.free(other, first);
    for buffer in live {
        world.free(stream, buffer);
    }
    world.end();
}

/// Ahead of need a limit is not passed, and a device that refuses is not asked again and again.
#[test]
fn growth_ahead_knows_its_bounds() {
    let world = World::new(device(), PoolConfig::new().limit_bytes(80 * MIB));
    let stream = world.stream();
    let buffer = world.used(stream, 60 * MIB);
    world.pool.tick().unwrap();
    assert_eq!(world.pool.stats().reserved_bytes, 80 * MIB);
    let calls = world.device.calls();
    world.pool.tick().unwrap();
    assert_eq!(world.device.calls().since(&calls).of(Call::Allocate), 0, "all is reserved");
    world.free(stream, buffer);
    world.end();

    let world = World::new(device().memory_bytes(65 * MIB), PoolConfig::new().address_bytes(GIB));
    let stream = world.stream();
    let buffer = world.used(stream, 60 * MIB);
    world.pool.tick().unwrap();
    let calls = world.device.calls();
    for _ in 0..10 {
        world.pool.tick().unwrap();
    }
    assert_eq!(world.device.calls().since(&calls).of(Call::Allocate), 0, "it refused before");
    world.free(stream, buffer);
    world.end();
}

/// What is freed and only waits for work is no reason to grow: a request would wait for it.
#[test]
fn what_waits_is_no_reason_to_grow() {
    let world = World::new(device().pacing(Pacing::Idle), PoolConfig::new());
    let [home, other] = world.streams();
    let live: Vec<_> = (0..60).map(|_| world.used(home, MIB)).collect();
    for buffer in live {
        world.share(&buffer, other);
        world.free(home, buffer);
    }
    assert_eq!(world.pool.stats().growths_ahead, 1, "while they were live");
    let reserved = world.pool.stats().reserved_bytes;
    assert!(world.pool.stats().deferred_bytes >= 60 * MIB);
    world.pool.set_growth(Growth {
        ahead: Some(Ahead { from_percent: 40, most_bytes: GIB }),
        ..Growth::new()
    });
    world.pool.tick().unwrap();
    world.pass(other, 4096);
    assert_eq!(world.pool.stats().reserved_bytes, reserved);
    world.end();
}

/// While a capture is open the pool does not grow ahead, unless the device can.
#[test]
fn no_growth_ahead_breaks_a_capture() {
    let world = World::new(device(), PoolConfig::new());
    let stream = world.stream();
    let buffer = world.used(stream, 40 * MIB);
    world.pool.begin_capture(stream, pool_core::GraphId(1)).unwrap();
    let other = world.allocate(On::Nothing, 20 * MIB);
    world.pool.tick().unwrap();
    world.pool.end_capture(stream).unwrap();
    world.pool.release_graph(pool_core::GraphId(1)).unwrap();
    world.free(On::Nothing, other);
    world.free(stream, buffer);
    world.end();
}

/// Every call of the device that growth makes fails once, in place and elsewhere.
#[test]
fn a_failed_growth_changes_nothing() {
    for fault in [Fault::Plain, Fault::OutOfMemory] {
        for nth in 1..40 {
            let world = World::new(
                device().with(Capabilities::EXTEND).memory_bytes(GIB),
                PoolConfig::new().arena_bytes(8 * MIB).initial_bytes(8 * MIB),
            );
            world.device.fail_with(fault);
            let streams = world.streams::<2>();
            world.device.fail_nth(nth);
            let mut live = Vec::new();
            for step in 0..12 {
                let stream = streams[step % 2];
                if let Ok(buffer) = world.try_allocate(stream, (1 + step as u64 % 5) * 3 * MIB) {
                    world.touch(&buffer, world.raw(stream));
                    live.push((stream, buffer));
                }
                world.check();
            }
            let _ = world.pool.tick();
            world.check();
            assert!(live.len() >= 11, "{fault:?} at {nth}: {} of 12", live.len());
            for (stream, buffer) in live {
                world.free(stream, buffer);
            }
            world.end();
        }
    }
}

/// Threads that grow in place at once, with frees and trims between: nothing is lost, and no two
/// have the same bytes.
#[test]
fn many_grow_in_place_at_once() {
    for seed in 0..4 {
        let world = World::new(
            device().with(Capabilities::EXTEND).memory_bytes(GIB),
            PoolConfig::new().arena_bytes(2 * MIB),
        );
        on_threads(4, |thread| {
            let streams = world.streams::<2>();
            let mut walk = Walk::new(&world, &streams, seed * 10 + thread as u64, 4 * MIB);
            walk.is_final = false;
            for _ in 0..200 {
                walk.step();
            }
            walk.end();
        });
        world.end();
    }
}

/// Random programs on a pool that grows in place, in all ways.
#[test]
fn walks_on_arenas_that_grow() {
    each_way(|way| {
        let world =
            World::new(way.device().with(Capabilities::EXTEND), way.pool().arena_bytes(MIB));
        let streams = world.streams::<3>();
        let mut walk = Walk::new(&world, &streams, 5, 3 * MIB);
        for _ in 0..150 {
            walk.step();
        }
        walk.end();
        world.end();
    });
}

/// An address says where a block is, also in what was added.
#[test]
fn addresses_reach_into_what_was_added() {
    for misalign_bytes in [0, 256, 4096, 128] {
        let config = LATE.device().with(Capabilities::EXTEND).misalign_bytes(misalign_bytes);
        let world = World::new(config, PoolConfig::new().arena_bytes(2 * MIB));
        let stream = world.stream();
        let live: Vec<_> = (0..12).map(|_| world.used(stream, MIB)).collect();
        assert_eq!(world.pool.stats().arenas, 1);
        for buffer in &live {
            let block = world.pool.block(buffer.handle).unwrap();
            let location = world.pool.location(buffer.handle).unwrap();
            let base = world.device.address(location.arena.range()).unwrap();
            assert_eq!(world.pool.address(&block), Some(base + location.offset_bytes));
        }
        for buffer in live {
            world.free(stream, buffer);
        }
        world.end();
    }
}

/// A step that has no place in the space of offsets is halved as one that the device refuses.
#[test]
fn a_step_without_a_place_is_halved() {
    let growth = Growth { floor_bytes: 40 * MIB, ..Growth::new() };
    let world = World::new(device(), with(growth).address_bytes(64 * MIB));
    let stream = world.stream();
    let live = [30 * MIB, 12 * MIB].map(|size| world.used(stream, size));
    assert_eq!(world.pool.stats().reserved_bytes, 60 * MIB);
    for buffer in live {
        world.free(stream, buffer);
    }
    world.end();
}

/// A request that is aligned and larger than a step grows in place, too.
#[test]
fn aligned_requests_grow_in_place() {
    let growth = Growth { order: [Way::InPlace, Way::Never, Way::Never], ..Growth::new() };
    let world = World::new(device().with(Capabilities::EXTEND), with(growth).initial_bytes(MIB));
    let stream = world.stream();
    let request = pool_core::Request::new(100 * MIB).align_bytes(4096);
    let buffer = world.used(stream, request);
    assert!(world.pool.stats().reserved_bytes <= 102 * MIB);
    world.free(stream, buffer);
    world.end();
}

/// New memory costs less than the end of what runs side by side; where it could not be had again and
/// again, a wait costs less.
#[test]
fn in_pages_streams_grow_before_they_wait_while_there_is_room() {
    for (limit_bytes, waits, grown) in [(None, 0, 4 * MIB), (Some(12 * MIB), 1, 0)] {
        let mut config = PoolConfig::new().pages(Pages::default());
        if let Some(bytes) = limit_bytes {
            config = config.limit_bytes(bytes);
        }
        let world = World::new(SimConfig::new().pacing(Pacing::Idle), config);
        let [one, other] = [(); 2].map(|()| world.stream());
        let kept = [world.used(one, 4 * MIB), world.used(other, 4 * MIB)];
        let freed = world.used(one, 4 * MIB);
        world.free(one, freed);
        let (before, waited) = (world.pool.stats().reserved_bytes, world.calls(Call::Wait));
        let served = world.used(other, 4 * MIB);
        assert_eq!(world.calls(Call::Wait) - waited, waits);
        assert_eq!(world.pool.stats().reserved_bytes - before, grown);
        world.free(other, served);
        for (stream, buffer) in [one, other].into_iter().zip(kept) {
            world.free(stream, buffer);
        }
        world.end();
    }
}

/// Streams that are known, and that nothing is of any more, cost the one that is left nothing.
#[test]
fn in_pages_a_stream_that_is_left_alone_needs_no_more_than_one_that_always_was() {
    let peak = |others: usize| {
        let world = World::new(SimConfig::new(), PoolConfig::new().pages(Pages::default()));
        for _ in 0..others {
            let stream = world.stream();
            let buffer = world.used(stream, 40 * MIB);
            world.free(stream, buffer);
        }
        while world.pool.trim(0).unwrap().pending_bytes > 0 {
            world.device.run_all();
        }
        world.pool.reset_peak();
        assert_eq!(world.pool.stats().reserved_bytes, 0);
        let stream = world.stream();
        let mut random = fastrand::Rng::with_seed(1);
        let mut live = Vec::new();
        for _ in 0..300 {
            live.push(world.used(stream, random.u64(1..12 * MIB)));
            if live.len() > 12 {
                world.free(stream, live.swap_remove(random.usize(0..live.len())));
            }
        }
        let peak = world.pool.stats().peak_reserved_bytes;
        for buffer in live {
            world.free(stream, buffer);
        }
        world.end();
        peak
    };
    let alone = peak(0);
    assert_eq!(peak(1), alone);
    assert_eq!(peak(3), alone);
}
