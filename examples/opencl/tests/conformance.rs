//! The suite that every device has to pass.

mod support;

use pool_mock::conformance;

#[test]
fn the_device_does_what_the_trait_says() {
    let Some(device) = support::device() else { return };
    match conformance::check(move || device.clone()) {
        Ok(report) => println!("{report}"),
        Err(broken) => panic!("{broken}"),
    }
}
