//! Graphs that are captured into pools, as PyTorch tells of them.

use core::ptr::null_mut;

use pool_cuda_c::{
    pool_torch_allocate_in_pool, pool_torch_allocate_segment, pool_torch_begin_pool,
    pool_torch_empty_cache, pool_torch_end_pool, pool_torch_hold_pool, pool_torch_pool_uses,
    pool_torch_record_stream, pool_torch_release_pool, poolFree, poolSetLimit,
};
use pool_mock_driver::*;

use super::*;

/// A pool, as PyTorch numbers those of single graphs.
const POOL: (u64, u64) = (3, 0);

pub(super) fn begin(stream: Handle) -> c_int {
    // SAFETY: the stream is there.
    unsafe { pool_torch_begin_pool(0, POOL.0, POOL.1, stream) }
}

pub(super) fn end(stream: Handle) -> c_int {
    // SAFETY: the stream is there.
    unsafe { pool_torch_end_pool(0, POOL.0, POOL.1, stream) }
}

pub(super) fn release() -> c_int {
    pool_torch_release_pool(0, POOL.0, POOL.1)
}

fn uses() -> u64 {
    pool_torch_pool_uses(0, POOL.0, POOL.1)
}

pub(super) fn take_in_pool(size: usize, stream: Handle) -> *mut c_void {
    // SAFETY: the stream is there.
    unsafe { pool_torch_allocate_in_pool(size, 0, stream, POOL.0, POOL.1) }
}

/// A graph that can be launched.
pub(super) struct Graph {
    graph: Handle,
    executable: Handle,
}

impl Graph {
    /// What a stream captured.
    pub(super) fn of(stream: Handle) -> Self {
        let (mut graph, mut executable) = (null_mut(), null_mut());
        ok!(cuStreamEndCapture(stream, &raw mut graph));
        ok!(cuGraphInstantiateWithFlags(&raw mut executable, graph, 0));
        Self { graph, executable }
    }

    fn launch(&self, stream: Handle) {
        ok!(cuGraphLaunch(self.executable, stream));
    }

    pub(super) fn end(self) {
        ok!(cuGraphExecDestroy(self.executable));
        ok!(cuGraphDestroy(self.graph));
    }
}

/// Captures work on memory of the pool, some of which is freed in the capture.
fn capture(stream: Handle) -> (Graph, *mut c_void) {
    assert_eq!(begin(stream), SUCCESS);
    ok!(cuStreamBeginCapture_v2(stream, 0));
    let (kept, passing) = (take_in_pool(MIB, stream), take_in_pool(2 * MIB, stream));
    write(kept, MIB, stream);
    write(passing, 2 * MIB, stream);
    assert_eq!(give(passing, stream), SUCCESS);
    let graph = Graph::of(stream);
    assert_eq!(end(stream), SUCCESS);
    (graph, kept)
}

/// Launches while others use memory.
fn launch_beside(bed: &Bed, graphs: &[&Graph], stream: Handle, other: Handle) {
    for _ in 0..3 {
        for graph in graphs {
            graph.launch(stream);
        }
        for size in [MIB, 2 * MIB, 20 * MIB] {
            let block = take(size, other);
            write(block, size, other);
            assert_eq!(give(block, other), SUCCESS);
        }
    }
    bed.go();
    bed.assert_clean();
}

#[test]
fn graphs_share_a_pool_until_the_last_is_released() {
    let bed = Bed::single();
    let (stream, other) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, other]), SUCCESS);
    give(take(MIB, stream), stream);
    let (first, kept_first) = capture(stream);
    let (second, kept_second) = capture(stream);
    assert_eq!(uses(), 2);
    launch_beside(&bed, &[&first, &second], stream, other);
    first.end();
    assert_eq!(release(), SUCCESS);
    assert_eq!(uses(), 1);
    // Freed by the program, and the second graph's still.
    assert_eq!(give(kept_first, stream), SUCCESS);
    assert_eq!(give(kept_second, stream), SUCCESS);
    launch_beside(&bed, &[&second], stream, other);
    second.end();
    assert_eq!(release(), SUCCESS);
    assert_eq!(release(), INVALID_VALUE, "there is none");
    assert_eq!(end(stream), INVALID_VALUE, "it is not open");
    assert_eq!(uses(), 0);
    bed.go();
    for _ in 0..3 {
        assert_eq!(pool_torch_empty_cache(), SUCCESS);
        bed.go();
    }
    assert_eq!(figures(0).reservedBytes, 0);
}

/// PyTorch's predicate knows a capture by its number, and so does the pool: a stream that joined it, or
/// another than was current at the beginning.
#[test]
fn a_stream_that_joins_a_capture_is_served_from_its_pool() {
    let bed = Bed::single();
    let (stream, joined, other) = (bed.stream(), bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, joined, other]), SUCCESS);
    // On a stream that is not captured after all.
    for at_begin in [stream, other, null_mut()] {
        assert_eq!(begin(at_begin), SUCCESS);
        ok!(cuStreamBeginCapture_v2(stream, 0));
        let (mut forked, mut back) = (null_mut(), null_mut());
        ok!(cuEventCreate(&raw mut forked, 2));
        ok!(cuEventCreate(&raw mut back, 2));
        ok!(cuEventRecord(forked, stream));
        ok!(cuStreamWaitEvent(joined, forked, 0));
        let block = take_in_pool(MIB, joined);
        write(block, MIB, joined);
        ok!(cuEventRecord(back, joined));
        ok!(cuStreamWaitEvent(stream, back, 0));
        // SAFETY: the stream is there.
        assert_eq!(unsafe { pool_torch_record_stream(block, stream) }, SUCCESS);
        assert_eq!(give(block, joined), SUCCESS);
        let graph = Graph::of(stream);
        assert_eq!(end(at_begin), SUCCESS);
        launch_beside(&bed, &[&graph], stream, other);
        graph.end();
        assert_eq!(release(), SUCCESS);
        ok!(cuEventDestroy_v2(forked));
        ok!(cuEventDestroy_v2(back));
    }
}

/// Two captures share a pool at once, in two threads of the program's: each end is of its own stream.
#[test]
fn an_end_is_of_its_own_stream() {
    let bed = Bed::single();
    let (one, two) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[one, two]), SUCCESS);
    assert_eq!(begin(one), SUCCESS);
    assert_eq!(begin(two), SUCCESS);
    // Neither concerns other streams' work.
    ok!(cuStreamBeginCapture_v2(one, 2));
    ok!(cuStreamBeginCapture_v2(two, 2));
    let blocks = [take_in_pool(MIB, one), take_in_pool(MIB, two)];
    let first = Graph::of(one);
    assert_eq!(end(one), SUCCESS);
    // The other goes on.
    write(blocks[1], MIB, two);
    assert_eq!(give(blocks[1], two), SUCCESS);
    let next = take_in_pool(MIB, two);
    let second = Graph::of(two);
    assert_eq!(end(two), SUCCESS);
    for block in [blocks[0], next] {
        assert_eq!(give(block, one), SUCCESS);
    }
    launch_beside(&bed, &[&first, &second], one, two);
    first.end();
    second.end();
    assert_eq!((release(), release()), (SUCCESS, SUCCESS));
}

/// Before the first allocation in it: the stream's own memory is another's, and nothing is recorded in it.
#[test]
fn a_capture_is_known_from_its_beginning() {
    let bed = Bed::single();
    let (stream, other) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, other]), SUCCESS);
    let freed = take(MIB, stream);
    write(freed, MIB, stream);
    assert_eq!(give(freed, stream), SUCCESS);
    assert_eq!(begin(stream), SUCCESS);
    ok!(cuStreamBeginCapture_v2(stream, 2));
    for size in [MIB, 2 * MIB, 40 * MIB] {
        let block = take(size, other);
        write(block, size, other);
        assert_eq!(give(block, other), SUCCESS);
    }
    Graph::of(stream).end();
    assert_eq!((end(stream), release()), (SUCCESS, SUCCESS));
    bed.go();
    bed.assert_clean();
}

#[test]
fn a_capture_that_fails_leaves_nothing_behind() {
    let bed = Bed::single();
    let stream = bed.stream();
    assert_eq!(list(0, &[stream]), SUCCESS);
    assert_eq!(begin(stream), SUCCESS);
    bed.simulation.fail_next("cuStreamBeginCapture_v2", 1, 999);
    // SAFETY: the stream is there.
    assert_eq!(unsafe { cuStreamBeginCapture_v2(stream, 0) }, 999);
    assert_eq!(end(stream), SUCCESS);
    assert_eq!(release(), SUCCESS);
    let before = bed.simulation.count("cuStreamGetCaptureInfo_v2");
    for _ in 0..3 {
        assert_eq!(give(take(MIB, stream), stream), SUCCESS);
    }
    assert!(bed.simulation.count("cuStreamGetCaptureInfo_v2") - before <= 2, "hits are hits");
}

#[test]
fn a_pool_that_is_only_held_costs_nothing_and_is_served_as_usual() {
    let bed = Bed::single();
    let stream = bed.stream();
    assert_eq!(list(0, &[stream]), SUCCESS);
    assert_eq!(pool_torch_hold_pool(0, POOL.0, POOL.1), SUCCESS);
    assert_eq!(uses(), 1);
    // It is not open.
    assert!(take_in_pool(MIB, stream).is_null());
    assert_eq!(poolLastError(), INVALID_VALUE);
    // Open, and nothing is captured: as PyTorch's use_mem_pool.
    assert_eq!(begin(stream), SUCCESS);
    let block = take_in_pool(MIB, stream);
    assert!(!block.is_null());
    assert_eq!(end(stream), SUCCESS);
    assert_eq!(give(block, stream), SUCCESS);
    assert_eq!((release(), uses()), (SUCCESS, 1));
    assert_eq!((release(), uses()), (SUCCESS, 0));
    assert_eq!(pool_torch_hold_pool(7, 1, 1), INVALID_DEVICE);
    assert_eq!(pool_torch_pool_uses(7, 1, 1), 0);
}

/// PyTorch throws before it says that a capture is over, if it failed.
#[test]
fn a_capture_whose_end_nobody_tells_is_noticed() {
    let bed = Bed::single();
    let (stream, other) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, other]), SUCCESS);
    for round in 1..3 {
        assert_eq!(begin(stream), SUCCESS);
        ok!(cuStreamBeginCapture_v2(stream, 0));
        let block = take_in_pool(MIB, stream);
        // Others see it, and leave it.
        assert_eq!(give(take(MIB, other), other), SUCCESS);
        write(block, MIB, stream);
        let graph = Graph::of(stream);
        assert_eq!(give(take(2 * MIB, other), other), SUCCESS);
        let calls = bed.calls(|| assert_eq!(give(take(2 * MIB, other), other), SUCCESS));
        assert_eq!(calls, 0, "hits are hits");
        launch_beside(&bed, &[&graph], stream, other);
        graph.end();
        assert_eq!(give(block, stream), SUCCESS);
        assert_eq!(uses(), round);
    }
    // What PyTorch says late is no error.
    for _ in 0..2 {
        assert_eq!((end(stream), release()), (SUCCESS, SUCCESS));
    }
}

/// A pool that is open though nothing is captured, as PyTorch's `use_mem_pool` has it: what was freed is waited for.
#[test]
fn without_a_capture_an_open_pool_waits_for_memory() {
    let bed = Bed::single();
    let (stream, other) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, other]), SUCCESS);
    assert_eq!(poolSetLimit(0, 64 * MIB), SUCCESS);
    assert_eq!(begin(stream), SUCCESS);
    for _ in 0..3 {
        let block = take(40 * MIB, other);
        write(block, 40 * MIB, other);
        assert_eq!(give(block, other), SUCCESS);
        let block = take_in_pool(40 * MIB, stream);
        assert!(!block.is_null(), "{}", message());
        write(block, 40 * MIB, stream);
        assert_eq!(give(block, stream), SUCCESS);
    }
    assert!(take_in_pool(70 * MIB, stream).is_null());
    assert_eq!(figures(0).refusals, 1);
    // It is captured after all.
    ok!(cuStreamBeginCapture_v2(stream, 0));
    let block = take_in_pool(MIB, stream);
    write(block, MIB, stream);
    let graph = Graph::of(stream);
    assert_eq!(end(stream), SUCCESS);
    launch_beside(&bed, &[&graph], stream, other);
    graph.end();
    assert_eq!((give(block, stream), release()), (SUCCESS, SUCCESS));
}

/// Under PyTorch's own allocator captures are not told of.
#[test]
fn a_segment_leaves_a_capture_that_nobody_announced_whole() {
    let bed = Bed::single();
    let (stream, other) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, other]), SUCCESS);
    assert_eq!(poolSetLimit(0, 64 * MIB), SUCCESS);
    // Memory that waits for work, which nobody may ask for.
    for stream in [stream, other] {
        let block = take(20 * MIB, stream);
        write(block, 20 * MIB, stream);
        assert_eq!(give(block, stream), SUCCESS);
    }
    ok!(cuStreamBeginCapture_v2(stream, 0));
    // SAFETY: the stream is there.
    let segment = |size| unsafe { pool_torch_allocate_segment(size, 0, stream) };
    let first = segment(20 * MIB);
    assert!(!first.is_null());
    write(first, 20 * MIB, stream);
    assert!(segment(30 * MIB).is_null());
    assert_eq!(poolLastError(), MEMORY);
    // SAFETY: no work that is queued from now on uses it, but for the graph, which is never launched.
    assert_eq!(unsafe { poolFree(first) }, SUCCESS);
    Graph::of(stream).end();
    // With nothing captured, what waits is waited for.
    let next = segment(60 * MIB);
    assert!(!next.is_null());
    write(next, 60 * MIB, other);
    // SAFETY: as above.
    assert_eq!(unsafe { poolFree(next) }, SUCCESS);
    assert!(segment(0).is_null());
    bed.go();
    bed.assert_clean();
}

#[test]
fn a_capture_that_nobody_announced_is_refused_and_stays_whole() {
    let bed = Bed::single();
    let (stream, other) = (bed.stream(), bed.stream());
    assert_eq!(list(0, &[stream, other]), SUCCESS);
    let (block, foreign) = (take(MIB, stream), take(2 * MIB, other));
    ok!(cuStreamBeginCapture_v2(stream, 2));
    assert_eq!(ask(40 * MIB, 0, stream), Err(CAPTURE));
    // What cannot be freed behind the stream is freed behind all work.
    assert_eq!(give(foreign, stream), SUCCESS);
    let mut graph = null_mut();
    ok!(cuStreamEndCapture(stream, &raw mut graph));
    ok!(cuGraphDestroy(graph));
    assert_eq!(give(block, stream), SUCCESS);
    let figures = figures(0);
    assert_eq!((figures.allocations, figures.frees), (2, 2));
}
