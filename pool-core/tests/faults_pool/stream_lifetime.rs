//! Streams that end, and handles that are given to others.
//!
//! A stream that the pool does not know must live until the blocks that it was declared for are
//! freed (P007): its fence is recorded there. What a call with a dead handle does is the device's.

use pool_core::On;
use pool_core::device::Call;

use crate::support::{MIB, each_way};

/// A new stream with the handle of an old one waits for what the old one did.
#[test]
fn p006_a_handle_that_is_given_again_names_another_stream() {
    each_way(|way| {
        for size_bytes in [MIB, 512, 3 << 18] {
            let world = way.fixed(size_bytes);
            let mut keys = Vec::new();
            for round in 0..6 {
                let handle = world.foreign();
                keys.push(handle.key());
                let buffer = world.allocate(&handle, size_bytes);
                world.touch(&buffer, handle);
                world.device.hold(handle).unwrap();
                if round % 2 == 0 {
                    world.free(&handle, buffer);
                } else {
                    world.free(On::Nothing, buffer);
                }
                world.device.close_stream(handle).unwrap();
            }
            keys.dedup();
            assert_eq!(keys.len(), 1, "the handle is given again");
            world.end();
        }
    });
}

/// A block of a stream that is gone is freed on its successor by handle: it is still behind what
/// the old one did.
#[test]
fn p006_a_block_of_an_old_stream_is_freed_on_the_new_one() {
    each_way(|way| {
        let world = way.fixed(MIB);
        let old = world.foreign();
        let buffer = world.allocate(&old, MIB);
        world.touch(&buffer, old);
        world.device.hold(old).unwrap();
        world.device.close_stream(old).unwrap();
        let new = world.foreign();
        assert_eq!(new.key(), old.key());
        world.free(&new, buffer);
        let third = world.stream();
        world.pass(third, MIB);
        world.device.close_stream(new).unwrap();
        world.end();
    });
}

/// The same for streams that the pool is told of, and for its own.
#[test]
fn p006_a_known_stream_with_an_old_handle_is_another() {
    each_way(|way| {
        for size_bytes in [MIB, 512] {
            let world = way.fixed(size_bytes);
            let mut names = Vec::new();
            for round in 0..6 {
                let adopted = (round % 2 == 0).then(|| world.foreign());
                let stream = match adopted {
                    Some(handle) => world.adopt(handle),
                    None => world.stream(),
                };
                assert!(!names.contains(&stream));
                names.push(stream);
                let buffer = world.used(stream, size_bytes);
                world.device.hold(world.raw(stream)).unwrap();
                world.free(stream, buffer);
                world.pool.retire(stream).unwrap();
                if let Some(handle) = adopted {
                    world.device.close_stream(handle).unwrap();
                }
            }
            for old in names {
                assert!(world.pool.allocate_on(old, 256).is_err());
            }
            world.end();
        }
    });
}

/// On another device of the process the same handle value may be given, too.
#[test]
fn p006_another_devices_stream_is_another() {
    each_way(|way| {
        let world = way.fixed(MIB);
        let peer = world.device.peer();
        let handle = world.foreign();
        let stream = world.adopt(handle);
        let buffer = world.used(stream, MIB);
        world.device.hold(handle).unwrap();
        world.free(stream, buffer);
        world.pool.retire(stream).unwrap();
        world.device.close_stream(handle).unwrap();
        let there = peer.open_stream(pool_mock::device::StreamKind::NonBlocking);
        assert_eq!(there.key(), handle.key());
        let again = world.allocate(&there, MIB);
        world.touch(&again, there);
        world.free(&there, again);
        peer.close_stream(there).unwrap();
        world.end();
    });
}

/// A use on a stream that is gone by the time of the free still counts.
#[test]
fn p007_a_use_outlives_its_stream() {
    each_way(|way| {
        for (own, before) in [(true, true), (true, false), (false, true), (false, false)] {
            let world = way.fixed(2 * MIB);
            let [home, next] = world.streams();
            let adopted = (!own).then(|| world.foreign());
            let side = adopted.map_or_else(|| world.stream(), |handle| world.adopt(handle));
            let buffer = world.used(home, MIB);
            let other = world.used(home, MIB);
            world.share(&buffer, side);
            world.share(&other, side);
            world.device.hold(world.raw(side)).unwrap();
            world.touch(&buffer, world.raw(side));
            if before {
                world.pool.retire(side).unwrap();
                world.free(home, other);
                world.free(next, buffer);
            } else {
                world.free(home, other);
                world.pool.retire(side).unwrap();
                world.free(home, buffer);
            }
            if let Some(handle) = adopted {
                world.device.close_stream(handle).unwrap();
                // Somebody else's work, under the old value.
                let successor = world.foreign();
                assert_eq!(successor.key(), handle.key());
            }
            world.pass(next, 2 * MIB);
            world.pass(home, MIB);
            world.end();
        }
    });
}

/// A stream that the pool does not know is recorded in at the free, and never after.
#[test]
fn p007_an_unknown_stream_is_named_no_more_after_the_free() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let home = world.stream();
        for round in 0..4 {
            let buffer = world.used(home, MIB);
            let side = world.foreign();
            world.share(&buffer, &side);
            world.device.hold(side).unwrap();
            world.touch(&buffer, side);
            match round % 3 {
                0 => world.free(home, buffer),
                1 => world.free(&side, buffer),
                _ => world.free(On::Nothing, buffer),
            }
            world.device.close_stream(side).unwrap();
            world.pool.reclaim().unwrap();
        }
        world.pass(home, 2 * MIB);
        world.end();
    });
}

/// Memory of streams that are gone is everybody's, however many there were.
#[test]
fn p008_blocks_of_streams_that_are_gone_serve_others() {
    each_way(|way| {
        for kind in 0..3 {
            let world = way.fixed(32 * MIB);
            let default = world.stream();
            for round in 0..32 {
                let handle = world.foreign();
                match kind {
                    0 => {
                        let stream = world.stream();
                        world.pass(stream, MIB);
                        world.device.hold(world.raw(stream)).unwrap();
                        world.pool.retire(stream).unwrap();
                    }
                    1 => {
                        let stream = world.adopt(handle);
                        world.pass(stream, MIB);
                        world.device.hold(handle).unwrap();
                        world.pool.retire(stream).unwrap();
                    }
                    _ => {
                        let buffer = world.allocate(&handle, MIB);
                        world.touch(&buffer, handle);
                        world.device.hold(handle).unwrap();
                        world.free(&handle, buffer);
                    }
                }
                world.device.close_stream(handle).unwrap();
                assert_eq!(world.pool.stats().streams, 1, "round {round}");
            }
            world.pass(default, 32 * MIB);
            assert_eq!(world.calls(Call::Allocate), 1);
            world.end();
        }
    });
}

/// Of many more streams than a pool has room for at a time, all are served, and nothing of them
/// stays.
#[test]
fn p008_nothing_stays_of_streams_that_are_gone() {
    each_way(|way| {
        let world = way.fixed(MIB);
        let keeper = world.stream();
        for _ in 0..100 {
            let stream = world.stream();
            world.pass(stream, MIB);
            world.pool.retire(stream).unwrap();
        }
        world.pass(keeper, MIB);
        let streams: Vec<_> = (0..100).map(|_| world.stream()).collect();
        for &stream in &streams {
            world.pass(stream, MIB);
        }
        for stream in streams {
            world.pool.retire(stream).unwrap();
        }
        world.pool.reclaim().unwrap();
        assert_eq!(world.pool.stats().streams, 1);
        world.pass(keeper, MIB);
        world.pool.trim_waiting(0).unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 0);
        world.end();
    });
}
