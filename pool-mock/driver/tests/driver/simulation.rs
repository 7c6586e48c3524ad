//! What a test has of the driver: devices, faults, counts, the ends of processes.

use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, Ordering};

use pool_mock_driver::*;

use crate::world::{KIB, NON_BLOCKING, PAGE, UNTIMED, World, call, handle, made, ok, two_streams};

/// Makes one of everything.
fn make_all(world: &mut World) {
    let properties =
        AllocationProperties { kind: 1, handle_types: 0, location_kind: 1, location: world.number };
    let stream = handle!(cuStreamCreate(NON_BLOCKING));
    handle!(cuEventCreate(UNTIMED));
    let _: u64 = made!(cuMemAlloc_v2(KIB));
    let _: u64 = made!(cuMemAllocAsync(KIB, stream));
    handle!(cuMemPoolCreate(&raw const properties));
    let address: u64 = made!(cuMemAddressReserve(PAGE, 0, 0, 0));
    let pages: u64 = made!(cuMemCreate(PAGE, &raw const properties, 0));
    ok!(cuMemMap(address, PAGE, 0, pages, 0));
    let mut host = null_mut();
    ok!(cuMemHostAlloc(&raw mut host, KIB, 0));
    ok!(cuMemHostRegister_v2((&raw mut world.number).cast(), 4, 0));
    world.kernel(c"pool_spin");
    ok!(cuStreamBeginCapture_v2(stream, 0));
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    handle!(cuGraphInstantiateWithFlags(graph, 0));
    ok!(cuStreamBeginCapture_v2(stream, 0));
}

#[test]
fn a_new_simulation_knows_nothing_of_the_one_before() {
    let mut world = World::new();
    make_all(&mut world);
    let balance = world.simulation.balance();
    let numbers = [
        balance.contexts,
        balance.streams,
        balance.events,
        balance.allocations,
        balance.pools,
        balance.reservations,
        balance.pages,
        balance.mappings,
        balance.host_allocations,
        balance.registrations,
        balance.modules,
        balance.graphs,
        balance.captures,
    ];
    assert_eq!(numbers, [1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 2, 1]);
    assert_eq!(balance.bytes, (2 * KIB + PAGE) as u64);
    drop(world);
    let simulation = Simulation::start();
    assert!(simulation.balance().is_zero(), "{}", simulation.balance());
    assert!(simulation.contexts().is_empty() && simulation.calls().is_empty());
    let mut number = 0;
    assert_eq!(call!(cuDeviceGetCount(&raw mut number)), code::NOT_INITIALIZED);
}

#[test]
fn devices_are_chosen() {
    let none = Simulation::start_with(SimulatedDevices::new().devices(Vec::new()));
    assert_eq!(call!(cuInit(0)), code::NO_DEVICE);
    drop(none);
    let small = SimulatedDevice { total_bytes: 4096, free_bytes: 4096, ..DEVICES[1] };
    let chosen = SimulatedDevices::new()
        .devices(vec![DEVICES[1], DEVICES[0], small])
        .driver_version(11_040)
        .without("cuStreamGetId");
    let world = World::with(chosen);
    let (mut count, mut version) = (0, 0);
    ok!(cuDeviceGetCount(&raw mut count));
    ok!(cuDriverGetVersion(&raw mut version));
    assert_eq!((count, version), (3, 11_040));
    assert!(symbol(c"cuStreamGetId").is_null() && !symbol(c"cuStreamGetCtx").is_null());
    for (ordinal, pages, device) in [(0, 0, DEVICES[1]), (1, 1, DEVICES[0]), (2, 0, small)] {
        let number = world.simulation.device_number(ordinal).unwrap();
        let (mut value, mut bytes) = (7, 0);
        ok!(cuDeviceGetAttribute(&raw mut value, 102, number));
        ok!(cuDeviceTotalMem_v2(&raw mut bytes, number));
        assert_eq!((value, bytes), (pages, device.total_bytes));
        assert_eq!(call!(cuDeviceGetAttribute(&raw mut value, 9999, number)), code::INVALID_VALUE);
    }
    drop(world);
    assert!(symbol(c"cuStreamGetId").is_null());
    let _simulation = Simulation::start();
    assert!(!symbol(c"cuStreamGetId").is_null());
}

#[test]
fn calls_fail_as_they_are_told_and_do_nothing() {
    let world = World::new();
    world.simulation.fail_next("cuStreamCreate", 2, code::OUT_OF_MEMORY);
    let mut stream = null_mut();
    let codes = call!([
        cuStreamCreate(&raw mut stream, 0),
        cuStreamCreate(&raw mut stream, 0),
        cuStreamCreate(&raw mut stream, 0),
    ]);
    assert_eq!(codes, [code::OUT_OF_MEMORY, code::OUT_OF_MEMORY, code::SUCCESS]);
    assert_eq!(world.simulation.balance().streams, 1);
    let next = world.simulation.calls().len();
    world.simulation.fail_call(next + 1, 12_345);
    ok!(cuStreamSynchronize(stream));
    assert_eq!(call!(cuStreamDestroy_v2(stream)), 12_345);
    ok!(cuStreamDestroy_v2(stream));
    assert_eq!(world.simulation.count("cuStreamDestroy_v2"), 2);
}

#[test]
fn a_device_that_is_broken_says_so_at_every_call() {
    let world = World::new();
    let [stream, _] = two_streams();
    world.simulation.make_fatal(0);
    let mut address = 0;
    let codes = call!([
        cuStreamSynchronize(stream),
        cuStreamDestroy_v2(stream),
        cuMemAlloc_v2(&raw mut address, KIB),
        cuCtxSynchronize(),
    ]);
    assert_eq!(codes, [code::ILLEGAL_ADDRESS; 4]);
    let peer = handle!(cuDevicePrimaryCtxRetain(world.simulation.device_number(1).unwrap()));
    ok!(cuCtxPushCurrent_v2(peer));
    ok!(cuMemAlloc_v2(&raw mut address, KIB));
    ok!(cuMemFree_v2(address));
}

#[test]
fn codes_have_names_and_words() {
    let _world = World::new();
    let (mut name, mut words) = (core::ptr::null(), core::ptr::null());
    ok!(cuGetErrorName(700, &raw mut name));
    ok!(cuGetErrorString(700, &raw mut words));
    // SAFETY: both are texts that the driver keeps.
    let texts = unsafe { [CStr::from_ptr(name), CStr::from_ptr(words)] };
    assert_eq!(texts, [c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered"]);
    assert_eq!(call!(cuGetErrorName(54_321, &raw mut name)), code::INVALID_VALUE);
    assert_eq!(call!(cuGetErrorString(54_321, &raw mut words)), code::INVALID_VALUE);
}

#[test]
fn after_the_exit_every_call_is_a_violation() {
    let world = World::new();
    world.simulation.exit();
    assert_eq!(call!(cuCtxSynchronize()), code::DEINITIALIZED);
    assert_eq!(call!(cuGetErrorName(0, null_mut())), code::DEINITIALIZED);
    assert_eq!(world.simulation.late_calls(), ["cuCtxSynchronize", "cuGetErrorName"]);
    world.assert_violations(&["begun to end", "begun to end"]);
    assert!(!world.simulation.calls().contains(&"cuCtxSynchronize"));
}

#[test]
fn in_the_child_of_a_fork_every_call_is_a_violation() {
    let world = World::new();
    world.simulation.forked();
    assert_eq!(call!(cuCtxSynchronize()), code::NOT_INITIALIZED);
    world.assert_violations(&["child of a fork"]);
    drop(world);
    let simulation = Simulation::start();
    ok!(cuInit(0));
    assert!(simulation.late_calls().is_empty());
}

/// What the child of a fork finds, as its exit code.
fn in_child(world: &World) -> i32 {
    let mut version = 0;
    let codes = call!([cuCtxSynchronize(), cuDriverGetVersion(&raw mut version)]);
    let calls = world.simulation.late_calls();
    let refused = codes == [code::NOT_INITIALIZED; 2];
    i32::from(!refused || calls != ["cuCtxSynchronize", "cuDriverGetVersion"])
}

/// Forks, and gives how the child ended.
fn status_of_child(world: &World) -> i32 {
    // SAFETY: the child calls the driver, looks at memory, and ends at once.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it ends a child that waits for ever, and this one, without what a test's
        // process does at its end.
        unsafe {
            libc::alarm(5);
            libc::_exit(in_child(world));
        }
    }
    let mut status = -1;
    // SAFETY: the pointer is to a local, and the child is this process's.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    status
}

#[test]
fn a_real_child_is_known_and_waits_for_no_lock() {
    let world = World::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Holds the driver's lock most of the time.
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let mut version = 0;
                ok!(cuDriverGetVersion(&raw mut version));
            }
        });
        let statuses: Vec<i32> = (0..20).map(|_| status_of_child(&world)).collect();
        done.store(true, Ordering::SeqCst);
        assert_eq!(statuses, [0; 20]);
    });
    assert!(world.simulation.late_calls().is_empty());
}
