//! Streams that end, and handles that are given to others.

use crate::kernels::Kernels;
use crate::raw::{Kind, OwnStream};
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, contents};

pub(crate) const TESTS: &[Test] = crate::tests![
    p006_a_handle_that_is_given_again_names_another_stream,
    p007_a_use_outlives_its_stream,
    p008_memory_of_streams_that_are_gone_serves_others;
    two:
    p006_a_handle_that_another_device_has_names_another_stream,
];

fn p006_a_handle_that_is_given_again_names_another_stream(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let mut handles = std::collections::HashSet::new();
    let rounds = 12;
    for round in 0..rounds {
        let own = OwnStream::create(pool.device(), Kind::NonBlocking);
        handles.insert(own.raw);
        let (stream, keeper) = if round % 2 == 0 {
            // SAFETY: the stream is ended by its owner.
            (unsafe { pool.adopt_raw(own.raw, own) }.unwrap(), None)
        } else {
            // SAFETY: the stream outlives what is adopted.
            (unsafe { pool.adopt_raw(own.raw, ()) }.unwrap(), Some(own))
        };
        let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), round, 0);
        drop((buffer, stream));
        drop(keeper);
    }
    assert!(handles.len() < usize::from(rounds), "handles are given again");
    let stream = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    kernels.mark(buffer.on_mut(&stream).unwrap(), 99, 0);
    world.go();
    assert_marked(&contents(&buffer, &stream), 99);
}

fn p006_a_handle_that_another_device_has_names_another_stream(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let peer = world.device(1);
    for round in 0..6 {
        let own = OwnStream::create(pool.device(), Kind::NonBlocking);
        // SAFETY: its owner ends it.
        let stream = unsafe { pool.adopt_raw(own.raw, own) }.unwrap();
        let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), round, 0);
        drop((buffer, stream));
        // It may have the handle now, on another device.
        let there = OwnStream::create(&peer, Kind::NonBlocking);
        let next = pool.create_stream().unwrap();
        let mut buffer = pool.alloc::<u8>(MIB, &next).unwrap();
        kernels.mark(buffer.on_mut(&next).unwrap(), round + 100, 0);
        assert_marked(&contents(&buffer, &next), round + 100);
        drop(there);
    }
}

fn p007_a_use_outlives_its_stream(world: &World) {
    let pool = world.fixed_pool(MIB);
    let others = world.pool();
    let kernels = Kernels::load(pool.device());
    let [home, next] = [(); 2].map(|()| pool.create_stream().unwrap());
    for round in 0..6 {
        let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
        let side = match round % 3 {
            0 => pool.create_stream().unwrap(),
            1 => others.create_stream().unwrap(),
            _ => {
                let own = OwnStream::create(pool.device(), Kind::NonBlocking);
                // SAFETY: its owner ends it.
                unsafe { pool.adopt_raw(own.raw, own) }.unwrap()
            }
        };
        world.slow(&kernels, &side);
        if round < 3 {
            kernels.mark(buffer.on_mut(&side).unwrap(), round, 0);
        } else {
            // SAFETY: nothing else uses it.
            kernels.mark(unsafe { buffer.on_unordered(&side) }.unwrap(), round, 0);
        }
        drop(side);
        let successor = others.create_stream().unwrap();
        drop(buffer);
        let mut buffer = pool.alloc::<u8>(MIB, &next).unwrap();
        kernels.mark(buffer.on_mut(&next).unwrap(), 100, 0);
        world.go();
        assert_marked(&contents(&buffer, &next), 100);
        drop(successor);
    }
}

fn p008_memory_of_streams_that_are_gone_serves_others(world: &World) {
    let pool = world.fixed_pool(32 * MIB);
    let kernels = Kernels::load(pool.device());
    let default = pool.legacy_stream().unwrap();
    for round in 0..32 {
        let stream = pool.create_stream().unwrap();
        let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
        if round % 8 == 0 {
            world.slow(&kernels, &stream);
        }
        let part = buffer.on_mut(&stream).unwrap().slice(..1000).unwrap();
        kernels.mark(part, round, 0);
        drop(buffer);
        drop(stream);
        assert_eq!(pool.stats().streams, 1, "the legacy one");
    }
    let mut all = pool.alloc::<u8>(32 * MIB, &default).unwrap();
    let part = all.on_mut(&default).unwrap().slice(..MIB).unwrap();
    kernels.mark(part, 200, 0);
    assert_eq!(pool.stats().calls.allocations, 1, "without growth");
    world.go();
    default.synchronize().unwrap();
    assert_marked(&part.to_vec().unwrap(), 200);
}
