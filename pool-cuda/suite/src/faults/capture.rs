//! Work that becomes a graph, and what must not happen meanwhile.

use std::thread;

use pool_core::{Deferred, GraphId, PoolError};
use pool_cuda::CudaPool;

use crate::graphs::capture;
use crate::kernels::Kernels;
use crate::raw::{self, CAPTURE_MODES, CaptureMode};
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    p052_a_captured_use_is_never_asked_for,
    p053_no_call_breaks_a_capture,
    p054_a_capture_that_fails_keeps_nothing,
    p055_what_comes_after_a_capture_has_other_memory,
    p103_the_memory_of_a_graph_goes_back_whole,
    p104_captures_are_served_where_nothing_is_kept;
    simulated:
    p053_a_refused_growth_breaks_no_capture,
];

fn p052_a_captured_use_is_never_asked_for(world: &World) {
    for mode in CAPTURE_MODES {
        let pool = world.fixed_pool(4 * MIB);
        let kernels = Kernels::load(pool.device());
        let [default, captured] = [(); 2].map(|()| pool.create_stream().unwrap());
        let buffer = pool.alloc_zeroed::<u8>(MIB, &default).unwrap();
        default.synchronize().unwrap();
        let graph = capture(&pool, &captured, 1, mode, || {
            // SAFETY: the graph is launched before anything else gets the memory.
            kernels.mark(unsafe { buffer.on_unordered(&captured) }.unwrap(), 1, 0);
            drop(buffer);
            // Others go on, on other threads as well.
            for _ in 0..3 {
                drop(pool.alloc_zeroed::<u8>(3 * MIB, &default).unwrap());
                thread::scope(|scope| {
                    scope.spawn(|| drop(pool.alloc_zeroed::<u8>(1000, &default).unwrap()));
                });
                // SAFETY: nothing of a buffer's is freed.
                unsafe { pool.core() }.reclaim().unwrap();
            }
            pool.alloc::<u8>(4 * MIB, &default).unwrap_err();
        });
        graph.launch(&captured);
        drop(graph);
        let mut all = pool.alloc::<u8>(4 * MIB, &default).unwrap();
        let all = all.on_mut(&default).unwrap().slice(..MIB).unwrap();
        kernels.mark(all, 2, 0);
        captured.synchronize().unwrap();
        assert_marked(&all.to_vec().unwrap(), 2);
    }
}

fn p053_no_call_breaks_a_capture(world: &World) {
    for mode in CAPTURE_MODES {
        let config = config().arena_bytes(4 << 20).limit_bytes(12 << 20);
        let pool = CudaPool::new(world.device(0), config).unwrap();
        let kernels = Kernels::load(pool.device());
        let [captured, other, dying] = [(); 3].map(|()| pool.create_stream().unwrap());
        for stream in [&captured, &other, &dying] {
            drop(pool.alloc_zeroed::<u8>(3 * MIB, stream).unwrap());
        }
        let mut waits = pool.alloc_zeroed::<u8>(MIB, &other).unwrap();
        waits.on_mut(&captured).unwrap().fill_bytes(1).unwrap();
        let mut dying = Some(dying);
        let mut waits = Some(waits);
        let graph = capture(&pool, &captured, 1, mode, || {
            for bytes in [4096, MIB, 6 * MIB, 12 * MIB] {
                for stream in [&captured, &other] {
                    match pool.alloc::<u8>(bytes, stream) {
                        Ok(mut buffer) => {
                            let part = buffer.on_mut(stream).unwrap().slice(..4096).unwrap();
                            kernels.mark(part, 1, 0);
                        }
                        Err(error) => {
                            let Some(PoolError::OutOfMemory { shortage, .. }) = error.pool() else {
                                panic!("{error}")
                            };
                            assert_eq!(shortage.captures, [GraphId(1)]);
                        }
                    }
                }
                waits = None;
                // SAFETY: nothing of a buffer's is freed.
                let core = unsafe { pool.core() };
                core.reclaim().unwrap();
                core.tick().unwrap();
                core.flush();
                assert_eq!(core.trim(0).unwrap().released_bytes, 0);
                assert_eq!(core.trim_waiting(0).unwrap().released_bytes, 0);
                core.set_limit(Some(8 << 20)).unwrap();
                core.set_limit(Some(12 << 20)).unwrap();
                dying = None;
                drop(pool.create_stream().unwrap());
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let stream = pool.create_stream().unwrap();
                        drop(pool.alloc_zeroed::<u8>(1000, &stream));
                        pool.trim(0).unwrap();
                    });
                });
                verify(&pool);
            }
        });
        graph.launch(&captured);
        drop(graph);
        drop((waits, dying));
        captured.synchronize().unwrap();
        drop(pool.alloc_zeroed::<u8>(4 * MIB, &other).unwrap());
    }
}

fn p053_a_refused_growth_breaks_no_capture(world: &World) {
    let simulation = world.simulation();
    for code in [2, 999] {
        let pool = world.pool();
        let stream = pool.create_stream().unwrap();
        drop(pool.alloc::<u8>(1000, &stream).unwrap());
        let graph = capture(&pool, &stream, 1, CaptureMode::Global, || {
            simulation.fail_next("cuMemAllocFromPoolAsync", 1, code);
            drop(pool.alloc::<u8>(100 * MIB, &stream));
        });
        graph.launch(&stream);
        stream.synchronize().unwrap();
    }
}

fn p054_a_capture_that_fails_keeps_nothing(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [stream, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    for round in 0..3 {
        pool.begin_capture(&stream, GraphId(round)).unwrap();
        raw::begin_capture(pool.device(), &stream, CaptureMode::Relaxed);
        let mut buffer = pool.alloc::<u8>(32 * MIB, &stream).unwrap();
        let part = buffer.on_mut(&stream).unwrap().slice(..1000).unwrap();
        kernels.mark(part, 1, 0);
        // The host cannot wait for a captured stream: the capture is broken.
        assert!(stream.synchronize().is_err());
        let broken = world.take_violations();
        assert!(broken.iter().all(|one| one.contains("while capture")), "{broken:?}");
        assert!(raw::end_capture(pool.device(), &stream).is_err());
        pool.end_capture(&stream).unwrap();
        drop(buffer);
        pool.release_graph(GraphId(round)).unwrap();
        stream.synchronize().unwrap();
        drop(pool.alloc_zeroed::<u8>(1000, &other).unwrap());
        other.synchronize().unwrap();
        // SAFETY: nothing of a buffer's is freed.
        unsafe { pool.core() }.trim_waiting(0).unwrap();
        assert_eq!(pool.stats().reserved_bytes, 0);
    }
}

fn p055_what_comes_after_a_capture_has_other_memory(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    let graph = capture(&pool, &stream, 1, CaptureMode::Global, || {
        let mut inside = pool.alloc::<u8>(MIB, &stream).unwrap();
        kernels.mark(inside.on_mut(&stream).unwrap(), 1, 0);
    });
    let mut after = pool.alloc::<u8>(MIB, &stream).unwrap();
    kernels.mark(after.on_mut(&stream).unwrap(), 2, 0);
    for _ in 0..3 {
        graph.launch(&stream);
        assert_marked(&contents(&after, &stream), 2);
    }
}

fn p103_the_memory_of_a_graph_goes_back_whole(world: &World) {
    let pool = CudaPool::new(world.whole_device(), config().arena_bytes(2 << 20)).unwrap();
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    let graph = capture(&pool, &stream, 1, CaptureMode::Global, || {
        let mut buffers = [(); 3].map(|()| pool.alloc::<u8>(2 * MIB, &stream).unwrap());
        for buffer in &mut buffers {
            let part = buffer.on_mut(&stream).unwrap().slice(..1000).unwrap();
            kernels.mark(part, 1, 0);
        }
    });
    assert!(pool.stats().arenas >= 3);
    // SAFETY: nothing of a buffer's is freed.
    let core = unsafe { pool.core() };
    for _ in 0..2 {
        graph.launch(&stream);
        stream.synchronize().unwrap();
        // While the graph lasts, its memory stays.
        core.set_limit(Some(4 << 20)).unwrap();
        core.trim_waiting(0).unwrap();
        assert!(pool.stats().arenas >= 3);
    }
    graph.launch(&stream);
    drop(graph);
    core.set_limit(Some(2 << 20)).unwrap();
    core.trim_waiting(0).unwrap();
    assert_eq!((pool.stats().arenas, pool.stats().reserved_bytes), (0, 0));
    verify(&pool);
}

fn p104_captures_are_served_where_nothing_is_kept(world: &World) {
    let config = config().cache_bytes(0).deferred(Deferred::AtOnce).arena_bytes(1);
    let pool = CudaPool::new(world.device(0), config).unwrap();
    let kernels = Kernels::load(pool.device());
    let stream = pool.create_stream().unwrap();
    let graph = capture(&pool, &stream, 1, CaptureMode::Global, || {
        for bytes in [100, 5000, MIB] {
            let mut buffer = pool.alloc::<u8>(bytes, &stream).unwrap();
            kernels.mark(buffer.on_mut(&stream).unwrap(), 1, 0);
        }
    });
    graph.launch(&stream);
    stream.synchronize().unwrap();
}
