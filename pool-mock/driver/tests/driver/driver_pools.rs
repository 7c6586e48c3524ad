//! The driver's pools: order, reuse, thresholds.

use core::ffi::c_void;
use core::ptr::null_mut;

use pool_mock_driver::*;

use crate::world::{KIB, MIB, World, call, handle, made, ok, order, read, two_streams};

const THRESHOLD: i32 = 4;
const RESERVED: i32 = 5;
const RESERVED_HIGH: i32 = 6;
const USED: i32 = 7;
const USED_HIGH: i32 = 8;

fn default_pool(world: &World) -> Handle {
    handle!(cuDeviceGetDefaultMemPool(world.number))
}

fn get(pool: Handle, attribute: i32) -> u64 {
    let mut value = 0_u64;
    ok!(cuMemPoolGetAttribute(pool, attribute, (&raw mut value).cast()));
    value
}

fn set(pool: Handle, attribute: i32, value: u64) -> i32 {
    call!(cuMemPoolSetAttribute(pool, attribute, (&raw const value).cast::<c_void>()))
}

fn properties(location: i32) -> AllocationProperties {
    AllocationProperties { kind: 1, handle_types: 0, location_kind: 1, location }
}

#[test]
fn a_block_may_be_used_only_behind_its_allocation_and_before_its_free() {
    let world = World::new();
    let [first, second] = two_streams();
    let block = made!(cuMemAllocAsync(KIB, first));
    ok!(cuMemsetD8Async(block, 1, KIB, first));
    world.device().assert_clean();
    let other = made!(cuMemAllocAsync(KIB, first));
    ok!(cuMemsetD8Async(other, 1, KIB, second));
    world.assert_violations(&["race"]);
    order(first, second);
    ok!(cuMemsetD8Async(block, 2, KIB, second));
    world.device().assert_clean();
    ok!(cuMemFreeAsync(block, first));
    world.assert_violations(&["race"]);
    order(second, first);
    ok!(cuMemFreeAsync(other, first));
    world.device().assert_clean();
    assert_eq!(call!(cuMemFreeAsync(block, first)), code::INVALID_VALUE);
    assert_eq!(call!(cuMemsetD8Async(block, 1, 1, first)), code::INVALID_VALUE);
    assert!(world.simulation.waited().is_empty());
    ok!(cuCtxSynchronize());
}

#[test]
fn memory_goes_back_when_the_stream_comes_there_and_the_host_waits() {
    let world = World::new();
    let pool = default_pool(&world);
    let [stream, other] = two_streams();
    let block = made!(cuMemAllocAsync(3 * MIB, stream));
    let two = 2 * MIB as u64;
    assert_eq!((get(pool, USED), get(pool, RESERVED)), (3 * MIB as u64, 2 * two));
    ok!(cuMemFreeAsync(block, stream));
    assert_eq!(get(pool, USED), 3 * MIB as u64, "the stream has not come there");
    world.run_all();
    assert_eq!((get(pool, USED), get(pool, RESERVED)), (0, 2 * two));
    assert_eq!(world.device().balance().bytes, 2 * two);
    ok!(cuStreamSynchronize(other));
    assert_eq!((get(pool, RESERVED), get(pool, RESERVED_HIGH)), (0, 2 * two));
    assert_eq!((get(pool, USED_HIGH), world.device().balance().bytes), (3 * MIB as u64, 0));
    assert_eq!(set(pool, USED_HIGH, 1), code::INVALID_VALUE);
    assert_eq!(set(pool, USED_HIGH, 0), code::SUCCESS);
    assert_eq!(set(pool, RESERVED_HIGH, 0), code::SUCCESS);
    assert_eq!((get(pool, USED_HIGH), get(pool, RESERVED_HIGH)), (0, 0));
}

#[test]
fn the_threshold_says_what_stays_and_trimming_takes_it() {
    let world = World::new();
    let pool = default_pool(&world);
    let [stream, _] = two_streams();
    assert_eq!(set(pool, THRESHOLD, 4 * MIB as u64), code::SUCCESS);
    assert_eq!(get(pool, THRESHOLD), 4 * MIB as u64);
    let block = made!(cuMemAllocAsync(10 * MIB, stream));
    ok!(cuMemFreeAsync(block, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(get(pool, RESERVED), 4 * MIB as u64);
    assert_eq!(set(pool, THRESHOLD, u64::MAX), code::SUCCESS);
    let block = made!(cuMemAllocAsync(10 * MIB, stream));
    ok!(cuMemFreeAsync(block, stream));
    ok!(cuCtxSynchronize());
    assert_eq!(get(pool, RESERVED), 10 * MIB as u64);
    ok!(cuMemPoolTrimTo(pool, 2 * MIB));
    assert_eq!(get(pool, RESERVED), 2 * MIB as u64);
    let mut reuse = 0_i32;
    ok!(cuMemPoolGetAttribute(pool, 1, (&raw mut reuse).cast()));
    assert_eq!(reuse, 1);
    let (zero, bad) = (0_i32, call!(cuMemPoolGetAttribute(pool, 9, (&raw mut reuse).cast())));
    assert_eq!(bad, code::INVALID_VALUE);
    ok!(cuMemPoolSetAttribute(pool, 1, (&raw const zero).cast()));
    ok!(cuMemPoolGetAttribute(pool, 1, (&raw mut reuse).cast()));
    assert_eq!(reuse, 0);
}

#[test]
fn a_stream_uses_again_at_once_what_it_freed() {
    let world = World::new();
    let all = DEVICES[0].free_bytes;
    let [first, second] = two_streams();
    let block = made!(cuMemAllocAsync(all, first));
    ok!(cuMemFreeAsync(block, first));
    let mut other = 0;
    let code = call!(cuMemAllocAsync(&raw mut other, MIB, second));
    assert_eq!(code, code::OUT_OF_MEMORY, "the first stream has not come to its free");
    let again = made!(cuMemAllocAsync(all, first));
    ok!(cuMemFreeAsync(again, first));
    ok!(cuStreamSynchronize(first));
    ok!(cuMemAllocAsync(&raw mut other, all, second));
    ok!(cuMemFree_v2(other));
    assert_eq!(get(default_pool(&world), USED), 0);
    world.device().assert_clean();
}

#[test]
fn a_pool_of_ones_own_ends_with_its_last_block() {
    let world = World::new();
    let [stream, _] = two_streams();
    let properties = properties(world.number);
    let pool = handle!(cuMemPoolCreate(&raw const properties));
    assert_eq!(world.simulation.balance().pools, 1);
    let block = made!(cuMemAllocFromPoolAsync(MIB, pool, stream));
    assert_eq!((get(pool, USED), get(default_pool(&world), USED)), (MIB as u64, 0));
    ok!(cuMemPoolDestroy(pool));
    assert_eq!(call!(cuMemPoolDestroy(pool)), code::INVALID_VALUE);
    assert_eq!(call!(cuMemPoolDestroy(default_pool(&world))), code::INVALID_VALUE);
    assert_eq!(world.device().balance().bytes, 2 * MIB as u64);
    ok!(cuMemFreeAsync(block, stream));
    world.run_all();
    assert_eq!(world.device().balance().bytes, 0);
    let mut none = null_mut();
    let code = call!(cuMemPoolCreate(&raw mut none, core::ptr::null()));
    assert_eq!(code, code::INVALID_VALUE);
}

#[test]
fn plain_memory_can_be_freed_in_order_and_a_pools_at_once() {
    let world = World::new();
    let [stream, _] = two_streams();
    let plain = made!(cuMemAlloc_v2(MIB));
    ok!(cuMemsetD8Async(plain, 1, MIB, stream));
    ok!(cuMemFreeAsync(plain, stream));
    assert_eq!(world.device().balance().bytes, MIB as u64);
    world.run_all();
    assert_eq!(world.device().balance().bytes, 0);
    let block = made!(cuMemAllocAsync(MIB, stream));
    assert_eq!(read(block, 1), [0xA5], "the legacy stream does not wait, but the copy does");
    world.assert_violations(&["race"]);
    ok!(cuMemFree_v2(block));
    assert!(world.simulation.balance().allocations == 0);
    world.device().assert_clean();
}

#[test]
fn a_device_without_pools_says_so() {
    let bare = SimulatedDevice { pools: false, ..DEVICES[0] };
    let world = World::with(SimulatedDevices::new().devices(vec![bare]));
    let (mut can, mut pool, mut address) = (7, null_mut(), 0);
    ok!(cuDeviceGetAttribute(&raw mut can, 115, world.number));
    assert_eq!(can, 0);
    let properties = properties(world.number);
    let codes = call!([
        cuDeviceGetDefaultMemPool(&raw mut pool, world.number),
        cuMemPoolCreate(&raw mut pool, &raw const properties),
        cuMemAllocAsync(&raw mut address, KIB, null_mut()),
    ]);
    assert_eq!(codes, [code::NOT_SUPPORTED; 3]);
}

#[test]
fn a_pool_is_opened_to_peers() {
    let world = World::new();
    let other = world.simulation.device_number(1).unwrap();
    let peer = handle!(cuDevicePrimaryCtxRetain(other));
    let [stream, _] = two_streams();
    let block = made!(cuMemAllocAsync(KIB, stream));
    ok!(cuStreamSynchronize(stream));
    let pool = default_pool(&world);
    let describe = |location, flags| AccessDescription { location_kind: 1, location, flags };
    let access = describe(other, 3);
    ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
    let own = describe(world.number, 0);
    assert_eq!(call!(cuMemPoolSetAccess(pool, &raw const own, 1)), code::INVALID_DEVICE);
    ok!(cuCtxPushCurrent_v2(peer));
    let module = handle!(cuModuleLoadData(crate::world::KERNELS.as_ptr().cast()));
    let kernel = handle!(cuModuleGetFunction(module, c"pool_mark".as_ptr()));
    let (bytes, mark, spins) = (KIB as u64, 1_u8, 0_u64);
    let arguments = [
        (&raw const block).cast(),
        (&raw const bytes).cast(),
        (&raw const mark).cast(),
        (&raw const spins).cast(),
    ];
    assert_eq!(crate::world::launch(kernel, null_mut(), &arguments), code::SUCCESS);
    ok!(cuCtxSynchronize());
    world.device().assert_clean();
    let access = describe(other, 0);
    ok!(cuMemPoolSetAccess(pool, &raw const access, 1));
    assert_eq!(crate::world::launch(kernel, null_mut(), &arguments), code::SUCCESS);
    world.assert_violations(&["no access"]);
    assert_eq!(call!(cuCtxSynchronize()), code::ILLEGAL_ADDRESS);
}
