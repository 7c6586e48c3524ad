//! Devices of the simulated driver: what they say, and that every failed call is told and undone.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use pool_cuda::{CudaError, Device, Driver};
use pool_mock_driver::{DEVICES, Simulation};

/// A code that no version of CUDA has.
const FOREIGN_CODE: i32 = 54_321;

/// The simulated driver, started in this simulation.
fn driver() -> Result<Driver, CudaError> {
    // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    unsafe { Driver::from_symbols(pool_mock_driver::symbol) }
}

/// One table for all tests; starting it again is what `driver()` is for.
fn shared() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    driver().unwrap();
    DRIVER.get_or_init(|| driver().unwrap())
}

/// Every call that the crate makes, once.
fn everything() -> Result<(), CudaError> {
    let driver: &'static Driver = Box::leak(Box::new(driver()?));
    driver.version()?;
    let device = Device::open_on(driver, 0)?;
    device.memory()?;
    Ok(())
}

#[test]
fn a_device_says_what_it_is() {
    let simulation = Simulation::start();
    for (ordinal, expected) in (0..).zip(DEVICES) {
        let device = Device::open_on(shared(), ordinal).unwrap();
        assert_eq!(device.name(), expected.name.to_str().unwrap());
        assert_eq!(device.total_bytes(), expected.total_bytes as u64);
        assert_eq!(device.page_bytes(), expected.page_bytes.map(|bytes| bytes as u64));
        let memory = device.memory().unwrap();
        assert_eq!(memory.total_bytes, expected.total_bytes as u64);
        assert_eq!(memory.free_bytes, expected.free_bytes as u64);
    }
    assert_eq!([simulation.retained(0), simulation.retained(1)], [Some(0); 2]);
}

#[test]
fn a_device_that_is_not_there_is_told_with_the_count() {
    let simulation = Simulation::start();
    for ordinal in [2, 3, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
        let error = Device::open_on(shared(), ordinal).unwrap_err();
        assert_eq!(error, CudaError::NoSuchDevice { ordinal, devices: 2 });
    }
    assert_eq!([simulation.retained(0), simulation.retained(1)], [Some(0); 2]);
}

#[test]
fn each_failed_call_is_named_and_undone() {
    let simulation = Simulation::start();
    everything().unwrap();
    let calls = simulation.calls();
    drop(simulation);
    assert!(calls.len() >= 13, "{calls:?}");

    for (index, &call) in calls.iter().enumerate() {
        let simulation = Simulation::start();
        simulation.fail_call(index, FOREIGN_CODE);
        let result = everything();
        // A release happens in a drop, which has nobody to tell; what it could not give back
        // stays, and so does a context that could not be popped.
        let unreleased = call == "cuDevicePrimaryCtxRelease_v2";
        let unpopped = call == "cuCtxPopCurrent_v2";
        let expected =
            if unreleased { Ok(()) } else { Err(CudaError::Call { call, code: FOREIGN_CODE }) };
        assert_eq!(result, expected, "call {index}");
        assert_eq!(simulation.retained(0), Some(u32::from(unreleased)), "call {index}: {call}");
        assert_eq!(simulation.contexts().len(), usize::from(unpopped), "call {index}: {call}");
    }
}

#[test]
fn each_missing_function_is_named() {
    let simulation = Simulation::start();
    everything().unwrap();
    for missing in simulation.calls().into_iter().collect::<BTreeSet<_>>() {
        // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
        let result = unsafe {
            Driver::from_symbols(|name| {
                if name.to_bytes() == missing.as_bytes() {
                    core::ptr::null()
                } else {
                    pool_mock_driver::symbol(name)
                }
            })
        };
        assert_eq!(result.unwrap_err(), CudaError::MissingFunction { call: missing });
    }
}

#[test]
fn an_open_device_holds_one_reference_until_its_drop() {
    let simulation = Simulation::start();
    let first = Device::open_on(shared(), 0).unwrap();
    let second = Device::open_on(shared(), 0).unwrap();
    assert_eq!(simulation.retained(0), Some(2));
    drop(first);
    assert_eq!(simulation.retained(0), Some(1));
    second.memory().unwrap();
    std::thread::spawn(move || drop(second)).join().unwrap();
    assert_eq!(simulation.retained(0), Some(0));
}

#[test]
fn the_callers_context_comes_back() {
    let simulation = Simulation::start();
    let [first, second] = [0, 1].map(|ordinal| Device::open_on(shared(), ordinal).unwrap());
    assert!(simulation.contexts().is_empty(), "opening leaves no context current");
    {
        let _outer = first.enter().unwrap();
        assert_eq!(simulation.contexts(), [0]);
        let inner = second.enter().unwrap();
        assert_eq!(simulation.contexts(), [0, 1]);
        first.memory().unwrap();
        assert_eq!(simulation.contexts(), [0, 1]);
        inner.leave().unwrap();
        assert_eq!(simulation.contexts(), [0]);
    }
    assert!(simulation.contexts().is_empty());
}

#[test]
fn a_range_has_whole_pages_and_cudas_granule() {
    let _simulation = Simulation::start();
    let [paged, plain] = [0, 1].map(|ordinal| Device::open_on(shared(), ordinal).unwrap());
    let range = |bytes| pool_cuda::pool_core::RangeConfig::new(bytes).granule_bytes(256);
    for (asked, pages, granules) in [
        (0, 0, 0),
        ((2 << 20) - 1, 0, (2 << 20) - 256),
        ((6 << 20) + 300, 6 << 20, (6 << 20) + 256),
        (u64::MAX, u64::MAX - ((2 << 20) - 1), u64::MAX - 255),
    ] {
        assert_eq!(paged.range_config(asked), range(pages));
        assert_eq!(plain.range_config(asked), range(granules));
    }
}

#[cfg(feature = "cust")]
#[test]
fn a_device_of_cust_opens_as_the_same_one() {
    let simulation = Simulation::start();
    let driver = shared();
    cust::init(cust::CudaFlags::empty()).unwrap();
    for ordinal in 0..2 {
        let chosen = cust::device::Device::get_device(ordinal).unwrap();
        let device = Device::from_cust(driver, chosen).unwrap();
        assert_eq!(device.name(), Device::open_on(driver, ordinal).unwrap().name());
        assert_eq!(simulation.retained(ordinal as usize), Some(1));
    }
}
