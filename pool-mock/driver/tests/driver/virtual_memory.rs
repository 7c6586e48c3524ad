//! Virtual memory: what is whole, what is open, what is in use.

use core::ptr::null_mut;

use pool_mock_driver::*;

use crate::world::{LEGACY, PAGE, World, call, handle, made, ok, read, two_streams};

const SIZE: u64 = PAGE as u64;

pub(crate) fn properties(location: i32) -> AllocationProperties {
    AllocationProperties { kind: 1, handle_types: 0, location_kind: 1, location }
}

pub(crate) fn reserve(pages: usize) -> u64 {
    made!(cuMemAddressReserve(pages * PAGE, 0, 0, 0))
}

fn create(world: &World, pages: usize) -> u64 {
    let properties = properties(world.number);
    made!(cuMemCreate(pages * PAGE, &raw const properties, 0))
}

pub(crate) fn map(address: u64, pages: usize, handle: u64) -> i32 {
    call!(cuMemMap(address, pages * PAGE, 0, handle, 0))
}

pub(crate) fn open(address: u64, pages: usize, location: i32, flags: i32) -> i32 {
    let access = AccessDescription { location_kind: 1, location, flags };
    call!(cuMemSetAccess(address, pages * PAGE, &raw const access, 1))
}

pub(crate) fn unmap(address: u64, pages: usize) -> i32 {
    call!(cuMemUnmap(address, pages * PAGE))
}

/// Memory of some pages, mapped and open.
fn mapped(world: &World, pages: usize) -> (u64, u64) {
    let (address, handle) = (reserve(pages), create(world, pages));
    assert_eq!(map(address, pages, handle), code::SUCCESS);
    assert_eq!(open(address, pages, world.number, 3), code::SUCCESS);
    (address, handle)
}

#[test]
fn pages_take_memory_until_neither_a_handle_nor_a_mapping_has_them() {
    let world = World::new();
    let bytes = || world.device().balance().bytes;
    let (address, handle) = mapped(&world, 3);
    assert_eq!(bytes(), 3 * SIZE);
    let balance = world.simulation.balance();
    assert_eq!((balance.reservations, balance.pages, balance.mappings), (1, 1, 1));
    ok!(cuMemRelease(handle));
    assert_eq!(call!(cuMemRelease(handle)), code::INVALID_VALUE);
    assert_eq!(map(reserve(3), 3, handle), code::INVALID_VALUE, "its handle is gone");
    assert_eq!(bytes(), 3 * SIZE);
    assert_eq!(call!(cuMemAddressFree(address, 3 * PAGE)), code::INVALID_VALUE);
    assert_eq!(unmap(address, 3), code::SUCCESS);
    assert_eq!(bytes(), 0);
    assert_eq!(call!(cuMemAddressFree(address, PAGE)), code::INVALID_VALUE);
    ok!(cuMemAddressFree(address, 3 * PAGE));
    assert_eq!(map(address, 1, create(&world, 1)), code::INVALID_VALUE, "nobody reserved it");
    world.device().assert_clean();
}

#[test]
fn sizes_are_whole_pages() {
    let world = World::new();
    let mut bytes = 0;
    let own = properties(world.number);
    ok!(cuMemGetAllocationGranularity(&raw mut bytes, &raw const own, 0));
    assert_eq!(bytes, PAGE);
    let mut made = 0;
    let codes = call!([
        cuMemCreate(&raw mut made, PAGE + 1, &raw const own, 0),
        cuMemCreate(&raw mut made, 0, &raw const own, 0),
        cuMemAddressReserve(&raw mut made, PAGE / 2, 0, 0, 0),
        cuMemAddressReserve(&raw mut made, PAGE, 3, 0, 0),
        cuMemCreate(null_mut(), PAGE, &raw const own, 0),
    ]);
    assert_eq!(codes, [code::INVALID_VALUE; 5]);
    let huge = DEVICES[0].free_bytes + PAGE;
    let code = call!(cuMemCreate(&raw mut made, huge, &raw const own, 0));
    assert_eq!(code, code::OUT_OF_MEMORY);
    let aligned: u64 = made!(cuMemAddressReserve(PAGE, 1 << 30, 0, 0));
    assert!(aligned.is_multiple_of(1 << 30));
    let plain = properties(world.simulation.device_number(1).unwrap());
    let code = call!(cuMemCreate(&raw mut made, PAGE, &raw const plain, 0));
    assert_eq!(code, code::NOT_SUPPORTED);
}

#[test]
fn a_handle_is_mapped_whole() {
    let world = World::new();
    let (address, handle) = (reserve(4), create(&world, 2));
    assert_eq!(map(address, 1, handle), code::NOT_SUPPORTED);
    let code = call!(cuMemMap(address, PAGE, PAGE, handle, 0));
    assert_eq!(code, code::NOT_SUPPORTED);
    assert_eq!(map(address, 3, handle), code::NOT_SUPPORTED);
    assert_eq!(map(address + 1, 2, handle), code::INVALID_VALUE);
    assert_eq!(map(address + 3 * SIZE, 2, handle), code::INVALID_VALUE, "beyond the reserved");
    assert_eq!(map(address, 2, handle), code::SUCCESS);
    assert_eq!(map(address + SIZE, 2, handle), code::INVALID_VALUE, "a part is mapped");
}

#[test]
fn a_mapping_is_opened_and_unmapped_whole() {
    let world = World::new();
    let address = reserve(4);
    for place in [0, 2] {
        assert_eq!(map(address + place * SIZE, 2, create(&world, 2)), code::SUCCESS);
    }
    assert_eq!(open(address, 1, world.number, 3), code::INVALID_VALUE);
    assert_eq!(open(address, 3, world.number, 3), code::INVALID_VALUE);
    assert_eq!(open(address, 4, world.number, 2), code::INVALID_VALUE);
    assert_eq!(open(address, 4, 7, 3), code::INVALID_DEVICE);
    assert_eq!(open(address, 4, world.number, 3), code::SUCCESS, "one call for both");
    assert_eq!(unmap(address, 1), code::INVALID_VALUE);
    assert_eq!(unmap(address + SIZE, 1), code::INVALID_VALUE);
    ok!(cuMemsetD8_v2(address + SIZE, 1, 2 * PAGE));
    assert_eq!(read(address + 2 * SIZE - 1, 2), [1; 2], "a copy goes over both");
    ok!(cuCtxSynchronize());
    assert_eq!(unmap(address, 4), code::SUCCESS);
    assert_eq!(unmap(address, 4), code::INVALID_VALUE);
    world.device().assert_clean();
}

#[test]
fn one_handle_at_two_addresses_has_the_same_bytes() {
    let world = World::new();
    let (first, handle) = mapped(&world, 1);
    let second = reserve(1);
    assert_eq!(map(second, 1, handle), code::SUCCESS);
    assert_eq!(open(second, 1, world.number, 3), code::SUCCESS);
    ok!(cuMemsetD8_v2(first, 7, PAGE));
    assert_eq!(read(second, 4), [7; 4]);
    let [one, other] = two_streams();
    ok!(cuMemsetD8Async(first, 1, PAGE, one));
    ok!(cuMemsetD8Async(second, 2, PAGE, other));
    world.assert_violations(&["race"]);
    ok!(cuStreamSynchronize(one));
    assert_eq!(unmap(first, 1), code::SUCCESS);
    world.device().assert_clean();
    assert_eq!(unmap(second, 1), code::SUCCESS);
    world.assert_violations(&["cuMemUnmap took memory"]);
}

#[test]
fn unmapping_waits_for_nothing() {
    let world = World::new();
    let (address, _) = mapped(&world, 1);
    let [stream, _] = two_streams();
    ok!(cuMemsetD8Async(address, 1, PAGE, stream));
    world.run_all();
    assert_eq!(unmap(address, 1), code::SUCCESS);
    world.assert_violations(&["cuMemUnmap took memory"]);
    assert!(world.simulation.waited().is_empty());
    assert_eq!(call!(cuMemsetD8Async(address, 1, PAGE, stream)), code::INVALID_VALUE);
}

#[test]
fn pages_that_are_mapped_elsewhere_keep_their_bytes_and_new_ones_have_none() {
    let world = World::new();
    let (address, handle) = mapped(&world, 1);
    ok!(cuMemsetD8_v2(address, 3, PAGE));
    ok!(cuCtxSynchronize());
    assert_eq!(unmap(address, 1), code::SUCCESS);
    let other = reserve(1);
    for (place, handle, expected) in [(other, handle, 3), (address, create(&world, 1), 0xA5)] {
        assert_eq!(map(place, 1, handle), code::SUCCESS);
        assert_eq!(open(place, 1, world.number, 3), code::SUCCESS);
        assert_eq!(read(place, 2), [expected; 2]);
    }
}

#[test]
fn a_use_without_access_is_a_fault() {
    let world = World::new();
    let (address, handle) = (reserve(1), create(&world, 1));
    assert_eq!(map(address, 1, handle), code::SUCCESS);
    assert_eq!(open(address, 1, world.number, 1), code::SUCCESS);
    assert_eq!(read(address, 1), [0xA5]);
    assert_eq!(call!(cuMemsetD8_v2(address, 1, 1)), code::ILLEGAL_ADDRESS);
    world.assert_violations(&["no device has access"]);
    let mut byte = 0_u8;
    let code = call!(cuMemcpyDtoH_v2((&raw mut byte).cast(), address, 1));
    assert_eq!(code, code::ILLEGAL_ADDRESS, "nothing works any more");
}

#[test]
fn a_kernel_without_access_is_a_fault_that_is_told_later() {
    let mut world = World::new();
    let (address, handle) = (reserve(1), create(&world, 1));
    assert_eq!(map(address, 1, handle), code::SUCCESS);
    let other = world.simulation.device_number(1).unwrap();
    assert_eq!(open(address, 1, other, 3), code::SUCCESS);
    ok!(cuMemsetD8_v2(address, 1, 1));
    assert_eq!(world.mark(LEGACY, address, PAGE, 1), code::SUCCESS);
    world.assert_violations(&["no access"]);
    assert_eq!(call!(cuStreamSynchronize(LEGACY)), code::ILLEGAL_ADDRESS);
    assert!(!handle!(cuCtxGetCurrent()).is_null(), "contexts can still be asked for");
    ok!(cuDevicePrimaryCtxRelease_v2(world.number));
}
