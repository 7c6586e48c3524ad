//! Any program on a pool over the simulated device, its calls made by two to four threads that
//! take turns, also in the midst of the pool's calls.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pool_mock::program::{check_threads, decode};

fuzz_target!(|bytes: &[u8]| {
    let Some((head, bytes)) = bytes.split_first_chunk::<3>() else { return };
    let [threads, low, high] = *head;
    let program = decode(bytes);
    let (threads, seed) = (2 + usize::from(threads % 3), u16::from_le_bytes([low, high]));
    if let Err(finding) = check_threads(&program, threads, seed.into()) {
        panic!("{finding}\n{threads} threads, seed {seed}: {program:#?}");
    }
});
