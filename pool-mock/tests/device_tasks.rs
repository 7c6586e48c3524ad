//! Tasks: work of a program's that runs when the stream comes there, and what is around it.

use std::sync::{Arc, Mutex};

use pool_core::device::{Call, Capabilities, Device};
use pool_mock::device::{
    Access, Action, CaptureMode, CaptureStatus, Pacing, SimConfig, SimDevice, SimError, SimRange,
    SimStream, StreamKind, Violation,
};

type Outcome = Result<(), Box<dyn core::error::Error>>;

/// What tasks have written, in order.
type Log = Arc<Mutex<Vec<&'static str>>>;

fn setting() -> (SimDevice, SimRange, [SimStream; 2], Log) {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let range = device.lend_range(4096);
    let streams = [(); 2].map(|()| device.open_stream(StreamKind::NonBlocking));
    (device, range, streams, Log::default())
}

/// Queues a task that writes a word.
fn task(
    device: &SimDevice,
    stream: SimStream,
    log: &Log,
    word: &'static str,
    uses: &[(SimRange, u64, u64, Access)],
) {
    let log = Arc::clone(log);
    let write = move || log.lock().unwrap().push(word);
    device.queue_task(stream, uses, Arc::new(write)).expect("the stream exists");
}

fn words(log: &Log) -> Vec<&'static str> {
    log.lock().unwrap().clone()
}

#[test]
fn tasks_run_in_the_order_of_streams_and_fences() -> Outcome {
    let (device, _, [first, second], log) = setting();
    task(&device, first, &log, "one", &[]);
    task(&device, first, &log, "two", &[]);
    let fence = device.queue_record(first)?;
    device.queue_wait(second, &fence)?;
    task(&device, second, &log, "three", &[]);
    assert!(words(&log).is_empty());
    assert!(device.host_wait_stream(second)?);
    assert_eq!(words(&log), ["one", "two", "three"]);
    device.discard_fence(fence);
    Ok(())
}

#[test]
fn two_tasks_race_unless_something_orders_them() -> Outcome {
    let (device, range, [first, second], log) = setting();
    let write = |stream, from| task(&device, stream, &log, "", &[(range, from, 10, Access::Write)]);
    write(first, 0);
    write(second, 10);
    device.assert_clean();
    write(second, 9);
    assert!(matches!(device.take_violations().as_slice(), [Violation::Race { .. }]));
    let fence = device.queue_record(second)?;
    device.queue_wait(first, &fence)?;
    write(first, 9);
    device.assert_clean();
    task(&device, first, &log, "", &[(range, 4090, 10, Access::Read)]);
    assert!(matches!(device.take_violations().as_slice(), [Violation::Outside(_)]));
    device.discard_fence(fence);
    Ok(())
}

#[test]
fn updates_are_ordered_with_all_but_updates() {
    use Access::{Read, Update, Write};
    for (earlier, later, races) in [
        (Update, Update, false),
        (Update, Read, true),
        (Update, Write, true),
        (Read, Update, true),
        (Write, Update, true),
        (Read, Read, false),
    ] {
        let (device, range, [first, second], log) = setting();
        task(&device, first, &log, "", &[(range, 0, 8, earlier)]);
        task(&device, second, &log, "", &[(range, 0, 8, later)]);
        assert_eq!(device.take_violations().len(), usize::from(races), "{earlier:?} {later:?}");
    }
}

#[test]
fn an_update_does_not_hide_what_is_before_it() -> Outcome {
    let (device, range, [first, second], log) = setting();
    let third = device.open_stream(StreamKind::NonBlocking);
    let queue = |stream, access| task(&device, stream, &log, "", &[(range, 0, 8, access)]);
    queue(first, Access::Read);
    let fence = device.queue_record(first)?;
    device.queue_wait(second, &fence)?;
    queue(second, Access::Update);
    device.assert_clean();
    // Not behind the read.
    queue(third, Access::Update);
    assert_eq!(device.take_violations().len(), 1);
    device.discard_fence(fence);
    Ok(())
}

#[test]
fn a_captured_task_runs_at_each_launch_and_is_used_anew() -> Outcome {
    let (device, range, [first, second], log) = setting();
    let uses = [(range, 0, 8, Access::Write)];
    device.begin_capture(first)?;
    task(&device, first, &log, "again", &uses);
    let graph = device.end_capture(first)?;
    device.run_all();
    assert!(words(&log).is_empty());
    for times in 1..=2 {
        device.launch_graph(graph, first)?;
        device.run_all();
        assert_eq!(words(&log).len(), times);
    }
    device.assert_clean();
    task(&device, second, &log, "other", &uses);
    device.launch_graph(graph, first)?;
    assert!(device.take_violations().iter().all(Violation::is_race));
    device.drop_graph(graph)?;
    device.run_all();
    assert_eq!(words(&log).len(), 4);
    Ok(())
}

#[test]
fn a_task_runs_without_the_lock_and_must_not_call() -> Outcome {
    let (device, _, [stream, _], _) = setting();
    let inside = device.clone();
    device.queue_task(
        stream,
        &[],
        Arc::new(move || {
            assert!(SimDevice::is_in_callback());
            assert!(!inside.is_idle());
            assert!(inside.synchronize().is_err());
        }),
    )?;
    device.run_all();
    let violations = device.take_violations();
    assert_eq!(violations, [Violation::InCallback(Action::Call(Call::Synchronize))]);
    assert!(!SimDevice::is_in_callback());
    Ok(())
}

#[test]
fn what_is_behind_a_task_waits_for_its_end() {
    let (device, _, [stream, _], log) = setting();
    let (inside, words_of_first) = (device.clone(), Arc::clone(&log));
    let first = move || {
        assert!(!inside.step(0), "nothing else may run");
        words_of_first.lock().unwrap().push("first");
    };
    device.queue_task(stream, &[], Arc::new(first)).expect("the stream exists");
    task(&device, stream, &log, "second", &[]);
    device.run_all();
    assert_eq!(words(&log), ["first", "second"]);
}

#[test]
fn a_task_that_is_waited_for_has_run() -> Outcome {
    let (device, range, [first, second], log) = setting();
    let run = |stream| {
        let log = Arc::clone(&log);
        let write = move || log.lock().unwrap().push("run");
        device.run_task(stream, &[(range, 0, 1, Access::Write)], Arc::new(write))
    };
    assert!(!run(first)?, "there was nothing to wait for");
    assert_eq!(words(&log), ["run"]);
    task(&device, second, &log, "before", &[]);
    assert!(run(second)?);
    assert_eq!(words(&log), ["run", "before", "run"]);
    device.assert_clean();
    device.hold(first)?;
    assert!(run(first)?, "a stalled stream has to be waited for");
    device.begin_capture_in(first, CaptureMode::Relaxed)?;
    assert!(run(first).is_err());
    assert_eq!(words(&log).len(), 4, "what is refused does not run");
    assert!(device.end_capture(first).is_err());
    Ok(())
}

#[test]
fn the_host_knows_whether_it_waited() -> Outcome {
    let (device, _, [first, second], log) = setting();
    task(&device, first, &log, "", &[]);
    let fence = device.queue_record(first)?;
    assert_eq!((device.query_fence(&fence)?, device.query_stream(first)?), (false, false));
    assert!(device.query_stream(second)?);
    assert!(!device.host_wait_stream(second)?);
    assert!(device.host_wait(&fence)?);
    assert!(!device.host_wait(&fence)?);
    assert_eq!((device.query_fence(&fence)?, device.query_stream(first)?), (true, true));
    assert!(!device.host_wait_all()?);
    task(&device, second, &log, "", &[]);
    assert!(device.host_wait_all()?);
    device.discard_fence(fence);
    Ok(())
}

#[test]
fn a_query_that_finds_all_done_is_what_a_range_waits_for() -> Outcome {
    let (device, range, [stream, _], log) = setting();
    let uses = [(range, 0, 8, Access::Read)];
    task(&device, stream, &log, "", &uses);
    device.run_all();
    let other = device.lend_range(8);
    task(&device, stream, &log, "", &[(other, 0, 8, Access::Read)]);
    device.run_all();
    assert!(device.take_range_back(&other, "unmap")?, "nobody has looked");
    assert!(matches!(
        device.take_violations().as_slice(),
        [Violation::TakenInUse { action: Action::Program("unmap"), .. }]
    ));
    assert!(device.query_stream(stream)?);
    assert!(!device.take_range_back(&range, "unmap")?);
    device.assert_clean();
    task(&device, stream, &log, "", &uses);
    assert!(matches!(device.take_violations().as_slice(), [Violation::Freed(_)]));
    Ok(())
}

#[test]
fn a_laxer_thread_is_forbidden_less() -> Outcome {
    use CaptureMode::{Global, Relaxed, ThreadLocal};
    let (device, _, [stream, _], _) = setting();
    for (mode, own, other_thread, forbidden) in [
        (Global, Global, false, true),
        (Global, ThreadLocal, false, true),
        (Global, Relaxed, false, false),
        (Global, Global, true, true),
        (Global, ThreadLocal, true, false),
        (ThreadLocal, ThreadLocal, false, true),
        (ThreadLocal, Relaxed, false, false),
        (ThreadLocal, Global, true, false),
        (Relaxed, Global, false, false),
    ] {
        SimDevice::as_thread(1, || device.begin_capture_in(stream, mode))?;
        assert_eq!(SimDevice::exchange_capture_mode(own), Global);
        let thread = if other_thread { 2 } else { 1 };
        let refused = SimDevice::as_thread(thread, || device.check_call("allocate")).is_err();
        assert_eq!(refused, forbidden, "{mode:?} {own:?} {other_thread}");
        assert_eq!(SimDevice::exchange_capture_mode(Global), own);
        let is_broken = matches!(device.capture_status(stream)?, CaptureStatus::Broken(_));
        assert_eq!(is_broken, forbidden);
        assert_eq!(device.end_capture(stream).is_err(), forbidden);
    }
    Ok(())
}

#[test]
fn the_legacy_stream_says_which_capture_it_breaks() -> Outcome {
    let (device, ..) = setting();
    let legacy = device.legacy_stream();
    let blocking = device.open_stream(StreamKind::Blocking);
    assert!(!device.is_blocking_captured());
    let capture = device.begin_capture_in(blocking, CaptureMode::Relaxed)?;
    assert!(device.is_blocking_captured());
    let refused = Err(SimError::ImplicitInCapture { capture });
    assert_eq!(device.check_queue(legacy, "queue"), refused);
    assert_eq!(device.query_stream(legacy), Err(SimError::ImplicitInCapture { capture }));
    assert!(device.end_capture(blocking).is_err());
    assert_eq!(device.check_queue(legacy, "queue"), Ok(()));
    Ok(())
}

#[test]
fn peers_may_be_of_another_kind() -> Outcome {
    let first = SimDevice::new(SimConfig::new());
    let config = SimConfig::new().memory_bytes(4096).without(Capabilities::PAGES);
    let second = first.peer_with(config);
    assert!(second.allocate(8192).is_err());
    assert!(first.allocate(8192).is_ok());
    assert!(second.page_sizes().is_empty() && !first.page_sizes().is_empty());
    second.take_bytes(4096)?;
    assert_eq!(second.memory()?.free_bytes, 0);
    assert!(second.allocate(1).is_err());
    second.give_bytes(4096);
    assert!(second.allocate(4096).is_ok());
    Ok(())
}
