//! One range against the model: any operations, every placement, gone through after each step.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pool_mock::oracle::{Verify, check, decode};

fuzz_target!(|bytes: &[u8]| {
    let case = decode(bytes);
    if let Err(discrepancy) = check(&case, Verify::EachStep) {
        panic!("{discrepancy}\n{case:?}");
    }
});
