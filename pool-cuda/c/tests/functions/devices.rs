//! Several devices, and contexts.

use core::ptr::null_mut;

use pool_cuda_c::{poolResetPeaks, poolSetLimit, poolTrim};
use pool_mock_driver::*;

use crate::bed::*;

/// Which context is current.
fn current() -> Handle {
    let mut context = null_mut();
    ok!(cuCtxGetCurrent(&raw mut context));
    context
}

#[test]
fn a_stream_is_served_by_its_device_whichever_is_current() {
    let mut bed = Bed::new();
    let on_first = bed.stream();
    let second = bed.enter(1);
    let on_second = bed.stream();
    let first = bed.enter(0);
    let blocks = [malloc(MIB, on_first), malloc(2 * MIB, on_second), malloc(4 * MIB, null_mut())];
    assert_eq!(current(), first);
    bed.enter(1);
    let of_default = malloc(8 * MIB, null_mut());
    assert_eq!(current(), second);
    assert_eq!((stats(0).liveBytes, stats(1).liveBytes), (5 * MIB, 10 * MIB));
    // A pointer is enough to find the device.
    for (block, stream) in blocks.into_iter().zip([on_first, on_second, on_first]) {
        write(block, MIB, stream);
        free(block, stream);
    }
    free(of_default, null_mut());
    assert_eq!((stats(0).liveBytes, stats(1).liveBytes), (0, 0));
    assert_eq!((stats(0).frees, stats(1).frees), (2, 2));
    bed.go();
}

#[test]
fn a_block_is_freed_on_a_stream_of_another_device() {
    let mut bed = Bed::new();
    let near = bed.stream();
    bed.enter(1);
    let far = bed.stream();
    for stream in [far, null_mut(), per_thread()] {
        let block = malloc(MIB, near);
        write(block, MIB, near);
        // The second device is current.
        free(block, stream);
        assert_eq!(try_free(block, stream), INVALID_VALUE);
        pass(MIB, near);
    }
    assert_eq!((stats(0).frees, stats(1).frees), (6, 0));
    bed.go();
}

#[test]
fn a_thread_without_a_context_is_on_the_first_device_and_stays_without() {
    let bed = Bed::new();
    let stream = bed.stream().addr();
    on_a_thread(|| {
        for stream in [null_mut(), core::ptr::without_provenance_mut(stream), per_thread()] {
            let block = malloc(MIB, stream);
            free(block, stream);
            assert_eq!(current(), null_mut());
        }
    });
    assert_eq!((stats(0).frees, stats(1).frees), (3, 0));
}

#[test]
fn a_context_that_is_not_the_primary_one_is_refused() {
    let bed = Bed::new();
    let device = bed.simulation.device_number(0).unwrap();
    let mut own = null_mut();
    ok!(cuCtxCreate_v2(&raw mut own, 0, device));
    let stream = bed.stream();
    assert_eq!(try_malloc(MIB, null_mut()), Err(201));
    assert_eq!(try_malloc(MIB, per_thread()), Err(201));
    assert_eq!(try_malloc(MIB, stream), Err(INVALID_HANDLE));
    assert_eq!(current(), own);
    assert_eq!(stats(0).allocations, 0);
    ok!(cuStreamDestroy_v2(stream));
    ok!(cuCtxDestroy_v2(own));
}

#[test]
fn a_device_that_is_not_there_is_refused_and_one_that_was_not_used_has_nothing() {
    let bed = Bed::new();
    for device in [-1, 2, i32::MAX, i32::MIN] {
        let mut figures = pool_cuda_c::poolStats::default();
        // SAFETY: the pointer is to a local.
        let asked = unsafe { pool_cuda_c::poolGetStats(device, &raw mut figures) };
        let told = [poolSetLimit(device, 1), poolTrim(device, 0), poolResetPeaks(device), asked];
        assert_eq!(told, [INVALID_DEVICE; 4], "{device}");
    }
    // SAFETY: null is what it looks at.
    assert_eq!(unsafe { pool_cuda_c::poolGetStats(0, null_mut()) }, INVALID_VALUE);
    let calls = bed.calls(|| {
        assert_eq!((poolTrim(1, 0), poolResetPeaks(1)), (SUCCESS, SUCCESS));
        assert_eq!(stats(1), pool_cuda_c::poolStats::default());
    });
    assert_eq!(calls, 0, "no context is made to say so");
    assert_eq!(bed.simulation.retained(1), Some(0));
}
