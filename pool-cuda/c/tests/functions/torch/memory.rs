//! Memory in the order of a stream, limits and figures.

use core::ptr::null_mut;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use pool_cuda_c::{
    pool_torch_base, pool_torch_empty_cache, pool_torch_free, pool_torch_list_streams,
    pool_torch_malloc, pool_torch_record_stream, pool_torch_set_fraction, pool_torch_stats,
    poolLastError, poolResetPeaks,
};
use pool_mock_driver::*;

use super::*;

const PART: &str = "POOL_CUDA_C_TORCH_PART";

#[test]
fn memory_comes_and_goes_by_pytorchs_types() {
    let bed = Bed::new();
    let stream = bed.stream();
    // SAFETY: the stream is there.
    unsafe {
        let block = pool_torch_malloc(5000, 0, stream);
        write(block, 5000, stream);
        assert_eq!(figures(0).liveBytes, 8192);
        pool_torch_free(block, 5000, 0, stream);
        // What is nobody's is said, and changes nothing.
        pool_torch_free(block, 5000, 0, stream);
        assert_eq!(poolLastError(), INVALID_VALUE);
        assert!(pool_torch_malloc(0, 0, stream).is_null());
        pool_torch_free(null_mut(), 0, 0, stream);
    }
    let figures = figures(0);
    assert_eq!((figures.liveBytes, figures.peakLiveBytes), (0, 8192));
    assert_eq!((figures.allocations, figures.frees), (1, 1));
    assert_eq!((figures.allocatedBytes, figures.freedBytes), (8192, 8192));
}

#[test]
fn what_is_wrong_is_refused_with_a_reason() {
    let bed = Bed::new();
    let stream = bed.stream();
    let block = take(MIB, stream);
    for device in [-1, 2, i32::MAX] {
        assert_eq!(ask(MIB, device, stream), Err(INVALID_DEVICE));
        assert_eq!(list(device, &[stream]), INVALID_DEVICE);
        assert_eq!(pool_torch_set_fraction(0.5, device), INVALID_DEVICE);
        assert_eq!(poolResetPeaks(device), INVALID_DEVICE);
    }
    for fraction in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        assert_eq!(pool_torch_set_fraction(fraction, 0), INVALID_VALUE);
    }
    let inside = block.wrapping_byte_add(256);
    assert_eq!(give(inside, stream), INVALID_VALUE);
    // SAFETY: null, or to a local.
    unsafe {
        assert_eq!(pool_torch_list_streams(0, core::ptr::null(), 1), INVALID_VALUE);
        assert_eq!(pool_torch_list_streams(0, core::ptr::null(), 0), SUCCESS);
        assert_eq!(pool_torch_stats(0, null_mut()), INVALID_VALUE);
        assert_eq!(pool_torch_record_stream(inside, stream), INVALID_VALUE);
        assert_eq!(pool_torch_record_stream(null_mut(), stream), SUCCESS);
        let mut size = 7;
        assert!(pool_torch_base(inside, &raw mut size).is_null());
        assert_eq!(size, 7);
        assert_eq!(pool_torch_base(block, &raw mut size), block);
        assert_eq!(size, MIB);
        assert_eq!(pool_torch_base(block, null_mut()), block);
    }
    assert_eq!(ask(usize::MAX, 0, stream), Err(MEMORY));
    // A device that does not exist frees nothing less.
    // SAFETY: the stream is there.
    assert_eq!(unsafe { pool_torch_release(block, 9, stream) }, SUCCESS);
    assert_eq!(give(block, stream), INVALID_VALUE);
    assert_eq!(figures(0).frees, 1);
}

#[test]
fn a_hit_on_a_listed_or_default_stream_makes_no_call() {
    let bed = Bed::new();
    let stream = bed.stream();
    assert_eq!(list(0, &[stream, null_mut()]), SUCCESS);
    for stream in [stream, null_mut()] {
        give(take(5000, stream), stream);
        let calls = bed.calls(|| {
            for _ in 0..10 {
                let block = take(5000, stream);
                assert_eq!(give(block, stream), SUCCESS);
            }
        });
        assert_eq!(calls, 0);
    }
    assert_eq!(figures(0).hits, 20);
}

#[test]
fn a_stream_that_nobody_listed_gets_a_fence_at_each_free_and_may_be_destroyed() {
    let bed = Bed::new();
    let (stream, listed) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[listed]), SUCCESS);
    let before = bed.simulation.count("cuEventRecord");
    for _ in 0..3 {
        let block = take(MIB, stream);
        write(block, MIB, stream);
        assert_eq!(give(block, stream), SUCCESS);
    }
    assert_eq!(bed.simulation.count("cuEventRecord") - before, 3);
    // Nobody says so, and nothing is recorded in it any more.
    ok!(cuStreamDestroy_v2(stream));
    for stream in [listed, null_mut(), per_thread()] {
        for _ in 0..3 {
            let block = take(40 * MIB, stream);
            write(block, 40 * MIB, stream);
            assert_eq!(give(block, stream), SUCCESS);
        }
    }
    assert_eq!(pool_torch_empty_cache(), SUCCESS);
    bed.go();
    bed.assert_clean();
}

/// The device is the one that is named, whichever is current.
#[test]
fn each_device_has_its_own_memory() {
    let mut bed = Bed::new();
    bed.enter(1);
    let far = bed.stream();
    bed.enter(0);
    assert_eq!(list(1, &[far]), SUCCESS);
    for stream in [null_mut(), far] {
        let block = ask(MIB, 1, stream).unwrap();
        assert_eq!((figures(0).liveBytes, figures(1).liveBytes), (0, MIB as u64));
        // SAFETY: the stream is there.
        assert_eq!(unsafe { pool_torch_release(block, 1, stream) }, SUCCESS);
    }
    // A block of one device that is freed as if it were another's.
    let block = take(MIB, null_mut());
    // SAFETY: as above.
    assert_eq!(unsafe { pool_torch_release(block, 1, far) }, SUCCESS);
    assert_eq!(figures(0).frees, 1);
}

#[test]
fn a_block_waits_for_every_stream_that_was_noted() {
    let mut bed = Bed::new();
    let context = bed.enter(1);
    let far = bed.stream();
    bed.enter(0);
    let (own, listed) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[own, listed]), SUCCESS);
    assert_eq!(list(1, &[far]), SUCCESS);
    for user in [listed, null_mut(), per_thread(), bed.stream(), far] {
        let block = take(MIB, own);
        // SAFETY: the stream is there.
        assert_eq!(unsafe { pool_torch_record_stream(block, user) }, SUCCESS);
        if user == far {
            ok!(cuCtxSetCurrent(context));
        }
        write(block, MIB, user);
        bed.enter(0);
        assert_eq!(give(block, own), SUCCESS);
        // Whoever gets it next uses it behind that work.
        for stream in [own, listed, null_mut()] {
            let next = take(MIB, stream);
            write(next, MIB, stream);
            assert_eq!(give(next, stream), SUCCESS);
        }
        // The next round is ordered behind this one by the host.
        for stream in [own, listed, null_mut(), far] {
            ok!(cuStreamSynchronize(stream));
        }
    }
    bed.assert_clean();
}

#[test]
fn a_noted_stream_that_nobody_listed_may_be_gone_at_the_free() {
    let bed = Bed::new();
    let (own, passing) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[own]), SUCCESS);
    let block = take(MIB, own);
    write(block, MIB, passing);
    // SAFETY: the stream is there.
    assert_eq!(unsafe { pool_torch_record_stream(block, passing) }, SUCCESS);
    ok!(cuStreamDestroy_v2(passing));
    assert_eq!(give(block, own), SUCCESS);
    let next = take(MIB, own);
    write(next, MIB, own);
    assert_eq!(give(next, own), SUCCESS);
    bed.go();
    bed.assert_clean();
}

#[test]
fn out_of_memory_says_why_and_the_program_goes_on() {
    let bed = Bed::single();
    let stream = bed.stream();
    assert_eq!(list(0, &[stream]), SUCCESS);
    let (total, most) = (DEVICES[0].total_bytes, DEVICES[0].total_bytes / 4);
    assert_eq!(pool_torch_set_fraction(0.25, 0), SUCCESS);
    assert_eq!((figures(0).limitBytes, figures(0).totalBytes), (most as u64, total as u64));
    let block = take(most / 2, stream);
    assert_eq!(ask(most, 0, stream), Err(MEMORY));
    let why = message();
    for part in ["out of memory", &most.to_string(), "raise the limit", "to do:"] {
        assert!(why.contains(part), "{why}");
    }
    assert_eq!(figures(0).refusals, 1);
    assert_eq!(give(block, stream), SUCCESS);
    assert_eq!(pool_torch_set_fraction(1.0, 0), SUCCESS);
    let block = take(most, stream);
    assert_eq!(give(block, stream), SUCCESS);
    assert_eq!(pool_torch_empty_cache(), SUCCESS);
    bed.go();
    assert_eq!(pool_torch_empty_cache(), SUCCESS);
    assert_eq!(figures(0).reservedBytes, 0);
    assert_eq!(poolResetPeaks(0), SUCCESS);
    let figures = figures(0);
    assert_eq!((figures.peakLiveBytes, figures.peakReservedBytes), (0, 0));
    assert!(figures.deviceAllocations > 0 && figures.deviceFrees > 0);
}

/// Threads that free each other's blocks, on streams that are kept and on one that is not: every block is found
/// by its pointer, and by one of them.
#[test]
fn threads_of_two_devices_free_each_others_blocks() {
    const ROUNDS: usize = 500;
    let mut bed = Bed::new();
    let mut streams = Vec::new();
    for device in [0, 1] {
        bed.enter(device);
        let (listed, raw) = (bed.stream(), bed.stream());
        assert_eq!(list(device, &[listed]), SUCCESS);
        streams.extend([(device, listed.addr()), (device, raw.addr())]);
    }
    let passed = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let job = |(device, stream): (c_int, usize)| {
            let passed = &passed;
            scope.spawn(move || {
                let stream: Handle = core::ptr::without_provenance_mut(stream);
                let mut random = fastrand::Rng::with_seed(stream.addr() as u64);
                for _ in 0..ROUNDS {
                    let block = ask(random.usize(1..MIB), device, stream).unwrap();
                    passed.lock().unwrap().push((device, block.addr()));
                    let other = random.usize(..);
                    let taken = {
                        let mut passed = passed.lock().unwrap();
                        let place = other % passed.len();
                        // A block is freed as of its device, as PyTorch does.
                        let own = passed[place].0 == device;
                        own.then(|| passed.swap_remove(place).1)
                    };
                    if let Some(taken) = taken {
                        let taken = core::ptr::without_provenance_mut(taken);
                        // SAFETY: the stream is there.
                        assert_eq!(unsafe { pool_torch_release(taken, device, stream) }, SUCCESS);
                    }
                }
            })
        };
        let jobs: Vec<_> = streams.iter().map(|&stream| job(stream)).collect();
        // Wholly, which the scope does not wait for.
        for job in jobs {
            job.join().unwrap();
        }
    });
    for (device, block) in passed.into_inner().unwrap() {
        let block = core::ptr::without_provenance_mut(block);
        // SAFETY: the default stream is there.
        unsafe {
            assert_eq!(pool_torch_release(block, device, null_mut()), SUCCESS);
            assert_eq!(pool_torch_release(block, device, null_mut()), INVALID_VALUE);
        }
    }
    for device in [0, 1] {
        let figures = figures(device);
        assert_eq!((figures.allocations, figures.frees), (2 * ROUNDS as u64, 2 * ROUNDS as u64));
        assert_eq!(figures.liveBytes, 0);
    }
    bed.go();
    bed.assert_clean();
}

/// PyTorch takes null as success.
#[test]
fn the_plain_function_ends_the_process_with_the_message() {
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "torch::memory::part", "--nocapture"]).env(PART, "abort");
    let output = program.output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("pool_torch_malloc: ") && said.contains("can never fit"), "{said}");
}

/// What another process plays.
#[test]
fn part() {
    if std::env::var_os(PART).is_some() {
        let _bed = Bed::new();
        // SAFETY: the default stream is there.
        unsafe { pool_torch_malloc(usize::MAX / 2, 0, null_mut()) };
    }
}
