//! Memory of devices and of the host's: given, counted, taken back.

use core::ptr::null_mut;

use pool_mock_driver::*;

use crate::world::{KIB, LEGACY, MIB, World, call, handle, made, ok, order, read, two_streams};

/// The free bytes of the current context's device.
fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    ok!(cuMemGetInfo_v2(&raw mut free, &raw mut total));
    assert_eq!(total, DEVICES[0].total_bytes);
    free
}

#[test]
fn memory_is_counted_and_runs_out() {
    let world = World::new();
    let all = DEVICES[0].free_bytes;
    assert_eq!(free_bytes(), all);
    let first = made!(cuMemAlloc_v2(5 * MIB));
    assert_eq!(free_bytes(), all - 5 * MIB);
    let mut second = 0;
    let code = call!(cuMemAlloc_v2(&raw mut second, all - 5 * MIB + 1));
    assert_eq!((code, second), (code::OUT_OF_MEMORY, 0));
    ok!(cuMemAlloc_v2(&raw mut second, all - 5 * MIB));
    assert_eq!(free_bytes(), 0);
    let balance = world.simulation.balance();
    assert_eq!((balance.allocations, balance.bytes), (2, all as u64));
    ok!(cuMemFree_v2(first));
    assert_eq!(free_bytes(), 5 * MIB);
    let codes = call!([
        cuMemFree_v2(first),
        cuMemFree_v2(second + 512),
        cuMemAlloc_v2(&raw mut second, 0),
        cuMemAlloc_v2(null_mut(), 1),
        cuMemFree_v2(0),
    ]);
    let invalid = code::INVALID_VALUE;
    assert_eq!(codes, [invalid, invalid, invalid, invalid, code::SUCCESS]);
    world.device().assert_clean();
}

#[test]
fn a_free_waits_for_the_whole_device() {
    let world = World::new();
    let [used, freed] = [(); 2].map(|()| made!(cuMemAlloc_v2(KIB)));
    let [stream, _] = two_streams();
    ok!(cuMemsetD8Async(used, 1, KIB, stream));
    ok!(cuMemFree_v2(freed));
    assert_eq!(call!(cuStreamQuery(stream)), code::SUCCESS);
    ok!(cuMemFree_v2(used));
    assert_eq!(world.simulation.waited(), ["cuMemFree_v2"]);
    world.device().assert_clean();
    assert_eq!(call!(cuMemsetD8Async(used, 1, KIB, stream)), code::INVALID_VALUE);
}

#[test]
fn new_memory_is_not_zero() {
    let _world = World::new();
    let first = made!(cuMemAlloc_v2(KIB));
    ok!(cuMemsetD8_v2(first, 0, KIB));
    ok!(cuMemFree_v2(first));
    let second = made!(cuMemAlloc_v2(KIB));
    assert_eq!(read(second, KIB), vec![0xA5; KIB]);
}

#[test]
fn a_use_must_stay_in_one_block() {
    let world = World::new();
    let [first, second] = [(); 2].map(|()| made!(cuMemAlloc_v2(KIB)));
    assert!(first.abs_diff(second) > KIB as u64, "between two blocks is no memory");
    ok!(cuMemsetD8_v2(first + 1, 1, KIB - 1));
    let codes = call!([
        cuMemsetD8_v2(first + 1, 1, KIB),
        cuMemsetD8_v2(first - 1, 1, 1),
        cuMemsetD8_v2(first.max(second), 1, usize::MAX),
        cuMemsetD8_v2(0, 1, 1),
    ]);
    assert_eq!(codes, [code::INVALID_VALUE; 4]);
    world.device().assert_clean();
}

#[test]
fn memory_of_the_host_is_freed_once_no_work_uses_it() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let mut host = null_mut();
    ok!(cuMemHostAlloc(&raw mut host, KIB, 0));
    assert_eq!(world.simulation.balance().host_allocations, 1);
    ok!(cuMemcpyHtoDAsync_v2(memory, host, KIB, stream));
    assert_eq!(call!(cuMemHostUnregister(host)), code::HOST_MEMORY_NOT_REGISTERED);
    ok!(cuMemFreeHost(host));
    world.assert_violations(&["cuMemFreeHost took memory"]);
    assert_eq!(call!(cuMemFreeHost(host)), code::INVALID_VALUE);
    ok!(cuMemAllocHost_v2(&raw mut host, KIB));
    ok!(cuMemcpyHtoDAsync_v2(memory, host, KIB, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuMemFreeHost(host));
    world.device().assert_clean();
    assert_eq!(world.simulation.balance().host_allocations, 0);
    assert_eq!(call!(cuMemHostAlloc(&raw mut host, 0, 0)), code::INVALID_VALUE);
}

#[test]
fn memory_of_the_program_is_registered_once() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let [stream, _] = two_streams();
    let mut host = vec![7_u8; KIB];
    let pointer = host.as_mut_ptr();
    let [start, inside] = [0, 100].map(|offset| pointer.wrapping_add(offset).cast());
    ok!(cuMemHostRegister_v2(start, KIB, 0));
    assert_eq!(world.simulation.balance().registrations, 1);
    let codes = call!([
        cuMemHostRegister_v2(inside, 10, 0),
        cuMemHostUnregister(inside),
        cuMemHostRegister_v2(null_mut(), 10, 0),
        cuMemHostRegister_v2(start, 0, 0),
    ]);
    let (registered, not) =
        (code::HOST_MEMORY_ALREADY_REGISTERED, code::HOST_MEMORY_NOT_REGISTERED);
    assert_eq!(codes, [registered, not, code::INVALID_VALUE, code::INVALID_VALUE]);
    ok!(cuMemcpyHtoDAsync_v2(memory, start, KIB, stream));
    ok!(cuMemHostUnregister(start));
    world.assert_violations(&["cuMemHostUnregister took memory"]);
    drop(host);
    assert_eq!(read(memory, 1), [7], "the copy ran before");
}

#[test]
fn pinned_memory_has_races_as_any_other() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(2 * KIB));
    let [first, second] = two_streams();
    let mut host = null_mut();
    ok!(cuMemHostAlloc(&raw mut host, KIB, 0));
    ok!(cuMemcpyDtoHAsync_v2(host, memory, KIB, first));
    ok!(cuMemcpyHtoDAsync_v2(memory + KIB as u64, host, KIB, second));
    world.assert_violations(&["race"]);
    order(second, first);
    ok!(cuMemcpyDtoHAsync_v2(host, memory, KIB, first));
    world.device().assert_clean();
    ok!(cuStreamSynchronize(LEGACY));
    ok!(cuCtxSynchronize());
    ok!(cuMemFreeHost(host));
}

#[test]
fn a_device_that_frees_what_a_peer_still_uses_is_a_violation() {
    let world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let peer = handle!(cuDevicePrimaryCtxRetain(world.simulation.device_number(1).unwrap()));
    ok!(cuCtxPushCurrent_v2(peer));
    ok!(cuMemsetD8_v2(memory, 1, KIB));
    ok!(cuMemFree_v2(memory));
    world.assert_violations(&["cuMemFree_v2 took memory"]);
    ok!(cuCtxSynchronize());
}
