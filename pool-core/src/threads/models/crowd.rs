//! Many threads on a whole allocator, in random orders: what is too large to be explored.
//!
//! This checker takes every access for sequentially consistent and looks at no memory; orders of
//! memory are the other checker's. A failure prints the schedule, which `shuttle::replay` runs
//! again.

use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::Mutex;
use shuttle::{Config, Runner};

use super::std::boxed::Box;
use super::std::sync::Arc;
use super::std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use super::std::time::Instant;
use super::std::vec::Vec;
use super::std::{env, println};
use crate::range::{Block, HandleError, RangeConfig, Spans};
use crate::threads::classes::CLASS_SHARE;
use crate::threads::{Cache, ModelThreads, Owner, SharedAllocator, SharedConfig};

const GRANULE: u64 = 256;
const SPAN: u64 = 64;
/// Large enough for a depot that has room for every class.
const GRANULES: u64 = 8 << 10;

/// What has happened in all schedules, so that a crowd that never met is noticed.
#[derive(Default)]
struct Tally {
    schedules: AtomicU64,
    served: AtomicU64,
    refused: AtomicU64,
    remote: AtomicU64,
    second_frees: AtomicU64,
    magazines: AtomicU64,
    flushes: AtomicU64,
    recalls: AtomicU64,
    waits: AtomicU64,
}

/// What the threads of a crowd share.
struct World {
    shared: SharedAllocator<ModelThreads>,
    /// Whether somebody has a granule.
    held: Box<[AtomicBool]>,
    /// Blocks that wait for whoever takes them, to free them.
    passed: Mutex<Vec<Block>>,
    tally: Arc<Tally>,
}

impl World {
    /// With so many spans free, and no more.
    fn new(shards: u32, spans: u64, tally: Arc<Tally>) -> Arc<Self> {
        let sizes = Spans::Sized { span_bytes: SPAN * GRANULE, small_bytes: 4 * GRANULE };
        let range = RangeConfig::new(GRANULES * GRANULE).spans(sizes);
        let cache_bytes = 8 * GRANULE * CLASS_SHARE;
        let config = SharedConfig::new(range).shards(shards).cache_bytes(cache_bytes);
        let shared = SharedAllocator::on_platform(config).unwrap();
        shared.allocate((GRANULES - spans * SPAN) * GRANULE).unwrap();
        let held = (0..GRANULES).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Self { shared, held, passed: Mutex::new(Vec::new()), tally })
    }

    /// Marks what a block has as held, or not; nobody else may have marked it.
    fn mark(&self, block: &Block, held: bool) {
        let first = (block.offset_bytes() / GRANULE) as usize;
        let count = (block.size_bytes() / GRANULE) as usize;
        for granule in &self.held[first..first + count] {
            assert_ne!(
                granule.swap(held, Relaxed),
                held,
                "a granule of {block:?} is in two blocks"
            );
        }
    }

    fn free(&self, cache: &mut Cache<ModelThreads>, owner: Owner, block: Block) {
        assert_eq!(self.shared.block_at(block.offset_bytes()), Some(block.handle()));
        self.mark(&block, false);
        assert_eq!(cache.free_for(owner, block.handle()), Ok(block));
        if thread_rng().gen_bool(0.1) {
            let again = cache.free_for(owner, block.handle());
            assert_eq!(again, Err(HandleError::Stale), "{block:?} is freed twice");
            self.tally.second_frees.fetch_add(1, Relaxed);
        }
    }

    /// What one thread does: allocates, frees, passes blocks on and frees those of others,
    /// empties all caches, ends its cache and takes a new one.
    fn work(&self, shard: u32, steps: u32) {
        let mut cache = self.shared.cache();
        cache.use_shard(shard);
        let mut blocks = Vec::new();
        for _ in 0..steps {
            let owner = Owner(thread_rng().gen_range(0..2));
            match thread_rng().gen_range(0..20) {
                0..9 => {
                    let granules = [1, 1, 2, 3, 4, 7, 20][thread_rng().gen_range(0..7)];
                    let Ok(block) = cache.allocate_for(owner, granules * GRANULE) else {
                        self.tally.refused.fetch_add(1, Relaxed);
                        continue;
                    };
                    self.mark(&block, true);
                    self.tally.served.fetch_add(1, Relaxed);
                    blocks.push(block);
                }
                9..13 => {
                    if let Some(block) = blocks.pop() {
                        self.free(&mut cache, owner, block);
                    }
                }
                13..15 => self.passed.lock().unwrap().append(&mut blocks),
                15..18 => {
                    let block = self.passed.lock().unwrap().pop();
                    if let Some(block) = block {
                        self.free(&mut cache, owner, block);
                        self.tally.remote.fetch_add(1, Relaxed);
                    }
                }
                18 => self.shared.flush(),
                _ => {
                    cache = self.shared.cache();
                    cache.use_shard(shard);
                }
            }
        }
        self.passed.lock().unwrap().append(&mut blocks);
    }

    /// That nothing is lost: with all that was given out freed, all is free again.
    fn expect_nothing_lost(&self, spans: u64) {
        self.shared.verify().unwrap();
        let mut cache = self.shared.cache();
        let passed = core::mem::take(&mut *self.passed.lock().unwrap());
        for block in passed {
            self.free(&mut cache, Owner::CLEAN, block);
        }
        self.shared.verify().unwrap();
        assert!(self.held.iter().all(|held| !held.load(Relaxed)), "a block is in nobody's hand");
        assert_eq!(self.shared.largest_free_bytes(), spans * SPAN * GRANULE, "not one free block");
        self.shared.verify().unwrap();
        let stats = self.shared.stats();
        assert_eq!((stats.live_blocks, stats.cached_blocks), (1, 0));
        let (tally, work) = (&self.tally, stats.work);
        tally.magazines.fetch_add(work.magazines, Relaxed);
        tally.flushes.fetch_add(work.flushes, Relaxed);
        tally.recalls.fetch_add(work.recalls, Relaxed);
        tally.waits.fetch_add(work.lock_waits, Relaxed);
        tally.schedules.fetch_add(1, Relaxed);
    }
}

/// Schedules of each of the crowds: a whole number that `SHUTTLE_SCHEDULES` may set.
fn schedules() -> usize {
    env::var("SHUTTLE_SCHEDULES").map_or(10_000, |number| number.parse().unwrap())
}

/// Runs a crowd of so many threads under a scheduler.
fn run(name: &str, scheduler: impl Scheduler + 'static, threads: u32, steps: u32, shards: u32) {
    const SPANS: u64 = 2;
    let tally = Arc::new(Tally::default());
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    let start = Instant::now();
    let counted = tally.clone();
    Runner::new(scheduler, config).run(move || {
        let world = World::new(shards, SPANS, counted.clone());
        let crowd: Vec<_> = (0..threads)
            .map(|thread| {
                let world = world.clone();
                shuttle::thread::spawn(move || world.work(thread % shards, steps))
            })
            .collect();
        for thread in crowd {
            thread.join().unwrap();
        }
        world.expect_nothing_lost(SPANS);
    });
    let Tally { schedules, served, refused, remote, second_frees, .. } = &*tally;
    let Tally { magazines, flushes, recalls, waits, .. } = &*tally;
    let counts = [
        ("served", served),
        ("refused", refused),
        ("freed by others", remote),
        ("freed twice", second_frees),
        ("magazines", magazines),
        ("flushes", flushes),
        ("recalls", recalls),
        ("waits", waits),
    ];
    let counts = counts.map(|(what, count)| (what, count.load(Relaxed)));
    let ran = schedules.load(Relaxed);
    println!("crowd {name}: {ran} schedules, {:.2?}, {counts:?}", start.elapsed());
    for (what, count) in counts {
        let is_possible = shards > 1 || what != "recalls";
        assert!(count > 0 || !is_possible, "{name}: in no schedule: {what}");
    }
}

/// Four threads, with a shard each and the range.
#[test]
fn four_threads_at_random() {
    run("four_threads_at_random", RandomScheduler::new(schedules() * 2), 4, 16, 4);
}

/// Eight threads on two shards.
#[test]
fn eight_threads_at_random() {
    run("eight_threads_at_random", RandomScheduler::new(schedules()), 8, 10, 2);
}

/// Six threads on the range alone.
#[test]
fn six_threads_on_one_shard_at_random() {
    run("six_threads_on_one_shard_at_random", RandomScheduler::new(schedules()), 6, 12, 1);
}

/// Four threads of which few are interrupted, at any place: with two to five changes of priority.
#[test]
fn four_threads_by_priorities() {
    for depth in 2..=5 {
        let scheduler = PctScheduler::new(depth, schedules() / 4);
        run("four_threads_by_priorities", scheduler, 4, 16, 3);
    }
}
