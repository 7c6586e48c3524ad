//! Captures: what goes into a graph, what a launch uses, and what breaks a capture.

use pool_core::device::{Capabilities, Device, Failure};
use pool_mock::device::{
    Access, CaptureMode, Pacing, SimConfig, SimDevice, SimError, SimRange, SimStream, StreamKind,
    Violation,
};

type Outcome = Result<(), Box<dyn core::error::Error>>;

const SIZE: u64 = 4096;

fn setting() -> (SimDevice, SimRange, SimStream, SimStream) {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let range = device.allocate(SIZE).expect("there is room");
    let streams = [(); 2].map(|()| device.create_stream().expect("nothing fails"));
    (device, range, streams[0], streams[1])
}

fn write(device: &SimDevice, range: &SimRange, stream: SimStream) {
    device
        .queue_use(stream, range, 0, SIZE, device.new_owner(), Access::Write)
        .expect("the stream takes work");
}

#[test]
fn a_capture_runs_nothing_and_a_launch_does() -> Outcome {
    let (device, range, stream, other) = setting();
    device.begin_capture(stream)?;
    write(&device, &range, stream);
    assert_eq!(device.queued(stream)?, 0);
    write(&device, &range, other);
    device.assert_clean();
    let graph = device.end_capture(stream)?;
    device.launch_graph(graph, stream)?;
    assert_eq!(device.take_violations().len(), 1, "the launch writes what the other stream wrote");
    device.synchronize()?;
    device.launch_graph(graph, stream)?;
    device.launch_graph(graph, other)?;
    device.assert_clean();
    Ok(())
}

#[test]
fn each_launch_is_a_new_use() -> Outcome {
    let (device, range, stream, other) = setting();
    device.begin_capture(stream)?;
    write(&device, &range, stream);
    let graph = device.end_capture(stream)?;
    device.launch_graph(graph, stream)?;
    let fence = device.record(&stream)?;
    device.wait(&other, &fence)?;
    write(&device, &range, other);
    device.assert_clean();
    device.launch_graph(graph, stream)?;
    let violations = device.take_violations();
    assert!(matches!(violations.as_slice(), [Violation::Race { .. }]), "{violations:?}");
    Ok(())
}

#[test]
fn launches_look_for_the_marks() -> Outcome {
    let (device, range, stream, _) = setting();
    let owner = device.new_owner();
    device.queue_use(stream, &range, 0, SIZE, owner, Access::Write)?;
    device.begin_capture(stream)?;
    device.queue_use(stream, &range, 0, SIZE, owner, Access::Read)?;
    let graph = device.end_capture(stream)?;
    device.launch_graph(graph, stream)?;
    device.synchronize()?;
    device.assert_clean();
    // Reused between two launches, in stream order: no race, and yet wrong.
    write(&device, &range, stream);
    device.launch_graph(graph, stream)?;
    device.synchronize()?;
    let violations = device.take_violations();
    assert!(matches!(violations.as_slice(), [Violation::Contents { .. }]), "{violations:?}");
    Ok(())
}

#[test]
fn a_launch_after_the_range_was_freed_is_seen() -> Outcome {
    let (device, range, stream, _) = setting();
    device.begin_capture(stream)?;
    write(&device, &range, stream);
    let graph = device.end_capture(stream)?;
    device.free(&range)?;
    device.launch_graph(graph, stream)?;
    assert!(matches!(device.take_violations().as_slice(), [Violation::Freed(_)]));
    Ok(())
}

#[test]
fn a_capture_spreads_through_waits_and_comes_back() -> Outcome {
    for (joins, comes_back) in [(false, false), (true, false), (true, true)] {
        let (device, range, stream, other) = setting();
        let capture = device.begin_capture(stream)?;
        write(&device, &range, stream);
        if joins {
            let fence = device.record(&stream)?;
            device.wait(&other, &fence)?;
            assert_eq!(device.capture_id(&other)?, Some(capture));
            device.discard(fence);
        }
        write(&device, &range, other);
        if comes_back {
            let fence = device.record(&other)?;
            device.wait(&stream, &fence)?;
            device.discard(fence);
        }
        let ended = device.end_capture(stream);
        assert_eq!(device.capture_id(&other)?, None);
        assert_eq!(device.capture_id(&stream)?, None);
        if joins && !comes_back {
            assert_eq!(ended, Err(SimError::Unjoined));
            continue;
        }
        device.launch_graph(ended?, stream)?;
        let races = device.take_violations().len();
        assert_eq!(races, usize::from(!joins), "in the graph both are in order");
    }
    Ok(())
}

#[test]
fn branches_of_a_graph_race() -> Outcome {
    for orders in [false, true] {
        let (device, range, stream, other) = setting();
        device.begin_capture(stream)?;
        let fork = device.record(&stream)?;
        device.wait(&other, &fork)?;
        write(&device, &range, stream);
        if orders {
            let fence = device.record(&stream)?;
            device.wait(&other, &fence)?;
        }
        write(&device, &range, other);
        let join = device.record(&other)?;
        device.wait(&stream, &join)?;
        let graph = device.end_capture(stream)?;
        device.assert_clean();
        device.launch_graph(graph, stream)?;
        assert_eq!(device.take_violations().len(), usize::from(!orders));
        // All of a launch comes before what is queued next.
        write(&device, &range, stream);
        device.assert_clean();
        device.synchronize()?;
        assert!(device.is_idle());
    }
    Ok(())
}

#[test]
fn a_graph_runs_in_its_order() -> Outcome {
    for seed in 0..50 {
        let device = SimDevice::new(SimConfig::new().pacing(Pacing::Random(seed)));
        let range = device.allocate(SIZE)?;
        let (stream, other) = (device.create_stream()?, device.create_stream()?);
        let (one, two) = (device.new_owner(), device.new_owner());
        let half = SIZE / 2;
        // Before the launch, on both of its branches, and after it.
        device.begin_capture(stream)?;
        device.queue_use(stream, &range, 0, half, one, Access::Read)?;
        let fork = device.record(&stream)?;
        device.wait(&other, &fork)?;
        device.queue_use(other, &range, 0, half, two, Access::Write)?;
        device.queue_use(stream, &range, half, half, two, Access::Write)?;
        let across = device.record(&stream)?;
        device.wait(&other, &across)?;
        device.queue_use(other, &range, 0, SIZE, two, Access::Read)?;
        let join = device.record(&other)?;
        device.wait(&stream, &join)?;
        device.queue_use(stream, &range, 0, SIZE, two, Access::Read)?;
        let graph = device.end_capture(stream)?;
        for launcher in [stream, other, stream] {
            device.queue_use(launcher, &range, 0, SIZE, one, Access::Write)?;
            device.launch_graph(graph, launcher)?;
            device.queue_use(launcher, &range, 0, SIZE, two, Access::Read)?;
            device.queue_use(launcher, &range, 0, SIZE, one, Access::Write)?;
            device.synchronize()?;
        }
        device.assert_clean();
    }
    Ok(())
}

#[test]
fn calls_that_no_capture_allows_break_it() -> Outcome {
    type Made = Result<(), Failure<SimError>>;
    type Forbidden = (&'static str, fn(&SimDevice) -> Made);
    let calls: [Forbidden; 5] = [
        ("allocate", |device| device.allocate(4096).map(drop)),
        ("synchronize", SimDevice::synchronize),
        ("record_all", |device| device.record_all().map(drop)),
        ("query", |device| {
            let fence = device.record(&device.open_stream(StreamKind::NonBlocking))?;
            device.is_done(&fence).map(drop)
        }),
        ("wait", |device| {
            let fence = device.record(&device.open_stream(StreamKind::NonBlocking))?;
            device.wait_on_host(&fence)
        }),
    ];
    for (name, call) in calls {
        let (device, range, stream, _) = setting();
        let capture = device.begin_capture(stream)?;
        let forbidden = Failure::Device(SimError::ForbiddenInCapture { capture });
        assert_eq!(call(&device), Err(forbidden), "{name}");
        let violations = device.take_violations();
        assert!(matches!(violations.as_slice(), [Violation::InCapture { .. }]), "{name}");
        let owner = device.new_owner();
        assert_eq!(
            device.queue_use(stream, &range, 0, 1, owner, Access::Read),
            Err(SimError::CaptureInvalidated)
        );
        assert_eq!(device.end_capture(stream), Err(SimError::CaptureInvalidated));
        call(&device)?;
        device.assert_clean();
    }
    let (device, range, stream, _) = setting();
    device.begin_capture(stream)?;
    assert!(device.free(&range).is_err());
    assert!(device.end_capture(stream).is_err());
    assert_eq!(device.balance().ranges, 1);
    Ok(())
}

#[test]
fn a_device_may_grow_in_captures() -> Outcome {
    let device = SimDevice::new(SimConfig::new().with(Capabilities::GROWS_IN_CAPTURE));
    let stream = device.create_stream()?;
    device.begin_capture(stream)?;
    device.allocate(4096)?;
    device.assert_clean();
    device.end_capture(stream)?;
    Ok(())
}

#[test]
fn modes_forbid_to_more_or_fewer_threads() -> Outcome {
    for (mode, own, others) in [
        (CaptureMode::Global, true, true),
        (CaptureMode::ThreadLocal, true, false),
        (CaptureMode::Relaxed, false, false),
    ] {
        for (thread, forbidden) in [(1, own), (2, others)] {
            let (device, _, stream, other) = setting();
            let fence = device.record(&other)?;
            SimDevice::as_thread(1, || device.begin_capture_in(stream, mode))?;
            let asked = SimDevice::as_thread(thread, || device.is_done(&fence));
            assert_eq!(asked.is_err(), forbidden, "{mode:?}, thread {thread}");
            assert_eq!(device.end_capture(stream).is_err(), forbidden);
        }
    }
    Ok(())
}

#[test]
fn a_captured_fence_is_nothing_that_the_host_can_look_at() -> Outcome {
    for ended in [false, true] {
        let (device, _, stream, other) = setting();
        device.begin_capture_in(stream, CaptureMode::Relaxed)?;
        let fence = device.record(&stream)?;
        if ended {
            device.end_capture(stream)?;
        }
        assert_eq!(device.is_done(&fence), Err(Failure::Device(SimError::CapturedFence)));
        let violations = device.take_violations();
        assert!(matches!(violations.as_slice(), [Violation::CapturedFence { .. }]));
        if ended {
            assert!(device.wait(&other, &fence).is_err());
        } else {
            assert_eq!(device.end_capture(stream), Err(SimError::CaptureInvalidated));
        }
        device.discard(fence);
    }
    Ok(())
}

#[test]
fn a_captured_stream_waits_for_nothing_outside() -> Outcome {
    let (device, _, stream, other) = setting();
    let fence = device.record(&other)?;
    device.begin_capture(stream)?;
    assert_eq!(device.wait(&stream, &fence), Err(Failure::Device(SimError::OutsideCapture)));
    assert!(matches!(device.take_violations().as_slice(), [Violation::InCapture { .. }]));
    assert!(device.end_capture(stream).is_err());
    Ok(())
}

#[test]
fn two_captures_do_not_mix() -> Outcome {
    let (device, _, stream, other) = setting();
    device.begin_capture(stream)?;
    device.begin_capture(other)?;
    let fence = device.record(&stream)?;
    assert!(device.wait(&other, &fence).is_err());
    assert!(!device.take_violations().is_empty());
    Ok(())
}

#[test]
fn the_legacy_stream_and_captures_exclude_each_other() -> Outcome {
    let (device, range, _, _) = setting();
    let legacy = device.legacy_stream();
    assert!(device.begin_capture(legacy).is_err());
    let owner = device.new_owner();
    for (kind, excluded) in [(StreamKind::Blocking, true), (StreamKind::NonBlocking, false)] {
        let stream = device.open_stream(kind);
        device.begin_capture(stream)?;
        let queued = device.queue_use(legacy, &range, 0, 1, owner, Access::Write);
        assert_eq!(queued.is_err(), excluded);
        assert_eq!(device.end_capture(stream).is_err(), excluded);
        assert_eq!(device.take_violations().is_empty(), !excluded);
    }
    Ok(())
}

#[test]
fn a_spoiled_capture_ends_with_an_error() -> Outcome {
    let (device, _, stream, _) = setting();
    device.begin_capture(stream)?;
    device.spoil_capture(stream)?;
    assert_eq!(device.end_capture(stream), Err(SimError::CaptureInvalidated));
    assert_eq!(device.end_capture(stream), Err(SimError::NotCapturing));
    device.assert_clean();
    Ok(())
}

#[test]
fn graphs_are_counted() -> Outcome {
    let (device, range, stream, _) = setting();
    device.begin_capture(stream)?;
    write(&device, &range, stream);
    let graph = device.end_capture(stream)?;
    assert_eq!(device.balance().graphs, 1);
    device.launch_graph(graph, stream)?;
    device.drop_graph(graph)?;
    assert_eq!(device.balance().graphs, 0);
    assert!(device.launch_graph(graph, stream).is_err());
    device.synchronize()?;
    assert!(device.is_idle(), "what was launched runs");
    Ok(())
}
