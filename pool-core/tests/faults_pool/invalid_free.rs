//! Frees of what cannot be freed, and frees that are not of the kind of the allocation.
//!
//! Addresses that no arena has belong to the driver (P043): who asks by address is the interface in
//! C, and comes with that. Here it is that a free depends on the block alone, not on what the pool
//! is set to now.

use pool_core::{Deferred, Handle, On, PoolError};
use pool_mock::device::SimConfig;

use crate::support::{GRANULE, KIB, LATE, MIB, World, each_way};

/// Each block is found in its arena, whichever arenas went before, also where they touch.
#[test]
fn p025_blocks_are_found_past_arenas_that_are_gone() {
    each_way(|way| {
        for misalign in [0, 256, 64 * KIB] {
            let config = way.pool().arena_bytes(2 * MIB);
            let world = World::new(way.device().misalign_bytes(misalign), config);
            let stream = world.stream();
            let mut buffers: Vec<_> = (0..5).map(|_| Some(world.used(stream, 2 * MIB))).collect();
            for hole in [1, 0, 3] {
                world.free(stream, buffers[hole].take().unwrap());
                world.pool.trim_waiting(0).unwrap();
                for buffer in buffers.iter().flatten() {
                    let block = world.pool.block(buffer.handle).unwrap();
                    let location = world.pool.location(buffer.handle).unwrap();
                    assert_eq!(location.offset_bytes, 0, "it fills its arena");
                    assert_eq!(world.pool.block_at(block.offset_bytes()), Some(buffer.handle));
                    world.touch(buffer, world.raw(stream));
                }
                world.check();
            }
            assert_eq!(world.pool.stats().arenas, 2);
            // New ones fill the holes.
            let more: Vec<_> = (0..4).map(|_| world.used(stream, 2 * MIB)).collect();
            for buffer in buffers.into_iter().flatten().chain(more) {
                world.free(stream, buffer);
            }
            world.end();
        }
    });
}

/// A block never lies across two arenas, though they may touch.
#[test]
fn p025_a_block_lies_in_one_arena() {
    each_way(|way| {
        let config = way.pool().arena_bytes(2 * MIB).limit_bytes(8 * MIB);
        let world = World::new(way.device(), config);
        let stream = world.stream();
        let halves: Vec<_> = (0..8).map(|_| world.used(stream, MIB)).collect();
        // The second half of each arena and the first one of the next.
        for (place, half) in halves.into_iter().enumerate() {
            if place != 0 && place != 7 {
                world.free(stream, half);
            }
        }
        for size_bytes in [2 * MIB, 2 * MIB, MIB, MIB] {
            let buffer = world.used(stream, size_bytes);
            let location = world.pool.location(buffer.handle).unwrap();
            assert!(location.offset_bytes + buffer.size_bytes <= location.arena.size_bytes());
        }
        world.check();
    });
}

/// What the pool is set to at the free does not matter.
#[test]
fn p043_a_free_depends_on_the_block_alone() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().arena_bytes(2 * MIB));
        let [stream, other] = world.streams();
        let unlimited = world.used(stream, 2 * MIB);
        world.pool.set_limit(Some(0)).unwrap();
        world.free(stream, unlimited);
        assert!(world.pool.allocate_on(stream, 2 * MIB).is_ok() || world.pool.stats().arenas == 0);
        world.pool.set_limit(None).unwrap();
        let before = world.used(other, MIB);
        world.pool.retire(other).unwrap();
        world.free(On::Nothing, before);
        world.pool.set_limit(Some(MIB)).unwrap();
        world.pool.set_limit(None).unwrap();
        world.check();
    });
}

/// Only the first of several frees is one, however the block goes, and what is live stays live.
#[test]
fn p057_only_the_first_free_is_one() {
    each_way(|way| {
        for deferred in [Deferred::AtOnce, way.deferred] {
            let config = way.pool().deferred(deferred).initial_bytes(MIB).limit_bytes(MIB);
            let world = World::new(way.device(), config);
            let [stream, other] = world.streams();
            let unknown = world.foreign();
            let all: Vec<_> = (0..16).map(|_| world.used(stream, 64 * KIB)).collect();
            let handles: Vec<Handle> = all.iter().map(|buffer| buffer.handle).collect();
            world.share(&all[0], other);
            for buffer in all.into_iter().take(4) {
                let handle = buffer.handle;
                let place = handles.iter().position(|&known| known == handle).unwrap();
                match place {
                    0 => world.free(stream, buffer),
                    1 => world.free(other, buffer),
                    2 => world.free(&unknown, buffer),
                    _ => world.free(On::Nothing, buffer),
                }
                for again in 0..3 {
                    let refused = match again {
                        0 => world.pool.free_on(stream, handle),
                        1 => world.pool.free(handle),
                        _ => world.pool.free_on(&unknown, handle),
                    };
                    assert!(matches!(refused, Err(PoolError::Handle(_))), "{refused:?}");
                }
                world.check();
            }
            let again: Vec<_> = (0..4).map(|_| world.used(stream, 64 * KIB)).collect();
            assert!(world.try_allocate(stream, GRANULE).is_err(), "there are no more");
            for buffer in again {
                world.free(stream, buffer);
            }
            for &handle in &handles[4..] {
                world.pool.free_on(stream, handle).unwrap();
            }
            world.end();
        }
    });
}

/// Blocks that were taken on a stream and are freed without one, and the other way round, in all
/// pairs: the free that names no stream is behind all of them.
#[test]
fn p101_both_frees_take_both_kinds_of_blocks() {
    each_way(|way| {
        for size_bytes in [MIB, 512] {
            for (taken, freed) in (0..9).map(|pair| (pair / 3, pair % 3)) {
                let world = way.fixed(size_bytes);
                let [stream, next] = world.streams();
                let unknown = world.foreign();
                let on = [On::Stream(stream), On::Nothing, On::Raw(&unknown)];
                let buffer = world.allocate(on[taken], size_bytes);
                let used_on = if taken == 2 { unknown } else { world.raw(stream) };
                if taken == 1 && freed != 1 {
                    world.pool.record_use(buffer.handle, stream).unwrap();
                }
                world.device.hold(used_on).unwrap();
                world.touch(&buffer, used_on);
                world.free(on[freed], buffer);
                world.pass(next, size_bytes);
                let clean = world.allocate(On::Nothing, size_bytes);
                world.touch(&clean, world.foreign());
                world.free(On::Nothing, clean);
                world.end();
            }
        }
    });
}

/// A device with one queue and no fences: all frees are the same.
#[test]
fn p101_without_fences_all_frees_are_one() {
    use pool_core::device::Capabilities;
    let device = SimConfig::new().without(
        Capabilities::FENCES
            | Capabilities::STREAMS
            | Capabilities::CAPTURE
            | Capabilities::STREAM_IDS,
    );
    let world = World::new(device, LATE.pool().initial_bytes(MIB).limit_bytes(MIB));
    let queue = world.device.legacy_stream();
    for round in 0..8 {
        let buffer = match round % 2 {
            0 => world.allocate(On::Nothing, MIB),
            _ => world.allocate(&queue, MIB),
        };
        match round % 3 {
            0 => world.free(On::Nothing, buffer),
            _ => world.free(&queue, buffer),
        }
    }
    world.end();
}
