//! Memory that goes back, and when.
//!
//! A policy that gives back by itself (P085) comes with the policies of growth.

use pool_core::On;
use pool_core::device::{Call, Device};

use crate::support::{LATE, MIB, World, each_way};

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
    let world = World::new(LATE.device(), LATE.pool().arena_bytes(2 * MIB));
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
            let world = World::new(way.device().memory_bytes(memory), way.pool());
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
        let world = World::new(way.device(), way.pool().arena_bytes(2 * MIB));
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
