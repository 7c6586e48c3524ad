//! The simulated driver refuses what the real one refuses.

use core::ptr::{null, null_mut};

use pool_mock_driver::*;

/// Starts a simulation with the driver started, and the first device's number.
fn started() -> (Simulation, i32) {
    let simulation = Simulation::start();
    // SAFETY: no pointers.
    assert_eq!(unsafe { cuInit(0) }, code::SUCCESS);
    let device = simulation.device_number(0).unwrap();
    (simulation, device)
}

#[test]
fn nothing_works_before_the_start() {
    let simulation = Simulation::start();
    let device = simulation.device_number(0).unwrap();
    let mut number = 0;
    let mut context = null_mut();
    // SAFETY: all pointers are to locals.
    let codes = unsafe {
        [
            cuDeviceGetCount(&raw mut number),
            cuDeviceGet(&raw mut number, 0),
            cuDevicePrimaryCtxRetain(&raw mut context, device),
            cuCtxPushCurrent_v2(context),
            cuCtxPopCurrent_v2(&raw mut context),
        ]
    };
    assert_eq!(codes, [code::NOT_INITIALIZED; 5]);
    assert_eq!(simulation.retained(0), Some(0));
}

#[test]
fn null_pointers_are_invalid_values_and_retain_nothing() {
    let (simulation, device) = started();
    // SAFETY: null is allowed everywhere.
    let codes = unsafe {
        [
            cuDriverGetVersion(null_mut()),
            cuDeviceGetCount(null_mut()),
            cuDeviceGet(null_mut(), 0),
            cuDeviceGetName(null_mut(), 8, device),
            cuDeviceTotalMem_v2(null_mut(), device),
            cuDeviceGetAttribute(null_mut(), 102, device),
            cuDevicePrimaryCtxRetain(null_mut(), device),
            cuMemGetAllocationGranularity(null_mut(), null(), 0),
        ]
    };
    assert_eq!(codes, [code::INVALID_VALUE; 8]);
    assert_eq!(simulation.retained(0), Some(0));
}

#[test]
fn an_ordinal_is_no_device_number() {
    let (_simulation, device) = started();
    let mut number = 0;
    let mut bytes = 0;
    // SAFETY: all pointers are to locals.
    let codes = unsafe {
        [
            cuDeviceGet(&raw mut number, -1),
            cuDeviceGet(&raw mut number, 2),
            cuDeviceTotalMem_v2(&raw mut bytes, 0),
            cuDeviceTotalMem_v2(&raw mut bytes, device - 1),
            cuDeviceTotalMem_v2(&raw mut bytes, device + 2),
            cuDeviceTotalMem_v2(&raw mut bytes, i32::MIN),
        ]
    };
    assert_eq!(codes, [code::INVALID_DEVICE; 6]);
}

#[test]
fn contexts_are_counted_and_current_on_one_thread() {
    let (simulation, device) = started();
    let mut context = null_mut();
    // SAFETY: all pointers are to locals.
    unsafe {
        assert_eq!(cuDevicePrimaryCtxRelease_v2(device), code::INVALID_CONTEXT);
        assert_eq!(cuCtxPopCurrent_v2(null_mut()), code::INVALID_CONTEXT);
        assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, device), code::SUCCESS);
        assert_eq!(cuCtxPushCurrent_v2(context), code::SUCCESS);
        assert_eq!(cuCtxPushCurrent_v2(null_mut()), code::INVALID_CONTEXT);
    }
    assert_eq!((simulation.retained(0), simulation.contexts()), (Some(1), vec![0]));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut free, mut total) = (0, 0);
            // SAFETY: all pointers are to locals.
            let code = unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) };
            assert_eq!(code, code::INVALID_CONTEXT);
        });
    });
    // SAFETY: no pointers but the context's.
    unsafe {
        assert_eq!(cuDevicePrimaryCtxRelease_v2(device), code::SUCCESS);
        assert_eq!(cuCtxPushCurrent_v2(context), code::CONTEXT_IS_DESTROYED);
    }
}

#[test]
fn a_name_is_cut_to_its_buffer() {
    let (_simulation, device) = started();
    let mut name = [b'x'.cast_signed(); 6];
    // SAFETY: the buffer has the length that is told.
    unsafe {
        assert_eq!(cuDeviceGetName(name.as_mut_ptr(), 4, device), code::SUCCESS);
        assert_eq!(cuDeviceGetName(name.as_mut_ptr(), 0, device), code::INVALID_VALUE);
    }
    assert_eq!(name.map(i8::cast_unsigned), *b"Sim\0xx");
}
