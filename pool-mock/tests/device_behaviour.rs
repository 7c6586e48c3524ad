//! Memory, contents, faults, counts, callbacks, ends, and when work runs.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};

use pool_core::device::{Call, Capabilities, Device, Failure, MemoryInfo, Severity};
use pool_mock::device::{
    Access, Fault, Pacing, SimConfig, SimDevice, SimError, StreamKind, Violation,
};

type Outcome = Result<(), Box<dyn core::error::Error>>;

#[test]
fn memory_is_limited_and_counted() -> Outcome {
    let device = SimDevice::new(SimConfig::new().memory_bytes(1 << 20));
    let range = device.allocate(1 << 19)?;
    device.set_foreign_bytes(1 << 18);
    assert_eq!(device.memory()?, MemoryInfo { free_bytes: 1 << 18, total_bytes: 1 << 20 });
    let refused = device.allocate(1 << 19);
    let Err(Failure::Device(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(device.severity(&error), Severity::OutOfMemory);
    device.extend(&range, 1 << 19, 3 << 18)?;
    assert!(device.extend(&range, 1 << 19, 1 << 20).is_err(), "from what it was");
    assert_eq!(device.balance().bytes, 3 << 18);
    device.free(&range)?;
    assert!(device.balance().is_zero());
    assert!(device.allocate(0).is_err());
    assert!(device.allocate(u64::MAX).is_err());
    device.assert_clean();
    Ok(())
}

#[test]
fn bases_are_as_misaligned_as_one_likes() -> Outcome {
    let device = SimDevice::new(SimConfig::new().misalign_bytes(192));
    for _ in 0..3 {
        let range = device.allocate(4096)?;
        assert_eq!(device.address(&range).map(|address| address % (2 << 20)), Some(192));
    }
    let device = SimDevice::new(SimConfig::new().without(Capabilities::ADDRESSES));
    assert_eq!(device.address(&device.allocate(4096)?), None);
    Ok(())
}

#[test]
fn a_free_that_waits_finds_all_work_done() -> Outcome {
    for waits in [false, true] {
        let mut config = SimConfig::new().pacing(Pacing::Idle);
        if waits {
            config = config.with(Capabilities::FREE_WAITS);
        }
        let device = SimDevice::new(config);
        let range = device.allocate(4096)?;
        let stream = device.create_stream()?;
        device.queue_use(stream, &range, 0, 4096, device.new_owner(), Access::Write)?;
        device.free(&range)?;
        assert_eq!((device.is_idle(), device.take_violations().is_empty()), (waits, waits));
    }
    Ok(())
}

#[test]
fn a_read_looks_for_its_owners_marks() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let range = device.allocate(1 << 20)?;
    let stream = device.create_stream()?;
    let (one, other) = (device.new_owner(), device.new_owner());
    let queue =
        |offset, size, owner, access| device.queue_use(stream, &range, offset, size, owner, access);
    queue(0, 8192, one, Access::Write)?;
    queue(100, 4096, one, Access::Read)?;
    device.assert_clean();
    queue(4096, 10, other, Access::Write)?;
    queue(0, 4096, one, Access::Read)?;
    queue(4106, 100, one, Access::Read)?;
    queue(4096, 10, other, Access::Read)?;
    device.assert_clean();
    queue(0, 8192, one, Access::Read)?;
    let violations = device.take_violations();
    let [Violation::Contents { bytes, found, .. }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!((bytes.clone(), *found), (4096..4106, Some(other)));
    queue(8000, 1000, one, Access::Read)?;
    let violations = device.take_violations();
    let [Violation::Contents { bytes, found, .. }] = violations.as_slice() else {
        panic!("{violations:?}")
    };
    assert_eq!((bytes.clone(), *found), (8192..9000, None), "nobody wrote there");
    Ok(())
}

#[test]
fn a_late_write_is_seen_in_the_contents() -> Outcome {
    // The detector is off: what remains is what the bytes say.
    let config = SimConfig::new().detector(false).pacing(Pacing::Idle);
    let device = SimDevice::new(config);
    let range = device.allocate(4096)?;
    let (first, second) = (device.create_stream()?, device.create_stream()?);
    let (one, other) = (device.new_owner(), device.new_owner());
    device.queue_use(first, &range, 0, 4096, one, Access::Write)?;
    device.queue_use(second, &range, 0, 4096, other, Access::Write)?;
    device.advance(second, 1)?;
    device.advance(first, 1)?;
    device.queue_use(second, &range, 0, 4096, other, Access::Read)?;
    device.assert_clean();
    device.run_all();
    assert!(matches!(device.take_violations().as_slice(), [Violation::Contents { .. }]));
    Ok(())
}

#[test]
fn a_copy_brings_the_marks_along() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let (from, to) = (device.allocate(1 << 20)?, device.allocate(1 << 20)?);
    let stream = device.create_stream()?;
    let (one, other) = (device.new_owner(), device.new_owner());
    device.queue_use(stream, &from, 4096, 4096, one, Access::Write)?;
    device.queue_use(stream, &to, 0, 1 << 20, other, Access::Write)?;
    device.copy(&stream, (&from, 4096), (&to, 65536), 4096)?;
    device.queue_use(stream, &to, 65536, 4096, one, Access::Read)?;
    device.queue_use(stream, &to, 0, 65536, other, Access::Read)?;
    device.assert_clean();
    device.queue_use(stream, &to, 65536, 4096, other, Access::Read)?;
    assert_eq!(device.take_violations().len(), 1);
    Ok(())
}

#[test]
fn pacing_decides_what_has_run() -> Outcome {
    let queue = |device: &SimDevice, stream, items: u64| -> Outcome {
        let range = device.allocate(4096)?;
        for _ in 0..items {
            device.queue_use(stream, &range, 0, 1, device.new_owner(), Access::Write)?;
        }
        Ok(())
    };
    for (pacing, left) in [(Pacing::Eager, 0), (Pacing::Idle, 10), (Pacing::Lag(4), 4)] {
        let device = SimDevice::new(SimConfig::new().pacing(pacing));
        let stream = device.create_stream()?;
        queue(&device, stream, 10)?;
        assert_eq!(device.queued(stream)?, left, "{pacing:?}");
        let before = device.now();
        let fence = device.record(&stream)?;
        device.wait_on_host(&fence)?;
        assert_eq!(device.queued(stream)?, 0);
        assert!(device.now() > before, "{pacing:?}");
    }
    // At random: the same seed, the same run; another, most likely another.
    let trail = |seed| -> Result<Vec<u64>, Box<dyn core::error::Error>> {
        let device = SimDevice::new(SimConfig::new().pacing(Pacing::Random(seed)));
        let streams = [device.create_stream()?, device.create_stream()?];
        let mut trail = Vec::new();
        for _ in 0..50 {
            for stream in streams {
                queue(&device, stream, 1)?;
                trail.push(device.queued(stream)?);
            }
        }
        Ok(trail)
    };
    assert_eq!(trail(1)?, trail(1)?);
    assert_ne!(trail(1)?, trail(2)?);
    Ok(())
}

#[test]
fn a_lagging_stream_has_what_it_waits_for_run() -> Outcome {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Lag(2)));
    let (first, second) = (device.create_stream()?, device.create_stream()?);
    let range = device.allocate(4096)?;
    device.queue_use(first, &range, 0, 1, device.new_owner(), Access::Write)?;
    let fence = device.record(&first)?;
    device.wait(&second, &fence)?;
    for _ in 0..3 {
        device.queue_use(second, &range, 0, 1, device.new_owner(), Access::Write)?;
    }
    assert_eq!((device.queued(first)?, device.queued(second)?), (0, 2));
    device.assert_clean();
    Ok(())
}

#[test]
fn a_stalled_stream_runs_only_for_the_host() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let (first, second) = (device.create_stream()?, device.create_stream()?);
    device.hold(first)?;
    let fence = device.record(&first)?;
    device.wait(&second, &fence)?;
    assert!(!device.step(0), "the other waits for it");
    device.go(second)?;
    device.advance(second, 1)?;
    assert!(!device.is_done(&fence)?);
    device.advance(first, 1)?;
    assert!(device.is_done(&fence)?);
    let fence = device.record(&first)?;
    device.wait_on_host(&fence)?;
    let fence = device.record(&first)?;
    assert!(!device.is_done(&fence)?, "it is still stalled");
    device.go(first)?;
    assert!(device.is_done(&fence)?);
    Ok(())
}

#[test]
fn time_is_virtual() {
    let device = SimDevice::new(SimConfig::new());
    let before = device.now().expect("it has a clock");
    device.pass(Duration::from_hours(1));
    assert_eq!(device.now(), Some(before + Duration::from_hours(1)));
}

#[test]
fn the_nth_call_fails_and_does_nothing() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    device.fail_nth(2);
    let range = device.allocate(4096)?;
    assert_eq!(
        device.allocate(4096),
        Err(Failure::Device(SimError::Injected { call: Call::Allocate, number: 2 }))
    );
    assert_eq!(device.balance().ranges, 1);
    device.fail_nth(1);
    assert!(device.free(&range).is_err());
    assert_eq!(device.balance().ranges, 1);
    device.free(&range)?;
    assert_eq!((device.injected(), device.calls().total()), (2, 4));
    let last = device.last_calls();
    let failed: Vec<_> = last.iter().map(|record| record.error.is_some()).collect();
    assert_eq!(failed, [false, true, true, false]);
    device.assert_clean();
    Ok(())
}

#[test]
fn calls_of_a_kind_fail_each_time_or_so_many_times() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let stream = device.create_stream()?;
    device.fail_each(Call::Record);
    device.fail_next(Call::Allocate, 2);
    for _ in 0..3 {
        assert!(device.record(&stream).is_err());
    }
    assert!(device.allocate(4096).is_err() && device.allocate(4096).is_err());
    device.allocate(4096)?;
    device.clear_faults();
    let fence = device.record(&stream)?;
    // A fence that cannot be asked about is not done.
    device.fail_next(Call::IsDone, 1);
    assert!(device.is_done(&fence).is_err());
    assert!(device.is_done(&fence)?);
    // Nor does a wait that failed order anything.
    device.fail_next(Call::Wait, 1);
    assert!(device.wait(&stream, &fence).is_err());
    // A stream whose end failed is lost.
    device.fail_next(Call::DestroyStream, 1);
    assert!(device.destroy_stream(&stream).is_err());
    assert!(!device.exists(stream));
    Ok(())
}

#[test]
fn kinds_of_faults_have_their_severity() {
    let device = SimDevice::new(SimConfig::new());
    for (fault, severity) in [
        (Fault::Plain, Severity::Call),
        (Fault::OutOfMemory, Severity::OutOfMemory),
        (Fault::Fatal, Severity::Fatal),
    ] {
        device.fail_with(fault);
        device.fail_next(Call::Allocate, 1);
        let refused = device.allocate(4096);
        let Err(Failure::Device(error)) = refused else { panic!("{refused:?}") };
        assert_eq!(device.severity(&error), severity);
    }
    device.assert_clean();
    assert!(device.allocate(4096).is_err(), "no call succeeds any more");
    assert!(matches!(device.take_violations().as_slice(), [Violation::AfterFatal(_)]));
}

#[test]
fn a_device_that_broke_says_so_once() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let stream = device.create_stream()?;
    let range = device.allocate(4096)?;
    device.make_fatal();
    let owner = device.new_owner();
    assert_eq!(device.queue_use(stream, &range, 0, 1, owner, Access::Read), Err(SimError::Fatal));
    assert_eq!(device.record(&stream), Err(Failure::Device(SimError::Fatal)));
    device.assert_clean();
    assert!(device.free(&range).is_err());
    assert!(matches!(device.take_violations().as_slice(), [Violation::AfterFatal(_)]));
    Ok(())
}

#[test]
fn a_device_that_is_shut_down_is_not_called() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let range = device.allocate(4096)?;
    let fence = device.record(&device.legacy_stream())?;
    assert!(device.is_alive());
    device.shut_down();
    assert!(!device.is_alive());
    device.assert_clean();
    assert_eq!(device.free(&range), Err(Failure::Device(SimError::ShuttingDown)));
    device.discard(fence);
    assert_eq!(device.take_violations().len(), 2);
    Ok(())
}

#[test]
fn a_device_is_shut_down_when_it_is_asked_once_more() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    device.shut_down_after(2);
    assert!(device.is_alive() && device.is_alive());
    device.allocate(4096)?;
    assert!(!device.is_shut_down());
    assert!(!device.is_alive() && !device.is_alive());
    assert!(device.is_shut_down());
    assert_eq!(device.allocate(4096), Err(Failure::Device(SimError::ShuttingDown)));
    assert_eq!(device.take_violations().len(), 1);
    Ok(())
}

#[test]
fn callbacks_run_in_order_and_call_nothing() -> Outcome {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let stream = device.create_stream()?;
    let range = device.allocate(4096)?;
    let owner = device.new_owner();
    let log = Arc::new(Mutex::new(Vec::new()));
    for number in 0..2 {
        let (inner, log) = (device.clone(), Arc::clone(&log));
        device.queue_use(stream, &range, 0, 1, owner, Access::Write)?;
        device.queue_callback(stream, move || {
            let refused = inner.allocate(4096);
            assert_eq!(refused, Err(Failure::Device(SimError::ForbiddenInCallback)));
            log.lock().expect("no panic").push((number, inner.queued(stream)));
        })?;
    }
    device.synchronize()?;
    assert_eq!(*log.lock().expect("no panic"), [(0, Ok(3)), (1, Ok(1))]);
    let violations = device.take_violations();
    assert_eq!(violations.len(), 2);
    assert!(violations.iter().all(|one| matches!(one, Violation::InCallback(_))));
    device.allocate(4096)?;
    device.assert_clean();
    Ok(())
}

#[test]
fn a_thread_waits_for_a_callback_that_another_runs() -> Outcome {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let stream = device.create_stream()?;
    let (started, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (start, end) = (Arc::clone(&started), Arc::clone(&ended));
    device.queue_callback(stream, move || {
        start.store(true, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(20));
        end.store(true, Ordering::SeqCst);
    })?;
    let fence = device.record(&stream)?;
    std::thread::scope(|scope| {
        scope.spawn(|| device.run_all());
        while !started.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        device.wait_on_host(&fence).expect("nothing fails");
        assert!(ended.load(Ordering::SeqCst));
    });
    Ok(())
}

#[test]
fn hooks_run_around_each_call_and_may_call() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let balances = Arc::new(Mutex::new(Vec::new()));
    for after in [false, true] {
        let (inner, balances) = (device.clone(), Arc::clone(&balances));
        let hook = move |_| {
            balances.lock().expect("no panic").push((after, inner.balance().ranges));
        };
        if after { device.after_call(hook) } else { device.on_call(hook) }
    }
    device.allocate(4096)?;
    assert_eq!(*balances.lock().expect("no panic"), [(false, 0), (true, 1)]);
    // One that makes a call of its own runs for that, too.
    let depth = Arc::new(AtomicU64::new(0));
    let (inner, count) = (device.clone(), Arc::clone(&depth));
    device.clear_hooks();
    device.on_call(move |_| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            inner.allocate(4096).expect("there is room");
        }
    });
    device.allocate(4096)?;
    assert_eq!((depth.load(Ordering::SeqCst), device.balance().ranges), (2, 3));
    Ok(())
}

#[test]
fn every_object_is_counted() -> Outcome {
    let device = SimDevice::new(SimConfig::new());
    let raw = device.open_stream(StreamKind::Blocking);
    assert!(device.balance().is_zero(), "the program's streams are its own");
    let stream = device.create_stream()?;
    let fence = device.record(&stream)?;
    let own = device.queue_record(raw)?;
    assert_eq!((device.balance().streams, device.balance().fences), (1, 2));
    device.discard(fence);
    device.discard_fence(own);
    device.destroy_stream(&stream)?;
    assert!(device.balance().is_zero());
    assert_eq!(device.balance().opened_streams, 1);
    let peer = device.peer();
    let _range = peer.allocate(4096)?;
    assert!(device.balance().is_zero() && !peer.balance().is_zero());
    Ok(())
}
