//! Pages for other processes: who has them, by what, and until when.

use core::ffi::c_void;
use core::ptr::{null_mut, without_provenance_mut};
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use pool_mock_driver::*;

use crate::virtual_memory::{map, open, properties, reserve, unmap};
use crate::world::{PAGE, World, call, made, ok, read};

const SIZE: u64 = PAGE as u64;

fn create(world: &World, pages: usize) -> u64 {
    let properties = AllocationProperties { handle_types: 1, ..properties(world.number) };
    made!(cuMemCreate(pages * PAGE, &raw const properties, 0))
}

fn export(handle: u64) -> OwnedFd {
    let mut descriptor = -1;
    ok!(cuMemExportToShareableHandle((&raw mut descriptor).cast(), handle, 1, 0));
    // SAFETY: it is open, and nobody else has it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// A descriptor as the driver takes it.
fn raw(descriptor: &impl AsRawFd) -> *mut c_void {
    without_provenance_mut(usize::try_from(descriptor.as_raw_fd()).unwrap())
}

fn import(descriptor: &OwnedFd) -> u64 {
    made!(cuMemImportFromShareableHandle(raw(descriptor), 1))
}

/// Pages at an address of their own, open to the first device.
fn mapped(world: &World, handle: u64) -> u64 {
    let address = reserve(1);
    assert_eq!(map(address, 1, handle), code::SUCCESS);
    assert_eq!(open(address, 1, world.number, 3), code::SUCCESS);
    address
}

#[test]
fn an_import_is_a_handle_of_its_own_to_the_same_bytes() {
    let world = World::new();
    let handle = create(&world, 1);
    let descriptor = export(handle);
    let imports = [import(&descriptor), import(&descriptor), import(&export(handle))];
    drop(descriptor);
    assert_eq!(world.simulation.balance().pages, 4);
    assert_eq!(world.device().balance().bytes, SIZE);
    let addresses = [mapped(&world, handle), mapped(&world, imports[0])];
    assert_eq!(read(addresses[1], 2), [0xA5; 2]);
    ok!(cuMemsetD8_v2(addresses[0], 7, PAGE));
    assert_eq!(read(addresses[1] + SIZE - 2, 2), [7; 2]);
    let code = call!(cuMemMap(reserve(2), 2 * PAGE, 0, imports[1], 0));
    assert_eq!(code, code::NOT_SUPPORTED, "of whatever size the importer takes them to be");
    for import in imports {
        ok!(cuMemRelease(import));
        assert_eq!(call!(cuMemRelease(import)), code::INVALID_VALUE);
    }
    ok!(cuCtxSynchronize());
    assert_eq!(unmap(addresses[1], 1), code::SUCCESS);
    assert_eq!(read(addresses[0], 1), [7]);
    world.device().assert_clean();
}

#[test]
fn pages_last_as_long_as_anybody_has_them() {
    let world = World::new();
    let bytes = || {
        let counted = world.simulation.balance().bytes;
        assert_eq!(counted, world.device().balance().bytes);
        counted
    };
    let handle = create(&world, 1);
    let (first, second) = (export(handle), export(handle));
    let copy = first.try_clone().unwrap();
    ok!(cuMemRelease(handle));
    let held: [Box<dyn FnOnce()>; 3] =
        [Box::new(|| drop(first)), Box::new(|| drop(copy)), Box::new(|| drop(second))];
    for close in held {
        assert_eq!(bytes(), SIZE);
        close();
    }
    assert_eq!(bytes(), 0, "with the last copy of a descriptor");
    // What nobody has any more is free for the next.
    let all = DEVICES[0].free_bytes / PAGE;
    let large = properties(world.number);
    let most: u64 = made!(cuMemCreate((all - 1) * PAGE, &raw const large, 0));
    let handle = create(&world, 1);
    let descriptor = export(handle);
    let imported = import(&descriptor);
    ok!(cuMemRelease(handle));
    drop(descriptor);
    let mut more = 0;
    let code = call!(cuMemCreate(&raw mut more, PAGE, &raw const large, 0));
    assert_eq!(code, code::OUT_OF_MEMORY);
    let address = mapped(&world, imported);
    ok!(cuMemRelease(imported));
    assert_eq!(bytes(), all as u64 * SIZE);
    assert_eq!(unmap(address, 1), code::SUCCESS);
    ok!(cuMemCreate(&raw mut more, PAGE, &raw const large, 0));
    ok!(cuMemRelease(most));
    ok!(cuMemRelease(more));
    assert_eq!(bytes(), 0);
}

#[test]
fn another_driver_has_the_same_bytes_and_takes_no_memory() {
    let world = World::new();
    let address = mapped(&world, create(&world, 1));
    ok!(cuMemsetD8_v2(address, 9, PAGE));
    let descriptor = export(create(&world, 1));
    // A file of the system's, whatever the driver does that made it.
    drop(world);
    let world = World::new();
    let handle = import(&descriptor);
    drop(descriptor);
    assert_eq!(world.simulation.balance().bytes, 0);
    let again = mapped(&world, handle);
    assert_eq!(read(again, 2), [0xA5; 2]);
    ok!(cuMemsetD8_v2(again, 3, PAGE));
    assert_eq!(read(again + SIZE - 2, 2), [3; 2]);
    ok!(cuCtxSynchronize());
    ok!(cuMemRelease(handle));
    assert_eq!(unmap(again, 1), code::SUCCESS);
    world.device().assert_clean();
}

#[test]
fn only_what_was_made_for_it_is_shared_and_only_by_descriptors() {
    let world = World::new();
    let plain = properties(world.number);
    let plain: u64 = made!(cuMemCreate(PAGE, &raw const plain, 0));
    let shared = create(&world, 1);
    let mut descriptor = -1;
    let out = (&raw mut descriptor).cast();
    let codes = call!([
        cuMemExportToShareableHandle(out, plain, 1, 0),
        cuMemExportToShareableHandle(out, shared, 0, 0),
        cuMemExportToShareableHandle(out, shared, 2, 0),
        cuMemExportToShareableHandle(out, shared, 1, 1),
        cuMemExportToShareableHandle(out, 7, 1, 0),
        cuMemExportToShareableHandle(null_mut(), shared, 1, 0),
    ]);
    assert_eq!((codes, descriptor), ([code::INVALID_VALUE; 6], -1));
    let (file, mut handle) = (File::open("/dev/null").unwrap(), 0);
    let known = export(shared);
    let codes = call!([
        cuMemImportFromShareableHandle(&raw mut handle, raw(&file), 1),
        cuMemImportFromShareableHandle(&raw mut handle, without_provenance_mut(9999), 1),
        cuMemImportFromShareableHandle(&raw mut handle, without_provenance_mut(usize::MAX), 1),
        cuMemImportFromShareableHandle(&raw mut handle, raw(&known), 2),
        cuMemImportFromShareableHandle(&raw mut handle, raw(&known), 0),
        cuMemImportFromShareableHandle(null_mut(), raw(&known), 1),
    ]);
    let unknown = [code::UNKNOWN; 3].into_iter().chain([code::NOT_SUPPORTED]);
    assert!(codes.into_iter().eq(unknown.chain([code::INVALID_VALUE; 2])), "{codes:?}");
    for (kinds, expected) in [(2, code::INVALID_VALUE), (8, code::NOT_PERMITTED), (3, 1)] {
        let other = AllocationProperties { handle_types: kinds, ..properties(world.number) };
        let code = call!(cuMemCreate(&raw mut handle, PAGE, &raw const other, 0));
        assert_eq!(code, expected, "{kinds}");
    }
    assert_eq!(handle, 0);
}

#[test]
fn a_device_may_have_pages_for_itself_alone() {
    let alone = SimulatedDevice { shareable: false, ..DEVICES[0] };
    let world = World::with(SimulatedDevices::new().devices(vec![alone]));
    let (mut value, mut handle) = (7, 0);
    ok!(cuDeviceGetAttribute(&raw mut value, 103, world.number));
    assert_eq!(value, 0);
    let shared = AllocationProperties { handle_types: 1, ..properties(world.number) };
    let code = call!(cuMemCreate(&raw mut handle, PAGE, &raw const shared, 0));
    assert_eq!((code, world.device().balance().bytes), (code::NOT_SUPPORTED, 0));
}
