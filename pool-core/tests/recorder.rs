//! A pool that records does what it does without, and says so.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use pool_core::policy::{Growth, Pages, Way};
use pool_core::record::{Clock, Event, RecordConfig, Refused, Served, Since, What};
use pool_core::{On, Pool, PoolConfig, Tried};
use pool_mock::device::{Pacing, SimConfig, SimDevice};

const MIB: u64 = 1 << 20;

fn pool(pacing: Pacing) -> Pool<SimDevice> {
    let config = PoolConfig::new().initial_bytes(64 * MIB).limit_bytes(64 * MIB);
    Pool::new(SimDevice::new(SimConfig::new().pacing(pacing)), config).unwrap()
}

/// A clock that goes a microsecond on each time that it is read.
fn ticking() -> RecordConfig {
    let ticks = Arc::new(AtomicU64::new(0));
    RecordConfig::new(Clock::new(move || {
        Duration::from_micros(1 + ticks.fetch_add(1, Ordering::Relaxed))
    }))
}

fn all(pool: &Pool<SimDevice>) -> Vec<Event> {
    let events = pool.events(&mut Since::start());
    assert_eq!(events.lost, 0);
    events.all
}

/// A program with small and large blocks on two streams: where they lie.
fn offsets(pool: &Pool<SimDevice>) -> Vec<u64> {
    let streams = [pool.create_stream().unwrap(), pool.create_stream().unwrap()];
    let mut random = fastrand::Rng::with_seed(7);
    let (mut live, mut offsets) = (Vec::new(), Vec::new());
    for _ in 0..3000 {
        if live.len() > 40 || (random.bool() && !live.is_empty()) {
            let (stream, handle) = live.swap_remove(random.usize(..live.len()));
            pool.free_on(stream, handle).unwrap();
        } else {
            let stream = streams[random.usize(..2)];
            let size = 1 << random.u32(8..20);
            let Ok(block) = pool.allocate_on(stream, random.u64(size..2 * size)) else { continue };
            offsets.push(block.offset_bytes());
            live.push((stream, block.handle()));
        }
    }
    offsets
}

#[test]
fn blocks_lie_where_they_would_lie_without() {
    let silent = pool(Pacing::Eager);
    let recording = pool(Pacing::Eager);
    recording.start_recording(&ticking()).unwrap();
    assert_eq!(offsets(&silent), offsets(&recording));
    assert_eq!(silent.stats(), recording.stats());
}

#[test]
fn a_block_that_waits_is_freed_first_and_reclaimed_then() {
    let pool = pool(Pacing::Idle);
    pool.start_recording(&ticking()).unwrap();
    let block = pool.allocate(MIB).unwrap();
    pool.free(block.handle()).unwrap();
    pool.device().run_all();
    pool.reclaim().unwrap();
    let again = pool.allocate(MIB).unwrap();
    assert_eq!(again.offset_bytes(), block.offset_bytes());
    let kinds: Vec<What> = all(&pool).iter().map(|event| event.what).collect();
    let [What::Allocated { reused_after: None, .. }, freed, What::Reclaimed, reuse] = kinds[..]
    else {
        panic!("{kinds:?}");
    };
    assert_eq!(freed, What::Freed { waits: true });
    assert!(matches!(reuse, What::Allocated { reused_after: Some(_), .. }), "{reuse:?}");
    assert_eq!(pool.figures().reuse.count(), 1);
}

#[test]
fn hits_and_refusals_are_counted_by_stream() {
    let pool = pool(Pacing::Eager);
    pool.start_recording(&ticking()).unwrap();
    let stream = pool.create_stream().unwrap();
    for _ in 0..10 {
        let block = pool.allocate_on(stream, 4096).unwrap();
        pool.free_on(stream, block.handle()).unwrap();
    }
    assert!(pool.allocate_on(stream, 65 * MIB).is_err());
    let [named] = pool.figures().streams[..] else { panic!("one stream") };
    assert_eq!((named.requests(), named.refused), (11, 1));
    assert_eq!(named.at_once + named.by_search + named.by_help, 10);
    let events = all(&pool);
    assert_eq!(events.last().unwrap().what, What::Refused(Refused::OutOfMemory));
    let first = events.iter().find(|event| matches!(event.what, What::Allocated { .. }));
    assert!(matches!(first.unwrap().what, What::Allocated { served: Served::ByHelp, .. }));
    assert!(events.iter().all(|event| event.stream == named.stream || event.stream == 0));
}

#[test]
fn each_thread_has_a_label_of_its_own() {
    let pool = pool(Pacing::Eager);
    pool.start_recording(&ticking()).unwrap();
    let _outer = pool.label("main");
    let here = pool.allocate(MIB).unwrap();
    let there = std::thread::scope(|scope| {
        let work = || {
            let _label = pool.label("worker");
            pool.allocate(2 * MIB).unwrap()
        };
        scope.spawn(work).join().unwrap()
    });
    let labels: Vec<(String, u64)> =
        pool.figures().labels.into_iter().map(|label| (label.path, label.live_bytes)).collect();
    let expected = [("worker", 2 * MIB), ("main", MIB)];
    // Without threads' caches all have one label, in turns.
    if cfg!(feature = "std") {
        assert_eq!(labels, expected.map(|(path, bytes)| (path.to_owned(), bytes)));
        let threads: Vec<u32> = all(&pool).iter().map(|event| event.thread).collect();
        assert!(threads.contains(&1) && threads.contains(&2), "{threads:?}");
    }
    // Whoever frees a block, it is its label's.
    pool.free(there.handle()).unwrap();
    pool.free(here.handle()).unwrap();
    assert!(pool.figures().labels.iter().all(|label| label.live_bytes == 0));
    pool.reset_peak();
    assert!(pool.figures().labels.iter().all(|label| label.peak_bytes == 0));
}

#[test]
fn what_is_freed_while_nothing_is_recorded_is_nobodys() {
    let pool = pool(Pacing::Eager);
    pool.start_recording(&ticking()).unwrap();
    let block = {
        let _label = pool.label("phase");
        pool.allocate(MIB).unwrap()
    };
    pool.stop_recording();
    pool.free(block.handle()).unwrap();
    assert_eq!(pool.figures().labels[0].live_bytes, 0);
    pool.start_recording(&ticking()).unwrap();
    let before = all(&pool).len();
    pool.allocate(MIB).unwrap();
    let events = all(&pool);
    // It began where a block was freed that nobody saw.
    assert!(matches!(
        events[before..],
        [Event { what: What::Allocated { reused_after: None, .. }, .. }]
    ));
}

#[test]
fn fragmentation_is_of_a_size() {
    let pool = pool(Pacing::Eager);
    let blocks: Vec<_> = (0..64).map(|_| pool.allocate(MIB).unwrap()).collect();
    blocks.iter().step_by(2).for_each(|block| {
        pool.free(block.handle()).unwrap();
    });
    pool.reclaim().unwrap();
    let small = pool.fragmentation(MIB);
    assert_eq!((small.free_bytes, small.unusable_bytes, small.pieces), (32 * MIB, 0, 32));
    let large = pool.fragmentation(MIB + 1);
    assert_eq!((large.unusable_bytes, large.largest_bytes), (32 * MIB, MIB));
    assert!(pool.explain(On::Nothing, 2 * MIB).unwrap().to_string().contains("not in one piece"));
}

/// Nothing is said to have been tried for a request that nobody made.
#[test]
fn an_explanation_says_what_was_not_tried() {
    let pool = pool(Pacing::Eager);
    let lines = |text: String| text.lines().map(str::trim).map(String::from).collect::<Vec<_>>();
    let ways = "waiting, memory of other streams, giving back what is idle, growth";
    let shortage = pool.explain(On::Nothing, 65 * MIB).unwrap();
    assert_eq!(shortage.tried, Tried::Nothing);
    assert!(lines(shortage.to_string()).contains(&format!("not tried: {ways}")), "{shortage}");
    let refused = pool.allocate(65 * MIB).unwrap_err().to_string();
    assert!(lines(refused.clone()).contains(&format!("tried: {ways}")), "{refused}");
    // Where nothing stands against a request, nothing is said to.
    let free = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new()).unwrap();
    let text = free.explain(On::Nothing, MIB).unwrap().to_string();
    assert!(text.ends_with("if it is refused, free some of what is live"), "{text}");
    assert!(!text.contains("the device has no more"), "{text}");
    // What a setting rules out is not said to have been tried.
    let growth = Growth { order: [Way::Migration; 3], ..Growth::new() };
    let config = PoolConfig::new().initial_bytes(4 * MIB).growth(growth);
    let fixed = Pool::new(SimDevice::new(SimConfig::new()), config).unwrap();
    let text = fixed.allocate(5 * MIB).unwrap_err().to_string();
    assert!(text.contains("giving back what is idle; it may not grow\n"), "{text}");
}

#[test]
fn pages_that_are_about_to_go_are_still_there() {
    let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    let pool = Pool::new(device, PoolConfig::new().pages(Pages::default())).unwrap();
    let stream = pool.create_stream().unwrap();
    let block = pool.allocate_on(stream, 4 * MIB).unwrap();
    pool.free_on(stream, block.handle()).unwrap();
    let trimmed = pool.trim(0).unwrap();
    assert_eq!((trimmed.released_bytes, trimmed.pending_bytes), (0, 4 * MIB));
    let there = || pool.inventory().memory.iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert_eq!(there(), 4 * MIB);
    pool.device().run_all();
    pool.trim(0).unwrap();
    assert_eq!(there(), 0);
}
