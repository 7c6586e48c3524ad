//! Handles of streams: default streams, keys that are used again, identities.

use pool_core::device::{Capabilities, Device, Failure};
use pool_mock::device::{
    Access, Pacing, SimConfig, SimDevice, SimError, SimRange, SimStream, StreamKind, Violation,
};

type Outcome = Result<(), Box<dyn core::error::Error>>;

fn setting() -> (SimDevice, SimRange) {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let range = device.allocate(4096).expect("there is room");
    (device, range)
}

fn write(device: &SimDevice, range: &SimRange, stream: SimStream) {
    device
        .queue_use(stream, range, 0, 4096, device.new_owner(), Access::Write)
        .expect("the stream exists");
}

/// Whether a write on one and then on the other is in order.
fn is_ordered(device: &SimDevice, range: &SimRange, streams: [SimStream; 2]) -> bool {
    for stream in streams {
        write(device, range, stream);
    }
    let ordered = device.take_violations().is_empty();
    device.synchronize().expect("nothing fails");
    ordered
}

#[test]
fn the_legacy_stream_is_ordered_with_blocking_streams_only() {
    let (device, range) = setting();
    let legacy = device.legacy_stream();
    let blocking = device.open_stream(StreamKind::Blocking);
    let other = device.open_stream(StreamKind::Blocking);
    let non_blocking = device.open_stream(StreamKind::NonBlocking);
    let created = device.create_stream().expect("nothing fails");
    let per_thread = device.per_thread_stream();
    for (stream, expected) in [
        (device.explicit_legacy_stream(), true),
        (blocking, true),
        (per_thread, true),
        (non_blocking, false),
        (created, false),
    ] {
        assert_eq!(is_ordered(&device, &range, [legacy, stream]), expected, "{stream:?}");
        assert_eq!(is_ordered(&device, &range, [stream, legacy]), expected, "{stream:?}");
    }
    assert!(!is_ordered(&device, &range, [blocking, other]));
    assert!(!is_ordered(&device, &range, [blocking, per_thread]));
}

#[test]
fn work_of_the_legacy_stream_orders_two_blocking_streams() -> Outcome {
    let (device, range) = setting();
    let (first, second) =
        (device.open_stream(StreamKind::Blocking), device.open_stream(StreamKind::Blocking));
    let elsewhere = device.allocate(4096)?;
    write(&device, &range, first);
    write(&device, &elsewhere, device.legacy_stream());
    write(&device, &range, second);
    device.assert_clean();
    // It runs in that order, too.
    device.hold(first)?;
    device.run_all();
    device.assert_clean();
    Ok(())
}

#[test]
fn the_legacy_stream_runs_behind_a_blocking_stream() -> Outcome {
    let (device, range) = setting();
    let blocking = device.open_stream(StreamKind::Blocking);
    device.hold(blocking)?;
    write(&device, &range, blocking);
    write(&device, &range, device.legacy_stream());
    while device.step(1) {}
    assert_eq!((device.queued(blocking)?, device.queued(device.legacy_stream())?), (1, 1));
    device.go(blocking)?;
    while device.step(1) {}
    assert!(device.is_idle());
    Ok(())
}

#[test]
fn default_streams_of_two_devices_are_two() -> Outcome {
    let (device, range) = setting();
    let peer = device.peer();
    write(&device, &range, device.legacy_stream());
    write(&device, &range, peer.legacy_stream());
    assert_eq!(device.take_violations().len(), 1);
    assert_ne!(device.stream_id(&device.legacy_stream())?, peer.stream_id(&peer.legacy_stream())?);
    Ok(())
}

#[test]
fn the_per_thread_handle_means_another_stream_on_each_thread() -> Outcome {
    let (device, range) = setting();
    let stream = device.per_thread_stream();
    let writes = |thread| SimDevice::as_thread(thread, || write(&device, &range, stream));
    writes(1);
    writes(1);
    device.assert_clean();
    writes(2);
    assert_eq!(device.take_violations().len(), 1);
    let real = std::thread::scope(|scope| {
        scope.spawn(|| device.stream_id(&stream)).join().expect("no panic")
    })?;
    assert_ne!(real, device.stream_id(&stream)?);
    // A fence recorded elsewhere is one of that thread's stream.
    let fence = SimDevice::as_thread(3, || device.record(&stream))?;
    device.wait(&device.per_thread_stream(), &fence)?;
    writes(3);
    assert!(!device.take_violations().is_empty());
    Ok(())
}

#[test]
fn a_key_is_the_very_next_streams() -> Outcome {
    let (device, range) = setting();
    let peer = device.peer();
    for _ in 0..64 {
        let raw = device.open_stream(StreamKind::NonBlocking);
        let id = device.stream_id(&raw)?;
        write(&device, &range, raw);
        device.close_stream(raw)?;
        let next = peer.create_stream()?;
        assert_eq!(device.stream_key(&raw), peer.stream_key(&next));
        assert_ne!(peer.stream_id(&next)?, id);
        // Whoever takes it for the same stream races.
        write(&device, &range, next);
        assert!(device.take_violations().iter().any(Violation::is_race));
        peer.destroy_stream(&next)?;
        peer.synchronize()?;
        device.synchronize()?;
    }
    assert_eq!(device.balance().opened_streams, 0);
    Ok(())
}

#[test]
fn work_and_fences_outlive_their_stream() -> Outcome {
    let (device, range) = setting();
    let (first, second) = (device.create_stream()?, device.create_stream()?);
    write(&device, &range, first);
    let fence = device.record(&first)?;
    device.destroy_stream(&first)?;
    device.wait(&second, &fence)?;
    write(&device, &range, second);
    assert!(!device.is_done(&fence)?);
    device.wait_on_host(&fence)?;
    device.discard(fence);
    device.synchronize()?;
    device.assert_clean();
    Ok(())
}

#[test]
fn a_dead_handle_kills() -> Outcome {
    let (device, range) = setting();
    let stream = device.create_stream()?;
    let fence = device.record(&stream)?;
    device.destroy_stream(&stream)?;
    let key = stream.key();
    let dead = Failure::Device(SimError::DeadStream { key });
    assert_eq!(device.record(&stream), Err(dead.clone()));
    assert_eq!(device.wait(&stream, &fence), Err(dead.clone()));
    assert_eq!(device.stream_id(&stream), Err(dead.clone()));
    assert_eq!(device.capture_id(&stream), Err(dead.clone()));
    assert_eq!(device.destroy_stream(&stream), Err(dead));
    let owner = device.new_owner();
    assert_eq!(
        device.queue_use(stream, &range, 0, 1, owner, Access::Read),
        Err(SimError::DeadStream { key })
    );
    let violations = device.take_violations();
    assert_eq!(violations.len(), 6);
    assert!(violations.iter().all(|one| matches!(one, Violation::DeadStream { .. })));
    assert!(!device.exists(stream));
    Ok(())
}

#[test]
fn each_kind_of_stream_is_ended_by_its_own_call() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let (created, opened) = (device.create_stream()?, device.open_stream(StreamKind::Blocking));
    assert!(device.destroy_stream(&opened).is_err());
    assert!(device.close_stream(created).is_err());
    assert!(device.close_stream(device.legacy_stream()).is_err());
    assert_eq!(device.take_violations().len(), 3);
    device.destroy_stream(&created)?;
    device.close_stream(opened)?;
    device.assert_clean();
    Ok(())
}

#[test]
fn live_streams_are_listed() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let (created, opened) = (device.create_stream()?, device.open_stream(StreamKind::Blocking));
    let gone = device.create_stream()?;
    device.destroy_stream(&gone)?;
    assert_eq!(device.streams(), Some(vec![created, opened]));
    Ok(())
}

#[test]
fn what_a_device_does_not_have_is_not_called() -> Outcome {
    let without = Capabilities::STREAM_IDS | Capabilities::CAPTURE | Capabilities::CLOCK;
    let device = SimDevice::new(SimConfig::new().without(without));
    let stream = device.create_stream()?;
    assert!(matches!(device.stream_id(&stream), Err(Failure::Unsupported(_))));
    assert!(matches!(device.take_violations().as_slice(), [Violation::Unsupported(_)]));
    assert_eq!(device.capture_id(&stream), Ok(None));
    assert_eq!(device.now(), None);
    device.assert_clean();
    Ok(())
}
