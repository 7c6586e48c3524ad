//! Events: recorded again, asked, waited for, timed.

use core::ptr::{null_mut, without_provenance_mut};

use pool_mock_driver::*;

use crate::world::{KIB, LEGACY, UNTIMED, World, call, handle, launch, made, ok, two_streams};

#[test]
fn what_was_never_recorded_is_done() {
    let world = World::new();
    let event = handle!(cuEventCreate(UNTIMED));
    let [stream, _] = two_streams();
    ok!(cuEventQuery(event));
    ok!(cuEventSynchronize(event));
    ok!(cuStreamWaitEvent(stream, event, 0));
    assert!(world.simulation.waited().is_empty());
    let mut out = null_mut();
    assert_eq!(call!(cuEventCreate(&raw mut out, 8)), code::INVALID_VALUE);
    assert_eq!(call!(cuEventCreate(null_mut(), 0)), code::INVALID_VALUE);
    assert_eq!(call!(cuStreamWaitEvent(stream, event, 2)), code::INVALID_VALUE);
}

#[test]
fn an_event_is_where_it_was_recorded_last() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let event = handle!(cuEventCreate(UNTIMED));
    let [first, second] = two_streams();
    ok!(cuMemsetD8Async(memory, 1, 100, first));
    ok!(cuEventRecord(event, first));
    assert_eq!(call!(cuEventQuery(event)), code::NOT_READY);
    ok!(cuEventRecord(event, second));
    ok!(cuEventSynchronize(event));
    assert_eq!(call!(cuStreamQuery(first)), code::NOT_READY, "the event is on the other stream");
    ok!(cuEventRecord(event, first));
    ok!(cuEventSynchronize(event));
    assert_eq!(call!(cuStreamQuery(first)), code::SUCCESS);
    assert_eq!(world.simulation.waited().len(), 2);
    world.device().assert_clean();
}

#[test]
fn a_wait_stays_when_the_event_is_recorded_again_or_destroyed() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let event = handle!(cuEventCreate(UNTIMED));
    let [first, second] = two_streams();
    ok!(cuMemsetD8Async(memory, 1, KIB, first));
    ok!(cuEventRecord(event, first));
    ok!(cuStreamWaitEvent(second, event, 0));
    ok!(cuEventRecord(event, second));
    ok!(cuEventDestroy_v2(event));
    ok!(cuMemsetD8Async(memory, 2, KIB, second));
    world.device().assert_clean();
    ok!(cuStreamSynchronize(second));
    assert_eq!(crate::world::read(memory, 1), [2]);
}

#[test]
fn a_dead_event_is_a_violation() {
    let world = World::new();
    let event = handle!(cuEventCreate(UNTIMED));
    ok!(cuEventDestroy_v2(event));
    let [stream, _] = two_streams();
    let codes = call!([
        cuEventDestroy_v2(event),
        cuEventQuery(event),
        cuEventRecord(event, stream),
        cuStreamWaitEvent(stream, event, 0),
    ]);
    assert_eq!(codes, [code::INVALID_HANDLE; 4]);
    world.assert_violations(&["cuEventDestroy_v2", "Query", "Record", "cuStreamWaitEvent"]);
    assert_eq!(call!(cuEventQuery(null_mut())), code::INVALID_HANDLE);
    assert_eq!(call!(cuEventQuery(without_provenance_mut(64))), code::INVALID_HANDLE);
}

#[test]
fn the_time_between_two_events_is_that_of_the_work() {
    let mut world = World::new();
    let kernel = world.kernel(c"pool_spin");
    let [stream, _] = two_streams();
    let [start, end] = [(); 2].map(|()| handle!(cuEventCreate(0)));
    let mut milliseconds = -1.0;
    let elapsed = |milliseconds: &mut f32| call!(cuEventElapsedTime(milliseconds, start, end));
    assert_eq!(elapsed(&mut milliseconds), code::INVALID_HANDLE);
    ok!(cuEventRecord(start, stream));
    let spins: u64 = 500_000_000;
    assert_eq!(launch(kernel, stream, &[(&raw const spins).cast()]), code::SUCCESS);
    ok!(cuEventRecord(end, stream));
    assert_eq!(elapsed(&mut milliseconds), code::NOT_READY);
    ok!(cuEventSynchronize(end));
    assert_eq!(elapsed(&mut milliseconds), code::SUCCESS);
    assert!((500.0..501.0).contains(&milliseconds), "{milliseconds}");
    let untimed = handle!(cuEventCreate(UNTIMED));
    ok!(cuEventRecord(untimed, LEGACY));
    let code = call!(cuEventElapsedTime(&raw mut milliseconds, start, untimed));
    assert_eq!(code, code::INVALID_HANDLE);
}
