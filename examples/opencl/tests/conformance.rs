//! The suite that every device has to pass.

mod support;

use std::sync::{Mutex, PoisonError};

use pool_mock::conformance::{Suite, check};
use pool_opencl::Unwaiting;

/// Slow work of one suite is not to keep another waiting.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn the_device_does_what_the_trait_says() {
    let Some(device) = support::device() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    match check(move || device.clone()) {
        Ok(report) => println!("{report}"),
        Err(broken) => panic!("{broken}"),
    }
}

#[test]
fn a_device_whose_streams_wait_for_nothing_does_not() {
    let Some(device) = support::device() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let report = Suite::new().run(move || Unwaiting(device.clone()));
    println!("{report}");
    assert!(report.broken().any(|(case, _)| case == "fences::a_stream_waits_for_a_fence"));
}
