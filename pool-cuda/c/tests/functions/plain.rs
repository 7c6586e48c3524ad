//! Memory that is asked for and freed without a stream; what went wrong last.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::{null_mut, without_provenance_mut};

use pool_cuda_c::{
    poolFree, poolLastError, poolLastErrorMessage, poolMalloc, poolRecordStream, poolSetLimit,
};

use pool_mock_driver::*;

use crate::bed::*;

/// As `try_malloc`, without a stream.
fn try_plain(size: usize) -> Result<*mut c_void, c_int> {
    let untouched = without_provenance_mut(0xdead);
    let mut pointer: *mut c_void = untouched;
    // SAFETY: the pointer is to a local.
    match unsafe { poolMalloc(&raw mut pointer, size) } {
        SUCCESS => Ok(pointer),
        code => {
            assert_eq!(pointer, untouched);
            Err(code)
        }
    }
}

fn plain(size: usize) -> *mut c_void {
    let pointer = try_plain(size).unwrap();
    assert_eq!(pointer.addr() % 256, 0);
    pointer
}

fn try_give_back(pointer: *mut c_void) -> c_int {
    // SAFETY: no work is queued that uses it from here on.
    unsafe { poolFree(pointer) }
}

fn give_back(pointer: *mut c_void) {
    assert_eq!(try_give_back(pointer), SUCCESS);
}

fn message() -> String {
    // SAFETY: it is a string of the library's, and no call is made meanwhile.
    unsafe { CStr::from_ptr(poolLastErrorMessage()) }.to_str().unwrap().to_owned()
}

fn record(pointer: *mut c_void, stream: Handle) -> c_int {
    // SAFETY: the stream is there.
    unsafe { poolRecordStream(pointer, stream) }
}

#[test]
fn it_serves_again_once_all_work_of_the_device_is_done() {
    let bed = Bed::single();
    let streams = [bed.stream(), bed.stream()];
    assert_eq!(poolSetLimit(0, 2 * MIB), SUCCESS);
    let block = plain(2 * MIB);
    // Nobody was told of this work, and a free that names no stream is behind it.
    for (part, stream) in streams.into_iter().enumerate() {
        write(block.wrapping_byte_add(part * MIB), MIB, stream);
    }
    give_back(block);
    assert_eq!(stats(0).liveBytes, 0);
    // The whole limit: it is waited for.
    let next = plain(2 * MIB);
    write(next, 2 * MIB, streams[0]);
    give_back(next);
    bed.go();
    bed.assert_clean();
}

#[test]
fn clean_memory_serves_with_no_call_of_the_driver() {
    let bed = Bed::single();
    let first = plain(4096);
    give_back(first);
    bed.go();
    bed.trim_all();
    // What a stream has freed is no clean memory; what came fresh from the device is.
    let blocks: Vec<_> = (0..64).map(|_| plain(4096)).collect();
    let before = stats(0);
    let mut last = null_mut();
    let calls = bed.calls(|| last = plain(4096));
    assert_eq!(calls, 0);
    assert_eq!(stats(0).hits, before.hits + 1);
    blocks.into_iter().chain([last]).for_each(give_back);
    bed.go();
}

#[test]
fn either_function_frees_what_the_other_gave_out() {
    let bed = Bed::new();
    let stream = bed.stream();
    for _ in 0..3 {
        let (ordered, unordered) = (malloc(MIB, stream), plain(MIB));
        assert_ne!(ordered, unordered);
        write(ordered, MIB, stream);
        write(unordered, MIB, stream);
        give_back(ordered);
        free(unordered, stream);
        for pointer in [ordered, unordered] {
            assert_eq!(try_free(pointer, stream), INVALID_VALUE);
            assert_eq!(try_give_back(pointer), INVALID_VALUE);
        }
    }
    bed.go();
    let stats = stats(0);
    assert_eq!((stats.allocations, stats.frees, stats.liveBytes), (6, 6, 0));
}

#[test]
fn p101_a_free_without_a_stream_is_behind_all_work_and_one_with_a_stream_behind_its_own() {
    let bed = Bed::single();
    let (home, other) = (bed.stream(), bed.stream());
    let device = bed.simulation.device(0);
    assert_eq!(poolSetLimit(0, 2 * MIB), SUCCESS);
    // Given out on a stream, freed through no stream, while its work has not run.
    let block = malloc(2 * MIB, home);
    write(block, 2 * MIB, home);
    device.hold(bed.simulation.stream(home)).unwrap();
    give_back(block);
    let next = malloc(2 * MIB, other);
    assert_eq!(next, block);
    write(next, 2 * MIB, other);
    device.go(bed.simulation.stream(home)).unwrap();
    free(next, other);
    bed.go();
    bed.assert_clean();
    // The other way round: who names no stream gets nothing that work may still use.
    let block = plain(MIB);
    write(block, MIB, home);
    device.hold(bed.simulation.stream(home)).unwrap();
    free(block, home);
    let next = plain(MIB);
    assert_ne!(next, block);
    write(next, MIB, other);
    device.go(bed.simulation.stream(home)).unwrap();
    give_back(next);
    bed.go();
    bed.assert_clean();
}

#[test]
fn a_thread_without_a_context_gets_the_primary_one_and_keeps_it() {
    let bed = Bed::new();
    let current = || {
        let mut context = null_mut();
        ok!(cuCtxGetCurrent(&raw mut context));
        context
    };
    let primary = current().addr();
    for null_first in [false, true] {
        on_a_thread(|| {
            assert!(current().is_null());
            if null_first {
                give_back(null_mut());
                assert_eq!(current().addr(), primary);
            }
            let block = plain(100);
            assert_eq!(current().addr(), primary);
            give_back(block);
            assert_eq!(current().addr(), primary);
        });
    }
    bed.go();
}

#[test]
fn memory_is_of_the_device_that_is_current() {
    let mut bed = Bed::new();
    let here = plain(MIB);
    bed.enter(1);
    let there = plain(MIB);
    assert_eq!((stats(0).liveBytes, stats(1).liveBytes), (MIB, MIB));
    give_back(here);
    bed.enter(0);
    give_back(there);
    assert_eq!((stats(0).liveBytes, stats(1).liveBytes), (0, 0));
    bed.simulation.device(1).run_all();
    bed.go();
}

#[test]
fn what_is_not_the_pools_is_passed_on_to_the_driver() {
    let bed = Bed::new();
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, MIB));
    let foreign = without_provenance_mut::<c_void>(usize::try_from(address).unwrap());
    assert_eq!(try_free(foreign, null_mut()), INVALID_VALUE);
    give_back(foreign);
    assert_eq!(bed.simulation.balance().allocations, 0);
    // Once more it is nobody's, and the driver says so.
    assert_eq!(try_give_back(foreign), INVALID_VALUE);
    assert_eq!(poolLastError(), INVALID_VALUE);
}

/// A pointer in the pool's own memory is never the driver's to free, though where pages cannot be mapped
/// an allocation of the driver's may begin there.
#[test]
fn a_second_free_is_not_passed_on() {
    let mut bed = Bed::new();
    for device in 0..2 {
        bed.enter(device);
        let block = plain(MIB);
        give_back(block);
        let calls = bed.simulation.count("cuMemFree_v2");
        for pointer in [block, block.wrapping_byte_add(256)] {
            assert_eq!(try_give_back(pointer), INVALID_VALUE);
        }
        assert_eq!(bed.simulation.count("cuMemFree_v2"), calls);
        bed.simulation.device(usize::try_from(device).unwrap()).run_all();
    }
}

#[test]
fn zero_bytes_and_null_are_as_with_the_runtime() {
    let bed = Bed::new();
    assert_eq!(try_plain(0), Ok(null_mut()));
    give_back(null_mut());
    // SAFETY: null is what it looks at.
    assert_eq!(unsafe { poolMalloc(null_mut(), 1) }, INVALID_VALUE);
    let stats = stats(0);
    assert_eq!((stats.allocations, stats.frees), (0, 0));
    drop(bed);
}

#[test]
fn a_block_that_another_stream_uses_waits_for_it() {
    let bed = Bed::single();
    let (home, other) = (bed.stream(), bed.stream());
    let device = bed.simulation.device(0);
    let block = malloc(MIB, home);
    write(block, MIB, home);
    let mut event = null_mut();
    ok!(cuEventCreate(&raw mut event, 2));
    ok!(cuEventRecord(event, home));
    ok!(cuStreamWaitEvent(other, event, 0));
    ok!(cuEventDestroy_v2(event));
    write(block, MIB, other);
    assert_eq!(record(block, other), SUCCESS);
    free(block, home);
    // Else this would be the same memory, and its write beside the other's.
    device.hold(bed.simulation.stream(other)).unwrap();
    let next = malloc(MIB, home);
    write(next, MIB, home);
    device.go(bed.simulation.stream(other)).unwrap();
    free(next, home);
    bed.go();
    bed.assert_clean();
    assert_eq!(record(next, other), INVALID_VALUE);
    assert_eq!(record(null_mut(), other), INVALID_VALUE);
}

#[test]
fn what_went_wrong_is_said_to_the_thread_that_did_it() {
    let bed = Bed::single();
    let stream = bed.stream().expose_provenance();
    on_a_thread(|| {
        let stream = core::ptr::with_exposed_provenance_mut(stream);
        assert_eq!((poolLastError(), message().as_str()), (SUCCESS, ""));
        assert_eq!(poolSetLimit(0, MIB), SUCCESS);
        assert_eq!(try_malloc(3 * MIB, stream), Err(MEMORY));
        assert_eq!(poolLastError(), MEMORY);
        let words = message();
        assert!(words.contains("3145728 bytes") && words.contains("limit"), "{words}");
        // It stays until another call fails.
        assert_eq!(try_malloc(0, stream), Ok(null_mut()));
        assert_eq!(message(), words);
        assert_eq!(try_free(without_provenance_mut(4096), stream), INVALID_VALUE);
        assert_eq!(poolLastError(), INVALID_VALUE);
        assert!(message().contains("no live block"), "{}", message());
    });
    assert_eq!((poolLastError(), message().as_str()), (SUCCESS, ""));
}
