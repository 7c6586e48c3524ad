//! Each fault is found by the case that is meant for it.

use core::time::Duration;

use pool_core::device::Capabilities;
use pool_mock::conformance::{Suite, Verdict, cases, check};
use pool_mock::device::{Pacing, SimConfig, SimDevice};

use crate::broken::Broken;
use crate::fault::Fault;

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
    (Fault::NotAlive, "words::it_is_alive"),
    (Fault::NoticesWipe, "words::notices_change_nothing"),
    (Fault::OneThreadOnly, "memory::calls_come_from_any_thread"),
    (Fault::FreeWipesOthers, "memory::contents_outlast_what_others_do"),
    (Fault::NothingAfterRefusal, "memory::a_full_device_refuses_and_goes_on"),
    (Fault::AddressesCoincide, "memory::an_address_is_where_a_range_begins"),
    (Fault::StreamOutOfOrder, "streams::work_of_a_stream_runs_in_order"),
    (Fault::MadeStreamsAreOne, "streams::made_streams_are_streams"),
    (Fault::EndOfAStreamDropsWork, "streams::a_destroyed_stream_runs_its_work"),
    (Fault::SlowIsQuick, "fences::slow_work_is_slow"),
    (Fault::FenceForgetsWaits, "fences::a_fence_carries_what_its_stream_waited_for"),
    (Fault::NoWaitForItself, "fences::a_stream_may_wait_for_itself"),
    (Fault::DiscardedIsReused, "fences::a_fence_may_be_discarded_before_it_is_done"),
    (Fault::CopyBehindTheFence, "copies::a_copy_is_before_the_next_fence"),
    (Fault::CopyForgetsWaits, "copies::a_copy_waits_for_what_its_stream_does"),
    (Fault::CopyHoldsUpTheHost, "copies::a_copy_does_not_hold_up_the_host"),
    (Fault::FewSizes, "pages::every_multiple_is_a_handle"),
    (Fault::CommitMapsTheFirst, "pages::handles_lie_in_a_row"),
    (Fault::DecommitTakesMore, "pages::what_others_hold_stays"),
    (Fault::PagesFailAnyhow, "pages::too_many_pages_are_out_of_memory"),
    (Fault::AddressesRunOut, "pages::addresses_come_back"),
    // What whole pools come upon.
    (Fault::LongerAndEmpty, "pools::a_pool_serves_its_streams"),
    (Fault::CommitTakesMore, "pools::a_pool_in_pages_serves_its_streams"),
    (Fault::WaitIsNone, "pools::memory_goes_from_stream_to_stream"),
    (Fault::LongerAndEmpty, "pools::a_pool_grows_and_shrinks"),
    (Fault::OutOfMemoryIsFatal, "pools::a_pool_refuses_and_goes_on"),
];

/// Faults by which a case would not end.
const ENDLESS: &[(Fault, &str)] = &[
    (Fault::FenceNeverDone, "fences::a_fence_is_done_after_its_work"),
    (Fault::HostWaitsForEver, "fences::the_host_waits_for_a_fence"),
];

fn config() -> SimConfig {
    SimConfig::new().memory_bytes(1 << 30)
}

/// What a case says of a device with a fault, if it is not that a rule is broken.
fn missed(suite: Suite, config: &SimConfig, fault: Fault, name: &str) -> Option<String> {
    let case = cases().into_iter().find(|case| case.name == name).expect(name);
    let device = Broken::new(SimDevice::new(config.clone()), Some(fault));
    match suite.run_case(case, move || device) {
        Verdict::Broken(_) => None,
        other => Some(format!("{name} of {fault:?}: {other}")),
    }
}

/// Each of these faults is found by its case.
#[track_caller]
fn all_are_found(suite: Suite, config: &SimConfig, faults: &[(Fault, &str)]) {
    let missed = faults.iter().filter_map(|&(fault, case)| missed(suite, config, fault, case));
    let missed: Vec<_> = missed.collect();
    assert!(missed.is_empty(), "{missed:#?}");
}

#[test]
fn without_a_fault_it_conforms() {
    let whole = || Broken::new(SimDevice::new(config()), None);
    let report = check(whole).unwrap();
    assert!(report.passed() > 50, "{report}");
}

#[test]
fn each_fault_is_found_by_its_case() {
    all_are_found(Suite::new(), &config(), FAULTS);
}

#[test]
fn each_fault_is_found_though_work_runs_at_random() {
    all_are_found(Suite::new(), &config().pacing(Pacing::Random(3)), FAULTS);
}

#[test]
fn each_case_finds_some_fault() {
    let named: Vec<_> = FAULTS.iter().chain(ENDLESS).map(|&(_, case)| case).collect();
    let all = cases::<Broken>().into_iter().map(|case| case.name);
    let idle: Vec<_> = all.filter(|name| !named.contains(name)).collect();
    // Its fault is on a device that lacks something.
    assert_eq!(idle, ["words::what_it_has_not_is_refused"]);
}

#[test]
fn what_never_ends_is_found() {
    all_are_found(Suite::new().patience(Duration::from_secs(2)), &config(), ENDLESS);
}

#[test]
fn a_call_that_is_not_there_and_says_that_it_is_done_is_found() {
    let fault = (Fault::SilentCopy, "words::what_it_has_not_is_refused");
    all_are_found(Suite::new(), &config().without(Capabilities::COPY), &[fault]);
}

#[test]
fn a_report_says_which_rule_was_broken_and_what_was_seen() {
    let broken = || Broken::new(SimDevice::new(config()), Some(Fault::HostGoesOn));
    let text = check(broken).unwrap_err().to_string();
    let expected = "fences::the_host_waits_for_a_fence: broken: `wait_on_host`: has the host wait for \
                    a fence\n    but when the host had waited, the byte at 0 is 0, not 1";
    assert!(text.contains(expected), "{text}");
}
