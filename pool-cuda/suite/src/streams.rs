//! Streams: a pool's own, those of others, and the default ones.

use core::ptr;

use pool_core::PoolError;
use pool_cuda::{CudaPool, PoolStream};

use crate::kernels::Kernels;
use crate::raw::{Kind, OwnStream, is_busy};
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, contents, mark_of};

pub(crate) const TESTS: &[Test] = crate::tests![
    a_pools_stream_is_not_ordered_with_the_legacy_one,
    a_blocking_stream_is_ordered_with_the_legacy_one,
    the_legacy_stream_has_two_names,
    the_default_streams_may_be_given_by_their_handles,
    a_stream_is_adopted_once_at_a_time,
    an_owner_is_dropped_after_its_stream,
    streams_of_cust_are_adopted,
    a_dropped_stream_finishes_its_work,
    buffers_outlive_their_streams,
    many_streams_come_and_go;
    simulated:
    a_stream_is_destroyed_once,
];

fn a_pools_stream_is_not_ordered_with_the_legacy_one(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let (legacy, own) = (pool.legacy_stream().unwrap(), pool.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(MIB, &legacy).unwrap();
    world.slow(&kernels, &own);
    kernels.mark(buffer.on_mut(&legacy).unwrap(), 1, 0);
    assert_marked(&contents(&buffer, &legacy), 1);
    assert!(is_busy(pool.device(), own.as_raw()));
}

fn a_blocking_stream_is_ordered_with_the_legacy_one(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let legacy = pool.legacy_stream().unwrap();
    let blocking = blocking_stream(&pool);
    world.slow(&kernels, &blocking);
    kernels.spin(&legacy, 0);
    legacy.synchronize().unwrap();
    assert!(!is_busy(pool.device(), blocking.as_raw()));
}

/// A stream of the program's that is ordered with the legacy default stream.
fn blocking_stream(pool: &CudaPool) -> PoolStream {
    let own = OwnStream::create(pool.device(), Kind::Blocking);
    // SAFETY: it is destroyed by its owner.
    unsafe { pool.adopt_raw(own.raw, own) }.unwrap()
}

fn the_legacy_stream_has_two_names(world: &World) {
    let pool = world.fixed_pool(2 * MIB);
    let kernels = Kernels::load(pool.device());
    // SAFETY: the legacy default stream lasts as long as the context.
    let null = unsafe { pool.adopt_raw(ptr::null_mut(), ()) }.unwrap();
    let legacy = pool.legacy_stream().unwrap();
    assert_eq!(null.as_raw(), legacy.as_raw());
    let behind = blocking_stream(&pool);
    for mark in 1..5 {
        let (home, other) = if mark % 2 == 0 { (&null, &legacy) } else { (&legacy, &null) };
        let mut buffer = pool.alloc::<u8>(2 * MIB, home).unwrap();
        world.slow(&kernels, home);
        kernels.mark(buffer.on_mut(other).unwrap(), mark, 0);
        kernels.spin(&behind, 0);
        drop(buffer);
        // The other name has the memory at once.
        drop(pool.alloc::<u8>(2 * MIB, other).unwrap());
        assert!(is_busy(pool.device(), behind.as_raw()));
        world.go();
        legacy.synchronize().unwrap();
    }
    // One name's end is not the stream's.
    drop(null);
    let buffer = pool.alloc_zeroed::<u8>(100, &legacy).unwrap();
    assert_marked(&contents(&buffer, &legacy), 0);
    drop((legacy, behind));
    assert_marked(&contents(&buffer, &pool.legacy_stream().unwrap()), 0);
}

fn the_default_streams_may_be_given_by_their_handles(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    for value in [0, 1, 2] {
        let handle = ptr::without_provenance_mut(value);
        // SAFETY: the default streams last as long as the context.
        let streams = [(); 2].map(|()| unsafe { pool.adopt_raw(handle, ()) }.unwrap());
        for stream in &streams {
            let mut buffer = pool.alloc::<u8>(MIB, stream).unwrap();
            world.slow(&kernels, stream);
            kernels.mark(buffer.on_mut(stream).unwrap(), 3, 0);
            drop(buffer);
            // Another thread's stream of the same name is another, if it is the per-thread one.
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut buffer = pool.alloc::<u8>(MIB, stream).unwrap();
                    kernels.mark(buffer.on_mut(stream).unwrap(), 4, 0);
                    assert_marked(&contents(&buffer, stream), 4);
                });
            });
        }
    }
}

fn a_stream_is_adopted_once_at_a_time(world: &World) {
    let pool = world.pool();
    let own = OwnStream::create(pool.device(), Kind::NonBlocking);
    // SAFETY: the stream outlives what is adopted here.
    let first = unsafe { pool.adopt_raw(own.raw, ()) }.unwrap();
    // SAFETY: as above.
    let error = unsafe { pool.adopt_raw(own.raw, ()) }.unwrap_err();
    assert!(matches!(error.pool(), Some(PoolError::KnownStream(_))), "{error}");
    drop(pool.alloc::<u8>(100, &first).unwrap());
    drop(first);
    // SAFETY: as above.
    let again = unsafe { pool.adopt_raw(own.raw, ()) }.unwrap();
    drop(pool.alloc::<u8>(100, &again).unwrap());
}

fn an_owner_is_dropped_after_its_stream(world: &World) {
    use std::sync::Arc;
    let pool = world.pool();
    let owner = Arc::new(OwnStream::create(pool.device(), Kind::NonBlocking));
    // SAFETY: the owner is kept.
    let stream = unsafe { pool.adopt_raw(owner.raw, Arc::clone(&owner)) }.unwrap();
    let clone = stream.clone();
    let buffer = pool.alloc::<u8>(100, &stream).unwrap();
    drop(stream);
    assert_eq!(Arc::strong_count(&owner), 2);
    drop(clone);
    assert_eq!(Arc::strong_count(&owner), 1);
    assert_eq!(pool.stats().streams, 0);
    drop(buffer);
    assert!(pool.take_failure().is_none());
}

fn streams_of_cust_are_adopted(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let own = pool.create_stream().unwrap();
    let current = pool.device().enter().unwrap();
    let stream = cust::stream::Stream::new(cust::stream::StreamFlags::DEFAULT, None).unwrap();
    let handle = stream.as_inner();
    // SAFETY: it is of the primary context, as is the pool.
    let stream = unsafe { pool.adopt(stream) }.unwrap();
    current.leave().unwrap();
    assert_eq!(stream.as_raw(), handle.cast());
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    world.slow(&kernels, &stream);
    kernels.mark(buffer.on_mut(&stream).unwrap(), 9, 0);
    drop(stream);
    assert_marked(&contents(&buffer, &own), 9);
}

fn a_dropped_stream_finishes_its_work(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let home = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &home).unwrap();
    for mark in 1..4 {
        let side = pool.create_stream().unwrap();
        world.slow(&kernels, &side);
        kernels.mark(buffer.on_mut(&side).unwrap(), mark, 0);
        drop(side);
        assert_marked(&contents(&buffer, &home), mark);
    }
}

fn buffers_outlive_their_streams(world: &World) {
    let pool = world.fixed_pool(8 * MIB);
    let kernels = Kernels::load(pool.device());
    let other = pool.create_stream().unwrap();
    for bytes in [1000, MIB] {
        let mut buffers: Vec<_> = (1..8)
            .map(|mark| {
                let stream = pool.create_stream().unwrap();
                let mut buffer = pool.alloc::<u8>(bytes, &stream).unwrap();
                world.slow(&kernels, &stream);
                kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
                (buffer, mark)
            })
            .collect();
        assert_eq!(pool.stats().streams, 1);
        for (buffer, mark) in &mut buffers[..4] {
            assert_marked(&contents(buffer, &other), *mark);
            kernels.mark(buffer.on_mut(&other).unwrap(), *mark + 100, 0);
            assert_marked(&contents(buffer, &other), *mark + 100);
        }
        // The others' last work runs still.
        drop(buffers);
        assert!(pool.take_failure().is_none());
        let mut all = pool.alloc::<u8>(8 * MIB, &other).unwrap();
        let part = all.on_mut(&other).unwrap().slice(..MIB).unwrap();
        kernels.mark(part, 200, 0);
        world.go();
        assert_marked(&part.to_vec().unwrap(), 200);
    }
}

fn many_streams_come_and_go(world: &World) {
    let pool = world.fixed_pool(4 * MIB);
    let kernels = Kernels::load(pool.device());
    for round in 0..world.times(60, 500) {
        let stream = pool.create_stream().unwrap();
        let mark = mark_of(round);
        let mut buffer = pool.alloc::<u8>(3 * MIB, &stream).unwrap();
        kernels.mark(buffer.on_mut(&stream).unwrap().slice(..MIB).unwrap(), mark, 1000);
        drop((stream, buffer));
    }
    let stream = pool.create_stream().unwrap();
    let zeros = pool.alloc_zeroed::<u8>(4 * MIB, &stream).unwrap();
    assert_marked(&contents(&zeros, &stream), 0);
    assert_eq!(pool.stats().streams, 1);
}

fn a_stream_is_destroyed_once(world: &World) {
    let simulation = world.simulation();
    let pool = world.pool();
    let destroyed = || simulation.count("cuStreamDestroy_v2");
    let stream = pool.create_stream().unwrap();
    let (clone, buffer) = (stream.clone(), pool.alloc::<u8>(100, &stream).unwrap());
    let before = destroyed();
    drop(stream);
    drop(buffer);
    assert_eq!(destroyed(), before);
    drop(clone);
    assert_eq!(destroyed(), before + 1);
    let own = OwnStream::create(pool.device(), Kind::NonBlocking);
    // SAFETY: it outlives what is adopted here.
    drop(unsafe { pool.adopt_raw(own.raw, ()) }.unwrap());
    drop(pool.legacy_stream().unwrap());
    drop(pool.per_thread_stream());
    assert_eq!(destroyed(), before + 1, "what is not the pool's is left alone");
}
