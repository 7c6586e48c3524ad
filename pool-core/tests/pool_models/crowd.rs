//! Many threads and streams on a whole pool, in random orders: what is too large to be explored.
//!
//! Each thread runs a program of its own choice: it allocates and frees on its stream and on
//! others', passes blocks on, has further streams use them, retires its stream and makes another,
//! takes back what is done, and gives back what is idle. A failure prints the schedule, which
//! `shuttle::replay` runs again.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use pool_core::{Deferred, PoolConfig};
use pool_mock::device::{Pacing, SimStream, StreamKind};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Mutex;
use shuttle::{Config, Runner};

use crate::world::{GRANULE, Held, PATIENT, Stream, World};

/// What the pool may have at most: as many granules.
const GRANULES: u64 = 8;

/// What has happened in all schedules, so that a crowd that never met is noticed.
#[derive(Default)]
struct Tally {
    schedules: AtomicU64,
    served: AtomicU64,
    refused: AtomicU64,
    foreign: AtomicU64,
    nameless: AtomicU64,
    raw: AtomicU64,
    retired: AtomicU64,
    trimmed: AtomicU64,
    steals: AtomicU64,
    waits: AtomicU64,
}

/// What the threads of a crowd share.
struct Crowd {
    world: World,
    /// Blocks that wait for whoever takes them, and the stream that used them last.
    passed: Mutex<Vec<(Held, Stream)>>,
    /// A stream that lasts, for all, and one that the pool does not know.
    common: Stream,
    raw: SimStream,
    tally: Arc<Tally>,
}

impl Crowd {
    fn new(pacing: Pacing, deferred: Deferred, tally: Arc<Tally>) -> Arc<Self> {
        let config = PoolConfig::new().arena_bytes(2 * GRANULE).limit_bytes(GRANULES * GRANULE);
        let world = World::of(config, pacing, deferred);
        let common = world.stream();
        let raw = world.device.open_stream(StreamKind::NonBlocking);
        Arc::new(Self { world, passed: Mutex::new(Vec::new()), common, raw, tally })
    }

    fn count(&self, what: impl Fn(&Tally) -> &AtomicU64, times: u64) {
        what(&self.tally).fetch_add(times, Relaxed);
    }

    /// Frees a block on a stream, or on none, in one of the ways that there are.
    fn free(&self, on: Stream, held: Held) {
        match thread_rng().gen_range(0..7) {
            0 => {
                self.world.write(on, held);
                self.world.pool.free(held.block.handle()).unwrap();
                self.count(|tally| &tally.nameless, 1);
            }
            1 => {
                // A further use.
                self.world.pool.record_use(held.block.handle(), self.common.id).unwrap();
                self.world.write(self.common, held);
                self.world.free(on, held);
            }
            2 => {
                self.world.write_by(self.raw, held);
                self.world.pool.free_on(&self.raw, held.block.handle()).unwrap();
                self.count(|tally| &tally.raw, 1);
            }
            _ => self.world.free(on, held),
        }
    }

    /// What one thread does.
    fn work(&self, steps: u32) {
        let world = &self.world;
        let mut own = world.stream();
        let mut blocks: Vec<Held> = Vec::new();
        for _ in 0..steps {
            match thread_rng().gen_range(0..20) {
                0..8 => {
                    let on = if thread_rng().gen_bool(0.2) { self.common } else { own };
                    let granules = thread_rng().gen_range(1..=3);
                    let Ok(held) = world.try_allocate(on, granules) else {
                        self.count(|tally| &tally.refused, 1);
                        continue;
                    };
                    if on.id != own.id {
                        // It is freed on this thread's own stream.
                        world.pool.record_use(held.block.handle(), own.id).unwrap();
                    }
                    self.count(|tally| &tally.served, 1);
                    blocks.push(held);
                }
                8..12 => {
                    if let Some(held) = blocks.pop() {
                        self.free(own, held);
                    }
                }
                12..14 => {
                    let passed = blocks.drain(..).map(|held| (held, own));
                    self.passed.lock().unwrap().extend(passed);
                }
                14..17 => {
                    let passed = self.passed.lock().unwrap().pop();
                    if let Some((held, _)) = passed {
                        self.free(own, held);
                        self.count(|tally| &tally.foreign, 1);
                    }
                }
                17 => {
                    world.pool.reclaim().unwrap();
                }
                18 => {
                    let trimmed = world.pool.trim(0).unwrap();
                    self.count(|tally| &tally.trimmed, u64::from(trimmed.released_bytes > 0));
                }
                _ => {
                    world.pool.retire(own.id).unwrap();
                    own = world.stream();
                    self.count(|tally| &tally.retired, 1);
                }
            }
        }
        self.passed.lock().unwrap().extend(blocks.drain(..).map(|held| (held, own)));
    }

    /// That nothing is lost: with all that was given out freed, all goes back to the device.
    fn end(&self) {
        let world = &self.world;
        world.check();
        for (held, _) in core::mem::take(&mut *self.passed.lock().unwrap()) {
            self.free(self.common, held);
        }
        world.check();
        world.pool.trim_waiting(0).unwrap();
        world.check();
        let stats = world.pool.stats();
        let left = (stats.live_bytes, stats.deferred_bytes, stats.reserved_bytes);
        assert_eq!(left, (0, 0, 0), "something is left: {stats:?}");
        self.count(|tally| &tally.steals, stats.steals);
        self.count(|tally| &tally.waits, stats.calls.device_waits);
        self.count(|tally| &tally.schedules, 1);
    }
}

/// Schedules of each of the crowds: a whole number that `SHUTTLE_SCHEDULES` may set.
fn schedules() -> usize {
    env::var("SHUTTLE_SCHEDULES").map_or(10_000, |number| number.parse().unwrap())
}

/// Runs a crowd of so many threads under a scheduler.
fn run(name: &str, scheduler: impl Scheduler + 'static, threads: u32, steps: u32) {
    let tally = Arc::new(Tally::default());
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(1_000_000);
    let start = Instant::now();
    let counted = tally.clone();
    Runner::new(scheduler, config).run(move || {
        let pacing = match thread_rng().gen_range(0..4) {
            0 => Pacing::Eager,
            1 => Pacing::Idle,
            2 => Pacing::Lag(2),
            _ => Pacing::Random(thread_rng().r#gen()),
        };
        let deferred = if thread_rng().gen_bool(0.5) { PATIENT } else { Deferred::AtOnce };
        let crowd = Crowd::new(pacing, deferred, counted.clone());
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let crowd = crowd.clone();
                shuttle::thread::spawn(move || crowd.work(steps))
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        crowd.end();
        let crowd = Arc::into_inner(crowd).expect("all threads have ended");
        crowd.world.finish();
    });
    let Tally { schedules, served, refused, foreign, nameless, raw, .. } = &*tally;
    let Tally { retired, trimmed, steals, waits, .. } = &*tally;
    let counts = [
        ("served", served),
        ("refused", refused),
        ("freed by others", foreign),
        ("freed on no stream", nameless),
        ("freed on an unknown one", raw),
        ("retired", retired),
        ("trimmed", trimmed),
        ("stolen", steals),
        ("device-side waits", waits),
    ];
    let counts = counts.map(|(what, count)| (what, count.load(Relaxed)));
    let ran = schedules.load(Relaxed);
    println!("crowd {name}: {ran} schedules, {:.2?}, {counts:?}", start.elapsed());
    for (what, count) in counts {
        assert!(count > 0, "{name}: in no schedule: {what}");
    }
}

/// Four threads, each with a stream of its own and one for all.
#[test]
fn four_threads_at_random() {
    run("four_threads_at_random", RandomScheduler::new(schedules()), 4, 10);
}

/// Three threads of which few are interrupted, at any place: with two to five changes of priority.
#[test]
fn three_threads_by_priorities() {
    for depth in 2..=5 {
        let scheduler = PctScheduler::new(depth, schedules() / 4);
        run("three_threads_by_priorities", scheduler, 3, 12);
    }
}
