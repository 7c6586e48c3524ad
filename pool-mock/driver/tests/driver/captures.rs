//! Captures: what they forbid, what breaks them, and what their graphs do.

use core::ptr::{null_mut, without_provenance_mut};

use pool_mock_driver::*;

use crate::world::{
    BLOCKING, KIB, LEGACY, NON_BLOCKING, UNTIMED, World, call, handle, made, ok, order, read,
    two_streams,
};

const GLOBAL: i32 = 0;
const THREAD_LOCAL: i32 = 1;
const RELAXED: i32 = 2;

fn exchange(mut mode: i32) -> i32 {
    ok!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    mode
}

/// Ends a capture; gives the code, having looked at whether there is a graph.
fn end(stream: Handle) -> i32 {
    let mut graph = without_provenance_mut(1);
    let code = call!(cuStreamEndCapture(stream, &raw mut graph));
    assert_eq!(graph.is_null(), code != code::SUCCESS);
    code
}

/// Makes a graph ready to be launched and takes the graph away.
fn executable(stream: Handle) -> Handle {
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    let executable = handle!(cuGraphInstantiateWithFlags(graph, 0));
    ok!(cuGraphDestroy(graph));
    executable
}

/// Makes one of the calls that a capture forbids; gives its name and the code, and none past the
/// last.
fn forbidden(
    place: usize,
    memory: u64,
    event: Handle,
    stream: Handle,
) -> Option<(&'static str, i32)> {
    let mut address = 0;
    let mut pointer = null_mut();
    let mut byte = 0_u8;
    Some(match place {
        0 => ("alloc", call!(cuMemAlloc_v2(&raw mut address, KIB))),
        1 => ("query", call!(cuEventQuery(event))),
        2 => ("wait", call!(cuEventSynchronize(event))),
        3 => ("stream query", call!(cuStreamQuery(stream))),
        4 => ("stream wait", call!(cuStreamSynchronize(stream))),
        5 => ("context wait", call!(cuCtxSynchronize())),
        6 => ("reserve", call!(cuMemAddressReserve(&raw mut address, 2 << 20, 0, 0, 0))),
        7 => ("host alloc", call!(cuMemHostAlloc(&raw mut pointer, KIB, 0))),
        8 => ("copy", call!(cuMemcpyDtoH_v2((&raw mut byte).cast(), memory, 1))),
        9 => ("free", call!(cuMemFree_v2(memory))),
        _ => return None,
    })
}

#[test]
fn a_forbidden_call_breaks_the_capture() {
    for mode in [GLOBAL, THREAD_LOCAL] {
        for place in 0.. {
            let world = World::new();
            let memory = made!(cuMemAlloc_v2(KIB));
            let event = handle!(cuEventCreate(UNTIMED));
            let [stream, other] = two_streams();
            ok!(cuStreamBeginCapture_v2(stream, mode));
            let Some((name, code)) = forbidden(place, memory, event, other) else { break };
            assert_eq!(code, code::STREAM_CAPTURE_UNSUPPORTED, "{name}");
            assert_eq!(end(stream), code::STREAM_CAPTURE_INVALIDATED, "{name}");
            assert!(!world.violations().is_empty());
        }
    }
}

#[test]
fn a_thread_that_is_relaxed_may_do_all_that() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let event = handle!(cuEventCreate(UNTIMED));
    let [stream, other] = two_streams();
    ok!(cuEventRecord(event, other));
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_eq!(exchange(RELAXED), GLOBAL);
    ok!(cuStreamSynchronize(other));
    for (name, code) in (0..).map_while(|place| forbidden(place, memory, event, other)) {
        assert_eq!(code, code::SUCCESS, "{name}");
    }
    assert_eq!(exchange(GLOBAL), RELAXED);
    assert_eq!(end(stream), code::SUCCESS);
    world.device().assert_clean();
    let mut mode = 3;
    let code = call!(cuThreadExchangeStreamCaptureMode(&raw mut mode));
    assert_eq!(code, code::INVALID_VALUE);
}

#[test]
fn other_threads_are_forbidden_only_by_global_captures() {
    let world = World::new();
    let [stream, _] = two_streams();
    for (mode, own, expected) in [
        (GLOBAL, GLOBAL, code::STREAM_CAPTURE_UNSUPPORTED),
        (GLOBAL, THREAD_LOCAL, code::SUCCESS),
        (GLOBAL, RELAXED, code::SUCCESS),
        (THREAD_LOCAL, GLOBAL, code::SUCCESS),
        (RELAXED, GLOBAL, code::SUCCESS),
    ] {
        ok!(cuStreamBeginCapture_v2(stream, mode));
        let context = world.context.addr();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ok!(cuCtxPushCurrent_v2(without_provenance_mut(context)));
                exchange(own);
                let mut memory = 0;
                let code = call!(cuMemAlloc_v2(&raw mut memory, KIB));
                assert_eq!(code, expected, "{mode} {own}");
            });
        });
        let broken = expected != code::SUCCESS;
        let ended = if broken { code::STREAM_CAPTURE_INVALIDATED } else { code::SUCCESS };
        assert_eq!(end(stream), ended);
    }
}

#[test]
fn another_thread_cannot_end_a_capture_that_is_not_relaxed() {
    let world = World::new();
    let [stream, _] = two_streams();
    for (mode, expected) in [(GLOBAL, code::STREAM_CAPTURE_WRONG_THREAD), (RELAXED, code::SUCCESS)]
    {
        ok!(cuStreamBeginCapture_v2(stream, mode));
        let [context, captured] = [world.context, stream].map(Handle::addr);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ok!(cuCtxPushCurrent_v2(without_provenance_mut(context)));
                let mut graph = null_mut();
                let captured = without_provenance_mut(captured);
                assert_eq!(call!(cuStreamEndCapture(captured, &raw mut graph)), expected);
            });
        });
        if expected != code::SUCCESS {
            assert_eq!(end(stream), code::SUCCESS);
        }
    }
}

#[test]
fn an_event_of_a_capture_cannot_be_asked() {
    let world = World::new();
    let event = handle!(cuEventCreate(UNTIMED));
    let [stream, _] = two_streams();
    for mode in [GLOBAL, RELAXED] {
        ok!(cuStreamBeginCapture_v2(stream, mode));
        ok!(cuEventRecord(event, stream));
        assert_eq!(call!(cuEventQuery(event)), code::CAPTURED_EVENT);
        assert_eq!(end(stream), code::STREAM_CAPTURE_INVALIDATED);
        world.assert_violations(&["recorded in capture"]);
        assert_eq!(call!(cuEventQuery(event)), code::CAPTURED_EVENT);
        world.violations();
    }
    ok!(cuEventRecord(event, stream));
    assert_eq!(call!(cuEventQuery(event)), code::NOT_READY);
}

#[test]
fn the_status_of_a_stream_is_told() {
    let world = World::new();
    let [stream, other] = two_streams();
    let status = |stream| {
        let (mut status, mut id) = (7, 0);
        let out = (null_mut(), null_mut(), null_mut());
        ok!(cuStreamGetCaptureInfo_v2(stream, &raw mut status, &raw mut id, out.0, out.1, out.2));
        let mut same = 7;
        ok!(cuStreamIsCapturing(stream, &raw mut same));
        assert_eq!(same, status);
        (status, id)
    };
    assert_eq!(status(stream), (0, 0));
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_eq!(call!(cuStreamBeginCapture_v2(stream, GLOBAL)), code::ILLEGAL_STATE);
    let (active, id) = status(stream);
    assert_eq!(active, 1);
    assert_eq!(status(other).0, 0);
    order(stream, other);
    assert_eq!(status(other), (1, id), "it joined");
    assert_eq!(end(other), code::STREAM_CAPTURE_UNMATCHED);
    order(other, stream);
    assert_eq!(end(stream), code::SUCCESS);
    assert_eq!((status(stream).0, status(other).0), (0, 0));
    assert_eq!(end(stream), code::ILLEGAL_STATE);
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_ne!(status(stream).1, id);
    assert_eq!(call!(cuCtxSynchronize()), code::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(status(stream).0, 2);
    assert_eq!(call!(cuMemsetD8Async(0, 0, 0, other)), code::SUCCESS, "nothing is queued");
    assert_eq!(end(stream), code::STREAM_CAPTURE_INVALIDATED);
    world.violations();
}

#[test]
fn the_legacy_stream_is_out_of_reach_while_a_blocking_stream_is_captured() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let event = handle!(cuEventCreate(UNTIMED));
    assert_eq!(call!(cuStreamBeginCapture_v2(LEGACY, RELAXED)), code::STREAM_CAPTURE_UNSUPPORTED);
    for (kind, expected) in
        [(BLOCKING, code::STREAM_CAPTURE_IMPLICIT), (NON_BLOCKING, code::SUCCESS)]
    {
        let stream = handle!(cuStreamCreate(kind));
        ok!(cuStreamBeginCapture_v2(stream, RELAXED));
        let mut status = 0;
        assert_eq!(call!(cuStreamIsCapturing(LEGACY, &raw mut status)), expected);
        world.device().assert_clean();
        assert_eq!(call!(cuEventRecord(event, LEGACY)), expected);
        assert_eq!(call!(cuMemsetD8_v2(memory, 1, 1)), expected);
        let ended = if kind == BLOCKING { code::STREAM_CAPTURE_INVALIDATED } else { 0 };
        assert_eq!(end(stream), ended);
        world.violations();
    }
}

#[test]
fn an_event_behind_the_context_is_refused_during_any_capture_of_it() {
    let world = World::new();
    let event = handle!(cuEventCreate(UNTIMED));
    let [stream, _] = two_streams();
    ok!(cuStreamBeginCapture_v2(stream, RELAXED));
    let code = call!(cuCtxRecordEvent(world.context, event));
    assert_eq!(code, code::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), code::STREAM_CAPTURE_INVALIDATED);
}

#[test]
fn a_capture_cannot_wait_for_what_is_outside() {
    let world = World::new();
    let [stream, other] = two_streams();
    let event = handle!(cuEventCreate(UNTIMED));
    ok!(cuEventRecord(event, other));
    ok!(cuStreamBeginCapture_v2(stream, RELAXED));
    assert_eq!(call!(cuStreamWaitEvent(stream, event, 0)), code::STREAM_CAPTURE_ISOLATION);
    assert_eq!(end(stream), code::STREAM_CAPTURE_INVALIDATED);
    ok!(cuStreamBeginCapture_v2(stream, RELAXED));
    let memory = made!(cuMemAlloc_v2(KIB));
    order(stream, other);
    ok!(cuMemsetD8Async(memory, 1, 1, other));
    assert_eq!(end(stream), code::STREAM_CAPTURE_UNJOINED);
    world.violations();
}

#[test]
fn a_graph_does_its_work_at_each_launch() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, other] = two_streams();
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    ok!(cuMemsetD8Async(memory, 5, 100, stream));
    order(stream, other);
    ok!(cuMemcpyDtoDAsync_v2(memory + 100, memory, 100, other));
    order(other, stream);
    let executable = executable(stream);
    assert_eq!(world.simulation.balance().graphs, 1);
    ok!(cuMemsetD8Async(memory, 1, 200, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(memory + 50, 100), [1; 100], "only now it is launched");
    for expected in [5, 5] {
        ok!(cuMemsetD8Async(memory, 1, 200, stream));
        ok!(cuGraphLaunch(executable, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read(memory + 50, 100), [expected; 100]);
    }
    ok!(cuMemsetD8Async(memory, 1, 100, other));
    ok!(cuGraphLaunch(executable, stream));
    // The fill of the graph and the copy behind it, each with the other stream's fill.
    world.assert_violations(&["race", "race"]);
    ok!(cuGraphExecDestroy(executable));
    assert_eq!(call!(cuGraphExecDestroy(executable)), code::INVALID_HANDLE);
    assert_eq!(call!(cuGraphLaunch(executable, stream)), code::INVALID_HANDLE);
    assert_eq!((world.simulation.balance().graphs, world.device().balance().graphs), (0, 0));
    ok!(cuCtxSynchronize());
}

#[test]
fn a_graph_whose_memory_is_gone_is_a_violation() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    ok!(cuMemsetD8Async(memory, 5, 100, stream));
    let executable = executable(stream);
    ok!(cuMemFree_v2(memory));
    world.device().assert_clean();
    ok!(cuGraphLaunch(executable, stream));
    world.assert_violations(&["was freed"]);
}

#[test]
fn pageable_memory_is_read_when_the_graph_runs() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let mut host = [1_u8; 16];
    let pointer = host.as_mut_ptr();
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    ok!(cuMemcpyHtoDAsync_v2(memory, pointer.cast(), 16, stream));
    ok!(cuMemcpyDtoHAsync_v2(pointer.wrapping_add(8).cast(), memory, 4, stream));
    let executable = executable(stream);
    // SAFETY: the pointer is to the local, which nothing else uses.
    unsafe { pointer.write_bytes(7, 8) };
    ok!(cuGraphLaunch(executable, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(memory, 16)[7..9], [7, 1]);
    assert_eq!(host[7..13], [7, 7, 7, 7, 7, 1]);
    world.device().assert_clean();
}

#[test]
fn memory_of_the_drivers_pools_is_not_captured() {
    let world = World::new();
    let [stream, _] = two_streams();
    let block = made!(cuMemAllocAsync(KIB, stream));
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    let mut address = 0;
    let code = call!(cuMemAllocAsync(&raw mut address, KIB, stream));
    assert_eq!(code, code::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(call!(cuMemFreeAsync(block, stream)), code::STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(end(stream), code::SUCCESS);
    ok!(cuMemFreeAsync(block, stream));
    world.device().assert_clean();
}
