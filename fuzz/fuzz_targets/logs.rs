//! Any bytes as a log: no panic, no memory that the bytes do not pay for, a trace that keeps its
//! promises, and conversions that can be read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pool_mock::{
    Action, Trace,
    log::{Format, Recording, convert},
};

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
        if let Some(label) = trace.label(index) {
            assert!(!trace.labels()[label.0 as usize].is_empty());
        }
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
    round_trips(bytes, &trace);
});

/// Writes the log as the other kind and reads that: the same blocks, in the same order.
fn round_trips(bytes: &[u8], trace: &Trace) {
    let recording = Recording::read(bytes).expect("it was read before");
    assert_eq!(recording.trace().operations, trace.operations);
    assert_eq!(recording.entries().count(), trace.operations.len());
    let mut log = Vec::new();
    recording.write_rmm(&mut log).expect("memory takes all");
    let mut snapshot = Vec::new();
    recording.write_snapshot(&mut snapshot).expect("memory takes all");
    // What is freed without being known is something else each time.
    if trace.operations.iter().all(|operation| operation.action != Action::UnknownFree) {
        for written in [&log, &snapshot] {
            let again = Trace::read(&written[..]).expect("it was written by ourselves");
            let actions = |trace: &Trace| -> Vec<_> {
                trace.operations.iter().map(|operation| operation.action).collect()
            };
            assert_eq!(actions(&again), actions(trace));
        }
    }
    for format in [Format::Rmm, Format::Snapshot] {
        let mut written = Vec::new();
        if convert(bytes, &mut written, format).is_ok() {
            Trace::read(&written[..]).expect("it was written by ourselves");
        }
    }
}
