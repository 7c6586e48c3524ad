//! Limits, what goes back, and the figures.

use core::ptr::{null_mut, without_provenance_mut};

use pool_cuda_c::{poolResetPeaks, poolSetLimit, poolTrim};
use pool_mock_driver::Handle;

use crate::bed::*;

#[test]
fn a_limit_holds_from_the_first_byte_on() {
    let bed = Bed::new();
    let stream = bed.stream();
    assert_eq!(poolSetLimit(0, 10 * MIB), SUCCESS);
    assert_eq!(stats(0).limitBytes, 10 * MIB);
    assert_eq!(try_malloc(11 * MIB, stream), Err(MEMORY));
    let block = malloc(9 * MIB, stream);
    assert_eq!(try_malloc(2 * MIB, stream), Err(MEMORY));
    let full = stats(0);
    assert!(full.peakReservedBytes <= 10 * MIB, "{full:?}");
    assert_eq!((full.allocations, full.liveBytes), (1, 9 * MIB));
    assert_eq!(poolSetLimit(0, 0), SUCCESS);
    assert_eq!(stats(0).limitBytes, 0);
    let more = malloc(20 * MIB, stream);
    free(block, stream);
    free(more, stream);
    bed.go();
    // What is idle above the new one goes back, once it is seen to be.
    for _ in 0..3 {
        assert_eq!(poolSetLimit(0, MIB), SUCCESS);
        bed.go();
    }
    assert_eq!(stats(0).reservedBytes, 0);
}

/// As a program does that looks for the least memory it can run in.
#[test]
fn each_limit_of_many_is_kept_by_the_drivers_own_count() {
    let bed = Bed::new();
    let streams = [bed.stream(), bed.stream(), null_mut()];
    let mut refused = 0;
    for limit in [96, 48, 72, 40, 44, 42].map(|mib| mib * MIB - 256) {
        bed.go();
        bed.trim_all();
        assert_eq!(poolSetLimit(0, limit), SUCCESS);
        assert_eq!(poolResetPeaks(0), SUCCESS);
        let mut random = fastrand::Rng::with_seed(5);
        let mut live: Vec<(*mut core::ffi::c_void, Handle)> = Vec::new();
        for _ in 0..300 {
            let stream = streams[random.usize(..3)];
            if live.len() > 10 || (random.u8(..3) == 0 && !live.is_empty()) {
                let (block, stream) = live.swap_remove(random.usize(..live.len()));
                free(block, stream);
                continue;
            }
            match try_malloc(random.usize(1..8 * MIB), stream) {
                Ok(block) => {
                    write(block, 256, stream);
                    live.push((block, stream));
                }
                Err(code) => {
                    assert_eq!(code, MEMORY);
                    refused += 1;
                }
            }
            let figures = stats(0);
            assert!(figures.peakReservedBytes <= limit, "{limit}: {figures:?}");
            assert_eq!(bed.simulation.balance().bytes, figures.reservedBytes as u64);
        }
        for (block, stream) in live {
            free(block, stream);
        }
    }
    assert!(refused > 0, "no limit was reached");
    bed.go();
}

#[test]
fn what_is_idle_goes_back_and_what_is_kept_stays() {
    let bed = Bed::new();
    let stream = bed.stream();
    let kept = malloc(MIB, stream);
    pass(100 * MIB, stream);
    let before = stats(0);
    // Its work has not run: nobody waits for that.
    assert_eq!(poolTrim(0, 0), SUCCESS);
    assert_eq!(stats(0).reservedBytes, before.reservedBytes);
    bed.go();
    assert_eq!(poolTrim(0, before.reservedBytes), SUCCESS);
    assert_eq!(stats(0).reservedBytes, before.reservedBytes, "so much was to be kept");
    bed.trim_all();
    let after = stats(0);
    assert!(after.reservedBytes < 100 * MIB && after.reservedBytes >= MIB, "{after:?}");
    assert_eq!((before.trims, after.trims), (0, 5));
    assert_eq!(after.peakReservedBytes, before.reservedBytes);
    free(kept, stream);
    bed.go();
    bed.trim_all();
    assert_eq!(stats(0).reservedBytes, 0);
    assert_eq!(bed.simulation.balance().bytes, 0);
}

#[test]
fn peaks_are_what_was_there_at_once_and_begin_anew() {
    let bed = Bed::new();
    let stream = bed.stream();
    // They are exact again once another thread has ended.
    let shared = stream.addr();
    on_a_thread(|| free(malloc(MIB, null_mut()), without_provenance_mut(shared)));
    let mut live: Vec<(*mut core::ffi::c_void, usize)> = Vec::new();
    let (mut sum, mut peak) = (0, MIB);
    let mut random = fastrand::Rng::with_seed(3);
    for round in 0..2000 {
        if random.bool() && !live.is_empty() {
            let (block, bytes) = live.swap_remove(random.usize(..live.len()));
            free(block, stream);
            sum -= bytes;
        } else {
            let before = stats(0).liveBytes;
            let block = malloc(random.usize(1..3 * MIB), stream);
            let bytes = stats(0).liveBytes - before;
            live.push((block, bytes));
            sum += bytes;
            peak = peak.max(sum);
        }
        let now = stats(0);
        assert_eq!((now.liveBytes, now.peakLiveBytes), (sum, peak));
        assert!(now.liveBytes + now.deferredBytes <= now.reservedBytes);
        assert!(now.reservedBytes <= now.peakReservedBytes);
        if round % 300 == 299 {
            assert_eq!(poolResetPeaks(0), SUCCESS);
            peak = sum;
            let reset = stats(0);
            assert_eq!((reset.peakLiveBytes, reset.peakReservedBytes), (sum, reset.reservedBytes));
        }
    }
    let end = stats(0);
    assert_eq!(end.allocations - end.frees, live.len() as u64);
    assert!(end.growths > 0 && end.hits > 0 && end.hits <= end.allocations, "{end:?}");
    for (block, _) in live {
        free(block, stream);
    }
    bed.go();
}

#[test]
fn what_waits_for_work_is_deferred() {
    let bed = Bed::new();
    let (one, other) = (bed.stream(), bed.stream());
    let block = malloc(MIB, one);
    write(block, MIB, one);
    free(block, other);
    let deferred = stats(0);
    assert_eq!((deferred.liveBytes, deferred.deferredBytes), (0, MIB));
    bed.go();
    bed.trim_all();
    assert_eq!(stats(0).deferredBytes, 0);
}
