//! Each edge that orders two uses: silent with it, a race without it.

use pool_core::device::Device;
use pool_mock::device::{
    Access, Pacing, SimConfig, SimDevice, SimRange, SimStream, StreamKind, Violation,
};

type Outcome = Result<(), Box<dyn core::error::Error>>;

const SIZE: u64 = 1 << 20;

/// A device on which nothing runs by itself, a range, and two own streams.
fn setting() -> (SimDevice, SimRange, SimStream, SimStream) {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let range = device.allocate(SIZE).expect("there is room");
    let streams = [(); 2].map(|()| device.create_stream().expect("streams are without limit"));
    (device, range, streams[0], streams[1])
}

/// Writes all bytes for a new owner.
fn write(device: &SimDevice, range: &SimRange, stream: SimStream) {
    device
        .queue_use(stream, range, 0, SIZE, device.new_owner(), Access::Write)
        .expect("the stream exists");
}

fn races(device: &SimDevice) -> usize {
    let violations = device.take_violations();
    assert!(violations.iter().all(Violation::is_race), "{violations:?}");
    violations.len()
}

#[test]
fn one_stream_orders_its_own_uses() {
    let (device, range, first, _) = setting();
    write(&device, &range, first);
    write(&device, &range, first);
    device.assert_clean();
}

#[test]
fn two_streams_race_without_a_wait() {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    write(&device, &range, second);
    let violations = device.take_violations();
    let [Violation::Race { earlier, later }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!((earlier.order, later.order), (1, 2));
    assert_eq!((earlier.bytes.clone(), later.bytes.clone()), (0..SIZE, 0..SIZE));
    assert_ne!(earlier.owner, later.owner);
    assert_eq!((earlier.stream.key, later.stream.key), (first.key(), second.key()));
    assert_eq!(violations[0].missing_edge(), Some((earlier.stream, later.stream)));
    let text = violations[0].to_string();
    assert!(text.contains("should have waited for"), "{text}");
}

#[test]
fn a_fence_and_a_wait_order() -> Outcome {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.wait(&second, &fence)?;
    write(&device, &range, second);
    assert_eq!(races(&device), 0);
    Ok(())
}

#[test]
fn a_fence_orders_nothing_that_comes_after_it() -> Outcome {
    let (device, range, first, second) = setting();
    let fence = device.record(&first)?;
    write(&device, &range, first);
    device.wait(&second, &fence)?;
    write(&device, &range, second);
    assert_eq!(races(&device), 1);
    Ok(())
}

#[test]
fn a_wait_orders_nothing_that_was_queued_before_it() -> Outcome {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    let fence = device.record(&first)?;
    write(&device, &range, second);
    device.wait(&second, &fence)?;
    assert_eq!(races(&device), 1);
    Ok(())
}

#[test]
fn waits_order_through_a_third_stream() -> Outcome {
    let (device, range, first, second) = setting();
    let third = device.create_stream()?;
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.wait(&second, &fence)?;
    let fence = device.record(&second)?;
    device.wait(&third, &fence)?;
    write(&device, &range, third);
    assert_eq!(races(&device), 0);
    Ok(())
}

#[test]
fn a_stale_fence_of_the_thief_does_not_pass_the_wait_on() -> Outcome {
    // The second stream's fence is older than its wait: who waits for it is not after the first.
    let (device, range, first, second) = setting();
    let third = device.create_stream()?;
    write(&device, &range, first);
    let stale = device.record(&second)?;
    let fence = device.record(&first)?;
    device.wait(&second, &fence)?;
    device.wait(&third, &stale)?;
    write(&device, &range, third);
    assert_eq!(races(&device), 1);
    Ok(())
}

#[test]
fn a_wait_of_the_host_orders_what_is_submitted_later() -> Outcome {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.wait_on_host(&fence)?;
    write(&device, &range, second);
    assert_eq!(races(&device), 0);
    Ok(())
}

#[test]
fn what_ran_is_no_order_until_the_host_has_seen_it() -> Outcome {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.run_all();
    write(&device, &range, second);
    assert_eq!(races(&device), 1, "it was done, and nobody had looked");

    write(&device, &range, first);
    assert_eq!(races(&device), 1);
    let later = device.record(&first)?;
    assert!(device.is_done(&fence)?, "an older fence says nothing of the newer write");
    device.run_all();
    write(&device, &range, second);
    assert_eq!(races(&device), 1);

    let last = device.record(&second)?;
    device.run_all();
    assert!(device.is_done(&last)? && device.is_done(&later)?);
    write(&device, &range, first);
    assert_eq!(races(&device), 0, "a look at the fences orders");
    Ok(())
}

#[test]
fn a_query_that_says_no_is_no_order() -> Outcome {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    let fence = device.record(&first)?;
    assert!(!device.is_done(&fence)?);
    write(&device, &range, second);
    assert_eq!(races(&device), 1);
    Ok(())
}

#[test]
fn synchronize_orders_everything() -> Outcome {
    let (device, range, first, second) = setting();
    write(&device, &range, first);
    device.synchronize()?;
    write(&device, &range, second);
    assert_eq!(races(&device), 0);
    Ok(())
}

#[test]
fn the_host_passes_on_what_a_fence_knew_of_other_streams() -> Outcome {
    let (device, range, first, second) = setting();
    let third = device.create_stream()?;
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.wait(&second, &fence)?;
    let fence = device.record(&second)?;
    device.wait_on_host(&fence)?;
    write(&device, &range, third);
    assert_eq!(races(&device), 0);
    Ok(())
}

#[test]
fn fences_of_record_all_are_behind_every_stream() -> Outcome {
    for leave_out in [None, Some(0), Some(1), Some(2)] {
        let (device, range, first, second) = setting();
        let raw = device.open_stream(StreamKind::NonBlocking);
        let third = SIZE / 3;
        for (place, stream) in (0..).zip([first, second, raw]) {
            let owner = device.new_owner();
            device.queue_use(stream, &range, place * third, third, owner, Access::Write)?;
        }
        device.close_stream(raw)?;
        let user = device.open_stream(StreamKind::NonBlocking);
        assert_eq!(user, raw, "the handle is used again");
        let fences = device.record_all()?;
        assert_eq!(fences.len(), 3, "the closed stream's work is work of the device, too");
        for (place, fence) in fences.iter().enumerate() {
            if Some(place) != leave_out {
                device.wait(&user, fence)?;
            }
        }
        write(&device, &range, user);
        assert_eq!(races(&device), usize::from(leave_out.is_some()), "{leave_out:?}");
    }
    Ok(())
}

#[test]
fn a_device_that_does_not_list_its_streams_waits_for_everything() -> Outcome {
    let config = SimConfig::new().pacing(Pacing::Idle).lists_streams(false);
    let device = SimDevice::new(config);
    let range = device.allocate(SIZE)?;
    let (first, second) = (device.create_stream()?, device.create_stream()?);
    write(&device, &range, first);
    assert!(device.streams().is_none());
    assert!(device.record_all()?.is_empty());
    assert!(device.is_idle());
    write(&device, &range, second);
    assert_eq!(races(&device), 0);
    Ok(())
}

#[test]
fn reads_do_not_race_with_reads_and_do_with_writes() -> Outcome {
    let (device, range, first, second) = setting();
    let (one, other) = (device.new_owner(), device.new_owner());
    device.queue_use(first, &range, 0, SIZE, one, Access::Read)?;
    device.queue_use(second, &range, 0, SIZE, other, Access::Read)?;
    assert_eq!(races(&device), 0);
    let third = device.create_stream()?;
    write(&device, &range, third);
    assert_eq!(races(&device), 2, "with each of the reads");
    Ok(())
}

#[test]
fn a_read_does_not_hide_the_write_before_it() -> Outcome {
    let (device, range, first, second) = setting();
    let one = device.new_owner();
    device.queue_use(first, &range, 0, SIZE, one, Access::Write)?;
    device.queue_use(first, &range, 0, SIZE, one, Access::Read)?;
    device.queue_use(second, &range, 0, SIZE, device.new_owner(), Access::Read)?;
    assert_eq!(races(&device), 1);
    Ok(())
}

#[test]
fn only_common_bytes_race() -> Outcome {
    let (device, range, first, second) = setting();
    device.queue_use(first, &range, 0, 4096, device.new_owner(), Access::Write)?;
    device.queue_use(second, &range, 4096, 4096, device.new_owner(), Access::Write)?;
    let other = device.allocate(SIZE)?;
    device.queue_use(second, &other, 0, 4096, device.new_owner(), Access::Write)?;
    assert_eq!(races(&device), 0);
    device.queue_use(second, &range, 4095, 2, device.new_owner(), Access::Write)?;
    let violations = device.take_violations();
    let [Violation::Race { earlier, later }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!((earlier.bytes.clone(), later.bytes.clone()), (0..4096, 4095..4097));
    Ok(())
}

#[test]
fn one_owner_orders_its_own_uses_or_is_told_by_a_switch() -> Outcome {
    for strict in [false, true] {
        let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle).same_owner(strict));
        let range = device.allocate(SIZE)?;
        let (first, second) = (device.create_stream()?, device.create_stream()?);
        let owner = device.new_owner();
        device.queue_use(first, &range, 0, SIZE, owner, Access::Write)?;
        device.queue_use(second, &range, 0, SIZE, owner, Access::Write)?;
        assert_eq!(races(&device), usize::from(strict));
        // Both are still to be waited for by the next owner.
        let third = device.create_stream()?;
        write(&device, &range, third);
        assert_eq!(races(&device), 2);
    }
    Ok(())
}

#[test]
fn memory_is_not_freed_under_queued_work() -> Outcome {
    let (device, range, first, _) = setting();
    write(&device, &range, first);
    device.free(&range)?;
    let violations = device.take_violations();
    assert!(matches!(violations.as_slice(), [Violation::TakenInUse { .. }]), "{violations:?}");

    let range = device.allocate(SIZE)?;
    write(&device, &range, first);
    device.run_all();
    device.free(&range)?;
    assert_eq!(device.take_violations().len(), 1, "done, and nobody had looked");

    let range = device.allocate(SIZE)?;
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.wait_on_host(&fence)?;
    device.free(&range)?;
    device.assert_clean();
    Ok(())
}

#[test]
fn nothing_uses_a_range_that_was_freed() -> Outcome {
    let (device, range, first, _) = setting();
    device.free(&range)?;
    write(&device, &range, first);
    let violations = device.take_violations();
    assert!(matches!(violations.as_slice(), [Violation::Freed(_)]), "{violations:?}");
    assert!(device.free(&range).is_err());
    assert!(matches!(device.take_violations().as_slice(), [Violation::Unknown { .. }]));
    Ok(())
}

#[test]
fn resting_bytes_are_not_used() -> Outcome {
    let (device, range, first, _) = setting();
    device.quarantine(&range, 4096, 4096);
    device.queue_use(first, &range, 0, 4096, device.new_owner(), Access::Write)?;
    device.assert_clean();
    device.queue_use(first, &range, 0, 4097, device.new_owner(), Access::Write)?;
    let violations = device.take_violations();
    let [Violation::Resting { bytes, .. }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!(*bytes, 4096..4097);
    device.release(&range, 4096, 4096);
    write(&device, &range, first);
    device.assert_clean();
    Ok(())
}

/// Whatever queues a use is met, when it does: whether the use runs is another matter.
#[test]
fn resting_bytes_are_neither_copied_nor_launched() -> Outcome {
    let (device, range, first, second) = setting();
    let rests = || {
        let found = device.take_violations();
        assert!(found.iter().all(|one| matches!(one, Violation::Resting { .. })), "{found:?}");
        found.len()
    };
    device.begin_capture(second)?;
    device.queue_use(second, &range, 0, 4096, device.new_owner(), Access::Write)?;
    let graph = device.end_capture(second)?;
    device.launch_graph(graph, first)?;
    device.quarantine(&range, 0, 4096);
    assert_eq!(rests(), 0, "what was queued before");
    device.copy(&first, (&range, 0), (&range, 8192), 4096)?;
    assert_eq!(rests(), 1, "from");
    device.copy(&first, (&range, 8192), (&range, 4000), 4096)?;
    assert_eq!(rests(), 1, "to, in part");
    device.begin_capture(second)?;
    device.queue_use(second, &range, 0, 4096, device.new_owner(), Access::Read)?;
    let later = device.end_capture(second)?;
    assert_eq!(rests(), 0, "a graph that may never run");
    device.launch_graph(graph, first)?;
    device.launch_graph(later, second)?;
    assert_eq!(rests(), 2);
    device.release(&range, 0, 4096);
    device.launch_graph(graph, first)?;
    assert_eq!(rests(), 0);
    Ok(())
}

#[test]
fn uses_end_with_the_range() -> Outcome {
    let (device, range, first, _) = setting();
    device.queue_use(first, &range, SIZE - 1, 2, device.new_owner(), Access::Write)?;
    device.queue_use(first, &range, u64::MAX, u64::MAX, device.new_owner(), Access::Write)?;
    let violations = device.take_violations();
    assert!(
        matches!(violations.as_slice(), [Violation::Outside(_), Violation::Outside(_)]),
        "{violations:?}"
    );
    Ok(())
}

#[test]
fn a_copy_is_ordered_with_everything() -> Outcome {
    let (device, range, first, second) = setting();
    let owner = device.new_owner();
    device.queue_use(first, &range, 0, 4096, owner, Access::Write)?;
    device.copy(&second, (&range, 0), (&range, 8192), 4096)?;
    assert_eq!(races(&device), 1, "it reads what was written");
    device.queue_use(first, &range, 8192, 4096, owner, Access::Read)?;
    assert_eq!(races(&device), 1, "and writes what is read");
    assert!(device.copy(&second, (&range, 0), (&range, 4095), 4096).is_err(), "they overlap");
    Ok(())
}

#[test]
fn a_peer_device_shares_the_detector_and_the_fences() -> Outcome {
    for waits in [false, true] {
        let (device, range, first, _) = setting();
        let peer = device.peer();
        let far = peer.create_stream()?;
        // The peer writes the first device's memory.
        write(&peer, &range, far);
        let fence = peer.record(&far)?;
        if waits {
            device.wait(&first, &fence)?;
        }
        write(&device, &range, first);
        assert_eq!(races(&device), usize::from(!waits));
        device.synchronize()?;
        device.free(&range)?;
        let violations = peer.take_violations();
        // To wait for the first device is not to wait for the peer, unless the stream did.
        assert_eq!(violations.len(), usize::from(!waits), "{violations:?}");
    }
    Ok(())
}

#[test]
fn a_device_with_one_queue_orders_everything() -> Outcome {
    use pool_core::device::Capabilities;
    let without = Capabilities::FENCES | Capabilities::STREAMS;
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle).without(without));
    let range = device.allocate(SIZE)?;
    let (first, second) = (device.legacy_stream(), device.per_thread_stream());
    write(&device, &range, first);
    write(&device, &range, second);
    assert!(device.record_all()?.is_empty());
    device.free(&range)?;
    device.assert_clean();
    Ok(())
}

#[test]
fn the_detector_can_be_off() {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle).detector(false));
    let range = device.allocate(SIZE).expect("there is room");
    for _ in 0..2 {
        write(&device, &range, device.open_stream(StreamKind::NonBlocking));
    }
    device.assert_clean();
}
