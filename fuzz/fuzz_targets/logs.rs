//! Any bytes as a log: no panic, no memory that the bytes do not pay for, and a trace
//! that keeps its promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pool_mock::{Action, Trace};

fuzz_target!(|bytes: &[u8]| {
    let trace = match Trace::read(bytes) {
        Ok(trace) => trace,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(trace.streams().len() <= 1 + trace.operations.len());
    let mut live = vec![None; trace.blocks() as usize];
    for (index, operation) in trace.operations.iter().enumerate() {
        assert!((operation.stream.0 as usize) < trace.streams().len());
        assert!((operation.thread.0 as usize) < trace.threads().len());
        assert_eq!(trace.location(index).is_none(), index < trace.live_at_start() as usize);
        match operation.action {
            Action::Allocate { block, size_bytes } => {
                assert!(size_bytes > 0);
                assert_eq!(live[block.0 as usize].replace(true), None, "allocated twice");
            }
            Action::Free { block } => {
                assert_eq!(live[block.0 as usize].replace(false), Some(true), "not live");
            }
            Action::Failure { .. } | Action::UnknownFree => {}
        }
    }
    assert!(live.iter().all(Option::is_some), "never allocated");
    assert!(trace.peak_live_blocks() <= trace.blocks());
    // In whole granules a sum is a multiple of one, unless it has reached the end.
    let peak_bytes = trace.peak_live_bytes(256);
    assert!(peak_bytes % 256 == 0 || peak_bytes == u64::MAX);
});
