//! Streams: default ones, foreign ones, and those that end.

use core::ptr::null_mut;

use pool_cuda_c::{poolStreamDestroyed, poolTrim};
use pool_mock_driver::*;

use crate::bed::*;

/// Says that a stream ends, and destroys it.
fn end(stream: Handle) {
    // SAFETY: it is there still.
    assert_eq!(unsafe { poolStreamDestroyed(stream) }, SUCCESS);
    ok!(cuStreamDestroy_v2(stream));
}

#[test]
fn the_legacy_default_stream_has_two_names() {
    let bed = Bed::new();
    let [null, one] = legacy();
    let block = malloc(MIB, null);
    write(block, MIB, null);
    free(block, one);
    assert_eq!(malloc(MIB, null), block);
    write(block, MIB, one);
    free(block, null);
    bed.assert_clean();
}

#[test]
fn on_one_device_a_hit_on_the_default_stream_asks_nobody() {
    let bed = Bed::single();
    let block = malloc(5000, null_mut());
    free(block, null_mut());
    let calls = bed.calls(|| {
        for stream in legacy() {
            free(malloc(5000, stream), stream);
        }
    });
    assert_eq!(calls, 0);
}

#[test]
fn on_several_devices_a_hit_on_the_default_stream_asks_for_the_context_alone() {
    let mut bed = Bed::new();
    for device in [1, 0, 1] {
        bed.enter(device);
        free(malloc(5000, null_mut()), null_mut());
        let before = (stats(device).allocations, bed.simulation.count("cuCtxGetCurrent"));
        let calls = bed.calls(|| {
            for stream in legacy() {
                free(malloc(5000, stream), stream);
            }
        });
        let after = (stats(device).allocations, bed.simulation.count("cuCtxGetCurrent"));
        assert_eq!((calls, after.1 - before.1), (4, 4));
        assert_eq!(after.0 - before.0, 2);
    }
}

#[test]
fn each_thread_has_a_default_stream_of_its_own() {
    let mut bed = Bed::new();
    let context = bed.enter(0).addr();
    let block = malloc(MIB, per_thread());
    write(block, MIB, per_thread());
    free(block, per_thread());
    // It may get the same memory, and then waits for this thread's work.
    on_a_thread(|| {
        ok!(cuCtxSetCurrent(core::ptr::without_provenance_mut(context)));
        for _ in 0..3 {
            let block = malloc(MIB, per_thread());
            write(block, MIB, per_thread());
            free(block, per_thread());
        }
    });
    bed.go();
    assert_eq!(stats(0).allocations, 4);
}

#[test]
fn a_free_on_another_stream_is_behind_the_work_of_both() {
    let bed = Bed::new();
    let (one, other) = (bed.stream(), bed.stream());
    let block = malloc(MIB, one);
    write(block, MIB, one);
    free(block, other);
    for stream in [one, other, null_mut(), per_thread()] {
        pass(MIB, stream);
    }
    bed.go();
    bed.assert_clean();
}

#[test]
fn a_stream_that_is_said_to_end_leaves_its_memory_behind_its_work() {
    let bed = Bed::new();
    let old = bed.stream();
    pass(40 * MIB, old);
    end(old);
    // Of a stream that the pool never saw, and twice, it is nothing.
    // SAFETY: only the handles are looked at.
    assert_eq!(unsafe { poolStreamDestroyed(old) }, SUCCESS);
    // SAFETY: as above.
    assert_eq!(unsafe { poolStreamDestroyed(null_mut()) }, INVALID_VALUE);
    // The next stream has the handle, and is another.
    let new = bed.stream();
    assert_eq!(new, old);
    pass(40 * MIB, new);
    bed.go();
    bed.assert_clean();
    end(new);
}

/// A stream that has the handle of another, which had memory and was destroyed without a word.
fn replaced(bed: &Bed, bytes: usize) -> Handle {
    let old = bed.stream();
    pass(bytes, old);
    ok!(cuStreamDestroy_v2(old));
    let new = bed.stream();
    assert_eq!(new, old);
    new
}

/// The fault of a program that says nothing. It is noticed when the pool is about to make a call with the
/// handle, or another thread names it first.
#[test]
fn a_handle_that_is_anothers_by_now_is_noticed_by_its_number() {
    let bed = Bed::new();
    let other = bed.stream();
    let new = replaced(&bed, 40 * MIB);
    // The memory was the old stream's. A fence in the new one would not be behind its work.
    let next = malloc(40 * MIB, other);
    write(next, 40 * MIB, other);
    bed.go();
    bed.assert_clean();
    free(next, other);
    // What is not there at the first look is served once the handle was looked at.
    pass(100 * MIB, new);
    bed.go();
    bed.assert_clean();
}

#[test]
fn the_same_thread_notices_it_when_its_own_memory_is_not_enough() {
    let bed = Bed::new();
    let new = replaced(&bed, 40 * MIB);
    for size in [100 * MIB, 40 * MIB, MIB] {
        let next = malloc(size, new);
        write(next, size, new);
    }
    bed.go();
    bed.assert_clean();
}

#[test]
fn another_thread_notices_it_at_its_first_call() {
    let mut bed = Bed::new();
    let context = bed.enter(0).addr();
    let old = replaced(&bed, MIB);
    let new = old.addr();
    on_a_thread(|| {
        ok!(cuCtxSetCurrent(core::ptr::without_provenance_mut(context)));
        let new: Handle = core::ptr::without_provenance_mut(new);
        pass(MIB, new);
    });
    // This thread remembers the old stream, which the pool has let go of.
    pass(MIB, old);
    bed.go();
    bed.assert_clean();
}

#[test]
fn without_numbers_of_streams_handles_are_taken_at_their_word() {
    let bed = Bed::with(SimulatedDevices::new().without("cuStreamGetId"));
    let stream = bed.stream();
    for _ in 0..3 {
        pass(40 * MIB, stream);
        bed.go();
        assert_eq!(poolTrim(0, 0), SUCCESS);
    }
    end(stream);
}

#[test]
fn more_streams_than_a_thread_remembers_are_served_all_the_same() {
    let bed = Bed::new();
    let streams: Vec<_> = (0..200).map(|_| bed.stream()).collect();
    let blocks: Vec<_> = streams.iter().map(|&stream| malloc(5000, stream)).collect();
    for (&stream, &block) in streams.iter().zip(&blocks) {
        write(block, 5000, stream);
        free(block, stream);
    }
    for &stream in &streams {
        pass(5000, stream);
    }
    for stream in streams {
        end(stream);
    }
    bed.go();
    assert_eq!(stats(0).frees, 400);
}
