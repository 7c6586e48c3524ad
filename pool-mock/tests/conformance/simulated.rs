//! The simulated device does what every device has to do, whatever it can do and whenever work runs.

use std::sync::{Arc, Mutex};

use pool_core::device::Capabilities;
use pool_mock::conformance::{Suite, Verdict};
use pool_mock::device::{Pacing, SimConfig, SimDevice, Violation};

const PACINGS: [Pacing; 4] = [Pacing::Idle, Pacing::Eager, Pacing::Lag(3), Pacing::Random(11)];

/// A small device.
fn config() -> SimConfig {
    SimConfig::new().memory_bytes(1 << 30)
}

/// Puts devices through the suite: nothing is broken, nothing is left, nothing raced. Gives the
/// names of what was passed over.
#[track_caller]
fn conforms(config: &SimConfig) -> Vec<&'static str> {
    let made = Arc::new(Mutex::new(Vec::new()));
    let (config, devices) = (config.clone(), Arc::clone(&made));
    let report = Suite::new().run(move || {
        let device = SimDevice::new(config.clone());
        devices.lock().unwrap().push(device.clone());
        device
    });
    assert_eq!(report.broken().count(), 0, "{report}");
    for (device, (name, _)) in made.lock().unwrap().iter().zip(&report.verdicts) {
        assert!(device.balance().is_zero(), "{name}: {}", device.balance());
        assert_eq!(device.balance().opened_streams, 0, "{name}");
        // The suite tries calls that the device does not have, as no pool does.
        let violations = device.take_violations().into_iter();
        let others: Vec<_> =
            violations.filter(|one| !matches!(one, Violation::Unsupported(_))).collect();
        assert!(others.is_empty(), "{name}: {}", others[0]);
    }
    let over =
        report.verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::PassedOver(_)));
    over.map(|&(name, _)| name).collect()
}

#[test]
fn the_whole_device_conforms_whenever_work_runs() {
    for pacing in PACINGS {
        let over = conforms(&config().with(Capabilities::GROWS_IN_CAPTURE).pacing(pacing));
        assert!(over.is_empty(), "{over:?}");
    }
}

#[test]
fn a_device_whose_frees_wait_conforms() {
    let over = conforms(&config().with(Capabilities::FREE_WAITS).pacing(Pacing::Idle));
    assert_eq!(over, ["memory::a_free_waits_for_nothing"]);
}

#[test]
fn a_device_with_larger_pages_and_odd_addresses_conforms() {
    conforms(&config().page_sizes(vec![64 << 10, 2 << 20, 8 << 20]).misalign_bytes(192));
    conforms(&config().lists_streams(false).pacing(Pacing::Lag(5)));
}

#[test]
fn a_device_conforms_without_any_of_its_capabilities() {
    for lacking in Capabilities::all().difference(Capabilities::FENCES) {
        conforms(&config().without(lacking).pacing(Pacing::Idle));
    }
}

#[test]
fn a_device_of_one_queue_conforms() {
    let over = conforms(&config().without(Capabilities::all()));
    assert!(over.iter().all(|name| *name != "streams::work_of_a_stream_runs_in_order"));
    conforms(
        &config().without(Capabilities::all()).with(Capabilities::COPY | Capabilities::MEMORY),
    );
}
