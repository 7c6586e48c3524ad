//! Streams: what orders them, their handles, what the host waits for.

use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicU32, Ordering};

use pool_mock_driver::*;

use crate::world::{
    BLOCKING, KIB, LEGACY, NON_BLOCKING, World, call, handle, made, ok, order, read, two_streams,
};

/// Whether a write on one and then on the other is in order.
fn is_ordered(world: &World, memory: u64, streams: [Handle; 2]) -> bool {
    for stream in streams {
        ok!(cuMemsetD8Async(memory, 1, KIB, stream));
    }
    let ordered = world.violations().is_empty();
    ok!(cuCtxSynchronize());
    ordered
}

#[test]
fn only_blocking_streams_are_ordered_with_the_legacy_stream() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [free, other] = two_streams();
    let blocking = handle!(cuStreamCreateWithPriority(BLOCKING, -1));
    let [legacy, per_thread] = [1, 2].map(without_provenance_mut);
    for (streams, expected) in [
        ([LEGACY, legacy], true),
        ([LEGACY, blocking], true),
        ([blocking, legacy], true),
        ([per_thread, LEGACY], true),
        ([free, LEGACY], false),
        ([LEGACY, free], false),
        ([free, other], false),
        ([blocking, per_thread], false),
    ] {
        assert_eq!(is_ordered(&world, memory, streams), expected, "{streams:?}");
    }
    assert_eq!(call!(cuStreamCreate(null_mut(), 0)), code::INVALID_VALUE);
    let mut stream = null_mut();
    assert_eq!(call!(cuStreamCreate(&raw mut stream, 2)), code::INVALID_VALUE);
    let (mut flags, mut priority) = (9, 9);
    ok!(cuStreamGetFlags(free, &raw mut flags));
    ok!(cuStreamGetPriority(blocking, &raw mut priority));
    assert_eq!((flags, priority), (NON_BLOCKING, -1));
}

#[test]
fn a_dead_handle_is_a_violation_until_the_next_stream_has_it() {
    let world = World::new();
    let event = handle!(cuEventCreate(2));
    let [stream, _] = two_streams();
    let (mut first, mut second) = (0, 0);
    ok!(cuStreamGetId(stream, &raw mut first));
    ok!(cuStreamDestroy_v2(stream));
    assert_eq!(call!(cuEventRecord(event, stream)), code::INVALID_HANDLE);
    assert_eq!(call!(cuStreamDestroy_v2(stream)), code::INVALID_HANDLE);
    world.assert_violations(&["cuEventRecord", "cuStreamDestroy_v2"]);
    assert_eq!(handle!(cuStreamCreate(BLOCKING)), stream);
    ok!(cuEventRecord(event, stream));
    ok!(cuStreamGetId(stream, &raw mut second));
    assert_ne!(first, second);
    for default in [0, 1, 2] {
        let default = without_provenance_mut(default);
        assert_eq!(call!(cuStreamDestroy_v2(default)), code::INVALID_HANDLE);
    }
    world.device().assert_clean();
}

#[test]
fn the_host_waits_for_one_stream() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [first, second] = two_streams();
    for (place, stream) in [first, second].into_iter().enumerate() {
        ok!(cuMemsetD8Async(memory + 100 * place as u64, 1, 100, stream));
        assert_eq!(call!(cuStreamQuery(stream)), code::NOT_READY);
    }
    ok!(cuStreamSynchronize(first));
    assert_eq!(call!(cuStreamQuery(first)), code::SUCCESS);
    assert_eq!(call!(cuStreamQuery(second)), code::NOT_READY);
    ok!(cuStreamSynchronize(first));
    assert_eq!(world.simulation.waited(), ["cuStreamSynchronize"]);
    assert_eq!(world.simulation.count("cuStreamSynchronize"), 2);
}

#[test]
fn a_query_of_the_legacy_stream_asks_for_all_blocking_streams() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let blocking = handle!(cuStreamCreate(BLOCKING));
    ok!(cuMemsetD8Async(memory, 1, KIB, blocking));
    assert_eq!(call!(cuStreamQuery(LEGACY)), code::NOT_READY);
    ok!(cuStreamSynchronize(LEGACY));
    assert_eq!(call!(cuStreamQuery(blocking)), code::SUCCESS);
    ok!(cuMemFree_v2(memory));
    assert_eq!(world.simulation.waited(), ["cuStreamSynchronize"]);
}

/// Counts calls, and calls the driver, which it must not.
unsafe extern "C" fn count(data: *mut c_void) {
    // SAFETY: the tests give a counter that outlives the simulation's work.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, Ordering::SeqCst);
    let mut version = 0;
    assert_eq!(call!(cuDriverGetVersion(&raw mut version)), code::NOT_PERMITTED);
}

#[test]
fn a_host_function_runs_in_order_and_must_not_call_the_driver() {
    let world = World::new();
    let calls = AtomicU32::new(0);
    let [stream, other] = two_streams();
    let data = (&raw const calls).cast_mut().cast();
    assert_eq!(call!(cuLaunchHostFunc(stream, None, data)), code::INVALID_VALUE);
    ok!(cuLaunchHostFunc(stream, Some(count), data));
    order(stream, other);
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    ok!(cuStreamSynchronize(other));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    world.assert_violations(&["from inside a callback"]);
}

#[test]
fn a_held_stream_stays_where_it_is() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, other] = two_streams();
    world.device().hold(world.simulation.stream(stream)).unwrap();
    ok!(cuMemsetD8Async(memory, 1, 100, stream));
    ok!(cuMemsetD8Async(memory + 100, 2, 100, other));
    ok!(cuStreamSynchronize(other));
    assert_eq!(call!(cuStreamQuery(stream)), code::NOT_READY);
    world.device().go(world.simulation.stream(stream)).unwrap();
    assert_eq!(call!(cuStreamQuery(stream)), code::SUCCESS);
    assert_eq!(read(memory + 99, 2), [1, 2]);
    assert_eq!(call!(cuStreamGetId(stream, null_mut())), code::INVALID_VALUE);
}
