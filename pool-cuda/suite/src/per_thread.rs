//! The default stream of each thread: one name for many streams.

use std::sync::Barrier;
use std::thread;

use pool_cuda::{CudaPool, Error, PinnedPool};

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents};

pub(crate) const TESTS: &[Test] = crate::tests![
    a_buffer_goes_from_thread_to_thread,
    a_drop_on_another_thread_is_behind_the_work,
    a_reader_of_another_thread_is_waited_for,
    memory_of_one_thread_serves_another_behind_its_work;
    two:
    one_of_another_device_is_refused,
];

/// No fence that a pool records is behind its work on other threads.
fn refuses(pool: &CudaPool, other: &CudaPool) {
    let (stream, foreign) = (pool.create_stream().unwrap(), other.per_thread_stream());
    let mut buffer = pool.alloc_zeroed::<u8>(1000, &stream).unwrap();
    assert!(matches!(buffer.on(&foreign), Err(Error::OtherPool)));
    assert!(matches!(buffer.on_mut(&foreign), Err(Error::OtherPool)));
    assert!(matches!(buffer.free_on(&foreign), Err(Error::OtherPool)));
    let staging = PinnedPool::new(pool.device(), config()).unwrap();
    let host = staging.alloc::<u8>(1000).unwrap();
    let mut there = other.alloc::<u8>(1000, &foreign).unwrap();
    let copied = there.on_mut(&foreign).unwrap().async_copy_from(&host);
    assert!(matches!(copied, Err(Error::OtherPool)));
    assert!(pool.take_failure().is_none());
}

fn one_of_another_device_is_refused(world: &World) {
    refuses(&world.pool(), &CudaPool::new(world.device(1), config()).unwrap());
}

fn a_buffer_goes_from_thread_to_thread(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let stream = pool.per_thread_stream();
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    for mark in 1..6 {
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
        thread::scope(|scope| {
            let (kernels, stream, buffer) = (&kernels, &stream, &mut buffer);
            scope.spawn(move || {
                assert_marked(&contents(buffer, stream), mark);
                world.slow(kernels, stream);
                kernels.mark(buffer.on_mut(stream).unwrap(), mark + 100, 0);
            });
        });
        assert_marked(&contents(&buffer, &stream), mark + 100);
    }
}

fn a_drop_on_another_thread_is_behind_the_work(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let (stream, own) = (pool.per_thread_stream(), pool.create_stream().unwrap());
    for round in 0..4 {
        let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
        world.slow(&kernels, &stream);
        kernels.mark(buffer.on_mut(&stream).unwrap(), 1, 0);
        thread::scope(|scope| {
            let (pool, kernels, stream, own) = (&pool, &kernels, &stream, &own);
            scope.spawn(move || {
                drop(buffer);
                let next = if round % 2 == 0 { stream } else { own };
                let mut buffer = pool.alloc::<u8>(MIB, next).unwrap();
                kernels.mark(buffer.on_mut(next).unwrap(), 2, 0);
                world.go();
                assert_marked(&contents(&buffer, next), 2);
            });
        });
    }
}

fn a_reader_of_another_thread_is_waited_for(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let (stream, own) = (pool.per_thread_stream(), pool.create_stream().unwrap());
    for home in [&stream, &own] {
        let mut buffer = pool.alloc::<u8>(MIB, home).unwrap();
        let mut copy = pool.alloc::<u8>(MIB, &own).unwrap();
        for mark in 1..4 {
            kernels.mark(buffer.on_mut(home).unwrap(), mark, 0);
            thread::scope(|scope| {
                let (kernels, stream, buffer, copy) = (&kernels, &stream, &buffer, &mut copy);
                scope.spawn(move || {
                    world.slow(kernels, stream);
                    let from = buffer.on(stream).unwrap();
                    copy.on_mut(stream).unwrap().copy_from_device(from).unwrap();
                });
            });
            kernels.mark(buffer.on_mut(home).unwrap(), 200, 0);
            assert_marked(&contents(&copy, &own), mark);
        }
    }
}

fn memory_of_one_thread_serves_another_behind_its_work(world: &World) {
    let pool = world.fixed_pool(3 * MIB);
    let kernels = Kernels::load(pool.device());
    let stream = pool.per_thread_stream();
    let together = Barrier::new(2);
    thread::scope(|scope| {
        for thread in 0..2_u8 {
            let (pool, kernels, stream, together) = (&pool, &kernels, &stream, &together);
            scope.spawn(move || {
                for round in 0..10 {
                    let mark = round * 2 + thread;
                    let mut buffer = pool.alloc::<u8>(MIB, stream).unwrap();
                    together.wait();
                    kernels.mark(buffer.on_mut(stream).unwrap(), mark, 100_000);
                    if round % 3 == 0 {
                        assert_marked(&contents(&buffer, stream), mark);
                    }
                }
            });
        }
    });
}
