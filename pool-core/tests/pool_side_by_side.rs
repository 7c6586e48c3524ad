//! Streams that use memory in pages side by side: each has its own in one piece, and what another
//! used for a while comes back.

#[path = "faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use pool_core::device::Call;
use pool_core::policy::{Pages, Settings};
use pool_core::{PoolConfig, StreamId};
use pool_mock::device::{Pacing, SimConfig};

use support::{GIB, MIB, World};

fn world(pacing: Pacing) -> World {
    let settings = Settings { pages: Some(Pages::new()), ..Settings::default() };
    let device = SimConfig::new().pacing(pacing).memory_bytes(GIB);
    World::new(device, PoolConfig::from(settings))
}

/// Streams that have each used a little.
fn streams<const COUNT: usize>(world: &World) -> [StreamId; COUNT] {
    let streams = world.streams();
    for stream in streams {
        let buffer = world.used(stream, MIB);
        world.free(stream, buffer);
    }
    streams
}

fn reserved_bytes(world: &World) -> u64 {
    world.pool.stats().reserved_bytes
}

/// All of it goes back, whoever had it.
fn end(world: World) {
    // The first trim asks for fences, the next sees them done.
    world.pool.trim(0).unwrap();
    world.device.run_all();
    world.pool.trim(0).unwrap();
    assert_eq!(reserved_bytes(&world), 0);
    world.end();
}

/// What streams get in turns is one run of each when it is free: blocks of other sizes have room in
/// it, no stream waits, and nothing more is taken.
#[test]
fn what_streams_get_in_turns_is_one_run_of_each() {
    let world = world(Pacing::Idle);
    let streams: [_; 3] = streams(&world);
    let mut buffers = Vec::new();
    for _ in 0..8 {
        buffers.extend(streams.map(|stream| (stream, world.used(stream, 5 * MIB))));
    }
    let (reserved, before) = (reserved_bytes(&world), world.device.calls());
    // A page that is not full, and the place of a span.
    assert!(reserved <= 3 * (8 * 5 + 4) * MIB, "{} MiB", reserved / MIB);
    for bytes in [40 * MIB, 10 * MIB, 20 * MIB, 5 * MIB, 40 * MIB] {
        for (stream, buffer) in buffers.drain(..) {
            world.free(stream, buffer);
        }
        for stream in streams {
            let count = 40 * MIB / bytes;
            buffers.extend((0..count).map(|_| (stream, world.used(stream, bytes))));
        }
    }
    assert_eq!(reserved_bytes(&world), reserved);
    assert_eq!(world.device.calls().since(&before).total(), 0);
    for (stream, buffer) in buffers {
        world.free(stream, buffer);
    }
    end(world);
}

/// Small blocks that stay do not lie between large ones, so that these leave one run.
#[test]
fn small_blocks_that_stay_do_not_cut_up_what_large_ones_leave() {
    let world = world(Pacing::Idle);
    let streams: [_; 2] = world.streams();
    // Something large that is in use all along.
    let stays = streams.map(|stream| (stream, world.used(stream, 32 * MIB)));
    let mut small = Vec::new();
    let mut round = || {
        for stream in streams {
            let large = [(); 2].map(|()| world.used(stream, 11 * MIB));
            small.push((stream, world.used(stream, 8)));
            for buffer in large {
                world.free(stream, buffer);
            }
        }
    };
    round();
    let reserved = reserved_bytes(&world);
    (0..20).for_each(|_| round());
    // What is missing is added to what there is.
    for stream in streams {
        let buffer = world.used(stream, 23 * MIB);
        world.free(stream, buffer);
    }
    let more = reserved_bytes(&world) - reserved;
    assert!(more <= 2 * 2 * MIB, "{} MiB", more / MIB);
    for (stream, buffer) in small.into_iter().chain(stays) {
        world.free(stream, buffer);
    }
    end(world);
}

/// Blocks that another stream uses last, one after the other and each of another size, as a program
/// has that loads on one stream and computes on the next: they come back as that work is done, and
/// are not taken anew again and again.
#[test]
fn what_another_stream_used_comes_back_before_much_is_taken_anew() {
    for (pacing, most_bytes) in [(Pacing::Eager, 12 * MIB), (Pacing::Lag(3), 60 * MIB)] {
        let world = world(pacing);
        let [load, compute] = streams(&world);
        // Something large that is in use all along.
        let stays = world.used(compute, 100 * MIB);
        let reserved = reserved_bytes(&world);
        let waits = world.calls(Call::Wait);
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..200 {
            let buffer = world.used(load, random.u64(1..=12) * MIB);
            world.share(&buffer, compute);
            world.free(load, buffer);
        }
        let taken = reserved_bytes(&world) - reserved;
        assert!(taken <= most_bytes, "{} MiB, {pacing:?}", taken / MIB);
        assert_eq!(world.calls(Call::Wait), waits);
        world.free(compute, stays);
        end(world);
    }
}
