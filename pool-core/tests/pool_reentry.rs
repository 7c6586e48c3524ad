//! Every call of the device comes back into the pool: no lock is held meanwhile, and whatever the
//! pool is asked for just then leaves its books in order.

#[path = "faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pool_core::device::Call;
use pool_core::{GraphId, On, PoolConfig, StreamId};
use pool_mock::device::{CaptureMode, Pacing, SimConfig, SimDevice};

use support::{KIB, MIB, Walk, World, in_time};

/// What the hook does in the pool.
#[derive(Clone, Copy, Debug)]
enum Inside {
    AllocateAndFree,
    OnItsStream,
    FreeLater,
    CreateAndRetire,
    Trim,
    TrimWaiting,
    Reclaim,
    Flush,
    Limits,
    Read,
    All,
}

const INSIDE: [Inside; 11] = [
    Inside::AllocateAndFree,
    Inside::OnItsStream,
    Inside::FreeLater,
    Inside::CreateAndRetire,
    Inside::Trim,
    Inside::TrimWaiting,
    Inside::Reclaim,
    Inside::Flush,
    Inside::Limits,
    Inside::Read,
    Inside::All,
];

/// Calls of a scenario in which the hook acts.
const MOST_ENTERED: u64 = 500;

/// What the hook needs.
struct Intruder {
    world: World,
    stream: StreamId,
    /// How deep the calls are nested.
    depth: AtomicU64,
    entered: Mutex<BTreeMap<Call, u64>>,
    later: Mutex<Vec<pool_core::Handle>>,
    is_off: AtomicBool,
}

impl Intruder {
    fn act(&self, inside: Inside) {
        let pool = &self.world.pool;
        match inside {
            Inside::AllocateAndFree => {
                for size_bytes in [100, 20 * KIB, MIB] {
                    if let Ok(block) = pool.allocate(size_bytes) {
                        pool.free(block.handle()).unwrap();
                    }
                }
            }
            Inside::OnItsStream => {
                for size_bytes in [100, 20 * KIB, MIB] {
                    if let Ok(buffer) = self.world.try_allocate(self.stream, size_bytes) {
                        self.world.touch(&buffer, self.world.raw(self.stream));
                        self.world.free(self.stream, buffer);
                    }
                }
            }
            Inside::FreeLater => {
                let mut later = self.later.lock().unwrap();
                let blocks = core::mem::take(&mut *later);
                drop(later);
                for handle in blocks {
                    pool.free(handle).unwrap();
                }
                if let Ok(block) = pool.allocate_on(self.stream, 64 * KIB) {
                    self.later.lock().unwrap().push(block.handle());
                }
            }
            Inside::CreateAndRetire => {
                if let Ok(stream) = pool.create_stream() {
                    if let Ok(buffer) = self.world.try_allocate(stream, 8 * KIB) {
                        self.world.touch(&buffer, self.world.raw(stream));
                        self.world.free(stream, buffer);
                    }
                    pool.retire(stream).unwrap();
                }
            }
            Inside::Trim => drop(pool.trim(MIB)),
            Inside::TrimWaiting => drop(pool.trim_waiting(0)),
            Inside::Reclaim => {
                let _ = pool.reclaim();
                let _ = pool.tick();
            }
            Inside::Flush => pool.flush(),
            Inside::Limits => {
                let _ = pool.set_limit(Some(MIB));
                let _ = pool.set_limit(Some(6 * MIB));
            }
            Inside::Read => {
                let stats = pool.stats();
                assert!(stats.live_bytes <= stats.reserved_bytes);
                assert!(pool.find_stream(&self.world.raw(self.stream)).is_some());
            }
            Inside::All => {
                INSIDE.iter().take(INSIDE.len() - 1).for_each(|&inside| self.act(inside));
            }
        }
    }
}

/// Runs a scenario that makes every kind of call, and acts at each of them.
fn interrupted(inside: Inside, after: bool, pacing: Pacing, seed: u64, most_depth: u64) {
    let device = SimDevice::new(SimConfig::new().memory_bytes(64 * MIB).pacing(pacing));
    let config = PoolConfig::new().arena_bytes(2 * MIB).limit_bytes(6 * MIB);
    let world = World::over(device.clone(), config);
    let intruder = Intruder {
        stream: world.stream(),
        world: World { device: device.clone(), pool: world.pool.clone() },
        depth: AtomicU64::new(0),
        entered: Mutex::default(),
        later: Mutex::default(),
        is_off: AtomicBool::new(false),
    };
    let intruder = Arc::new(intruder);
    let hooked = intruder.clone();
    let hook = move |call| {
        if hooked.is_off.load(Ordering::Acquire)
            || hooked.depth.load(Ordering::Acquire) >= most_depth
        {
            return;
        }
        {
            // What is done in a call can bring more calls, without end.
            let mut entered = hooked.entered.lock().unwrap();
            if entered.values().sum::<u64>() >= MOST_ENTERED {
                return;
            }
            *entered.entry(call).or_default() += 1;
        }
        hooked.depth.fetch_add(1, Ordering::AcqRel);
        hooked.act(inside);
        hooked.depth.fetch_sub(1, Ordering::AcqRel);
    };
    if after {
        device.after_call(hook);
    } else {
        device.on_call(hook);
    }
    scenario(&world, seed);
    let handles = core::mem::take(&mut *intruder.later.lock().unwrap());
    for handle in handles {
        world.pool.free(handle).unwrap();
    }
    world.check();
    device.clear_hooks();
    intruder.is_off.store(true, Ordering::Release);
    let entered = intruder.entered.lock().unwrap().clone();
    for call in [Call::Record, Call::CreateStream, Call::DestroyStream] {
        assert!(entered.contains_key(&call), "{call} is missing in {entered:?}");
    }
    drop(intruder);
    world.end();
}

fn scenario(world: &World, seed: u64) {
    let streams: [_; 3] = world.streams();
    let unknown = world.foreign();
    let mut walk = Walk::new(world, &streams, seed, MIB);
    walk.is_final = false;
    for round in 0..4 {
        for _ in 0..25 {
            walk.step();
        }
        let short = world.stream();
        for on in [On::Stream(short), On::Raw(&unknown), On::Nothing] {
            if let Ok(buffer) = world.try_allocate(on, MIB) {
                match on {
                    On::Raw(_) => world.touch(&buffer, unknown),
                    _ => world.touch(&buffer, world.raw(short)),
                }
                if matches!(on, On::Nothing) {
                    world.pool.record_use(buffer.handle, short).unwrap();
                }
                world.free(on, buffer);
            }
        }
        if round % 2 == 1 {
            world.pool.begin_capture(short, GraphId(round)).unwrap();
            let stream = world.raw(short);
            world.device.begin_capture_in(stream, CaptureMode::Relaxed).unwrap();
            if let Ok(buffer) = world.try_allocate(short, 4 * KIB) {
                world.touch(&buffer, stream);
                world.free(short, buffer);
            }
            if let Ok(buffer) = world.try_allocate(streams[0], 4 * KIB) {
                world.touch(&buffer, world.raw(streams[0]));
                world.free(streams[1], buffer);
            }
            let graph = world.device.end_capture(stream).unwrap();
            world.pool.end_capture(short).unwrap();
            world.pool.release_graph(GraphId(round)).unwrap();
            world.device.drop_graph(graph).unwrap();
        }
        world.pool.retire(short).unwrap();
        world.pool.trim_waiting(2 * MIB).unwrap();
    }
    walk.end();
}

#[test]
fn the_pool_may_be_used_before_every_call() {
    for inside in INSIDE {
        for (seed, pacing) in [(1, Pacing::Idle), (2, Pacing::Random(3))] {
            in_time(move || interrupted(inside, false, pacing, seed, 1));
        }
    }
}

#[test]
fn the_pool_may_be_used_after_every_call() {
    for inside in INSIDE {
        for (seed, pacing) in [(3, Pacing::Idle), (4, Pacing::Random(5))] {
            in_time(move || interrupted(inside, true, pacing, seed, 1));
        }
    }
}

/// Also in the calls that the intruder itself makes.
#[test]
fn calls_may_be_nested() {
    for inside in [Inside::AllocateAndFree, Inside::OnItsStream, Inside::TrimWaiting] {
        in_time(move || interrupted(inside, false, Pacing::Idle, 6, 2));
    }
}

/// Each call alone, at which something else happens each time it comes.
#[test]
fn one_kind_of_call_at_a_time() {
    for at in [
        Call::Allocate,
        Call::Free,
        Call::Record,
        Call::RecordAll,
        Call::IsDone,
        Call::Wait,
        Call::WaitOnHost,
        Call::CaptureId,
        Call::StreamId,
    ] {
        in_time(move || {
            let device =
                SimDevice::new(SimConfig::new().memory_bytes(64 * MIB).pacing(Pacing::Idle));
            let config = PoolConfig::new().arena_bytes(2 * MIB).limit_bytes(6 * MIB);
            let world = World::over(device.clone(), config);
            let intruder = Arc::new(Intruder {
                stream: world.stream(),
                world: World { device: device.clone(), pool: world.pool.clone() },
                depth: AtomicU64::new(0),
                entered: Mutex::default(),
                later: Mutex::default(),
                is_off: AtomicBool::new(false),
            });
            let hooked = intruder.clone();
            device.on_call(move |call| {
                if call != at || hooked.depth.swap(1, Ordering::AcqRel) == 1 {
                    return;
                }
                let turn = {
                    let mut entered = hooked.entered.lock().unwrap();
                    let turn = entered.entry(call).or_default();
                    *turn += 1;
                    *turn
                };
                hooked.act(INSIDE[usize::try_from(turn).unwrap() % (INSIDE.len() - 1)]);
                hooked.depth.store(0, Ordering::Release);
            });
            scenario(&world, 7);
            device.clear_hooks();
            for handle in core::mem::take(&mut *intruder.later.lock().unwrap()) {
                world.pool.free(handle).unwrap();
            }
            assert!(!intruder.entered.lock().unwrap().is_empty(), "{at} was never called");
            drop(intruder);
            world.end();
        });
    }
}
