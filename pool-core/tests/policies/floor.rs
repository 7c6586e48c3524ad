//! The floor of free memory: idle memory goes back when others leave the device with less.

use pool_core::device::{Call, Capabilities};
use pool_core::policy::{Growth, Reclaim};
use pool_core::{GraphId, PoolConfig, PoolError};
use pool_mock::device::{CaptureMode, Pacing, SimConfig, SimDevice};

use crate::support::{KIB, MIB, World};

const FLOOR: u64 = 100 * MIB;

/// A device on which each arena goes back by itself.
fn machine() -> SimConfig {
    SimConfig::new().without(Capabilities::EXTEND)
}

/// Arenas of 64 MiB, when they are needed.
fn config() -> PoolConfig {
    PoolConfig::new().growth(Growth { ahead: None, ..Growth::new() })
}

/// A device of 1,024 MiB and a pool that keeps 100 of them free, in arenas of 64 MiB.
fn world(pacing: Pacing) -> World {
    let device = SimDevice::new(machine().memory_bytes(1024 * MIB).pacing(pacing));
    let reclaim = Reclaim { free_floor_bytes: Some(FLOOR), ..Reclaim::default() };
    World::over(device, config().reclaim(reclaim))
}

/// So many idle arenas of 64 MiB.
fn idle(world: &World, arenas: u64) {
    let stream = world.stream();
    let buffers: Vec<_> = (0..arenas).map(|_| world.used(stream, 64 * MIB)).collect();
    for buffer in buffers {
        world.free(stream, buffer);
    }
    assert_eq!(world.pool.stats().reserved_bytes, arenas * 64 * MIB);
}

#[test]
fn what_others_need_goes_back_and_no_arena_more() {
    let world = world(Pacing::Eager);
    idle(&world, 8);
    world.pool.tick().unwrap();
    assert_eq!(world.pool.stats().arenas, 8, "512 MiB are free");
    for (foreign, arenas) in [
        // 100 MiB are free; one byte less; 64 less, as one arena; and a byte less again.
        (412 * MIB, 8),
        (412 * MIB + 1, 7),
        (476 * MIB, 7),
        (476 * MIB + 1, 6),
        // The others have all but 8 MiB: 92 are missing, two arenas.
        (632 * MIB, 4),
        // They need less again: nothing is taken back from them before the program needs it.
        (0, 4),
    ] {
        world.device.set_foreign_bytes(foreign);
        world.pool.tick().unwrap();
        assert_eq!(world.pool.stats().arenas, arenas, "others have {foreign}");
        world.pool.tick().unwrap();
        assert_eq!(world.pool.stats().arenas, arenas, "once is enough");
    }
    world.end();
}

#[test]
fn the_smallest_arena_that_is_enough_goes() {
    let world = world(Pacing::Eager);
    let stream = world.stream();
    let buffers = [200, 64, 120, 90].map(|size| world.used(stream, size * MIB));
    for buffer in buffers {
        world.free(stream, buffer);
    }
    // 550 are free; with others' 530 it is 20.
    world.device.set_foreign_bytes(530 * MIB);
    world.pool.tick().unwrap();
    assert_eq!(world.pool.stats().reserved_bytes, (200 + 64 + 120) * MIB);
    world.end();
}

#[test]
fn the_device_is_asked_once_a_tick_and_never_by_a_hit_or_in_a_capture() {
    let world = world(Pacing::Eager);
    idle(&world, 2);
    let stream = world.stream();
    world.pass(stream, MIB);
    let asked = || world.calls(Call::Memory);
    let before = asked();
    for _ in 0..1000 {
        let block = world.pool.allocate_on(stream, MIB).unwrap();
        world.pool.free_on(stream, block.handle()).unwrap();
    }
    world.pool.reclaim().unwrap();
    assert_eq!(asked(), before);
    for ticks in 1..=5 {
        world.pool.tick().unwrap();
        world.pool.tick_at(core::time::Duration::from_secs(ticks)).unwrap();
        assert_eq!(asked(), before + 2 * ticks);
    }
    world.device.set_foreign_bytes(890 * MIB);
    world.pool.begin_capture(stream, GraphId(1)).unwrap();
    world.device.begin_capture_in(world.raw(stream), CaptureMode::Global).unwrap();
    world.pool.tick().unwrap();
    assert_eq!((asked(), world.pool.stats().arenas), (before + 10, 2));
    world.pool.end_capture(stream).unwrap();
    let graph = world.device.end_capture(world.raw(stream)).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
    world.device.drop_graph(graph).unwrap();
    world.pool.tick().unwrap();
    assert_eq!((asked(), world.pool.stats().arenas), (before + 11, 0));
    world.end();
}

/// Without a floor, or on a device that does not know its free memory, nobody asks.
#[test]
fn nobody_asks_where_there_is_no_floor_or_no_answer() {
    let device = machine().memory_bytes(1024 * MIB);
    let without = World::new(device.clone(), config());
    let reclaim = Reclaim { free_floor_bytes: Some(u64::MAX), ..Reclaim::default() };
    let mute = device.without(Capabilities::MEMORY);
    let unknown = World::new(mute, config().reclaim(reclaim));
    for world in [without, unknown] {
        idle(&world, 2);
        let before = world.calls(Call::Memory);
        world.pool.tick().unwrap();
        assert_eq!((world.calls(Call::Memory), world.pool.stats().arenas), (before, 2));
        world.end();
    }
}

/// Nothing is waited for: what waits goes back at a later tick.
#[test]
fn what_waits_for_work_stays_until_that_is_done() {
    let world = world(Pacing::Idle);
    idle(&world, 2);
    world.device.set_foreign_bytes(890 * MIB);
    world.pool.tick().unwrap();
    assert_eq!((world.pool.stats().arenas, world.calls(Call::WaitOnHost)), (2, 0));
    world.device.run_all();
    // In vain once, so that the next tick only looks at what lies idle.
    world.pool.tick().unwrap();
    world.pool.tick().unwrap();
    assert_eq!((world.pool.stats().arenas, world.calls(Call::WaitOnHost)), (0, 0));
    world.end();
}

/// A floor that cannot be met does not take from streams at each tick what they have to themselves:
/// of 200 ticks 9 do, where each would.
#[test]
fn a_floor_that_cannot_be_met_is_tried_more_and_more_rarely() {
    let world = world(Pacing::Eager);
    let streams: [_; 2] = world.streams();
    // Every arena has a live block, and is half free.
    let live: Vec<_> = (0..4).map(|_| world.used(streams[0], 33 * MIB)).collect();
    world.device.set_foreign_bytes(760 * MIB);
    let mut gathered = 0;
    for _ in 0..200 {
        for stream in streams {
            world.pass(stream, 400 * KIB);
        }
        // What is gathered is put behind a fence of each stream that had it.
        let before = world.calls(Call::Record);
        world.pool.tick().unwrap();
        gathered += u64::from(world.calls(Call::Record) > before);
    }
    assert_eq!((world.pool.stats().arenas, gathered), (4, 9));
    for buffer in live {
        world.free(streams[0], buffer);
    }
    // Now it can be met: at the latest after the longest pause.
    let ticks = (1..=65).find(|_| {
        world.pool.tick().unwrap();
        world.pool.stats().arenas == 2
    });
    assert!(ticks.is_some());
    world.end();
}

/// If the device does not answer, the tick says so, and does the rest.
#[test]
fn a_failed_question_is_reported_and_the_rest_is_done() {
    let world = world(Pacing::Eager);
    idle(&world, 2);
    world.device.set_foreign_bytes(890 * MIB);
    let block = world.pool.allocate(MIB).unwrap();
    world.pool.free(block.handle()).unwrap();
    assert_eq!(world.pool.stats().deferred_bytes, MIB);
    world.device.fail_next(Call::Memory, 1);
    let failed = world.pool.tick();
    assert!(matches!(failed, Err(PoolError::Device(failed)) if failed.call == Call::Memory));
    assert_eq!((world.pool.stats().deferred_bytes, world.pool.stats().arenas), (0, 2));
    // An arena that the device does not take back stays the pool's.
    world.device.fail_next(Call::Free, 1);
    let failed = world.pool.tick();
    assert!(matches!(failed, Err(PoolError::Device(failed)) if failed.call == Call::Free));
    world.check();
    world.pool.tick().unwrap();
    assert_eq!(world.pool.stats().arenas, 0);
    world.end();
}
