//! Pages: the driver's rules, and what the detector sees of memory that moves.

use pool_core::device::{Call, Capabilities, Device, Failure, Severity};
use pool_mock::device::{
    Access, Action, Pacing, SimConfig, SimDevice, SimError, SimPages, SimRange, Violation,
};

type Outcome = Result<(), Box<dyn core::error::Error>>;

/// No power of two: nothing may depend on it.
const PAGE: u64 = 192 << 10;

fn device(pages: u64) -> SimDevice {
    let config = SimConfig::new().page_sizes(vec![PAGE, 8 * PAGE]).memory_bytes(pages * PAGE);
    SimDevice::new(config.pacing(Pacing::Idle))
}

#[expect(clippy::needless_pass_by_value, reason = "what a call gave is looked at here alone")]
fn is_refused<T>(made: Result<T, Failure<SimError>>, why: &str) -> bool {
    matches!(made, Err(Failure::Device(SimError::Invalid(said))) if said == why)
}

#[test]
fn pages_are_created_mapped_unmapped_and_destroyed_whole() -> Outcome {
    let device = device(4);
    assert_eq!(device.page_sizes(), [PAGE, 8 * PAGE]);
    let range = device.reserve(16 * PAGE)?;
    assert_eq!(device.balance().bytes, 0, "it is only addresses");

    let one = device.create_pages(PAGE)?;
    let two = device.create_pages(2 * PAGE)?;
    let refused = device.create_pages(2 * PAGE);
    let Err(Failure::Device(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(device.severity(&error), Severity::OutOfMemory);
    assert_eq!((device.balance().bytes, device.balance().pages), (3 * PAGE, 2));

    device.commit(&range, PAGE, &[&one, &two])?;
    assert!(is_refused(device.free(&range), "there are pages under it"));
    device.decommit(&range, 2 * PAGE, &two)?;
    device.decommit(&range, PAGE, &one)?;
    assert_eq!(device.balance().bytes, 3 * PAGE, "the handles live on");
    device.commit(&range, 0, &[&two, &one])?;
    device.decommit(&range, 0, &two)?;
    device.destroy_pages(two)?;
    device.decommit(&range, 2 * PAGE, &one)?;
    device.destroy_pages(one)?;
    device.free(&range)?;
    assert!(device.balance().is_zero());
    device.assert_clean();
    Ok(())
}

#[test]
fn what_is_not_whole_is_refused_and_changes_nothing() -> Outcome {
    let device = device(8);
    assert!(is_refused(device.reserve(PAGE + 1), "these are no whole pages"));
    assert!(is_refused(device.reserve(0), "these are no whole pages"));
    assert!(is_refused(device.create_pages(0), "these are no whole pages"));
    assert!(is_refused(device.create_pages(PAGE / 2), "these are no whole pages"));

    let range = device.reserve(8 * PAGE)?;
    let (one, two) = (device.create_pages(PAGE)?, device.create_pages(2 * PAGE)?);
    let before = device.balance();
    let whole = "these are no whole pages";
    assert!(is_refused(device.commit(&range, PAGE + 1, &[&one]), whole));
    assert!(is_refused(device.commit(&range, 0, &[]), whole));
    assert!(is_refused(device.commit(&range, 7 * PAGE, &[&two]), "beyond the range's end"));
    let beyond = device.commit(&range, 6 * PAGE, &[&one, &two]);
    assert!(is_refused(beyond, "beyond the range's end"), "all of them or none");
    assert!(is_refused(device.commit(&range, 0, &[&one, &one]), "these pages are mapped"));
    device.commit(&range, 6 * PAGE, &[&one])?;
    assert!(is_refused(device.commit(&range, 0, &[&one]), "these pages are mapped"));
    assert!(is_refused(device.commit(&range, 5 * PAGE, &[&two]), "there is memory already"));
    assert!(is_refused(device.decommit(&range, 5 * PAGE, &one), "these pages do not begin there"));
    assert!(is_refused(device.decommit(&range, 6 * PAGE, &two), "these pages do not begin there"));

    device.decommit(&range, 6 * PAGE, &one)?;
    assert_eq!(device.balance(), before);
    device.commit(&range, 0, &[&one, &two])?;

    let backed = device.allocate(PAGE)?;
    let other = device.create_pages(PAGE)?;
    assert!(is_refused(device.commit(&backed, 0, &[&other]), "there is memory already"));
    assert!(is_refused(device.extend(&range, 8 * PAGE, 9 * PAGE), "these are only addresses"));
    device.assert_clean();
    Ok(())
}

#[test]
fn what_is_mapped_is_not_destroyed() -> Outcome {
    let device = device(1);
    let (range, pages) = (device.reserve(PAGE)?, device.create_pages(PAGE)?);
    device.commit(&range, 0, &[&pages])?;
    assert!(is_refused(device.destroy_pages(pages), "these pages are mapped"));
    assert_eq!(device.balance().pages, 1);
    Ok(())
}

#[test]
fn pages_of_another_device_are_nobodys() -> Outcome {
    let first = device(4);
    let second = first.peer();
    let (range, pages) = (first.reserve(PAGE)?, second.create_pages(PAGE)?);
    assert!(first.commit(&range, 0, &[&pages]).is_err());
    assert!(matches!(first.take_violations().as_slice(), [Violation::Unknown { .. }]));
    Ok(())
}

#[test]
fn uses_where_no_page_is_are_found() -> Outcome {
    let device = device(4);
    let (range, stream) = (device.reserve(4 * PAGE)?, device.create_stream()?);
    let owner = device.new_owner();
    let write = |offset, size| {
        device.queue_use(stream, &range, offset, size, owner, Access::Write).expect("it is queued");
        device.take_violations()
    };
    assert!(matches!(write(0, 1).as_slice(), [Violation::NotCommitted { .. }]));
    let pages = device.create_pages(2 * PAGE)?;
    device.commit(&range, PAGE, &[&pages])?;
    assert_eq!(write(PAGE, 2 * PAGE), []);
    let violations = write(2 * PAGE, PAGE + 1);
    let [Violation::NotCommitted { bytes, .. }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!(*bytes, 3 * PAGE..3 * PAGE + 1);
    device.synchronize()?;
    device.decommit(&range, PAGE, &pages)?;
    assert!(matches!(write(2 * PAGE, 1).as_slice(), [Violation::NotCommitted { .. }]));
    Ok(())
}

#[test]
fn pages_that_queued_work_uses_are_not_to_be_taken() -> Outcome {
    let device = device(4);
    let (range, stream) = (device.reserve(4 * PAGE)?, device.create_stream()?);
    let pages = device.create_pages(PAGE)?;
    device.commit(&range, 0, &[&pages])?;
    device.queue_use(stream, &range, 0, PAGE, device.new_owner(), Access::Write)?;
    device.run_all();
    // The work has run, but the host has not seen it: that it had run was luck.
    device.decommit(&range, 0, &pages)?;
    let violations = device.take_violations();
    let [Violation::TakenInUse { action: Action::Call(Call::Decommit), .. }] =
        violations.as_slice()
    else {
        panic!("{violations:?}")
    };

    device.commit(&range, PAGE, &[&pages])?;
    device.queue_use(stream, &range, PAGE, PAGE, device.new_owner(), Access::Write)?;
    let fence = device.record(&stream)?;
    device.wait_on_host(&fence)?;
    device.decommit(&range, PAGE, &pages)?;
    device.assert_clean();
    Ok(())
}

#[test]
fn what_is_in_pages_moves_with_them() -> Outcome {
    let device = device(4);
    let (range, stream) = (device.reserve(4 * PAGE)?, device.create_stream()?);
    let (one, other) = (device.new_owner(), device.new_owner());
    let pages = device.create_pages(PAGE)?;
    device.commit(&range, 0, &[&pages])?;
    device.queue_use(stream, &range, 4096, 4096, one, Access::Write)?;
    device.synchronize()?;
    device.decommit(&range, 0, &pages)?;
    device.commit(&range, 2 * PAGE, &[&pages])?;
    let moved = 2 * PAGE + 4096;
    device.queue_use(stream, &range, moved, 4096, one, Access::Read)?;
    device.run_all();
    device.assert_clean();
    device.queue_use(stream, &range, moved, 4096, other, Access::Read)?;
    device.run_all();
    let violations = device.take_violations();
    let [Violation::Contents { found, .. }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!(*found, Some(one));
    Ok(())
}

#[test]
fn each_call_fails_on_demand_and_does_nothing() -> Outcome {
    let device = device(4);
    let setup = || -> Result<(SimRange, SimPages), Failure<SimError>> {
        Ok((device.reserve(PAGE)?, device.create_pages(PAGE)?))
    };
    for call in [Call::Reserve, Call::CreatePages] {
        device.fail_next(call, 1);
        assert!(setup().is_err());
    }
    assert_eq!((device.balance().ranges, device.balance().pages), (1, 0));
    let (range, pages) = setup()?;
    device.fail_next(Call::Commit, 1);
    assert!(device.commit(&range, 0, &[&pages]).is_err());
    device.commit(&range, 0, &[&pages])?;
    device.fail_next(Call::Decommit, 1);
    assert!(device.decommit(&range, 0, &pages).is_err());
    device.decommit(&range, 0, &pages)?;
    device.fail_next(Call::DestroyPages, 1);
    assert!(device.destroy_pages(pages).is_err());
    assert_eq!((device.balance().bytes, device.balance().pages), (0, 0), "nobody has it any more");
    device.assert_clean();
    Ok(())
}

#[test]
fn a_device_without_pages_has_none_of_the_calls() {
    let device = SimDevice::new(SimConfig::new().without(Capabilities::PAGES));
    assert!(device.page_sizes().is_empty());
    let refused = device.reserve(2 << 20);
    assert_eq!(refused, Err(Failure::Unsupported(Call::Reserve)));
    let refused = device.create_pages(2 << 20);
    assert_eq!(refused, Err(Failure::Unsupported(Call::CreatePages)));
    assert_eq!(device.take_violations().len(), 2);
}

#[test]
fn captures_forbid_what_the_driver_might_refuse() -> Outcome {
    for grows in [false, true] {
        let mut config = SimConfig::new().page_sizes(vec![PAGE]);
        if grows {
            config = config.with(Capabilities::GROWS_IN_CAPTURE);
        }
        let device = SimDevice::new(config);
        let (range, pages) = (device.reserve(2 * PAGE)?, device.create_pages(PAGE)?);
        let stream = device.create_stream()?;
        device.begin_capture(stream)?;
        assert_eq!(device.commit(&range, 0, &[&pages]).is_ok(), grows);
        let _ = device.end_capture(stream);
        let _ = device.take_violations();
        let _ = device.commit(&range, 0, &[&pages]);
        device.begin_capture(stream)?;
        assert!(device.decommit(&range, 0, &pages).is_err());
        let _ = device.end_capture(stream);
    }
    Ok(())
}
