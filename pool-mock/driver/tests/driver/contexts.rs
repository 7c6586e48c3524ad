//! Contexts: stacks of threads, lives, contexts made by hand, peers.

use core::ptr::null_mut;

use pool_mock_driver::*;

use crate::world::{KIB, LEGACY, NON_BLOCKING, UNTIMED, World, call, handle, made, ok, read};

#[test]
fn a_thread_has_a_stack_and_its_top_can_be_replaced() {
    let world = World::new();
    assert_eq!(handle!(cuCtxGetCurrent()), world.context);
    let number: i32 = made!(cuCtxGetDevice());
    assert_eq!(number, world.number);
    let other = world.simulation.device_number(1).unwrap();
    let second = handle!(cuDevicePrimaryCtxRetain(other));
    ok!(cuCtxSetCurrent(second));
    assert_eq!(world.simulation.contexts(), [1]);
    ok!(cuCtxPushCurrent_v2(world.context));
    assert_eq!(world.simulation.contexts(), [1, 0]);
    ok!(cuCtxSetCurrent(null_mut()));
    assert_eq!(world.simulation.contexts(), [1]);
    assert_eq!(handle!(cuCtxPopCurrent_v2()), second);
    assert!(handle!(cuCtxGetCurrent()).is_null());
    let mut number = 0;
    assert_eq!(call!(cuCtxGetDevice(&raw mut number)), code::INVALID_CONTEXT);
    let mut version = 0;
    ok!(cuCtxGetApiVersion(second, &raw mut version));
    assert_eq!(version, 3020);
    let (mut flags, mut active) = (7, 0);
    ok!(cuDevicePrimaryCtxGetState(other, &raw mut flags, &raw mut active));
    assert_eq!((flags, active), (0, 1));
    ok!(cuDevicePrimaryCtxRelease_v2(other));
    ok!(cuDevicePrimaryCtxSetFlags_v2(other, 4));
    ok!(cuDevicePrimaryCtxGetState(other, &raw mut flags, &raw mut active));
    assert_eq!((flags, active), (4, 0));
}

#[test]
fn without_a_context_there_is_nothing_to_work_on() {
    let world = World::new();
    let stream = handle!(cuStreamCreate(NON_BLOCKING));
    let event = handle!(cuEventCreate(UNTIMED));
    let memory = made!(cuMemAlloc_v2(KIB));
    ok!(cuCtxPopCurrent_v2(null_mut()));
    let (mut out, mut address, mut id) = (null_mut(), 0, 0);
    let codes = call!([
        cuStreamCreate(&raw mut out, 0),
        cuEventCreate(&raw mut out, 0),
        cuMemAlloc_v2(&raw mut address, KIB),
        cuMemFree_v2(memory),
        cuMemAllocAsync(&raw mut address, KIB, stream),
        cuEventRecord(event, stream),
        cuEventQuery(event),
        cuStreamSynchronize(stream),
        cuStreamGetId(stream, &raw mut id),
        cuCtxSynchronize(),
        cuMemsetD8_v2(memory, 1, 1),
        cuModuleLoadData(&raw mut out, crate::world::KERNELS.as_ptr().cast()),
    ]);
    assert_eq!(codes, [code::INVALID_CONTEXT; 12]);
    ok!(cuCtxPushCurrent_v2(world.context));
    ok!(cuMemFree_v2(memory));
}

#[test]
fn what_belonged_to_an_earlier_life_is_gone() {
    let world = World::new();
    let stream = handle!(cuStreamCreate(NON_BLOCKING));
    let event = handle!(cuEventCreate(UNTIMED));
    ok!(cuDevicePrimaryCtxRelease_v2(world.number));
    assert_eq!(call!(cuEventQuery(event)), code::CONTEXT_IS_DESTROYED);
    assert_eq!(handle!(cuDevicePrimaryCtxRetain(world.number)), world.context);
    assert_eq!(call!(cuEventQuery(event)), code::CONTEXT_IS_DESTROYED);
    assert_eq!(call!(cuStreamQuery(stream)), code::CONTEXT_IS_DESTROYED);
    let balance = world.simulation.balance();
    assert_eq!((balance.streams, balance.events), (1, 1), "they were leaked");
}

#[test]
fn a_context_made_by_hand_has_streams_of_its_own() {
    let world = World::new();
    let own = handle!(cuEventCreate(UNTIMED));
    let made = handle!(cuCtxCreate_v2(0, world.number));
    assert_eq!(world.simulation.balance().contexts, 2);
    let stream = handle!(cuStreamCreate(NON_BLOCKING));
    let event = handle!(cuEventCreate(UNTIMED));
    let mut context = null_mut();
    ok!(cuStreamGetCtx(stream, &raw mut context));
    assert_eq!(context, made);
    assert_eq!(call!(cuEventRecord(own, stream)), code::INVALID_HANDLE);
    assert_eq!(call!(cuEventRecord(own, LEGACY)), code::INVALID_HANDLE);
    ok!(cuEventRecord(event, stream));
    ok!(cuEventRecord(event, LEGACY));
    ok!(cuCtxPopCurrent_v2(null_mut()));
    assert_eq!(call!(cuEventRecord(event, LEGACY)), code::INVALID_HANDLE);
    ok!(cuStreamWaitEvent(LEGACY, event, 0));
    assert_eq!(call!(cuCtxDestroy_v2(world.context)), code::INVALID_CONTEXT);
    ok!(cuCtxDestroy_v2(made));
    assert_eq!(call!(cuCtxDestroy_v2(made)), code::CONTEXT_IS_DESTROYED);
    assert_eq!(call!(cuEventQuery(event)), code::CONTEXT_IS_DESTROYED);
    assert_eq!(world.simulation.balance().contexts, 1);
}

#[test]
fn the_legacy_streams_of_two_contexts_are_not_ordered() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    ok!(cuMemsetD8_v2(memory, 1, KIB));
    let made = handle!(cuCtxCreate_v2(0, world.number));
    ok!(cuMemsetD8_v2(memory, 2, KIB));
    world.assert_violations(&["race"]);
    ok!(cuCtxDestroy_v2(made));
    ok!(cuCtxSynchronize());
}

#[test]
fn an_event_behind_a_whole_context_has_the_work_of_all_its_streams() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let event = handle!(cuEventCreate(UNTIMED));
    let [writer, gone, reader] = [(); 3].map(|()| handle!(cuStreamCreate(NON_BLOCKING)));
    ok!(cuMemsetD8Async(memory, 1, 100, writer));
    ok!(cuMemsetD8Async(memory + 100, 1, 100, gone));
    ok!(cuMemsetD8_v2(memory + 200, 1, 100));
    ok!(cuStreamDestroy_v2(gone));
    ok!(cuCtxRecordEvent(world.context, event));
    assert_eq!(call!(cuEventQuery(event)), code::NOT_READY);
    ok!(cuStreamWaitEvent(reader, event, 0));
    ok!(cuMemsetD8Async(memory, 2, 300, reader));
    world.device().assert_clean();
    ok!(cuEventSynchronize(event));
    ok!(cuMemsetD8Async(memory, 3, 300, writer));
    world.assert_violations(&["race"]);
    assert_eq!(read(memory, 1).len(), 1);
    let other = world.simulation.device_number(1).unwrap();
    let second = handle!(cuDevicePrimaryCtxRetain(other));
    assert_eq!(call!(cuCtxRecordEvent(second, event)), code::INVALID_HANDLE);
}

#[test]
fn kernels_use_a_peers_memory_only_with_access() {
    let mut world = World::new();
    let other = world.simulation.device_number(1).unwrap();
    let peer = handle!(cuDevicePrimaryCtxRetain(other));
    let mut can = 0;
    ok!(cuDeviceCanAccessPeer(&raw mut can, world.number, other));
    assert_eq!(can, 1);
    ok!(cuDeviceCanAccessPeer(&raw mut can, other, other));
    assert_eq!(can, 0);
    ok!(cuCtxPushCurrent_v2(peer));
    let memory = made!(cuMemAlloc_v2(KIB));
    ok!(cuCtxPopCurrent_v2(null_mut()));
    assert_eq!(call!(cuCtxEnablePeerAccess(world.context, 0)), code::INVALID_DEVICE);
    assert_eq!(call!(cuCtxEnablePeerAccess(peer, 1)), code::INVALID_VALUE);
    ok!(cuCtxEnablePeerAccess(peer, 0));
    assert_eq!(call!(cuCtxEnablePeerAccess(peer, 0)), code::PEER_ACCESS_ALREADY_ENABLED);
    assert_eq!(world.mark(LEGACY, memory, KIB, 9), code::SUCCESS);
    assert_eq!(read(memory, 4), [9; 4]);
    ok!(cuCtxDisablePeerAccess(peer));
    assert_eq!(call!(cuCtxDisablePeerAccess(peer)), code::PEER_ACCESS_NOT_ENABLED);
    world.device().assert_clean();
    assert_eq!(world.mark(LEGACY, memory, KIB, 8), code::SUCCESS);
    world.assert_violations(&["no access"]);
    assert_eq!(call!(cuCtxSynchronize()), code::ILLEGAL_ADDRESS);
}
