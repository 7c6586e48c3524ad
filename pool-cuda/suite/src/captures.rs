//! Work that becomes a graph, with memory of the pool.

use std::thread;

use pool_core::{GraphId, PoolError};
use pool_cuda::{CudaPool, Error, PinnedPool};

use crate::graphs::capture;
use crate::kernels::Kernels;
use crate::raw::{CAPTURE_MODES, CaptureMode};
use crate::run::Test;
use crate::world::{MIB, World, assert_marked, config, contents, counter, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    a_graph_is_replayed_among_ordinary_buffers,
    a_pool_grows_during_a_capture,
    copies_with_the_host_are_refused_in_a_capture,
    what_is_outside_of_a_capture_cannot_be_waited_for,
    a_buffer_from_before_is_used_by_a_graph,
    two_streams_of_one_capture_are_ordered,
    what_a_graph_uses_at_home_stays_the_graphs,
    a_pinned_buffer_goes_in_a_capture,
    a_threads_default_stream_is_captured,
];

/// Memory from before the capture, used on its own stream in it, by which no other stream is named.
fn what_a_graph_uses_at_home_stays_the_graphs(world: &World) {
    let pool = world.fixed_pool(MIB);
    let captured = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &captured).unwrap();
    let address = buffer.on(&captured).unwrap().address();
    captured.synchronize().unwrap();
    let graph = capture(&pool, &captured, 1, CaptureMode::Global, || {
        buffer.on_mut(&captured).unwrap().fill_bytes(77).unwrap();
    });
    drop(buffer);
    assert!(pool.alloc::<u8>(MIB, &captured).is_err(), "each launch writes it");
    drop(graph);
    let next = pool.alloc::<u8>(MIB, &captured).unwrap();
    assert_eq!(next.on(&captured).unwrap().address(), address);
}

/// Its copies' streams are not recorded in, nor anything asked, while one of them is captured.
fn a_pinned_buffer_goes_in_a_capture(world: &World) {
    let pool = world.pool();
    let staging = PinnedPool::new(pool.device(), config()).unwrap();
    let captured = pool.create_stream().unwrap();
    let host = staging.alloc::<u8>(MIB).unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &captured).unwrap();
    buffer.on_mut(&captured).unwrap().async_copy_from(&host).unwrap();
    staging.begin_capture(&captured, GraphId(1)).unwrap();
    let graph = capture(&pool, &captured, 1, CaptureMode::Global, || {
        drop(host);
        staging.trim(0).unwrap();
    });
    staging.end_capture(&captured).unwrap();
    staging.release_graph(GraphId(1)).unwrap();
    drop(graph);
    assert!(staging.take_failure().is_none());
}

/// The driver does not say who a stream is that is captured.
fn a_threads_default_stream_is_captured(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let stream = pool.per_thread_stream();
    let mut output = pool.alloc_zeroed::<u8>(MIB, &stream).unwrap();
    let before = pool.alloc::<u8>(MIB, &stream).unwrap();
    stream.synchronize().unwrap();
    let graph = capture(&pool, &stream, 1, CaptureMode::ThreadLocal, || {
        let mut within = pool.alloc::<u8>(MIB, &stream).unwrap();
        kernels.mark(within.on_mut(&stream).unwrap(), 5, 0);
        output.on_mut(&stream).unwrap().copy_from_device(within.on(&stream).unwrap()).unwrap();
        drop((within, before));
    });
    graph.launch(&stream);
    assert_marked(&contents(&output, &stream), 5);
    drop(graph);
    assert!(pool.take_failure().is_none());
}

fn a_graph_is_replayed_among_ordinary_buffers(world: &World) {
    let pool = CudaPool::new(world.device(0), config().limit_bytes(64 << 20)).unwrap();
    let kernels = Kernels::load(pool.device());
    let [captured, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let count = counter(&pool, &other);
    let mut output = pool.alloc_zeroed::<u8>(MIB, &captured).unwrap();
    captured.synchronize().unwrap();
    other.synchronize().unwrap();
    let graph = capture(&pool, &captured, 1, CaptureMode::Global, || {
        // Some of them have the memory of others that are freed in the capture.
        for mark in 1..8 {
            let mut one = pool.alloc::<u8>(2 * MIB, &captured).unwrap();
            kernels.mark(one.on_mut(&captured).unwrap(), mark, 1000);
            let mut two = pool.alloc::<u8>(MIB, &captured).unwrap();
            kernels.mark(two.on_mut(&captured).unwrap(), mark + 50, 1000);
            // SAFETY: the kernel adds atomically, and the number outlives the graph.
            let number = unsafe { count.on_unordered(&captured) }.unwrap();
            kernels.verify(one.on(&captured).unwrap(), mark, number);
            drop(one);
            kernels.verify(two.on(&captured).unwrap(), mark + 50, number);
        }
        // SAFETY: the program orders the launches behind its own uses, below.
        let all = unsafe { output.on_unordered(&captured) }.unwrap();
        kernels.mark(all, 77, 0);
    });
    let mut kept = Vec::new();
    for round in 0..10_u8 {
        graph.launch(&captured);
        // Ordinary buffers, on the same stream and on another, while the graph runs.
        for (stream, mark) in [(&captured, 100 + round), (&other, 200 + round)] {
            let mut buffer = pool.alloc::<u8>(2 * MIB, stream).unwrap();
            kernels.mark(buffer.on_mut(stream).unwrap(), mark, 1000);
            kept.push((buffer, mark));
        }
        assert_marked(&contents(&output, &captured), 77);
        output.on_mut(&captured).unwrap().fill_bytes(round).unwrap();
        if kept.len() > 6 {
            kept.drain(..3);
        }
        for (buffer, mark) in &kept {
            // SAFETY: as above.
            let number = unsafe { count.on_unordered(&other) }.unwrap();
            kernels.verify(buffer.on(&other).unwrap(), *mark, number);
        }
    }
    captured.synchronize().unwrap();
    other.synchronize().unwrap();
    assert_eq!(count.on(&other).unwrap().to_vec().unwrap(), [0]);
    drop(graph);
    drop((kept, output, count));
    // Nothing of the graph stays.
    // SAFETY: nothing of a buffer's is freed.
    unsafe { pool.core() }.trim_waiting(0).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 0);
    verify(&pool);
}

fn a_pool_grows_during_a_capture(world: &World) {
    for mode in CAPTURE_MODES {
        let pool = CudaPool::new(world.device(0), config().arena_bytes(4 << 20)).unwrap();
        let kernels = Kernels::load(pool.device());
        let [captured, other] = [(); 2].map(|()| pool.create_stream().unwrap());
        let graph = capture(&pool, &captured, 1, mode, || {
            let mut buffers = Vec::new();
            for mark in 1..6 {
                let mut buffer = pool.alloc::<u8>(3 * MIB, &captured).unwrap();
                kernels.mark(buffer.on_mut(&captured).unwrap(), mark, 0);
                buffers.push(buffer);
                // Others grow, and make and end streams, from another thread too.
                let mut outside = pool.alloc::<u8>(3 * MIB, &other).unwrap();
                kernels.mark(outside.on_mut(&other).unwrap(), mark, 0);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let stream = pool.create_stream().unwrap();
                        let mut buffer = pool.alloc::<u8>(3 * MIB, &stream).unwrap();
                        kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
                    });
                });
            }
            assert!(pool.stats().growths >= 5, "{mode:?}");
        });
        // It is a graph, so the capture was left whole.
        for _ in 0..3 {
            graph.launch(&captured);
        }
        captured.synchronize().unwrap();
        drop(graph);
        verify(&pool);
    }
}

fn copies_with_the_host_are_refused_in_a_capture(world: &World) {
    let pool = world.pool();
    let staging = PinnedPool::new(pool.device(), config()).unwrap();
    let stream = pool.create_stream().unwrap();
    let mut host = staging.alloc::<u8>(100).unwrap();
    let graph = capture(&pool, &stream, 1, CaptureMode::ThreadLocal, || {
        let mut buffer = pool.alloc_zeroed::<u8>(100, &stream).unwrap();
        let all = buffer.on_mut(&stream).unwrap();
        assert!(matches!(all.copy_from(&[1; 100]), Err(Error::Captured)));
        assert!(matches!(all.to_vec(), Err(Error::Captured)));
        assert!(matches!(all.async_copy_from(&host), Err(Error::Captured)));
        assert!(matches!(all.as_ref().async_copy_to(&mut host), Err(Error::Captured)));
        assert!(matches!(pool.alloc_from(&[1_u8], &stream), Err(Error::Captured)));
        // Copies on the device become part of the graph.
        let other = pool.alloc_zeroed::<u8>(100, &stream).unwrap();
        all.copy_from_device(other.on(&stream).unwrap()).unwrap();
    });
    graph.launch(&stream);
    stream.synchronize().unwrap();
}

fn what_is_outside_of_a_capture_cannot_be_waited_for(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [captured, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut outside = pool.alloc_zeroed::<u8>(100, &other).unwrap();
    let captured_error = |error: Error| {
        assert!(matches!(error.pool(), Some(PoolError::Captured(GraphId(1)))), "{error}");
    };
    let graph = capture(&pool, &captured, 1, CaptureMode::Global, || {
        captured_error(outside.on(&captured).unwrap_err());
        captured_error(outside.on_mut(&captured).unwrap_err());
        let mut inside = pool.alloc::<u8>(100, &captured).unwrap();
        kernels.mark(inside.on_mut(&captured).unwrap(), 1, 0);
        captured_error(inside.on(&other).unwrap_err());
        // Outside all goes on.
        outside.on_mut(&other).unwrap().fill_bytes(1).unwrap();
    });
    graph.launch(&captured);
    // Afterwards they meet.
    outside.on_mut(&captured).unwrap().fill_bytes(2).unwrap();
    assert_eq!(contents(&outside, &other), [2; 100]);
}

fn a_buffer_from_before_is_used_by_a_graph(world: &World) {
    let pool = world.fixed_pool(4 * MIB);
    let kernels = Kernels::load(pool.device());
    let [captured, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut buffer = pool.alloc_zeroed::<u8>(MIB, &other).unwrap();
    other.synchronize().unwrap();
    let graph = capture(&pool, &captured, 1, CaptureMode::Global, || {
        // SAFETY: each launch comes behind the other uses, and they behind it.
        kernels.mark(unsafe { buffer.on_unordered(&captured) }.unwrap(), 5, 1000);
    });
    for round in 0..4 {
        buffer.on_mut(&captured).unwrap();
        world.slow(&kernels, &captured);
        graph.launch(&captured);
        if round < 3 {
            assert_marked(&contents(&buffer, &other), 5);
            buffer.on_mut(&other).unwrap().fill_bytes(1).unwrap();
        }
    }
    // The last launch runs still; what has the memory next comes behind it.
    drop(buffer);
    drop(graph);
    let mut next = pool.alloc::<u8>(4 * MIB, &other).unwrap();
    next.on_mut(&other).unwrap().slice(..MIB).unwrap().fill_bytes(9).unwrap();
    world.go();
    captured.synchronize().unwrap();
    assert_marked(&next.on(&other).unwrap().slice(..MIB).unwrap().to_vec().unwrap(), 9);
}

fn two_streams_of_one_capture_are_ordered(world: &World) {
    let pool = world.pool();
    let kernels = Kernels::load(pool.device());
    let [captured, joined] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut output = pool.alloc_zeroed::<u8>(MIB, &captured).unwrap();
    captured.synchronize().unwrap();
    let graph = capture(&pool, &captured, 1, CaptureMode::Global, || {
        // The second stream joins by an event of the first.
        crate::raw::follow(pool.device(), &captured, &joined);
        let mut buffer = pool.alloc::<u8>(MIB, &captured).unwrap();
        kernels.mark(buffer.on_mut(&captured).unwrap(), 1, 100_000);
        kernels.mark(buffer.on_mut(&joined).unwrap(), 2, 0);
        // SAFETY: the launches are ordered by the stream, below.
        let all = unsafe { output.on_unordered(&captured) }.unwrap();
        all.copy_from_device(buffer.on(&captured).unwrap()).unwrap();
        drop(buffer);
        crate::raw::follow(pool.device(), &joined, &captured);
    });
    for _ in 0..3 {
        output.on_mut(&captured).unwrap().fill_bytes(0).unwrap();
        graph.launch(&captured);
        assert_marked(&contents(&output, &captured), 2);
    }
}
