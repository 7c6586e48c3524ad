//! Every single call of the device fails once, in a scenario that makes each kind of them.
//!
//! What is checked after every operation, failed or not: the books, that an error names the call
//! that failed, and that the operation works when it is asked again. At the end everything is the
//! device's again, but a stream that it failed to destroy. After an error that ends all, every
//! operation says so, and nothing is called any more. The same where the device is no more at any
//! moment.

#[path = "faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pool_core::device::{Call, Capabilities};
use pool_core::policy::Pages;
use pool_core::{GraphId, On, PoolConfig, PoolError, StreamId};
use pool_mock::device::{
    Access, CaptureMode, Fault, Pacing, SimConfig, SimDevice, SimStream, StreamKind,
};

use support::{Buffer, KIB, MIB, Refusal, SimPool, World, adopt};

/// The calls that a pool makes.
const CALLS: [Call; 18] = [
    Call::Allocate,
    Call::Free,
    Call::CreateStream,
    Call::DestroyStream,
    Call::StreamId,
    Call::Record,
    Call::RecordAll,
    Call::IsDone,
    Call::Wait,
    Call::WaitOnHost,
    Call::Synchronize,
    Call::CaptureId,
    Call::Memory,
    Call::Reserve,
    Call::CreatePages,
    Call::DestroyPages,
    Call::Commit,
    Call::Decommit,
];

/// The devices and pools of the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// Arenas, on a device that lists its streams.
    Listed,
    /// Arenas, on one that does not.
    Unlisted,
    /// Pages.
    Paged,
}

const SETTINGS: [Setting; 3] = [Setting::Listed, Setting::Unlisted, Setting::Paged];

const PAGE_BYTES: u64 = 256 * KIB;

const FAULTS: [Fault; 3] = [Fault::Plain, Fault::OutOfMemory, Fault::Fatal];

/// How calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    Never,
    Once,
    Always,
    /// From some moment on there is no device.
    Gone,
}

/// A run of the scenario.
struct Run {
    world: World,
    failing: Failing,
    fatal: bool,
    /// The device failed for good.
    poisoned: bool,
    /// Blocks that could not be freed.
    left: Vec<Buffer>,
    /// What was called, in order.
    log: Arc<Mutex<Vec<Call>>>,
}

impl Run {
    /// Does something that must leave the books in order, and work when it is done again.
    fn op<R>(&mut self, what: &str, work: impl Fn(&World) -> Result<R, Refusal>) -> Option<R> {
        for _ in 0..2 {
            let (calls, injected) = (self.world.device.calls(), self.world.device.injected());
            let first = self.log.lock().unwrap().len();
            let result = work(&self.world);
            let struck = self.world.device.injected() > injected;
            let made = self.log.lock().unwrap()[first..].to_vec();
            self.world.pool.verify().unwrap_or_else(|fault| panic!("{what}: {fault}"));
            if self.failing == Failing::Gone {
                return self.judge_gone(what, result);
            }
            if self.poisoned {
                assert_eq!(self.world.device.calls().since(&calls).total(), 0, "{what}: {made:?}");
                let said = result.err();
                assert!(matches!(said, Some(PoolError::Poisoned)), "{what}: {said:?}");
                return None;
            }
            self.poisoned = struck && self.fatal;
            let error = match result {
                Ok(done) => return Some(done),
                Err(error) => error,
            };
            assert!(struck || self.failing == Failing::Always, "{what}: {error}");
            match &error {
                PoolError::Poisoned => assert!(self.fatal, "{what}"),
                PoolError::Device(failed) => {
                    // A device that cannot list its streams waits for all of them.
                    let waited =
                        failed.call == Call::RecordAll && made.contains(&Call::Synchronize);
                    assert!(waited || made.contains(&failed.call), "{what}: {failed}");
                }
                PoolError::OutOfMemory { .. } if self.poisoned => panic!("{what}: {error}"),
                PoolError::OutOfMemory { cause, .. } => match &cause.0 {
                    Some(failed) => {
                        let waited =
                            failed.call == Call::RecordAll && made.contains(&Call::Synchronize);
                        assert!(waited || made.contains(&failed.call), "{what}: {failed}");
                    }
                    None => assert!(!struck, "{what} hides a failure: {error}"),
                },
                // What an earlier failure left undone.
                other => assert_eq!(self.failing, Failing::Always, "{what}: {other}"),
            }
            if self.poisoned || self.failing == Failing::Always {
                return None;
            }
        }
        panic!("{what}: it does not work again");
    }

    /// What an operation came to that the device may have gone under: it is done, or says just that.
    fn judge_gone<R>(&mut self, what: &str, result: Result<R, Refusal>) -> Option<R> {
        self.poisoned = self.world.device.is_shut_down();
        match result {
            Ok(done) => Some(done),
            Err(PoolError::Poisoned) if self.poisoned => None,
            Err(error) => panic!("{what}: {error}"),
        }
    }

    fn allocate(&mut self, on: On<'_, SimStream>, size_bytes: u64) -> Option<Buffer> {
        let buffer = self.op("allocate", |world| world.try_allocate(on, size_bytes))?;
        let stream = match on {
            On::Stream(id) => self.world.pool.stream(id)?,
            On::Raw(handle) => *handle,
            On::Nothing => return Some(buffer),
        };
        // After a failure for good there is nothing to queue on.
        if !self.poisoned {
            self.world.queue(&buffer, stream, Access::Write);
        }
        Some(buffer)
    }

    fn share(&mut self, buffer: Option<&Buffer>, on: On<'_, SimStream>) {
        let Some(buffer) = buffer else { return };
        let noted = self.op("record_use", |world| world.pool.record_use(buffer.handle, on));
        let stream = match on {
            On::Stream(id) => self.world.pool.stream(id),
            On::Raw(handle) => Some(*handle),
            On::Nothing => None,
        };
        if let (Some(()), Some(stream), false) = (noted, stream, self.poisoned) {
            self.world.touch_behind(buffer, stream);
        }
    }

    fn free(&mut self, buffer: Option<Buffer>, on: On<'_, SimStream>) {
        let Some(buffer) = buffer else { return };
        let freed = self.op("free", |world| match on {
            On::Nothing => world.pool.free(buffer.handle),
            on => world.pool.free_on(on, buffer.handle),
        });
        if freed.is_none() {
            // It is live still.
            self.left.push(buffer);
        }
    }

    fn retire(&mut self, stream: StreamId) {
        self.op("retire", |world| match world.pool.retire(stream) {
            Err(PoolError::Device(failed)) if failed.call == Call::DestroyStream => {
                // It is retired nevertheless.
                let again = world.pool.retire(stream);
                assert!(matches!(again, Err(PoolError::UnknownStream(_) | PoolError::Poisoned)));
                Ok(())
            }
            other => other,
        });
    }

    fn capture(&mut self, on: StreamId, others: [StreamId; 2]) {
        let graph = GraphId(1);
        let kept = others.map(|other| self.allocate(other.into(), 100 * KIB));
        self.op("trim_waiting", |world| world.pool.trim_waiting(u64::MAX));
        let begun = self.op("begin_capture", |world| world.pool.begin_capture(on, graph));
        if begun.is_none() || self.poisoned {
            for (buffer, other) in kept.into_iter().zip(others) {
                self.free(buffer, other.into());
            }
            return;
        }
        let stream = self.world.raw(on);
        self.world.device.begin_capture_in(stream, CaptureMode::Relaxed).unwrap();
        let inside = self.allocate(on.into(), 64 * KIB);
        let outside = self.allocate(others[0].into(), 4 * KIB);
        self.free(inside, on.into());
        self.free(outside, others[1].into());
        self.op("reclaim", |world| world.pool.reclaim());
        self.op("end_capture", |world| match world.pool.end_capture(on) {
            // The capture has ended; the graph is still there.
            Err(PoolError::Device(_)) => Ok(()),
            other => other,
        });
        if self.poisoned {
            return;
        }
        let handle = self.world.device.end_capture(stream).unwrap();
        self.world.device.launch_graph(handle, self.world.raw(others[0])).unwrap();
        self.op("release_graph", |world| world.pool.release_graph(graph));
        if !self.poisoned {
            self.world.device.drop_graph(handle).unwrap();
        }
        for (buffer, other) in kept.into_iter().zip(others) {
            self.free(buffer, other.into());
        }
    }

    /// A bit of everything.
    fn scenario(&mut self) {
        let device = self.world.device.clone();
        let create = |run: &mut Self| run.op("create_stream", |world| world.pool.create_stream());
        let (Some(home), Some(side), Some(short)) = (create(self), create(self), create(self))
        else {
            return;
        };
        let raw = device.open_stream(StreamKind::NonBlocking);
        let handle = device.open_stream(StreamKind::NonBlocking);
        let Some(known) = self.op("adopt", |world| adopt(&world.pool, handle)) else { return };
        self.work(&[home, side, short, known], &raw);
        self.capture(side, [home, known]);
        for (stream, size_bytes) in [(short, MIB), (known, 300 * KIB)] {
            let buffer = self.allocate(stream.into(), size_bytes);
            self.free(buffer, stream.into());
            self.retire(stream);
        }
        let closed = self.world.device.clone();
        if !self.poisoned && self.world.pool.stream(known).is_none() {
            closed.close_stream(handle).unwrap();
            closed.close_stream(raw).unwrap();
        }
        // All that there may be, as one piece: idle arenas go for it.
        for on in [side, home] {
            let whole = self.allocate(on.into(), 8 * MIB);
            self.free(whole, on.into());
        }
        self.op("trim", |world| world.pool.trim(0));
        self.op("trim_waiting", |world| world.pool.trim_waiting(0));
        let clean = self.allocate(On::Nothing, 3 * MIB);
        self.free(clean, On::Nothing);
        if !self.poisoned {
            self.op("set_limit", |world| world.pool.set_limit(Some(2 * MIB)));
            self.world.pool.set_limit(Some(8 * MIB)).unwrap();
        }
        for stream in [side, home] {
            self.retire(stream);
        }
        self.op("reclaim", |world| world.pool.reclaim());
    }

    /// Streams that use each other's memory in all ways.
    fn work(&mut self, streams: &[StreamId; 4], raw: &SimStream) {
        let &[home, side, short, known] = streams;
        let first = self.allocate(home.into(), 3 * MIB / 2);
        self.share(first.as_ref(), side.into());
        self.share(first.as_ref(), On::Raw(raw));
        let second = self.allocate(known.into(), MIB);
        let third = self.allocate(On::Raw(raw), 200 * KIB);
        let fourth = self.allocate(On::Nothing, MIB);
        self.free(first, home.into());
        self.free(second, short.into());
        self.free(third, On::Raw(raw));
        self.free(fourth, On::Nothing);
        self.op("reclaim", |world| world.pool.reclaim());
        for size_bytes in [2 * MIB, 4 * MIB, 6 * MIB] {
            for on in [On::Stream(home), On::Stream(side), On::Nothing, On::Raw(raw)] {
                let buffer = self.allocate(on, size_bytes);
                let elsewhere = match on {
                    On::Stream(_) => On::Stream(known),
                    On::Raw(_) => On::Raw(raw),
                    On::Nothing => On::Nothing,
                };
                self.free(buffer, elsewhere);
            }
        }
        for (after, on) in [
            (On::Stream(home), On::Stream(side)),
            (On::Raw(raw), On::Stream(home)),
            (On::Stream(known), On::Raw(raw)),
            (On::Nothing, On::Stream(known)),
            (On::Stream(side), On::Nothing),
            (On::Raw(raw), On::Nothing),
        ] {
            self.op("order", |world| world.pool.order(after, on));
        }
        self.op("wait_for", |world| world.pool.wait_for(On::Nothing));
        self.op("stream_identity", |world| world.pool.stream_identity(raw));
        self.op("tick", |world| world.pool.tick());
    }

    /// Ends the pool: nothing is lost but ranges that the device took back at no call.
    fn end(self) {
        let Self { world: World { device, pool }, failing, fatal, poisoned, .. } = self;
        let (before, injected) = (device.calls(), device.injected());
        let arenas = device.balance().ranges;
        drop(pool);
        device.assert_clean();
        let struck = device.injected() > injected;
        if poisoned {
            assert_eq!(device.calls().since(&before).total(), 0);
        } else if !(fatal && struck || device.is_shut_down()) {
            let mut balance = device.balance();
            let frees = device.calls().since(&before).of(Call::Free);
            if failing == Failing::Always && struck && frees >= 2 * arenas as u64 && frees > 0 {
                // Each was tried twice.
                assert_eq!(balance.ranges, arenas);
                (balance.ranges, balance.bytes) = (0, 0);
            }
            let decommits = device.calls().since(&before).of(Call::Decommit);
            if failing == Failing::Always && struck && decommits >= 2 && balance.pages > 0 {
                // Each handle was tried twice, and so were the addresses.
                assert_eq!(balance.ranges, 1);
                (balance.ranges, balance.bytes, balance.pages) = (0, 0, 0);
            }
            assert!(balance.is_zero(), "{balance}");
        }
    }
}

/// A device whose work stays queued as long as it may.
fn device(setting: Setting) -> (SimDevice, Arc<Mutex<Vec<Call>>>) {
    let config = SimConfig::new()
        .pacing(Pacing::Idle)
        .memory_bytes(64 * MIB)
        .lists_streams(setting != Setting::Unlisted)
        .page_sizes(vec![PAGE_BYTES, 4 * PAGE_BYTES])
        .without(Capabilities::EXTEND);
    let device = SimDevice::new(config);
    let log = Arc::new(Mutex::new(Vec::new()));
    let hooked = log.clone();
    device.on_call(move |call| hooked.lock().unwrap().push(call));
    (device, log)
}

fn pool(device: &SimDevice, setting: Setting) -> Result<SimPool, Refusal> {
    let mut config = PoolConfig::new().initial_bytes(2 * MIB).arena_bytes(2 * MIB);
    if setting == Setting::Paged {
        config = config.pages(Pages::default());
    }
    SimPool::new(device.clone(), config.limit_bytes(8 * MIB))
}

/// Runs the scenario once, with faults as they were ordered; what was called.
fn run(
    setting: Setting,
    failing: Failing,
    fault: Fault,
    order: impl FnOnce(&SimDevice),
) -> (Vec<Call>, u64) {
    let (device, log) = device(setting);
    device.fail_with(fault);
    order(&device);
    let fatal = fault == Fault::Fatal;
    let made = match pool(&device, setting) {
        Err(PoolError::Device(failed)) => {
            assert!(matches!(
                failed.call,
                Call::Allocate | Call::Memory | Call::Reserve | Call::CreatePages | Call::Commit
            ));
            if fatal || failing == Failing::Always {
                device.assert_clean();
                return (log.lock().unwrap().clone(), device.injected());
            }
            pool(&device, setting).unwrap()
        }
        Err(PoolError::Poisoned) if failing == Failing::Gone => {
            device.assert_clean();
            return (log.lock().unwrap().clone(), 0);
        }
        other => other.unwrap(),
    };
    let poisoned = fatal && device.injected() > 0 || device.is_shut_down();
    let world = World { device: device.clone(), pool: made };
    let mut run = Run { world, failing, fatal, poisoned, left: Vec::new(), log: log.clone() };
    run.scenario();
    if failing == Failing::Always && !run.poisoned {
        // Once the device does as it is told, so does the pool.
        run.world.device.clear_faults();
        run.failing = Failing::Never;
        for buffer in core::mem::take(&mut run.left) {
            run.free(Some(buffer), On::Nothing);
        }
        run.scenario();
        run.failing = Failing::Always;
    }
    run.end();
    let log = log.lock().unwrap().clone();
    (log, device.injected())
}

fn counts(log: &[Call]) -> BTreeMap<Call, u64> {
    let mut counts = BTreeMap::new();
    for &call in log {
        *counts.entry(call).or_default() += 1;
    }
    counts
}

/// The scenario makes every call that a pool makes.
#[test]
fn the_scenario_makes_each_call() {
    let mut all = Vec::new();
    for setting in SETTINGS {
        all.extend(run(setting, Failing::Never, Fault::Plain, |_| ()).0);
    }
    let counts = counts(&all);
    for call in CALLS {
        assert!(counts.contains_key(&call), "{call} is missing in {counts:?}");
    }
}

/// Each call fails once, in each way.
fn each_call_fails_once(setting: Setting) {
    let (calls, _) = run(setting, Failing::Never, Fault::Plain, |_| ());
    println!("{} calls: {:?}", calls.len(), counts(&calls));
    for fault in FAULTS {
        for nth in 1..=calls.len() {
            let (log, injected) = run(setting, Failing::Once, fault, |device| {
                device.fail_nth(nth as u64);
            });
            assert_eq!(injected, 1, "call {nth} of {}", log.len());
            assert_eq!(log[..nth], calls[..nth], "the same until then");
        }
    }
}

#[test]
fn each_call_fails_once_where_streams_are_listed() {
    each_call_fails_once(Setting::Listed);
}

#[test]
fn each_call_fails_once_where_streams_are_not_listed() {
    each_call_fails_once(Setting::Unlisted);
}

#[test]
fn each_call_fails_once_in_pages() {
    each_call_fails_once(Setting::Paged);
}

/// Every call of one kind fails, in each way, from some moment on: then the pool does what can be
/// done without it, and afterwards everything.
#[test]
fn each_kind_of_call_fails_always() {
    let mut failed = 0;
    for setting in SETTINGS {
        for fault in FAULTS {
            for call in CALLS {
                failed += run(setting, Failing::Always, fault, |device| {
                    device.fail_each(call);
                })
                .1;
            }
        }
    }
    println!("{failed} calls failed");
    assert!(failed > 100);
}

/// The device is no more, at whichever moment: nothing else is told, and it gets no call.
#[test]
fn the_device_goes_at_any_moment() {
    for setting in SETTINGS {
        let (calls, _) = run(setting, Failing::Never, Fault::Plain, |_| ());
        let goes_after = |answers| {
            run(setting, Failing::Gone, Fault::Plain, |device| device.shut_down_after(answers)).0
        };
        let mut moments = 0;
        while goes_after(moments).len() < calls.len() {
            moments += 1;
        }
        println!("{setting:?}: {moments} moments");
        assert!(moments > 100);
    }
}

/// The same at the pool's end only: what cannot be given back is lost, and nothing else.
#[test]
fn the_end_loses_only_what_the_device_refuses() {
    for setting in SETTINGS {
        for call in CALLS {
            let (device, log) = device(setting);
            let world = World { pool: pool(&device, setting).unwrap(), device };
            let mut run = Run {
                world,
                failing: Failing::Never,
                fatal: false,
                poisoned: false,
                left: Vec::new(),
                log,
            };
            let [home, side, short] = run.world.streams();
            let known = run.world.stream();
            let raw = run.world.foreign();
            run.work(&[home, side, short, known], &raw);
            run.world.device.fail_each(call);
            let World { device, pool } = run.world;
            let ranges = device.balance().ranges;
            assert!(ranges > 0);
            drop(pool);
            let mut balance = device.balance();
            let is_lost = match call {
                // Nothing could be given back, or waited for.
                Call::Free => true,
                Call::Synchronize => setting == Setting::Unlisted,
                // Nor are addresses given back that something lies behind.
                Call::Decommit => setting == Setting::Paged,
                _ => false,
            };
            if is_lost {
                assert_eq!(balance.ranges, ranges);
                (balance.ranges, balance.bytes) = (0, 0);
                if call == Call::Decommit {
                    balance.pages = 0;
                }
            }
            assert!(balance.is_zero(), "{call}: {balance}");
            device.assert_clean();
        }
    }
}
