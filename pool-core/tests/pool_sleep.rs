//! A pool that sleeps: no memory, the same addresses, and the same contents where they were saved.

use core::ops::Range;
use std::collections::BTreeMap;

use pool_core::policy::{Handles, Pages, Settings};
use pool_core::{Block, GraphId, Pool, PoolError, StreamId};
use pool_mock::device::{Access, Owner, Pacing, SimConfig, SimDevice, SimStream};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

const PACINGS: [Pacing; 4] = [Pacing::Idle, Pacing::Eager, Pacing::Lag(3), Pacing::Random(5)];

/// A program with blocks of many sizes on three streams.
struct World {
    device: SimDevice,
    pool: Pool<SimDevice>,
    streams: [StreamId; 3],
    live: Vec<(Block, StreamId, Owner)>,
    random: fastrand::Rng,
}

impl World {
    fn new(pacing: Pacing, limit_bytes: Option<u64>, seed: u64) -> Self {
        let device = SimDevice::new(SimConfig::new().pacing(pacing));
        let pages = Some(Pages { handles: Handles::Graded, ..Pages::default() });
        let settings = Settings { pages, limit_bytes, ..Settings::default() };
        let pool = Pool::new(device.clone(), settings.into()).unwrap();
        let streams = [(); 3].map(|()| pool.create_stream().unwrap());
        let random = fastrand::Rng::with_seed(seed);
        Self { device, pool, streams, live: Vec::new(), random }
    }

    fn raw(&self, stream: StreamId) -> SimStream {
        self.pool.stream(stream).unwrap()
    }

    fn write(&self, block: &Block, stream: StreamId, owner: Owner) {
        let location = self.pool.location(block.handle()).unwrap();
        let (range, at) = (location.arena.range(), location.offset_bytes);
        let raw = self.raw(stream);
        self.device.queue_use(raw, range, at, block.size_bytes(), owner, Access::Write).unwrap();
    }

    /// Allocates and frees so often.
    fn churn(&mut self, steps: u32) {
        for _ in 0..steps {
            if self.live.len() > 30 || (!self.live.is_empty() && self.random.u32(0..5) < 2) {
                let (block, stream, _) =
                    self.live.swap_remove(self.random.usize(0..self.live.len()));
                self.pool.free_on(stream, block.handle()).unwrap();
            } else {
                let bytes = match self.random.u32(0..3) {
                    0 => self.random.u64(1..64 * KIB),
                    1 => self.random.u64(64 * KIB..2 * MIB),
                    _ => self.random.u64(2 * MIB..9 * MIB),
                };
                let stream = self.streams[self.random.usize(0..3)];
                let block = self.pool.allocate_on(stream, bytes).unwrap();
                let owner = self.device.new_owner();
                self.write(&block, stream, owner);
                self.live.push((block, stream, owner));
            }
        }
    }

    /// Every live block is used where it is.
    fn touch_all(&self) {
        for (block, stream, owner) in &self.live {
            self.write(block, *stream, *owner);
        }
    }

    /// Where each live block is, in its range.
    fn places(&self) -> Vec<Range<u64>> {
        let place = |(block, ..): &(Block, StreamId, Owner)| {
            let location = self.pool.location(block.handle()).unwrap();
            location.offset_bytes..location.offset_bytes + block.size_bytes()
        };
        self.live.iter().map(place).collect()
    }

    fn reserved(&self) -> u64 {
        self.pool.stats().reserved_bytes
    }

    fn end(mut self) {
        for (block, stream, _) in self.live.drain(..) {
            self.pool.free_on(stream, block.handle()).unwrap();
        }
        self.pool.verify().unwrap();
        drop(self.pool);
        self.device.run_all();
        self.device.assert_clean();
        assert!(self.device.balance().is_zero(), "{}", self.device.balance());
    }
}

/// Keeps rows of bytes by where they begin.
fn keep(saved: &mut BTreeMap<u64, u64>, at: u64, size_bytes: u64) {
    assert!(saved.insert(at, size_bytes).is_none(), "saved twice");
}

#[test]
fn a_pool_that_sleeps_has_nothing_and_wakes_with_what_it_had() {
    for (seed, pacing) in (1..6).flat_map(|seed| PACINGS.map(|pacing| (seed, pacing))) {
        let mut world = World::new(pacing, None, seed);
        world.churn(150);
        for _ in 0..3 {
            let (reserved, places) = (world.reserved(), world.places());
            let mut saved = BTreeMap::new();
            let slept = world.pool.sleep(|_, at, size_bytes| {
                keep(&mut saved, at, size_bytes);
                Ok(())
            });
            assert_eq!(slept.unwrap(), reserved);
            assert!(world.pool.is_asleep());
            assert_eq!((world.reserved(), world.device.balance().pages), (0, 0));
            world.pool.verify().unwrap();
            // All that is live was saved, and less than all that there was.
            for place in &places {
                let (at, size_bytes) = saved.range(..=place.start).next_back().unwrap();
                assert!(place.end <= at + size_bytes, "{place:?} was not saved");
            }
            assert!(saved.values().sum::<u64>() <= reserved);
            // What is freed meanwhile is free; nothing is given out.
            let (block, stream, _) = world.live.pop().unwrap();
            world.pool.free_on(stream, block.handle()).unwrap();
            for size_bytes in [256, 100 * KIB, MIB, 20 * MIB] {
                let refused = world.pool.allocate_on(world.streams[0], size_bytes);
                assert!(matches!(refused, Err(PoolError::Asleep)));
            }
            assert!(matches!(world.pool.allocate(4096), Err(PoolError::Asleep)));
            world.pool.trim(0).unwrap();
            world.pool.tick().unwrap();
            assert_eq!(world.pool.sleep(|_, _, _| panic!("saved again")).unwrap(), 0);

            let woken = world.pool.wake(|_, at, size_bytes| {
                assert_eq!(saved.remove(&at), Some(size_bytes));
                Ok(())
            });
            assert_eq!((woken.unwrap(), world.reserved()), (reserved, reserved));
            assert!(saved.is_empty() && !world.pool.is_asleep());
            assert_eq!(world.pool.wake(|_, _, _| panic!("restored again")).unwrap(), 0);
            world.pool.verify().unwrap();
            assert_eq!(world.places(), places[..places.len() - 1]);
            world.touch_all();
            world.churn(60);
        }
        world.end();
    }
}

#[test]
fn work_is_done_before_its_memory_goes() {
    let mut world = World::new(Pacing::Idle, None, 3);
    world.churn(40);
    world.touch_all();
    // Without the wait the detector would find uses of what is not there.
    world.pool.sleep(|_, _, _| Ok(())).unwrap();
    world.device.run_all();
    world.device.assert_clean();
    world.pool.wake(|_, _, _| Ok(())).unwrap();
    world.end();
}

/// Whichever call of falling asleep fails: the pool is awake as before, or sleeps without the rest, and
/// the next attempt goes on.
#[test]
fn every_call_of_falling_asleep_fails_once() {
    let mut half_asleep = 0;
    for nth in 1.. {
        let mut world = World::new(Pacing::Lag(2), None, 11);
        world.churn(80);
        let (reserved, mut saves) = (world.reserved(), 0);
        world.device.fail_nth(nth);
        while let Err(error) = world.pool.sleep(|_, _, _| {
            saves += 1;
            Ok(())
        }) {
            assert!(matches!(error, PoolError::Device(_)), "{error}");
            world.pool.verify().unwrap();
            if world.pool.is_asleep() {
                half_asleep += 1;
                assert!(world.reserved() < reserved);
            } else {
                saves = 0;
                assert_eq!(world.reserved(), reserved);
                world.touch_all();
            }
        }
        assert_eq!(world.reserved(), 0);
        if world.device.injected() == 0 {
            break;
        }
        let mut restores = 0;
        world
            .pool
            .wake(|_, _, _| {
                restores += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!((restores, world.reserved()), (saves, reserved));
        go_on(world);
    }
    assert!(half_asleep > 10, "{half_asleep}");
}

/// Whichever call of waking fails: the pool sleeps on with what it has got, and the next attempt goes on.
#[test]
fn every_call_of_waking_fails_once() {
    let mut slept_on = 0;
    for nth in 1.. {
        let mut world = World::new(Pacing::Lag(2), None, 12);
        world.churn(80);
        let (reserved, mut saves) = (world.reserved(), 0);
        world
            .pool
            .sleep(|_, _, _| {
                saves += 1;
                Ok(())
            })
            .unwrap();
        world.device.fail_nth(nth);
        let mut restores = 0;
        while let Err(error) = world.pool.wake(|_, _, _| {
            restores += 1;
            Ok(())
        }) {
            assert!(matches!(error, PoolError::Device(_)), "{error}");
            assert!(world.pool.is_asleep());
            world.pool.verify().unwrap();
            slept_on += 1;
        }
        assert_eq!((restores, world.reserved()), (saves, reserved));
        if world.device.injected() == 0 {
            break;
        }
        go_on(world);
    }
    assert!(slept_on > 10, "{slept_on}");
}

/// The program goes on, and the end finds nothing amiss but what a device lost by its own failure.
fn go_on(mut world: World) {
    world.device.clear_faults();
    world.touch_all();
    world.churn(20);
    for (block, stream, _) in world.live.drain(..) {
        world.pool.free_on(stream, block.handle()).unwrap();
    }
    world.pool.verify().unwrap();
    drop(world.pool);
    world.device.run_all();
    world.device.assert_clean();
    let left = world.device.balance();
    assert!(left.pages <= 1 && left.ranges == 0 && left.fences <= 1, "{left}");
}

#[test]
fn what_cannot_be_saved_stays() {
    let mut world = World::new(Pacing::Eager, None, 7);
    world.churn(60);
    let reserved = world.reserved();
    let mut rows = 0;
    let refused = world.pool.sleep(|_, _, _| {
        rows += 1;
        if rows == 2 { Err(pool_core::device::Failure::Lost) } else { Ok(()) }
    });
    assert!(refused.is_err());
    assert!(!world.pool.is_asleep());
    assert_eq!(world.reserved(), reserved);
    world.touch_all();
    world.churn(20);

    world.pool.sleep(|_, _, _| Ok(())).unwrap();
    assert!(world.pool.wake(|_, _, _| Err(pool_core::device::Failure::Lost)).is_err());
    assert!(world.pool.is_asleep(), "the contents are not back");
    let mut rows = 0;
    world
        .pool
        .wake(|_, _, _| {
            rows += 1;
            Ok(())
        })
        .unwrap();
    assert!(rows > 0);
    world.end();
}

/// What is half awake is not given back: the next attempt restores there.
#[test]
fn nothing_goes_back_between_two_attempts_to_wake() {
    let mut world = World::new(Pacing::Eager, None, 8);
    world.churn(60);
    let reserved = world.reserved();
    world.pool.sleep(|_, _, _| Ok(())).unwrap();
    let (block, stream, _) = world.live.pop().unwrap();
    world.pool.free_on(stream, block.handle()).unwrap();
    assert!(world.pool.wake(|_, _, _| Err(pool_core::device::Failure::Lost)).is_err());
    world.pool.trim(0).unwrap();
    world.pool.trim_waiting(0).unwrap();
    world.pool.tick().unwrap();
    assert_eq!(world.reserved(), reserved);
    world.pool.wake(|_, _, _| Ok(())).unwrap();
    assert_eq!(world.reserved(), reserved);
    world.touch_all();
    world.end();
}

/// Who waits for a call in vain, since it is made from within that one, is refused.
#[test]
fn a_pool_does_not_turn_from_within() {
    let mut world = World::new(Pacing::Eager, None, 6);
    world.churn(40);
    let reserved = world.reserved();
    let busy = |refused: Result<u64, _>| matches!(refused, Err(PoolError::Busy));
    let pool = &world.pool;
    let mut rows = 0;
    pool.sleep(|_, _, _| {
        rows += 1;
        assert!(busy(pool.wake(|_, _, _| Ok(()))) && busy(pool.sleep(|_, _, _| Ok(()))));
        Ok(())
    })
    .unwrap();
    pool.wake(|_, _, _| {
        rows -= 1;
        assert!(busy(pool.sleep(|_, _, _| Ok(()))) && busy(pool.wake(|_, _, _| Ok(()))));
        Ok(())
    })
    .unwrap();
    assert_eq!((rows, world.reserved(), world.pool.is_asleep()), (0, reserved, false));
    world.touch_all();
    world.end();
}

#[test]
fn two_threads_do_not_turn_at_once() {
    let mut world = World::new(Pacing::Eager, None, 4);
    world.churn(60);
    let reserved = world.reserved();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                let pool = &world.pool;
                scope.spawn(|| {
                    let _ = pool.sleep(|_, _, _| Ok(()));
                    let _ = pool.wake(|_, _, _| Ok(()));
                });
            }
        });
        world.pool.wake(|_, _, _| Ok(())).unwrap();
        assert!(!world.pool.is_asleep());
        assert_eq!(world.reserved(), reserved);
        world.pool.verify().unwrap();
    }
    world.touch_all();
    world.end();
}

#[test]
fn a_pool_wakes_no_larger_than_its_limit() {
    let mut world = World::new(Pacing::Eager, Some(400 * MIB), 5);
    world.churn(60);
    let reserved = world.reserved();
    world.pool.sleep(|_, _, _| Ok(())).unwrap();
    world.pool.set_limit(Some(reserved - 2 * MIB)).unwrap();
    assert!(matches!(world.pool.wake(|_, _, _| Ok(())), Err(PoolError::Limit)));
    assert!(world.pool.is_asleep() && world.reserved() <= reserved - 2 * MIB);
    world.pool.verify().unwrap();
    // Half awake it can go to sleep again, and has kept what was saved.
    world.pool.sleep(|_, _, _| panic!("it was saved before")).unwrap();
    assert_eq!(world.reserved(), 0);
    world.pool.set_limit(Some(reserved)).unwrap();
    world.pool.wake(|_, _, _| Ok(())).unwrap();
    assert_eq!(world.reserved(), reserved);
    world.end();
}

#[test]
fn a_capture_is_not_put_to_sleep() {
    let world = World::new(Pacing::Eager, None, 1);
    let stream = world.raw(world.streams[0]);
    let block = world.pool.allocate_on(world.streams[1], MIB).unwrap();
    world.pool.begin_capture(&stream, GraphId(1)).unwrap();
    world.device.begin_capture(stream).unwrap();
    let refused = world.pool.sleep(|_, _, _| panic!("nothing is saved"));
    assert!(matches!(refused, Err(PoolError::Captured(GraphId(1)))), "{refused:?}");
    assert!(!world.pool.is_asleep());
    let graph = world.device.end_capture(stream).unwrap();
    world.pool.end_capture(&stream).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
    world.device.drop_graph(graph).unwrap();
    world.pool.free_on(world.streams[1], block.handle()).unwrap();
    world.end();
}

#[test]
fn a_pool_without_pages_does_not_sleep() {
    let pool = Pool::new(SimDevice::new(SimConfig::new()), pool_core::PoolConfig::new()).unwrap();
    assert!(matches!(pool.sleep(|_, _, _| Ok(())), Err(PoolError::Unsupported(_))));
}

#[test]
fn a_pool_ends_in_its_sleep() {
    let mut world = World::new(Pacing::Random(2), None, 9);
    world.churn(60);
    world.pool.sleep(|_, _, _| Ok(())).unwrap();
    drop(world.pool);
    world.device.run_all();
    world.device.assert_clean();
    assert!(world.device.balance().is_zero(), "{}", world.device.balance());
}
