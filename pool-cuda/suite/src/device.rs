//! Devices: what they say, how they are opened, and what is missing where.

use core::error::Error;
use core::ffi::{CStr, c_void};
use core::ptr;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::thread;

use pool_core::PoolConfig;
use pool_core::policy::Pages;
use pool_cuda::{ArenaSource, CudaDevice, CudaError, CudaPool, Driver, PinnedPool};

use crate::kernels::Kernels;
use crate::raw::{OwnContext, current_context};
use crate::run::Test;
use crate::sources::SOURCES;
use crate::sweep::each_call_fails;
use crate::world::{MIB, World, assert_marked, contents, verify};

pub(crate) const TESTS: &[Test] = crate::tests![
    a_device_says_what_it_is,
    a_device_that_is_not_there_is_told_with_the_count,
    each_missing_function_is_named,
    all_is_right_without_the_newer_functions,
    a_device_of_cust_opens_as_the_same_one,
    a_context_made_by_hand_serves_as_well,
    a_device_serves_threads_without_a_context;
    two:
    peers_use_each_others_memory;
    simulated:
    an_open_device_holds_one_reference_until_its_drop,
    each_failed_call_is_named_and_undone,
];

fn a_device_says_what_it_is(world: &World) {
    assert!(world.driver().version().unwrap() >= 11_030);
    for ordinal in 0..world.driver().device_count().unwrap() {
        let device = world.device(ordinal);
        assert_eq!(device.ordinal(), ordinal);
        assert!(!device.name().is_empty());
        let memory = device.memory().unwrap();
        assert!(0 < memory.free_bytes && memory.free_bytes <= memory.total_bytes);
        assert!(memory.total_bytes <= device.total_bytes());
        let page_bytes = device.page_bytes().unwrap_or(1);
        assert!(page_bytes.is_power_of_two(), "{page_bytes}");
        assert_eq!(device.limit_from_free(u64::MAX).unwrap(), 0);
        assert!(device.limit_from_free(0).unwrap() <= memory.total_bytes);
        assert!(device.limit_from_free(1 << 20).unwrap() < memory.total_bytes);
    }
}

fn a_device_that_is_not_there_is_told_with_the_count(world: &World) {
    let devices = world.driver().device_count().unwrap();
    for ordinal in [devices, devices + 1, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
        let error = CudaDevice::open_on(world.driver(), ordinal).unwrap_err();
        assert_eq!(error, CudaError::NoSuchDevice { ordinal, devices });
    }
    for number in [-1, i32::MAX] {
        let error = CudaDevice::from_raw(world.driver(), number).unwrap_err();
        assert!(matches!(error, CudaError::NoSuchDevice { .. }), "{error}");
    }
}

fn each_missing_function_is_named(world: &World) {
    let asked = Mutex::new(BTreeSet::new());
    let without = |missing: Option<&CStr>| {
        let lookup = |name: &CStr| {
            asked.lock().unwrap().insert(name.to_owned());
            if Some(name) == missing { ptr::null() } else { world.symbol(name) }
        };
        // SAFETY: they are the driver's, or absent.
        unsafe { Driver::from_symbols(lookup) }
    };
    without(None).unwrap();
    let names = asked.lock().unwrap().clone();
    assert!(names.len() > 40, "{names:?}");
    let mut optional = Vec::new();
    for name in &names {
        match without(Some(name)) {
            Ok(_) => optional.push(name.to_str().unwrap()),
            Err(CudaError::MissingFunction { call }) => assert_eq!(call, name.to_str().unwrap()),
            Err(error) => panic!("{name:?}: {error}"),
        }
    }
    // All but the first and the last are for pages.
    assert_eq!(
        optional,
        [
            "cuCtxRecordEvent",
            "cuMemAddressFree",
            "cuMemAddressReserve",
            "cuMemCreate",
            "cuMemExportToShareableHandle",
            "cuMemGetAllocationGranularity",
            "cuMemImportFromShareableHandle",
            "cuMemMap",
            "cuMemRelease",
            "cuMemSetAccess",
            "cuMemUnmap",
            "cuStreamGetId",
        ]
    );
}

/// Frees that name no stream, streams that the pool does not know, and default streams of threads:
/// what the newer functions are for.
fn all_is_right_without_the_newer_functions(world: &World) {
    let none = ptr::null();
    let older: [&[(&CStr, *const c_void)]; 3] = [
        &[(c"cuCtxRecordEvent", none)],
        &[(c"cuStreamGetId", none)],
        &[(c"cuCtxRecordEvent", none), (c"cuStreamGetId", none)],
    ];
    for missing in older {
        let device = CudaDevice::open_on(world.driver_with(missing), 0).unwrap();
        let device = device.with_source(ArenaSource::DriverPool).unwrap();
        let config = || PoolConfig::new().initial_bytes(3 << 20).limit_bytes(3 << 20);
        let (pool, others) =
            (CudaPool::new(device.clone(), config()), CudaPool::new(device.clone(), config()));
        let (pool, others) = (pool.unwrap(), others.unwrap());
        let kernels = Kernels::load(&device);
        let (home, foreign) = (pool.create_stream().unwrap(), others.create_stream().unwrap());
        let per_thread = pool.per_thread_stream();
        for mark in 1..20 {
            let mut one = pool.alloc::<u8>(MIB, &home).unwrap();
            world.slow(&kernels, &foreign);
            kernels.mark(one.on_mut(&foreign).unwrap(), mark, 0);
            let mut other = pool.alloc::<u8>(MIB, &per_thread).unwrap();
            world.slow(&kernels, &per_thread);
            kernels.mark(other.on_mut(&per_thread).unwrap(), mark + 100, 0);
            if mark % 2 == 0 {
                assert_marked(&contents(&one, &home), mark);
                assert_marked(&contents(&other, &home), mark + 100);
            }
            if mark % 3 == 0 {
                // Freed when its stream is gone: behind all work of the device.
                let gone = pool.create_stream().unwrap();
                let mut third = pool.alloc::<u8>(MIB, &gone).unwrap();
                world.slow(&kernels, &gone);
                kernels.mark(third.on_mut(&gone).unwrap(), 50, 0);
                drop(gone);
                drop(third);
            }
            thread::scope(|scope| {
                scope.spawn(|| {
                    // This thread's default stream is another, whatever it is called.
                    drop(other);
                    let mut next = [(); 2].map(|()| pool.alloc::<u8>(MIB, &home).unwrap());
                    for next in &mut next {
                        kernels.mark(next.on_mut(&home).unwrap(), 200, 0);
                    }
                });
            });
        }
        verify(&pool);
        assert_eq!(pool.stats().live_blocks, 0);
    }
}

fn a_device_of_cust_opens_as_the_same_one(world: &World) {
    cust::init(cust::CudaFlags::empty()).unwrap();
    for (ordinal, chosen) in (0..).zip(cust::device::Device::devices().unwrap()) {
        let chosen = chosen.unwrap();
        let device = CudaDevice::from_cust(world.driver(), chosen).unwrap();
        assert_eq!(device.ordinal(), ordinal);
        assert_eq!(device.name(), chosen.name().unwrap());
        assert_eq!(device.name(), world.device(ordinal).name());
    }
}

fn a_context_made_by_hand_serves_as_well(world: &World) {
    let own = OwnContext::create(0);
    {
        // SAFETY: the context outlives the device, which is dropped here.
        let device = unsafe { CudaDevice::in_context(world.driver(), own.context) }.unwrap();
        assert_eq!(device.ordinal(), 0);
        assert_eq!(current_context(), ptr::null_mut());
        let pool = CudaPool::new(device.clone(), PoolConfig::new()).unwrap();
        let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
        let kernels = Kernels::load(&device);
        let mut buffer = pool.alloc::<u8>(MIB, &one).unwrap();
        world.slow(&kernels, &one);
        kernels.mark(buffer.on_mut(&one).unwrap(), 5, 0);
        assert_marked(&contents(&buffer, &other), 5);
        // The streams of the primary context are other streams, and of another context.
        let primary = world.pool();
        let stream = primary.create_stream().unwrap();
        assert_marked(&contents(&buffer, &stream), 5);
        let legacy = (pool.legacy_stream().unwrap(), primary.legacy_stream().unwrap());
        buffer.on_mut(&legacy.0).unwrap().fill_bytes(6).unwrap();
        assert_marked(&contents(&buffer, &legacy.1), 6);
        buffer.on_mut(&legacy.1).unwrap().fill_bytes(7).unwrap();
        assert_marked(&contents(&buffer, &legacy.0), 7);
        assert_eq!(current_context(), ptr::null_mut());
        // SAFETY: a context that is none.
        let error = unsafe { CudaDevice::in_context(world.driver(), ptr::null_mut()) };
        assert!(matches!(error, Err(CudaError::Call { .. })));
    }
    drop(own);
}

fn a_device_serves_threads_without_a_context(world: &World) {
    let pool = world.pool();
    let total = pool.device().memory().unwrap().total_bytes;
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let stream = pool.create_stream().unwrap();
            let buffer = pool.alloc_from(&[1_u8, 2, 3], &stream).unwrap();
            assert_eq!(contents(&buffer, &stream), [1, 2, 3]);
            assert_eq!(current_context(), ptr::null_mut());
            (buffer, stream, pool.device().memory().unwrap().total_bytes)
        });
        let (buffer, stream, there) = other.join().unwrap();
        assert_eq!(contents(&buffer, &stream), [1, 2, 3]);
        assert_eq!(total, there);
    });
}

fn peers_use_each_others_memory(world: &World) {
    let (first, second) = (world.device(0), world.device(1));
    for source in SOURCES {
        let first = first.with_source(source).unwrap();
        if !second.can_access(&first).unwrap() {
            continue;
        }
        let pool = CudaPool::new(first.clone(), PoolConfig::new()).unwrap();
        let there = CudaPool::new(second.clone(), PoolConfig::new()).unwrap();
        let (home, guest) = (pool.create_stream().unwrap(), there.create_stream().unwrap());
        let before = pool.alloc_from(&[1_u8; 1000], &home).unwrap();
        first.open_to(&second).unwrap();
        first.open_to(&second).unwrap();
        let kernels = [Kernels::load(&first), Kernels::load(&second)];
        // What was there before, and what comes after, in arenas of now and of later.
        let mut after = pool.alloc::<u8>(100 * MIB, &home).unwrap();
        let start = ..100_000;
        let mut count = there.alloc_zeroed::<u64>(1, &guest).unwrap();
        kernels[1].verify(before.on(&guest).unwrap(), 1, count.on_mut(&guest).unwrap());
        world.slow(&kernels[1], &guest);
        kernels[1].mark(after.on_mut(&guest).unwrap().slice(start).unwrap(), 9, 0);
        let there = after.on(&home).unwrap().slice(start).unwrap();
        assert_marked(&there.to_vec().unwrap(), 9);
        world.slow(&kernels[0], &home);
        kernels[0].mark(after.on_mut(&home).unwrap().slice(start).unwrap(), 10, 0);
        let part = after.on(&guest).unwrap().slice(start).unwrap();
        kernels[1].verify(part, 10, count.on_mut(&guest).unwrap());
        assert_eq!(count.on(&guest).unwrap().to_vec().unwrap(), [0]);
        world.slow(&kernels[1], &guest);
        kernels[1].mark(after.on_mut(&guest).unwrap().slice(start).unwrap(), 11, 0);
        drop(after);
        let mut again = pool.alloc::<u8>(100 * MIB, &home).unwrap();
        let part = again.on_mut(&home).unwrap().slice(start).unwrap();
        part.fill_bytes(12).unwrap();
        world.go();
        guest.synchronize().unwrap();
        assert_marked(&part.to_vec().unwrap(), 12);
    }
}

fn an_open_device_holds_one_reference_until_its_drop(world: &World) {
    let simulation = world.simulation();
    let first = world.device(0);
    let second = world.device(0);
    assert_eq!(simulation.references(0), 2);
    drop(first);
    assert_eq!(simulation.references(0), 1);
    let clone = second.clone();
    let pinned = second.with_source(ArenaSource::PinnedHost).unwrap();
    drop(second);
    clone.memory().unwrap();
    drop(clone);
    assert_eq!(simulation.references(0), 1);
    thread::spawn(move || drop(pinned)).join().unwrap();
    assert_eq!(simulation.references(0), 0);
}

/// Settings of a pool with small tables.
fn small() -> PoolConfig {
    PoolConfig::new().address_bytes(1 << 20)
}

/// Most of what the crate can do, with what it gives.
fn everything(world: &World) -> Result<(), Box<dyn Error>> {
    let lookup = |name: &CStr| world.symbol(name);
    // SAFETY: they are the driver's.
    let driver: &'static Driver = Box::leak(Box::new(unsafe { Driver::from_symbols(lookup) }?));
    driver.version()?;
    let device = CudaDevice::open_on(driver, 0)?;
    device.memory()?;
    let second = CudaDevice::open_on(driver, 1)?;
    if second.can_access(&device)? {
        device.open_to(&second)?;
    }
    let others = [ArenaSource::DriverPool, ArenaSource::Plain];
    let [pooled, plain] = others.map(|source| device.with_source(source));
    let (pooled, plain) = (pooled?, plain?);
    plain.open_to(&second)?;
    let in_pages =
        || PoolConfig::new().pages(Pages::new()).address_bytes(8 << 20).limit_bytes(4 << 20);
    let whole = || small().arena_bytes(4 << 13).limit_bytes(8 << 13);
    for (device, config) in [(&device, in_pages()), (&pooled, whole()), (&plain, whole())] {
        let pool = CudaPool::new(device.clone(), config)?;
        let outcome = use_pool(&pool);
        // Whatever failed, its books are right.
        verify(&pool);
        outcome?;
        if let Some(error) = pool.take_failure() {
            return Err(format!("in a drop: {error}").into());
        }
    }
    Ok(())
}

fn use_pool(pool: &CudaPool) -> Result<(), pool_cuda::Error> {
    let (one, other) = (pool.create_stream()?, pool.create_stream()?);
    let (legacy, own) = (pool.legacy_stream()?, pool.per_thread_stream());
    let mut first = pool.alloc_from(&vec![1_u8; 3 << 13], &one)?;
    first.on_mut(&other)?.fill_bytes(2)?;
    first.on(&legacy)?.to_vec()?;
    let mut second = pool.alloc::<u8>(3 << 13, &own)?;
    second.on_mut(&own)?.copy_from_device(first.on(&own)?)?;
    drop(first);
    let third = pool.alloc_zeroed::<u8>(3 << 13, &other)?;
    third.free_on(&one)?;
    let mut movable = pool.alloc_movable::<u8>(100, &one)?;
    movable.on_mut(&other)?.get().fill_bytes(1)?;
    let staging = PinnedPool::new(pool.device(), small().arena_bytes(1 << 13))?;
    let mut host = staging.alloc::<u8>(3 << 13)?;
    second.on(&own)?.async_copy_to(&mut host)?;
    second.on_mut(&other)?.async_copy_from(&host)?;
    host.as_slice()?;
    drop((second, host));
    pool.trim(0)?;
    one.synchronize()
}

fn each_failed_call_is_named_and_undone(world: &World) {
    // What the driver does not end when it is asked stays.
    let ends = [
        "cuDevicePrimaryCtxRelease_v2",
        "cuCtxPopCurrent_v2",
        "cuStreamDestroy_v2",
        "cuEventDestroy_v2",
        "cuMemPoolDestroy",
        "cuMemFree_v2",
        "cuMemFreeAsync",
        "cuMemFreeHost",
        "cuMemUnmap",
        "cuMemRelease",
        "cuMemAddressFree",
    ];
    let failed = each_call_fails(world, everything, &ends);
    assert!(failed.len() > 35, "{failed:?}");
}
