//! Memory that goes back, and when.

use core::time::Duration;

use pool_core::device::{Call, Device};
use pool_core::policy::{Decay, Growth, Idle, Reclaim};
use pool_core::{On, PoolConfig};

use crate::support::{GIB, LATE, MIB, World, each_way};

/// Arenas of so many bytes, when they are needed.
fn exact(floor_bytes: u64) -> Growth {
    Growth { floor_bytes, ahead: None, ..Growth::default() }
}

/// Nothing goes back by itself.
#[test]
fn p082_a_steady_state_makes_no_call() {
    each_way(|way| {
        let world = way.growing();
        let stream = world.stream();
        world.pass(stream, 64 * MIB);
        let before = world.calls(Call::Allocate) + world.calls(Call::Free);
        for _ in 0..200 {
            world.pass(stream, 64 * MIB);
            world.device.host_wait_stream(world.raw(stream)).unwrap();
            world.pool.reclaim().unwrap();
        }
        assert_eq!(world.calls(Call::Allocate) + world.calls(Call::Free), before);
        world.end();
    });
}

/// What is kept is what was asked for, as far as arenas allow.
#[test]
fn p082_what_is_kept_is_honoured() {
    let world = World::new(LATE.device(), LATE.pool().growth(exact(2 * MIB)));
    let stream = world.stream();
    for keep in [0, 1, 2 * MIB, 5 * MIB, 8 * MIB, u64::MAX] {
        let buffers: Vec<_> = (0..4).map(|_| world.used(stream, 2 * MIB)).collect();
        for buffer in buffers {
            world.free(stream, buffer);
        }
        let trimmed = world.pool.trim_waiting(keep).unwrap();
        let reserved = world.pool.stats().reserved_bytes;
        assert!(reserved >= keep.min(8 * MIB), "{reserved} of {keep} kept");
        assert!(reserved < keep.saturating_add(2 * MIB).max(1), "{reserved} of {keep} kept");
        assert_eq!((trimmed.released_bytes, trimmed.pending_bytes), (8 * MIB - reserved, 0));
        world.check();
    }
    world.end();
}

/// A trim that does not wait says what waits; one that waits leaves nothing.
#[test]
fn p083_a_trim_says_what_it_left() {
    each_way(|way| {
        for freed_on in 0..3 {
            let memory = 100 * MIB;
            let world =
                World::new(way.device().memory_bytes(memory), way.pool().growth(exact(64 * MIB)));
            let [stream, other] = world.streams();
            let unknown = world.foreign();
            let buffer = world.used(stream, 90 * MIB);
            world.device.hold(world.raw(stream)).unwrap();
            world.touch(&buffer, world.raw(stream));
            match freed_on {
                0 => world.free(stream, buffer),
                1 => world.free(other, buffer),
                _ => {
                    world.share(&buffer, &unknown);
                    world.free(On::Nothing, buffer);
                }
            }
            let trimmed = world.pool.trim(0).unwrap();
            let reserved = world.pool.stats().reserved_bytes;
            assert_eq!((trimmed.released_bytes, trimmed.pending_bytes), (0, reserved));
            assert!(world.device.allocate(50 * MIB).is_err(), "somebody else's");
            let trimmed = world.pool.trim_waiting(0).unwrap();
            assert_eq!((trimmed.released_bytes, trimmed.pending_bytes), (reserved, 0));
            let foreign = world.device.allocate(50 * MIB).unwrap();
            world.device.free(&foreign).unwrap();
            world.end();
        }
    });
}

/// What is live is no part of what could go.
#[test]
fn p083_live_arenas_are_not_pending() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().growth(exact(2 * MIB)));
        let stream = world.stream();
        let [live, dead] = [(); 2].map(|()| world.used(stream, 2 * MIB));
        world.free(stream, dead);
        let trimmed = world.pool.trim(0).unwrap();
        assert_eq!(trimmed.released_bytes + trimmed.pending_bytes, 2 * MIB);
        let trimmed = world.pool.trim_waiting(0).unwrap();
        assert_eq!(trimmed.pending_bytes, 0);
        assert_eq!(world.pool.stats().reserved_bytes, 2 * MIB);
        world.touch(&live, world.raw(stream));
        world.free(stream, live);
        world.end();
    });
}

/// One long input does not raise the footprint for ever: what only it needed goes back, but for
/// what the pool started with, and what each period needs stays.
#[test]
fn p085_a_spike_does_not_stay() {
    for (decay, idle) in [
        (None, Duration::ZERO),
        (Some(Decay { period: Idle::For(Duration::from_secs(1)) }), Duration::from_secs(2)),
        (Some(Decay { period: Idle::Requests(1000) }), Duration::ZERO),
    ] {
        let reclaim = Reclaim { watermark_bytes: Some(64 * MIB), decay, ..Reclaim::new() };
        let config = PoolConfig::new().initial_bytes(64 * MIB).growth(exact(16 * MIB));
        let device = LATE.device().memory_bytes(8 * GIB);
        let world = World::new(device, config.reclaim(reclaim));
        let stream = world.stream();
        let mut random = fastrand::Rng::with_seed(85);
        let mut serve = |requests: u32, time: Duration| {
            for request in 0..requests {
                world.pass(stream, random.u64(10 * MIB..50 * MIB));
                if request % 50 == 0 {
                    world.device.run_all();
                    world.device.pass(time / (requests / 50));
                    world.pool.tick().unwrap();
                }
            }
        };
        serve(2000, idle);
        assert_eq!(world.pool.stats().reserved_bytes, 64 * MIB);
        world.pass(stream, 4 * GIB);
        assert!(world.pool.stats().reserved_bytes >= 4 * GIB);
        serve(2000, idle);
        assert_eq!(world.pool.stats().reserved_bytes, 64 * MIB, "{decay:?}");
        let frees = world.calls(Call::Free);
        serve(2000, idle);
        assert_eq!(world.calls(Call::Free), frees, "nothing goes and comes");
        world.end();
    }
}
