//! Memory that serves again while another stream still uses it.

use pool_core::On;
use pool_mock::device::{Access, StreamKind, Violation};

use crate::support::{LATE, MIB, Walk, World, each_way};
use crate::threads::on_threads;

/// A free that names no stream is behind the work of all streams, whatever stream the block was
/// taken on, known to the pool or not, and also behind work that is queued after the free.
#[test]
fn p012_a_free_that_names_no_stream_is_behind_all_streams() {
    each_way(|way| {
        for size_bytes in [4096, MIB, 3 * MIB - 256] {
            for fixed in [true, false] {
                let world = if fixed { way.fixed(size_bytes) } else { way.growing() };
                let [default, side] = world.streams();
                let unknown = world.foreign();
                let freed = world.allocate(side, size_bytes);
                world.device.hold(world.raw(side)).unwrap();
                world.device.hold(unknown).unwrap();
                world.touch(&freed, world.raw(side));
                let range_and_owner = (freed.offset_bytes, freed.owner);
                let late = freed.again();
                world.free(On::Nothing, freed);
                // Nothing was asked for since: this work is behind the free, and before reuse.
                world.order(world.raw(side), unknown);
                world.touch(&late, unknown);
                assert_eq!((late.offset_bytes, late.owner), range_and_owner);
                let before = world.pool.stats().growths;
                let other = world.used(default, size_bytes);
                if fixed {
                    world.free(default, other);
                    let again = world.used(side, size_bytes);
                    assert_eq!(world.pool.stats().growths, before);
                    world.free(side, again);
                } else {
                    let own = world.used(side, size_bytes);
                    assert!(!own.overlaps(&other));
                    world.free(side, own);
                    world.free(default, other);
                }
                world.end();
            }
        }
    });
}

/// What a request without a stream gets is used by the host, or by any stream, at once.
#[test]
fn p012_a_request_that_names_no_stream_gets_what_nothing_uses() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let [one, other] = world.streams();
        let (first, second) = (world.used(one, MIB), world.used(other, MIB));
        world.share(&second, one);
        world.free(one, first);
        world.free(other, second);
        for _ in 0..3 {
            let clean = [(); 2].map(|()| world.allocate(On::Nothing, MIB));
            let streams = [world.foreign(), world.foreign()];
            for (buffer, stream) in clean.iter().zip(streams) {
                world.touch(buffer, stream);
            }
            for buffer in clean {
                world.free(On::Nothing, buffer);
            }
        }
        world.end();
    });
}

/// A copy on a side stream is before the reuse of its source, if it was declared.
#[test]
fn p023_a_declared_use_is_before_reuse() {
    each_way(|way| {
        for (size_bytes, sides) in [(64 * MIB, 1), (256, 1), (5120, 3), (MIB, 5)] {
            let world = way.fixed(size_bytes);
            let main = world.stream();
            let sides: Vec<_> = (0..sides).map(|_| world.stream()).collect();
            for round in 0..3 {
                let source = world.used(main, size_bytes);
                for &side in &sides {
                    world.device.hold(world.raw(side)).unwrap();
                    world.share(&source, side);
                    if round == 1 {
                        // Again, and on its own stream.
                        world.share(&source, side);
                        world.share(&source, main);
                    }
                }
                let last = if round == 2 { sides[0] } else { main };
                world.free(last, source);
            }
            world.pass(main, size_bytes);
            world.end();
        }
    });
}

/// With room, what is used elsewhere is not given out at all.
#[test]
fn p023_with_room_a_declared_use_costs_no_wait() {
    let world = LATE.fixed(8 * MIB);
    let [main, side] = world.streams();
    let source = world.used(main, MIB);
    let offset_bytes = source.offset_bytes;
    world.device.hold(world.raw(side)).unwrap();
    world.share(&source, side);
    world.free(main, source);
    let before = world.device.calls();
    for _ in 0..6 {
        let next = world.used(main, MIB);
        assert_ne!(next.offset_bytes, offset_bytes);
    }
    assert_eq!(world.device.calls().since(&before).total(), 0);
    world.check();
}

/// A use that was not declared is the program's fault, and the device tells.
#[test]
fn p023_an_undeclared_use_is_found() {
    let world = LATE.fixed(MIB);
    let [main, side] = world.streams();
    let source = world.used(main, MIB);
    world.device.hold(world.raw(side)).unwrap();
    world.queue(&source, world.raw(side), Access::Write);
    world.free(main, source);
    world.pass(main, MIB);
    assert!(world.device.take_violations().iter().any(Violation::is_race));
}

/// The stream of the free is one more that has to pass; those of the uses and of the allocation
/// count whatever it is.
#[test]
fn p024_the_last_use_counts_whatever_stream_the_free_names() {
    each_way(|way| {
        for freed_on in 0..4 {
            let world = way.fixed(MIB);
            let [a, b, c] = world.streams();
            let unknown = world.foreign();
            let buffer = world.used(a, MIB);
            for stream in [a, b] {
                world.device.hold(world.raw(stream)).unwrap();
            }
            world.share(&buffer, b);
            match freed_on {
                0 => world.free(On::Nothing, buffer),
                1 => world.free(a, buffer),
                2 => world.free(c, buffer),
                _ => world.free(&unknown, buffer),
            }
            for stream in [c, a, b] {
                world.pass(stream, MIB);
            }
            world.device.close_stream(unknown).unwrap();
            world.end();
        }
    });
}

/// A block that cannot be freed on a stream is still the caller's.
#[test]
fn p024_a_refused_stream_leaves_the_block_as_it_was() {
    each_way(|way| {
        let world = way.fixed(MIB);
        let elsewhere = World::over(world.device.peer(), way.pool());
        let [stream, side] = world.streams();
        let stranger = elsewhere.stream();
        let retired = world.stream();
        world.pool.retire(retired).unwrap();
        let buffer = world.used(stream, MIB);
        world.share(&buffer, side);
        for refused in [stranger, retired] {
            let before = world.pool.stats().live_bytes;
            assert!(world.pool.free_on(refused, buffer.handle).is_err());
            assert!(world.pool.record_use(buffer.handle, refused).is_err());
            assert!(world.pool.allocate_on(refused, 256).is_err());
            assert_eq!(world.pool.stats().live_bytes, before);
        }
        world.touch(&buffer, world.raw(stream));
        world.free(stream, buffer);
        world.pass(stream, MIB);
        elsewhere.end();
        world.end();
    });
}

/// Threads that free on one stream what others use on theirs.
#[test]
fn p049_a_free_on_the_default_stream_is_behind_other_threads_uses() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let [default, one, other] = world.streams();
        on_threads(2, |thread| {
            let mine = [one, other][thread];
            for round in 0..12 {
                let Ok(buffer) = world.try_allocate(default, MIB << (round % 2)) else { continue };
                world.share(&buffer, mine);
                world.free(default, buffer);
                if let Ok(buffer) = world.try_allocate(mine, MIB) {
                    world.touch(&buffer, world.raw(mine));
                    world.free(mine, buffer);
                }
            }
        });
        world.end();
    });
}

/// Nothing goes back to the device under the work of another device.
#[test]
fn p050_a_give_back_waits_for_another_devices_work() {
    each_way(|way| {
        for adopted in [true, false] {
            for waiting in [true, false] {
                let world = way.growing();
                let peer = world.device.peer();
                let (local, remote) = (world.stream(), peer.open_stream(StreamKind::NonBlocking));
                let known = adopted.then(|| world.adopt(remote));
                let buffer = world.used(local, MIB);
                peer.hold(remote).unwrap();
                match known {
                    Some(known) => world.share(&buffer, known),
                    None => world.share(&buffer, &remote),
                }
                world.free(local, buffer);
                if waiting {
                    world.pool.trim_waiting(0).unwrap();
                    assert_eq!(world.pool.stats().reserved_bytes, 0);
                } else {
                    let trimmed = world.pool.trim(0).unwrap();
                    let reserved = world.pool.stats().reserved_bytes;
                    assert_eq!(trimmed.pending_bytes, reserved);
                }
                world.check();
                if let Some(known) = known {
                    world.pool.retire(known).unwrap();
                }
                peer.close_stream(remote).unwrap();
                world.end();
            }
        }
    });
}

/// What a pool was told of a buffer holds however early the buffer's owner is gone.
#[test]
fn p122_an_early_end_of_the_owner_shortens_nothing() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let [executes, frees, other] = world.streams();
        for round in 0..6 {
            let input = world.allocate(frees, MIB);
            let output = world.allocate(executes, MIB);
            world.device.hold(world.raw(executes)).unwrap();
            world.share(&input, executes);
            world.touch(&output, world.raw(executes));
            // The task is dropped at once: its buffers go where they are.
            world.free(frees, input);
            match round % 3 {
                0 => world.free(frees, output),
                1 => world.free(executes, output),
                _ => world.free(On::Nothing, output),
            }
            world.pass([frees, other][round % 2], MIB);
        }
        world.end();
    });
}

/// All of it, at random.
#[test]
fn p012_p023_p024_no_program_finds_memory_in_use() {
    each_way(|way| {
        for seed in 0..4 {
            let world = way.fixed(2 * MIB);
            let streams: [_; 4] = world.streams();
            let mut walk = Walk::new(&world, &streams, seed, MIB);
            for _ in 0..150 {
                walk.step();
            }
            walk.end();
            world.end();
        }
    });
}
