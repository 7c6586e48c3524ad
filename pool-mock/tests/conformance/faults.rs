//! Each fault is found by the case that is meant for it.

use core::time::Duration;

use pool_core::device::Capabilities;
use pool_mock::conformance::{Suite, Verdict, cases, check};
use pool_mock::device::{Pacing, SimConfig, SimDevice};

use crate::broken::{Broken, Fault};

/// Faults, with the case that has to find each.
const FAULTS: &[(Fault, &str)] = &[
    (Fault::FenceDoneTooEarly, "fences::a_fence_is_done_after_its_work"),
    (Fault::FailureIsDone, "fences::a_fence_outlasts_its_stream"),
    (Fault::FenceOfAnEmptyQueue, "fences::the_host_waits_for_a_fence"),
    (Fault::AskingWaits, "fences::asking_does_not_wait"),
    (Fault::WaitIsNone, "fences::a_stream_waits_for_a_fence"),
    (Fault::WaitOfTheHost, "fences::a_wait_of_a_stream_is_not_the_hosts"),
    (Fault::HostGoesOn, "fences::the_host_waits_for_a_fence"),
    (Fault::SynchronizeMissesStreams, "fences::the_host_waits_for_everything"),
    (Fault::RecordAllMissesStreams, "fences::a_fence_behind_everything_covers_all_streams"),
    (Fault::RecordAllIsNone, "fences::a_fence_behind_everything_covers_all_streams"),
    (Fault::FencesRunOut, "fences::fences_come_back"),
    (Fault::IdentitiesRepeat, "streams::identities_are_never_used_twice"),
    (Fault::KeysCoincide, "streams::living_streams_have_different_keys"),
    (Fault::EndOfAStreamWaits, "streams::to_destroy_a_stream_does_not_wait"),
    (Fault::CapturedForNothing, "streams::no_stream_is_captured"),
    (Fault::RangesOverlap, "memory::ranges_do_not_overlap"),
    (Fault::FreeFreesNothing, "memory::what_is_freed_can_be_had_again"),
    (Fault::FreeWaits, "memory::a_free_waits_for_nothing"),
    (Fault::OutOfMemoryIsFatal, "memory::too_much_is_out_of_memory"),
    (Fault::OutOfMemoryIsAnyFailure, "memory::too_much_is_out_of_memory"),
    (Fault::RefusalKeepsMemory, "memory::too_much_is_out_of_memory"),
    (Fault::TooMuchIsServed, "memory::too_much_is_out_of_memory"),
    (Fault::MemoryStaysTheSame, "memory::memory_falls_and_rises"),
    (Fault::LongerElsewhere, "memory::a_longer_range_is_the_same"),
    (Fault::LongerAndEmpty, "memory::a_longer_range_is_the_same"),
    (Fault::LargestPageFirst, "pages::sizes_are_multiples"),
    (Fault::OddAddresses, "pages::addresses_are_aligned"),
    (Fault::SamePagesTwice, "pages::handles_are_different_memory"),
    (Fault::CommitLosesContents, "pages::a_handle_moves_with_what_it_holds"),
    (Fault::CommitMapsHalf, "pages::a_refused_commit_maps_none"),
    (Fault::DecommitWaits, "pages::pages_go_without_a_wait"),
    (Fault::PagesAreKept, "pages::destroyed_pages_can_be_had_again"),
    (Fault::CopyToTheStart, "copies::bytes_go_where_they_should"),
    (Fault::CopyGoesBack, "copies::bytes_go_where_they_should"),
    (Fault::CopyElsewhere, "copies::a_copy_is_in_its_streams_order"),
    (Fault::ClockGoesBack, "words::its_clock_goes_forward"),
    (Fault::CapabilitiesChange, "words::capabilities_never_change"),
];

/// Faults by which a case would not end.
const ENDLESS: &[(Fault, &str)] = &[
    (Fault::FenceNeverDone, "fences::a_fence_is_done_after_its_work"),
    (Fault::HostWaitsForEver, "fences::the_host_waits_for_a_fence"),
];

fn config() -> SimConfig {
    SimConfig::new().memory_bytes(1 << 30)
}

/// That a case finds a fault.
#[track_caller]
fn finds(suite: Suite, config: &SimConfig, fault: Fault, name: &str) {
    let case = cases().into_iter().find(|case| case.name == name).expect(name);
    let device = Broken::new(SimDevice::new(config.clone()), Some(fault));
    let verdict = suite.run_case(case, move || device);
    assert!(matches!(verdict, Verdict::Broken(_)), "{name} does not find {fault:?}: {verdict}");
}

#[test]
fn without_a_fault_it_conforms() {
    let whole = || Broken::new(SimDevice::new(config()), None);
    let report = check(whole).unwrap();
    assert!(report.passed() > 50, "{report}");
}

#[test]
fn each_fault_is_found_by_its_case() {
    for &(fault, case) in FAULTS {
        finds(Suite::new(), &config(), fault, case);
    }
}

#[test]
fn most_faults_are_found_though_work_runs_at_random() {
    for &(fault, case) in FAULTS {
        finds(Suite::new(), &config().pacing(Pacing::Random(3)), fault, case);
    }
}

#[test]
fn what_never_ends_is_found() {
    for &(fault, case) in ENDLESS {
        finds(Suite::new().patience(Duration::from_secs(2)), &config(), fault, case);
    }
}

#[test]
fn a_call_that_is_not_there_and_says_that_it_is_done_is_found() {
    let config = config().without(Capabilities::COPY);
    finds(Suite::new(), &config, Fault::SilentCopy, "words::what_it_has_not_is_refused");
}

#[test]
fn a_report_says_which_rule_was_broken_and_what_was_seen() {
    let broken = || Broken::new(SimDevice::new(config()), Some(Fault::HostGoesOn));
    let text = check(broken).unwrap_err().to_string();
    let expected = "fences::the_host_waits_for_a_fence: broken: `wait_on_host`: has the host wait for \
                    a fence\n    but when the host had waited, the byte at 0 is 0, not 1";
    assert!(text.contains(expected), "{text}");
}
