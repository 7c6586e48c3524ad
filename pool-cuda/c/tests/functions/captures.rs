//! Streams that are captured.

use core::ptr::null_mut;

use pool_cuda_c::{poolBeginCapture, poolEndCapture, poolReleaseGraph};
use pool_mock_driver::*;

use crate::bed::*;

/// A capture that concerns all threads, and one that concerns none.
const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;

fn begin(stream: Handle, mode: i32) {
    ok!(cuStreamBeginCapture_v2(stream, mode));
}

fn end(stream: Handle) {
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_capture_that_nobody_announced_is_refused_and_stays_whole() {
    for mode in [GLOBAL, RELAXED] {
        let bed = Bed::new();
        let (stream, other) = (bed.stream(), bed.stream());
        let block = malloc(MIB, other);
        let before = stats(0);
        begin(stream, mode);
        assert_eq!(try_malloc(MIB, stream), Err(CAPTURE));
        assert_eq!(try_free(block, stream), CAPTURE);
        assert_eq!(stats(0), before);
        // Another stream is served, also with memory that the device has to give.
        let large = malloc(100 * MIB, other);
        free(large, other);
        free(block, other);
        end(stream);
        free(malloc(MIB, stream), stream);
    }
}

/// A stream that the library meets while it is captured is the same afterwards.
#[test]
fn a_stream_that_was_first_seen_in_a_capture_is_itself_afterwards() {
    let bed = Bed::new();
    let (known, stream) = (bed.stream(), bed.stream());
    free(malloc(MIB, known), known);
    begin(stream, GLOBAL);
    // SAFETY: the stream is there.
    unsafe { assert_eq!(poolBeginCapture(stream, 7), SUCCESS) };
    let block = malloc(MIB, stream);
    free(block, stream);
    end(stream);
    // SAFETY: as above.
    unsafe {
        assert_eq!(poolEndCapture(stream), SUCCESS);
        assert_eq!(poolReleaseGraph(0, 7), SUCCESS);
    }
    for _ in 0..3 {
        free(malloc(3 * MIB, stream), stream);
        free(malloc(MIB, known), known);
    }
    bed.go();
}

/// A block of one device that is freed on a captured stream of another: refused, and the capture stays
/// whole.
#[test]
fn a_block_of_another_device_is_not_freed_in_a_capture() {
    let mut bed = Bed::new();
    let stream = bed.stream();
    bed.enter(1);
    let other = bed.stream();
    let block = malloc(MIB, stream);
    free(malloc(MIB, other), other);
    // SAFETY: the stream is there.
    unsafe { assert_eq!(poolBeginCapture(other, 7), SUCCESS) };
    begin(other, GLOBAL);
    assert_eq!(try_free(block, other), CAPTURE);
    end(other);
    // SAFETY: as above.
    unsafe {
        assert_eq!(poolEndCapture(other), SUCCESS);
        assert_eq!(poolReleaseGraph(1, 7), SUCCESS);
    }
    free(block, other);
    bed.go();
}

#[test]
fn what_is_allocated_in_an_announced_capture_is_the_graphs_until_that_is_released() {
    let bed = Bed::new();
    let (stream, other) = (bed.stream(), bed.stream());
    free(malloc(MIB, stream), stream);
    // SAFETY: the stream is there.
    unsafe {
        assert_eq!(poolBeginCapture(stream, 7), SUCCESS);
        assert_eq!(poolBeginCapture(stream, 7), CAPTURE, "it is announced");
    }
    begin(stream, GLOBAL);
    let block = malloc(MIB, stream);
    write(block, MIB, stream);
    free(block, stream);
    let again = malloc(MIB, stream);
    assert_eq!(again, block, "in the order of the capture");
    free(again, stream);
    assert_eq!(poolReleaseGraph(0, 7), CAPTURE, "it is not over");
    end(stream);
    // SAFETY: as above.
    unsafe {
        assert_eq!(poolEndCapture(stream), SUCCESS);
        assert_eq!(poolEndCapture(stream), INVALID_VALUE, "it is over");
    }
    // Each launch uses it.
    let next = malloc(MIB, other);
    assert_ne!(next, block);
    free(next, other);
    assert_eq!(poolReleaseGraph(0, 8), INVALID_VALUE);
    assert_eq!(poolReleaseGraph(1, 7), INVALID_VALUE, "another device's");
    assert_eq!(poolReleaseGraph(0, 7), SUCCESS);
    bed.go();
    bed.trim_all();
    assert_eq!(stats(0).reservedBytes, 0);
}

#[test]
fn the_default_stream_is_refused_while_it_would_break_a_capture() {
    let bed = Bed::new();
    let mut blocking = null_mut();
    ok!(cuStreamCreate(&raw mut blocking, 0));
    begin(blocking, GLOBAL);
    // As the driver says of any work in it.
    assert_eq!(try_malloc(MIB, null_mut()), Err(906));
    end(blocking);
    free(malloc(MIB, null_mut()), null_mut());
    ok!(cuStreamDestroy_v2(blocking));
    bed.assert_clean();
}
