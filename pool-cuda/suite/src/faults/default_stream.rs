//! The default streams: one name for several streams, and several names for one.

use std::sync::Barrier;
use std::thread;

use pool_cuda::{CudaPool, PoolStream};

use crate::kernels::Kernels;
use crate::raw::is_busy;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, contents, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    p038_two_threads_default_streams_are_two_streams,
    p080_the_special_handles_in_all_pairs,
    p081_a_buffer_remembers_whose_default_stream_it_was,
];

fn p038_two_threads_default_streams_are_two_streams(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let stream = pool.per_thread_stream();
    let turns = Barrier::new(2);
    thread::scope(|scope| {
        let (pool, kernels, stream, turns) = (&pool, &kernels, &stream, &turns);
        scope.spawn(move || {
            let mut first = pool.alloc::<u8>(MIB, stream).unwrap();
            world.slow(kernels, stream);
            kernels.mark(first.on_mut(stream).unwrap(), 1, 0);
            drop(first);
            turns.wait();
            turns.wait();
            world.go();
            stream.synchronize().unwrap();
            turns.wait();
        });
        turns.wait();
        // The same memory, behind the other thread's work.
        let mut second = pool.alloc::<u8>(MIB, stream).unwrap();
        kernels.mark(second.on_mut(stream).unwrap(), 2, 0);
        turns.wait();
        turns.wait();
        assert_marked(&contents(&second, stream), 2);
    });
}

/// The streams that are known by special handles, and one of the pool's own.
fn special(pool: &CudaPool) -> Vec<PoolStream> {
    let handles = [0, 1, 2].map(core::ptr::without_provenance_mut);
    // SAFETY: default streams last as long as the context.
    let mut streams = handles.map(|handle| unsafe { pool.adopt_raw(handle, ()) }.unwrap()).to_vec();
    streams.push(pool.create_stream().unwrap());
    streams
}

fn p080_the_special_handles_in_all_pairs(world: &World) {
    let pool = world.fixed_pool(MIB);
    let kernels = Kernels::load(pool.device());
    let streams = special(&pool);
    let mut mark = 0;
    for home in &streams {
        for user in &streams {
            for next in &streams {
                mark = (mark + 1) % 200;
                let mut buffer = pool.alloc::<u8>(MIB, home).unwrap();
                world.slow(&kernels, user);
                kernels.mark(buffer.on_mut(user).unwrap(), mark, 0);
                thread::scope(|scope| {
                    let (pool, kernels) = (&pool, &kernels);
                    scope.spawn(move || {
                        drop(buffer);
                        let mut other = pool.alloc::<u8>(MIB, next).unwrap();
                        kernels.mark(other.on_mut(next).unwrap(), mark + 1, 0);
                        world.go();
                        assert_marked(&contents(&other, next), mark + 1);
                    });
                });
                user.synchronize().unwrap();
            }
        }
    }
    verify(&pool);
}

fn p081_a_buffer_remembers_whose_default_stream_it_was(world: &World) {
    let pool = world.fixed_pool(2 * MIB);
    let kernels = Kernels::load(pool.device());
    let (stream, own) = (pool.per_thread_stream(), pool.create_stream().unwrap());
    let mut buffer = pool.alloc::<u8>(2 * MIB, &stream).unwrap();
    world.slow(&kernels, &stream);
    kernels.mark(buffer.on_mut(&stream).unwrap(), 1, 0);
    // Another thread drops it: its own default stream is idle, and says nothing of the work.
    thread::scope(|scope| {
        let (pool, kernels, stream, own) = (&pool, &kernels, &stream, &own);
        scope.spawn(move || {
            drop(buffer);
            let mut next = pool.alloc::<u8>(2 * MIB, own).unwrap();
            kernels.mark(next.on_mut(own).unwrap(), 2, 0);
            assert_marked(&contents(&next, stream), 2);
        });
    });
    // The memory was had behind the work, which so is done.
    assert!(!is_busy(pool.device(), stream.as_raw()));
}
