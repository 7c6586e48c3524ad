//! Any program on a pool over the simulated device: streams, captures, threads, faults, under any
//! scheduling of queued work.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pool_mock::program::{check, decode};

fuzz_target!(|bytes: &[u8]| {
    let program = decode(bytes);
    if let Err(finding) = check(&program) {
        panic!("{finding}\n{program:#?}");
    }
});
