//! What the tests of this folder share.

use std::{io::Write, path::PathBuf};

use flate2::{Compression, write::GzEncoder};
use pool_mock::{Action, BlockId, Operation, StreamId, ThreadId, Trace};

pub(crate) const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream\n";

pub(crate) fn read(log: &str) -> Trace {
    Trace::read(log.as_bytes()).expect("a readable log")
}

pub(crate) fn with_header(rows: &str) -> Trace {
    read(&format!("{HEADER}{rows}"))
}

pub(crate) fn allocate(thread: u32, stream: u32, block: u32, size_bytes: u64) -> Operation {
    let action = Action::Allocate { block: BlockId(block), size_bytes };
    Operation { thread: ThreadId(thread), stream: StreamId(stream), action }
}

pub(crate) fn free(thread: u32, stream: u32, block: u32) -> Operation {
    let action = Action::Free { block: BlockId(block) };
    Operation { thread: ThreadId(thread), stream: StreamId(stream), action }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(vec![], Compression::fast());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

/// A trace of the repository.
pub(crate) fn bundled(name: &str) -> Trace {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/traces").join(name);
    Trace::open(&path).expect("a readable log")
}

/// Checks that each block is allocated once and freed at most once, later, and gives
/// the most blocks live at once.
pub(crate) fn check_order(trace: &Trace) -> u32 {
    let mut live = vec![None; trace.blocks() as usize];
    let (mut next, mut count, mut peak) = (0, 0_u32, 0);
    for operation in &trace.operations {
        assert!((operation.thread.0 as usize) < trace.threads().len());
        assert!((operation.stream.0 as usize) < trace.streams().len());
        match operation.action {
            Action::Allocate { block, size_bytes } => {
                assert_eq!(block.0, next, "blocks are numbered by their allocations");
                assert!(size_bytes > 0);
                assert_eq!(live[block.0 as usize].replace(true), None);
                next += 1;
                count += 1;
                peak = peak.max(count);
            }
            Action::Free { block } => {
                assert_eq!(live[block.0 as usize].replace(false), Some(true), "{block:?}");
                count -= 1;
            }
            Action::Failure { .. } | Action::UnknownFree => {}
        }
    }
    assert_eq!(next, trace.blocks());
    assert_eq!(peak, trace.peak_live_blocks());
    peak
}
