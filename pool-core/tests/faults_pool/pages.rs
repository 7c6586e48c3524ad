//! Pages: memory that is mapped, unmapped and moved under a range.

use core::sync::atomic::{AtomicBool, Ordering};

use pool_core::device::{Call, Capabilities, Device};
use pool_core::policy::{Growth, Handles, Pages, Preallocation, Reuse, Settings, Way};
use pool_core::{GraphId, Placement, Pool, PoolConfig, PoolError, StreamId};
use pool_mock::device::{Access, Fault, Pacing, SimConfig, SimDevice};

use crate::support::{KIB, MIB};

const PAGE: u64 = 2 * MIB;

fn device() -> SimDevice {
    SimDevice::new(SimConfig::new().pacing(Pacing::Idle).memory_bytes(64 * PAGE))
}

fn settings(limit_pages: u64) -> Settings {
    let pages = Pages { handles: Handles::Smallest, ..Pages::new() };
    Settings { pages: Some(pages), limit_bytes: Some(limit_pages * PAGE), ..Settings::default() }
}

/// A pool whose blocks are written, so that the device knows who uses what.
struct Bench {
    device: SimDevice,
    pool: Pool<SimDevice>,
    stream: StreamId,
}

impl Bench {
    fn new(limit_pages: u64) -> Self {
        let device = device();
        let pool = Pool::new(device.clone(), settings(limit_pages).into()).unwrap();
        let stream = pool.create_stream().unwrap();
        Self { device, pool, stream }
    }

    fn allocate(
        &self,
        bytes: u64,
    ) -> Result<pool_core::Block, PoolError<pool_mock::device::SimError>> {
        let block = self.pool.allocate_on(self.stream, bytes)?;
        let at = self.pool.location(block.handle()).unwrap();
        let (queue, owner) = (self.pool.stream(self.stream).unwrap(), self.device.new_owner());
        let range = at.arena.range();
        self.device
            .queue_use(queue, range, at.offset_bytes, block.size_bytes(), owner, Access::Write)
            .unwrap();
        Ok(block)
    }

    fn free(&self, block: &pool_core::Block) {
        self.pool.free_on(self.stream, block.handle()).unwrap();
    }

    /// The books are in order, and the device has found nothing.
    fn check(&self) {
        self.pool.verify().unwrap();
        self.device.assert_clean();
        assert_eq!(self.pool.stats().reserved_bytes, self.device.balance().bytes);
    }

    /// Everything is the device's again.
    fn end(self) {
        self.check();
        let Self { device, pool, .. } = self;
        drop(pool);
        device.assert_clean();
        assert!(device.balance().is_zero(), "{}", device.balance());
    }
}

/// Sizes that are no multiple of the page are whole pages to the device, and as they are to the
/// program.
#[test]
fn p041_what_is_asked_of_the_device_is_whole_pages() {
    let device = device();
    let config = PoolConfig::from(settings(4)).initial_bytes(5 * MIB);
    let pool = Pool::new(device.clone(), config).unwrap();
    assert_eq!(pool.stats().reserved_bytes, 6 * MIB);
    let stream = pool.create_stream().unwrap();
    let small = pool.allocate_on(stream, 6912).unwrap();
    assert!(small.size_bytes() < 2 * 6912, "a page is no block's own");
    let large = pool.allocate_on(stream, 6 * MIB).unwrap();
    assert_eq!((large.size_bytes(), pool.stats().reserved_bytes), (6 * MIB, 8 * MIB));
    for block in [small, large] {
        pool.free_on(stream, block.handle()).unwrap();
    }
    pool.verify().unwrap();

    // A limit that is no multiple either.
    pool.set_limit(Some(5 * MIB)).unwrap();
    pool.trim_waiting(0).unwrap();
    assert!(pool.allocate_on(stream, 5 * MIB).is_err());
    pool.allocate_on(stream, 4 * MIB).unwrap();
    assert!(pool.stats().reserved_bytes <= 5 * MIB);
    device.assert_clean();
}

/// Whichever call of a growth or a move fails, in whatever way, nothing is left half done, and the
/// next request is served.
#[test]
fn p090_a_growth_that_fails_half_way_leaves_nothing() {
    let calls = [Call::CreatePages, Call::Commit, Call::Decommit, Call::DestroyPages];
    for call in calls {
        for fault in [Fault::Plain, Fault::OutOfMemory] {
            for nth in 0..4 {
                let bench = Bench::new(8);
                let blocks: Vec<_> = (0..8).map(|_| bench.allocate(PAGE).unwrap()).collect();
                for block in blocks.iter().step_by(2) {
                    bench.free(block);
                }
                let before = bench.pool.stats();
                bench.device.fail_with(fault);
                // Four pages, each by itself, and all of them elsewhere.
                if nth < 3 {
                    bench.device.fail_next(call, nth + 1);
                } else {
                    bench.device.fail_each(call);
                }
                let served = bench.allocate(4 * PAGE);
                bench.check();
                assert!(bench.pool.stats().reserved_bytes <= before.reserved_bytes);
                if let Ok(block) = &served {
                    bench.free(block);
                }
                bench.device.clear_faults();
                let block = bench.allocate(4 * PAGE).unwrap();
                bench.check();
                bench.free(&block);
                for block in blocks.iter().skip(1).step_by(2) {
                    bench.free(block);
                }
                bench.pool.trim_waiting(0).unwrap();
                assert_eq!(bench.pool.stats().reserved_bytes, 0);
                bench.end();
            }
        }
    }
}

/// A growth by something that is no multiple of the page, twice, and an end: the device refuses
/// every unmapping that is not of what was mapped.
#[test]
fn p091_what_was_mapped_is_unmapped_and_nothing_else() {
    let bench = Bench::new(8);
    let first = bench.allocate(3 * MIB).unwrap();
    let second = bench.allocate(5 * MIB).unwrap();
    bench.check();
    bench.free(&first);
    bench.free(&second);
    let trimmed = bench.pool.trim_waiting(0).unwrap();
    assert_eq!(trimmed.released_bytes, 8 * MIB);
    let third = bench.allocate(7 * MIB).unwrap();
    bench.free(&third);
    bench.end();
}

/// Every option together with pages: those that exclude each other are as their documentation says,
/// also when memory is short.
#[test]
fn p117_options_beside_pages_do_no_harm_when_memory_is_short() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        for (granule_bytes, shelf_bytes) in [(256, 0), (64 * KIB, 64 * MIB), (4 * MIB, 0)] {
            for pages in [true, false] {
                let mut config = SimConfig::new().memory_bytes(64 * PAGE).pacing(Pacing::Idle);
                if !pages {
                    config = config.without(Capabilities::PAGES);
                }
                let device = SimDevice::new(config);
                let reuse = Reuse { placement, shelf_bytes, ..Reuse::default() };
                let settings = Settings { reuse, granule_bytes, ..settings(8) };
                let pool = Pool::new(device.clone(), settings.into()).unwrap();
                let stream = pool.create_stream().unwrap();
                let mut blocks = Vec::new();
                while let Ok(block) = pool.allocate_on(stream, PAGE) {
                    blocks.push(block);
                }
                assert!(!blocks.is_empty());
                let careful = pool_core::Request::new(3 * PAGE).never_split_above(PAGE);
                assert!(pool.allocate_on(stream, careful).is_err());
                for block in blocks {
                    pool.free_on(stream, block.handle()).unwrap();
                }
                let block =
                    pool.allocate_on(stream, careful).or_else(|_| pool.allocate_on(stream, PAGE));
                pool.free_on(stream, block.unwrap().handle()).unwrap();
                pool.verify().unwrap();
                pool.trim_waiting(0).unwrap();
                assert_eq!(pool.stats().reserved_bytes, 0, "{placement:?} {granule_bytes} {pages}");
                drop(pool);
                device.assert_clean();
                assert!(device.balance().is_zero());
            }
        }
    }
}

/// What is free in one place serves in another, with no more memory than is live, and only behind
/// the work that used it.
#[test]
fn pages_move_to_where_they_are_needed() {
    let bench = Bench::new(16);
    let blocks: Vec<_> = (0..16).map(|_| bench.allocate(PAGE).unwrap()).collect();
    for block in blocks.iter().step_by(2) {
        bench.free(block);
    }
    // Eight pages, none beside another.
    let copies = bench.device.calls().of(Call::Copy);
    let whole = bench.allocate(8 * PAGE).unwrap();
    bench.check();
    assert_eq!(bench.device.calls().of(Call::Copy), copies);
    assert_eq!(bench.pool.stats().reserved_bytes, 16 * PAGE);
    assert!(bench.pool.stats().moved_pages >= 7, "{:?}", bench.pool.stats());
    assert!(bench.allocate(PAGE).is_err(), "that is all");
    bench.free(&whole);
    bench.end();
}

/// A stream that another thread retires while memory is got for its request: that is told, and not a
/// lack of memory once all pages were moved again and again.
#[test]
fn p006_a_stream_that_is_retired_during_its_request_is_unknown() {
    for call in [Call::CreatePages, Call::Commit] {
        let bench = Bench::new(16);
        let retired = bench.pool.create_stream().unwrap();
        // Several streams ask, so that what there is is common.
        for _ in 0..40 {
            for stream in [bench.stream, retired] {
                let block = bench.pool.allocate_on(stream, PAGE).unwrap();
                bench.pool.free_on(stream, block.handle()).unwrap();
            }
        }
        bench.pool.trim_waiting(0).unwrap();
        let (pool, met) = (bench.pool.clone(), AtomicBool::new(false));
        bench.device.on_call(move |made| {
            if made == call && !met.swap(true, Ordering::Relaxed) {
                pool.retire(retired).unwrap();
            }
        });
        let before = bench.device.calls();
        let served = bench.pool.allocate_on(retired, 8 * PAGE);
        assert!(matches!(served, Err(PoolError::UnknownStream(_))), "{call}: {served:?}");
        let commits = bench.device.calls().since(&before).of(Call::Commit);
        assert!(commits <= 8, "{call}: {commits} commits");
        bench.device.clear_hooks();
        // What was got serves others.
        let block = bench.allocate(8 * PAGE).unwrap();
        bench.free(&block);
        bench.check();
    }
}

/// Pages go back without a wait for work elsewhere.
#[test]
fn a_trim_waits_for_nothing() {
    let bench = Bench::new(16);
    let other = bench.pool.create_stream().unwrap();
    let busy = bench.allocate(PAGE).unwrap();
    let idle = bench.pool.allocate_on(other, 4 * PAGE).unwrap();
    bench.pool.free_on(other, idle.handle()).unwrap();
    let queue = bench.pool.stream(other).unwrap();
    bench.device.advance(queue, 100).unwrap();
    let before = bench.device.calls();
    bench.pool.trim(0).unwrap();
    let since = bench.device.calls().since(&before);
    assert_eq!((since.of(Call::WaitOnHost), since.of(Call::Synchronize)), (0, 0));
    bench.check();
    bench.free(&busy);
    assert!(bench.device.memory().is_ok());
    bench.end();
}

/// On a device that has no more than others left, a pool lives on what it has.
#[test]
fn a_device_that_is_full_has_pages_move() {
    let device = SimDevice::new(SimConfig::new().memory_bytes(8 * PAGE));
    let settings = Settings { limit_bytes: None, ..settings(0) };
    let pool = Pool::new(device.clone(), settings.into()).unwrap();
    let stream = pool.create_stream().unwrap();
    let blocks: Vec<_> = (0..8).map(|_| pool.allocate_on(stream, PAGE).unwrap()).collect();
    for block in blocks.iter().step_by(2) {
        pool.free_on(stream, block.handle()).unwrap();
    }
    pool.allocate_on(stream, 4 * PAGE).unwrap();
    pool.verify().unwrap();
    device.assert_clean();
    assert_eq!(device.balance().bytes, 8 * PAGE);
}

/// What a trim waits for is waited for by whoever has it next, also if that is another stream, which is
/// alone by then.
#[test]
fn what_was_about_to_go_is_waited_for_by_the_next_stream() {
    let mut bench = Bench::new(8);
    let block = bench.allocate(6 * PAGE).unwrap();
    bench.free(&block);
    assert_eq!(bench.pool.trim(0).unwrap().released_bytes, 0, "its work has not run");
    bench.pool.retire(bench.stream).unwrap();
    bench.stream = bench.pool.create_stream().unwrap();
    let next = bench.allocate(6 * PAGE).unwrap();
    bench.check();
    bench.free(&next);
    bench.device.run_all();
    bench.end();
}

/// A trim comes to its end once the work is done, and gives back what was asked.
#[test]
fn a_trim_is_finished_by_the_next_one() {
    let bench = Bench::new(8);
    let block = bench.allocate(6 * PAGE).unwrap();
    bench.free(&block);
    assert_eq!(bench.pool.trim(2 * PAGE).unwrap().released_bytes, 0);
    bench.device.run_all();
    assert_eq!(bench.pool.trim(4 * PAGE).unwrap().released_bytes, 2 * PAGE);
    assert_eq!(bench.pool.trim(0).unwrap().released_bytes, 0, "the rest is asked for anew");
    bench.device.run_all();
    assert_eq!(bench.pool.trim(0).unwrap().released_bytes, 4 * PAGE);
    bench.end();
}

/// A stream that is alone keeps its memory to itself; a capture of it gets it nevertheless.
#[test]
fn a_capture_gets_what_is_idle() {
    for trims in [false, true] {
        let bench = Bench::new(8);
        let block = bench.allocate(6 * PAGE).unwrap();
        bench.free(&block);
        if trims {
            bench.pool.trim(0).unwrap();
        }
        bench.device.run_all();
        bench.device.set_pacing(Pacing::Eager);
        let queue = bench.pool.stream(bench.stream).unwrap();
        bench.pool.begin_capture(&queue, GraphId(1)).unwrap();
        bench.device.begin_capture(queue).unwrap();
        let inside = bench.allocate(5 * PAGE).unwrap();
        bench.free(&inside);
        let graph = bench.device.end_capture(queue).unwrap();
        bench.pool.end_capture(&queue).unwrap();
        bench.pool.release_graph(GraphId(1)).unwrap();
        bench.device.drop_graph(graph).unwrap();
        bench.device.run_all();
        bench.end();
    }
}

/// A pool that is not to grow does not, but has its pages move.
#[test]
fn a_pool_that_never_grows_moves_its_pages() {
    let device = device();
    let growth = Growth { order: [Way::Never; 3], ..Growth::default() };
    let preallocation = Preallocation::Bytes(8 * PAGE);
    let settings = Settings { growth, preallocation, limit_bytes: None, ..settings(8) };
    let pool = Pool::new(device.clone(), settings.into()).unwrap();
    let stream = pool.create_stream().unwrap();
    let bench = Bench { device, pool, stream };
    let blocks: Vec<_> = (0..4).map(|_| bench.allocate(2 * PAGE).unwrap()).collect();
    bench.free(&blocks[0]);
    bench.free(&blocks[2]);
    let large = bench.allocate(4 * PAGE).unwrap();
    assert!(bench.allocate(PAGE).is_err());
    assert_eq!(bench.pool.stats().reserved_bytes, 8 * PAGE);
    for block in [&blocks[1], &blocks[3], &large] {
        bench.free(block);
    }
    bench.device.run_all();
    bench.end();
}
