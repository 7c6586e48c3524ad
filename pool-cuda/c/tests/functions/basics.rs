//! What is given out and taken back, and what is refused.

use core::ptr::{null_mut, without_provenance_mut};

use pool_cuda_c::poolMallocAsync;

use crate::bed::*;

#[test]
fn what_a_stream_freed_serves_it_again_with_no_call_of_the_driver() {
    let bed = Bed::new();
    let stream = bed.stream();
    for size in [1, 256, 5000, 60 * KIB, MIB, 40 * MIB] {
        let first = malloc(size, stream);
        write(first, size, stream);
        free(first, stream);
        let calls = bed.calls(|| {
            for _ in 0..10 {
                let again = malloc(size, stream);
                assert_eq!(again, first, "{size} bytes");
                free(again, stream);
            }
        });
        assert_eq!(calls, 0, "{size} bytes");
    }
    let stats = stats(0);
    assert_eq!((stats.allocations, stats.frees), (66, 66));
    assert!(stats.hits >= 60, "{stats:?}");
    assert_eq!(stats.liveBytes, 0);
}

#[test]
fn blocks_do_not_overlap_and_are_found_by_their_pointers_alone() {
    let bed = Bed::new();
    let streams = [bed.stream(), bed.stream(), null_mut()];
    let sizes = [100, 256, 3000, 64 * KIB, 65 * KIB, MIB, 33 * MIB];
    let mut live: Vec<(usize, usize)> = Vec::new();
    for (round, size) in sizes.into_iter().cycle().take(200).enumerate() {
        let stream = streams[round % 3];
        let start = malloc(size, stream).addr();
        let apart =
            |&(other, bytes): &(usize, usize)| start + size <= other || other + bytes <= start;
        assert!(live.iter().all(apart));
        live.push((start, size));
        if live.len() > 20 {
            let (start, _) = live.swap_remove(round * 7 % live.len());
            free(without_provenance_mut(start), streams[(round + 1) % 3]);
        }
    }
    for (start, _) in live {
        free(without_provenance_mut(start), streams[0]);
    }
    let stats = stats(0);
    assert_eq!((stats.liveBytes, stats.allocations, stats.frees), (0, 200, 200));
}

#[test]
fn nothing_is_asked_for_by_zero_bytes_and_freed_by_null() {
    let bed = Bed::new();
    let stream = bed.stream();
    for stream in [stream, null_mut(), per_thread()] {
        assert_eq!(try_malloc(0, stream), Ok(null_mut()));
        assert_eq!(try_free(null_mut(), stream), SUCCESS);
    }
    let block = malloc(256, stream);
    assert_eq!(try_malloc(0, stream), Ok(null_mut()));
    free(block, stream);
    let stats = stats(0);
    assert_eq!((stats.allocations, stats.frees, stats.liveBytes), (1, 1, 0));
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let bed = Bed::new();
    let stream = bed.stream();
    let block = malloc(5000, stream);
    let before = stats(0);
    // SAFETY: null is what it looks at.
    assert_eq!(unsafe { poolMallocAsync(null_mut(), 1, stream) }, INVALID_VALUE);
    for size in [usize::MAX, usize::MAX - 255, 1 << 60, 9 << 30] {
        assert_eq!(try_malloc(size, stream), Err(MEMORY), "{size:#x}");
    }
    let local = 0_u8;
    let inside = block.wrapping_byte_add(256);
    let beside = block.wrapping_byte_add(8192);
    let of_the_host = (&raw const local).cast_mut().cast();
    let nowhere = without_provenance_mut(usize::MAX - 255);
    for pointer in [inside, beside, of_the_host, nowhere, without_provenance_mut(1)] {
        assert_eq!(try_free(pointer, stream), INVALID_VALUE, "{pointer:?}");
    }
    assert_eq!(stats(0), before);
    free(block, stream);
    assert_eq!(try_free(block, stream), INVALID_VALUE, "freed twice");
    assert_eq!(stats(0).frees, 1);
}
