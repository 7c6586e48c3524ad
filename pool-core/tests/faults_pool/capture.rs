//! Work that becomes a graph, and what must not happen meanwhile.

use pool_core::{Deferred, GraphId, On, PoolError};
use pool_mock::device::{CaptureMode, Fault, GraphHandle, Pacing, SimStream};

use pool_core::device::{Call, Capabilities};

use crate::support::{KIB, LATE, MIB, World, each_way};

/// Announces a capture of a stream, and begins it, after what is free was waited for: a graph gets
/// memory that nothing uses, whatever stream it is launched on.
fn begin(world: &World, stream: SimStream, graph: u64, mode: CaptureMode) {
    world.pool.trim_waiting(u64::MAX).unwrap();
    world.pool.begin_capture(&stream, GraphId(graph)).unwrap();
    world.device.begin_capture_in(stream, mode).unwrap();
}

fn end(world: &World, stream: SimStream) -> GraphHandle {
    let graph = world.device.end_capture(stream).unwrap();
    world.pool.end_capture(&stream).unwrap();
    graph
}

/// Ends what a graph has.
fn release(world: &World, handle: GraphHandle, graph: u64) {
    world.pool.release_graph(GraphId(graph)).unwrap();
    world.device.drop_graph(handle).unwrap();
}

const MODES: [CaptureMode; 3] =
    [CaptureMode::Global, CaptureMode::ThreadLocal, CaptureMode::Relaxed];

/// A captured stream that used a block is neither recorded in for others nor asked for; the block
/// comes back when the graph does.
#[test]
fn p052_a_captured_use_is_never_asked_for() {
    each_way(|way| {
        for mode in MODES {
            for freed_on in 0..3 {
                let world = way.fixed(4 * MIB);
                let [default, captured] = world.streams();
                let block = world.used(default, MIB);
                world.device.host_wait_stream(world.raw(default)).unwrap();
                begin(&world, world.raw(captured), 1, mode);
                world.pool.record_use(block.handle, captured).unwrap();
                world.touch(&block, world.raw(captured));
                match freed_on {
                    0 => world.free(default, block),
                    1 => world.free(captured, block),
                    _ => world.free(On::Nothing, block),
                }
                // Others go on, also when they need what there is.
                for _ in 0..3 {
                    world.pass(default, 3 * MIB);
                    world.pool.reclaim().unwrap();
                }
                assert!(world.try_allocate(default, 4 * MIB).is_err());
                let graph = end(&world, world.raw(captured));
                world.device.launch_graph(graph, world.raw(captured)).unwrap();
                world.pass(default, 3 * MIB);
                world.device.launch_graph(graph, world.raw(default)).unwrap();
                release(&world, graph, 1);
                world.pass(default, 4 * MIB);
                world.end();
            }
        }
    });
}

/// A block was used, and another allocated, on a stream that the pool does not know: nobody asks who
/// that is while it is captured, which would break the capture.
#[test]
fn p053_a_captured_stream_is_not_asked_who_it_is() {
    each_way(|way| {
        for mode in MODES {
            let world = way.fixed(8 * MIB);
            let [default] = world.streams();
            let foreign = world.foreign();
            let shared = world.used(default, MIB);
            world.order(world.raw(default), foreign);
            world.share(&shared, &foreign);
            let own = world.allocate(&foreign, MIB);
            world.touch(&own, foreign);
            begin(&world, foreign, 1, mode);
            world.free(default, shared);
            world.free(&foreign, own);
            let in_graph = world.allocate(&foreign, MIB);
            world.touch(&in_graph, foreign);
            world.free(default, in_graph);
            let _ = world.pool.stream_identity(&foreign).unwrap();
            let graph = end(&world, foreign);
            world.device.launch_graph(graph, foreign).unwrap();
            release(&world, graph, 1);
            world.pass(default, 8 * MIB);
            world.end();
        }
    });
}

/// Whatever is asked of the pool while a capture lasts, the device gets no call that it forbids.
#[test]
fn p053_no_call_breaks_a_capture() {
    each_way(|way| {
        for mode in MODES {
            let config = way.pool().arena_bytes(4 * MIB).limit_bytes(12 * MIB);
            let world = World::new(way.device(), config);
            let [captured, other, dying] = world.streams();
            let graph_block = world.used(captured, MIB);
            for stream in [other, captured, dying] {
                world.pass(stream, 3 * MIB);
            }
            let waits = world.used(other, MIB);
            let nobodys = world.used(other, MIB);
            world.free(captured, waits);
            world.device.host_wait_stream(world.raw(captured)).unwrap();
            begin(&world, world.raw(captured), 1, mode);
            world.touch(&graph_block, world.raw(captured));
            world.free(On::Nothing, nobodys);
            world.device.fail_with(Fault::OutOfMemory);
            for size_bytes in [4 * KIB, MIB, 6 * MIB, 12 * MIB, 64 * MIB] {
                world.device.fail_next(Call::Allocate, 1);
                for on in [captured.into(), other.into(), On::Nothing] {
                    match world.try_allocate(on, size_bytes) {
                        Ok(buffer) => {
                            let stream = match on {
                                On::Stream(stream) => world.raw(stream),
                                _ => world.foreign(),
                            };
                            world.touch(&buffer, stream);
                            world.free(on, buffer);
                        }
                        Err(PoolError::OutOfMemory { shortage, .. }) => {
                            assert_eq!(shortage.captures, [GraphId(1)]);
                        }
                        Err(PoolError::Request(_)) => assert_eq!(size_bytes, 64 * MIB),
                        Err(error) => panic!("{error}"),
                    }
                }
                world.device.clear_faults();
                world.pool.reclaim().unwrap();
                world.pool.tick().unwrap();
                world.pool.flush();
                assert_eq!(world.pool.trim(0).unwrap().released_bytes, 0);
                assert_eq!(world.pool.trim_waiting(0).unwrap().released_bytes, 0);
                world.pool.set_limit(Some(4 * MIB)).unwrap();
                world.pool.set_limit(Some(12 * MIB)).unwrap();
                world.check();
            }
            world.pool.retire(dying).unwrap();
            assert!(matches!(world.pool.retire(captured), Err(PoolError::Captured(GraphId(1)))));
            let made = world.stream();
            world.check();
            let graph = end(&world, world.raw(captured));
            world.free(captured, graph_block);
            world.device.launch_graph(graph, world.raw(made)).unwrap();
            release(&world, graph, 1);
            world.pass(made, MIB);
            world.end();
        }
    });
}

/// A device that can grow meanwhile is asked to.
#[test]
fn p053_a_capture_grows_where_the_device_may() {
    let device = LATE.device().with(Capabilities::GROWS_IN_CAPTURE);
    let world = World::new(device, LATE.pool().arena_bytes(2 * MIB));
    let captured = world.stream();
    begin(&world, world.raw(captured), 1, CaptureMode::Global);
    let buffers: Vec<_> = (0..4).map(|_| world.used(captured, 2 * MIB)).collect();
    let graph = end(&world, world.raw(captured));
    world.device.launch_graph(graph, world.raw(captured)).unwrap();
    for buffer in buffers {
        world.free(captured, buffer);
    }
    release(&world, graph, 1);
    world.end();
}

/// What a capture that failed had is given back like any other.
#[test]
fn p054_a_capture_that_fails_keeps_nothing() {
    each_way(|way| {
        for (spoil, freed) in [(true, true), (true, false), (false, true), (false, false)] {
            let world = World::new(way.device(), way.pool().initial_bytes(64 * MIB));
            let captured = world.stream();
            world.pass(captured, MIB);
            begin(&world, world.raw(captured), 7, CaptureMode::Global);
            let inside = world.used(captured, 32 * MIB);
            let kept = world.used(captured, MIB);
            let mut inside = Some(inside);
            if freed {
                world.free(captured, inside.take().unwrap());
            }
            if spoil {
                world.device.spoil_capture(world.raw(captured)).unwrap();
                assert!(world.device.end_capture(world.raw(captured)).is_err());
                world.pool.end_capture(captured).unwrap();
            } else {
                let graph = end(&world, world.raw(captured));
                world.device.drop_graph(graph).unwrap();
            }
            world.pool.release_graph(GraphId(7)).unwrap();
            assert!(matches!(world.pool.release_graph(GraphId(7)), Err(PoolError::NoCapture)));
            world.free(captured, kept);
            if let Some(inside) = inside {
                world.free(captured, inside);
            }
            world.pool.trim_waiting(0).unwrap();
            assert_eq!(world.pool.stats().reserved_bytes, 0);
            world.end();
        }
    });
}

/// Memory that a graph uses is nobody else's until the graph is released: not even its own
/// stream's, outside of the capture.
#[test]
fn p055_memory_of_a_graph_is_not_given_out_beside_it() {
    each_way(|way| {
        for (size_bytes, mode) in [(MIB, MODES[0]), (512, MODES[1]), (3 * MIB, MODES[2])] {
            let world = way.fixed(16 * MIB);
            let [captured, other] = world.streams();
            world.pass(captured, size_bytes);
            begin(&world, world.raw(captured), 1, mode);
            let first = world.used(captured, size_bytes);
            let held = first.again();
            world.free(captured, first);
            // Inside, it serves in the capture's order.
            let second = world.used(captured, size_bytes);
            assert!(second.overlaps(&held));
            world.free(captured, second);
            let graph = end(&world, world.raw(captured));
            let after: Vec<_> =
                [captured, other, captured].map(|on| (on, world.used(on, size_bytes))).into();
            for (_, buffer) in &after {
                assert!(!buffer.overlaps(&held));
            }
            for launched_on in [captured, other] {
                world.device.launch_graph(graph, world.raw(launched_on)).unwrap();
                for (on, buffer) in &after {
                    // Its own work comes after, and finds what it wrote.
                    world.queue(buffer, world.raw(*on), pool_mock::device::Access::Read);
                }
                world.order(world.raw(launched_on), world.raw(captured));
                world.order(world.raw(launched_on), world.raw(other));
            }
            for (on, buffer) in after {
                world.free(on, buffer);
            }
            release(&world, graph, 1);
            world.pass(other, 16 * MIB);
            world.end();
        }
    });
}

/// A stream that joined a capture is in it.
#[test]
fn p055_a_stream_that_joined_is_captured_too() {
    each_way(|way| {
        let world = way.fixed(8 * MIB);
        let [origin, joined, outside] = world.streams();
        world.pass(joined, MIB);
        begin(&world, world.raw(origin), 1, CaptureMode::Global);
        let first = world.used(origin, MIB);
        world.order(world.raw(origin), world.raw(joined));
        let second = world.used(joined, MIB);
        assert!(!second.overlaps(&first));
        world.pool.record_use(first.handle, joined).unwrap();
        world.touch(&first, world.raw(joined));
        let regions = [first.again(), second.again()];
        world.free(joined, second);
        world.free(origin, first);
        world.pass(outside, MIB);
        world.order(world.raw(joined), world.raw(origin));
        let graph = end(&world, world.raw(origin));
        let buffers = [origin, joined, outside].map(|on| world.used(on, MIB));
        for buffer in &buffers {
            assert!(regions.iter().all(|region| !region.overlaps(buffer)));
        }
        world.device.launch_graph(graph, world.raw(outside)).unwrap();
        for (buffer, on) in buffers.into_iter().zip([origin, joined, outside]) {
            world.free(on, buffer);
        }
        release(&world, graph, 1);
        world.pass(outside, 8 * MIB);
        world.end();
    });
}

/// Two captures at the same time are two graphs; one graph may be captured twice.
#[test]
fn p055_captures_at_the_same_time_do_not_mix() {
    each_way(|way| {
        for same_graph in [false, true] {
            let world = way.fixed(8 * MIB);
            let [first, second, outside] = world.streams();
            world.pass(outside, MIB);
            begin(&world, world.raw(first), 1, CaptureMode::ThreadLocal);
            begin(
                &world,
                world.raw(second),
                if same_graph { 1 } else { 2 },
                CaptureMode::ThreadLocal,
            );
            let (one, other) = (world.used(first, MIB), world.used(second, MIB));
            assert!(!one.overlaps(&other));
            world.free(first, one);
            world.free(second, other);
            let graph = end(&world, world.raw(first));
            let early = world.pool.release_graph(GraphId(1));
            assert_eq!(matches!(early, Err(PoolError::Captured(GraphId(1)))), same_graph);
            let other_graph = end(&world, world.raw(second));
            if same_graph {
                world.pool.release_graph(GraphId(1)).unwrap();
            } else {
                world.pool.release_graph(GraphId(2)).unwrap();
            }
            world.device.drop_graph(graph).unwrap();
            world.device.drop_graph(other_graph).unwrap();
            world.pass(outside, 8 * MIB);
            world.end();
        }
    });
}

/// What is counted of graphs is what there is: all goes back on each way out.
#[test]
fn p103_all_that_graphs_had_goes_back_on_every_way_out() {
    each_way(|way| {
        let world =
            World::new(way.device(), way.pool().arena_bytes(2 * MIB).initial_bytes(8 * MIB));
        let [captured, other] = world.streams();
        for round in 0..6 {
            begin(&world, world.raw(captured), round, CaptureMode::Relaxed);
            let blocks = [MIB, 2 * MIB, 512].map(|size_bytes| {
                world.try_allocate(captured, size_bytes).ok().inspect(|buffer| {
                    world.touch(buffer, world.raw(captured));
                })
            });
            for (place, block) in blocks.into_iter().flatten().enumerate() {
                world.free(if place % 2 == 0 { captured } else { other }, block);
            }
            world.check();
            let graph = end(&world, world.raw(captured));
            match round % 3 {
                0 => release(&world, graph, round),
                1 => {
                    world.pool.set_limit(Some(2 * MIB)).unwrap();
                    release(&world, graph, round);
                    world.pool.set_limit(None).unwrap();
                }
                _ => {
                    world.pool.trim(0).unwrap();
                    release(&world, graph, round);
                    world.pool.trim(0).unwrap();
                }
            }
            world.check();
            world.pass(other, 4 * MIB);
        }
        world.pool.trim_waiting(0).unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 0);
        assert_eq!(world.device.balance().ranges, 0);
        world.end();
    });
}

/// A pool that keeps nothing for later serves captures, or says that it is one.
#[test]
fn p104_without_caches_a_capture_is_served_or_named() {
    for pacing in [Pacing::Idle, Pacing::Eager] {
        for initial in [0, 4 * MIB] {
            let config = LATE.pool().cache_bytes(0).deferred(Deferred::AtOnce);
            let config = config.arena_bytes(2 * MIB).initial_bytes(initial);
            let world = World::new(LATE.device().pacing(pacing), config);
            let captured = world.stream();
            begin(&world, world.raw(captured), 1, CaptureMode::Global);
            match world.try_allocate(captured, MIB) {
                Ok(buffer) => {
                    assert!(initial > 0);
                    world.touch(&buffer, world.raw(captured));
                    world.free(captured, buffer);
                }
                Err(PoolError::OutOfMemory { shortage, .. }) => {
                    assert_eq!(initial, 0);
                    assert_eq!(shortage.captures, [GraphId(1)]);
                    assert!(shortage.to_string().contains("capture"), "{shortage}");
                }
                Err(error) => panic!("{error}"),
            }
            let graph = end(&world, world.raw(captured));
            release(&world, graph, 1);
            world.end();
        }
    }
}

/// A capture that nobody announced is found by the first call that must know, while another lasts.
#[test]
fn p052_a_capture_that_was_not_announced_is_an_error() {
    let world = LATE.fixed(4 * MIB);
    let [announced, silent] = world.streams();
    begin(&world, world.raw(announced), 1, CaptureMode::Relaxed);
    let buffer = world.used(announced, 4 * KIB);
    world.device.begin_capture_in(world.raw(silent), CaptureMode::Relaxed).unwrap();
    let refused = world.pool.allocate_on(silent, MIB);
    assert!(matches!(refused, Err(PoolError::UnannouncedCapture { .. })), "{refused:?}");
    let other = world.device.end_capture(world.raw(silent)).unwrap();
    world.device.drop_graph(other).unwrap();
    world.free(announced, buffer);
    let graph = end(&world, world.raw(announced));
    release(&world, graph, 1);
    world.end();
}
