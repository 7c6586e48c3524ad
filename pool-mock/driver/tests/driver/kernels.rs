//! Modules and kernels.

use core::ffi::c_char;
use core::ptr::{null, null_mut};

use pool_mock::device::Access;
use pool_mock_driver::*;

use crate::world::{
    KERNELS, KIB, LEGACY, World, call, handle, launch, made, ok, order, read, two_streams,
};

#[test]
fn modules_are_read_and_kernels_found() {
    let world = World::new();
    let mut module = null_mut();
    for (text, expected) in [
        (c"".as_ptr(), code::INVALID_PTX),
        (c".entry a() {}".as_ptr(), code::INVALID_PTX),
        (c"\x7fELF".as_ptr(), code::INVALID_IMAGE),
        (c"\xff".as_ptr(), code::INVALID_IMAGE),
        (null::<c_char>(), code::INVALID_VALUE),
    ] {
        assert_eq!(call!(cuModuleLoadData(&raw mut module, text.cast())), expected);
    }
    let image = KERNELS.as_ptr().cast();
    ok!(cuModuleLoadDataEx(&raw mut module, image, 0, null_mut(), null_mut()));
    let mut function = null_mut();
    for (name, expected) in [(c"pool_mark", code::SUCCESS), (c"pool_ma", code::NOT_FOUND)] {
        let code = call!(cuModuleGetFunction(&raw mut function, module, name.as_ptr()));
        assert_eq!(code, expected);
    }
    assert_eq!(world.simulation.balance().modules, 1);
    ok!(cuModuleUnload(module));
    assert_eq!(call!(cuModuleUnload(module)), code::INVALID_HANDLE);
    assert_eq!(launch(function, LEGACY, &[]), code::INVALID_HANDLE);
    assert_eq!(world.simulation.balance().modules, 0);
}

#[test]
fn marks_are_written_and_verified_in_order() {
    let mut world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    let found = made!(cuMemAlloc_v2(8));
    let [stream, other] = two_streams();
    ok!(cuMemsetD8Async(found, 0, 8, stream));
    assert_eq!(world.mark(stream, memory, 1000, 7), code::SUCCESS);
    ok!(cuMemsetD8Async(memory + 10, 8, 5, stream));
    order(stream, other);
    for stream in [stream, other] {
        assert_eq!(world.verify(stream, memory, 1000, 7, found), code::SUCCESS);
    }
    world.device().assert_clean();
    order(other, stream);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read(found, 8), 10_u64.to_le_bytes());
    assert_eq!(read(memory + 999, 2), [7, 0xA5]);
    assert_eq!(world.mark(other, memory, 1000, 7), code::SUCCESS);
    assert_eq!(world.verify(stream, memory, 1000, 7, found), code::SUCCESS);
    world.assert_violations(&["race"]);
    ok!(cuCtxSynchronize());
}

#[test]
fn a_kernel_of_the_tests_own_says_what_it_uses() {
    let world = World::new();
    world.simulation.define_kernel("stranger", |launch| {
        let (grid, block) = (launch.grid[0], launch.block[0]);
        assert_eq!((grid, block, launch.shared_bytes), (3, 4, 5));
        KernelWork::new(|_| ())
    });
    let module = handle!(cuModuleLoadData(KERNELS.as_ptr().cast()));
    let kernel = handle!(cuModuleGetFunction(module, c"stranger".as_ptr()));
    let none = null_mut();
    ok!(cuLaunchKernel(kernel, 3, 1, 1, 4, 1, 1, 5, LEGACY, none, null_mut()));
    let memory: u64 = made!(cuMemAlloc_v2(KIB));
    world.simulation.define_kernel("stranger", move |_| {
        KernelWork::new(move |kernel| {
            let mut bytes = [0; 2];
            kernel.read(memory + 4, &mut bytes);
            kernel.write(memory + 9, &bytes);
            kernel.write(memory + 10, &[1, 2]);
        })
        .using(memory + 4, 3, Access::Read)
        .using(memory + 8, 3, Access::Write)
    });
    ok!(cuMemsetD8_v2(memory, 6, KIB));
    assert_eq!(launch(kernel, LEGACY, &[]), code::SUCCESS);
    assert_eq!(read(memory + 9, 2), [6, 6]);
    world.assert_violations(&["which it did not say"]);
}

#[test]
fn a_launch_is_checked() {
    let mut world = World::new();
    let spin = world.kernel(c"pool_spin");
    let none = null_mut();
    for (grid, block) in [(0, 1), (1, 0), (1, 1025)] {
        let code = call!(cuLaunchKernel(spin, grid, 1, 1, block, 1, 1, 0, LEGACY, none, none));
        assert_eq!(code, code::INVALID_VALUE);
    }
    assert_eq!(launch(spin, LEGACY, &[null()]), code::INVALID_VALUE);
    let code = call!(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, LEGACY, none, none));
    assert_eq!(code, code::INVALID_VALUE, "it has an argument");
    world.device().assert_clean();
    let stranger = world.kernel(c"stranger");
    assert_eq!(launch(stranger, LEGACY, &[]), code::NOT_SUPPORTED);
    world.assert_violations(&["nobody has defined"]);
    let made = handle!(cuCtxCreate_v2(0, world.number));
    let spins = 1_u64;
    let code = launch(spin, LEGACY, &[(&raw const spins).cast()]);
    assert_eq!(code, code::INVALID_HANDLE, "it is of another context");
    ok!(cuCtxDestroy_v2(made));
}

#[test]
fn a_wild_address_makes_the_context_useless() {
    let mut world = World::new();
    let memory = made!(cuMemAlloc_v2(KIB));
    assert_eq!(world.mark(LEGACY, memory, KIB + 1, 1), code::SUCCESS);
    world.assert_violations(&["nothing is behind"]);
    let mut address = 0;
    assert_eq!(call!(cuMemAlloc_v2(&raw mut address, KIB)), code::ILLEGAL_ADDRESS);
    assert_eq!(call!(cuMemFree_v2(memory)), code::ILLEGAL_ADDRESS);
}
