//! Pages: memory that is mapped, unmapped and moved under a range.

use pool_core::device::{Call, Capabilities, Device};
use pool_core::policy::{Handles, Pages, Reuse, Settings};
use pool_core::{Placement, Pool, PoolConfig, PoolError, StreamId};
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

/// All memory goes while the addresses stay, and comes again where it was; what is done meanwhile is
/// refused. Whichever call fails on the way, another attempt does the rest, and nothing is given back
/// twice.
#[test]
fn a_pool_sleeps_and_wakes_whatever_fails() {
    let calls = [Call::Decommit, Call::DestroyPages, Call::CreatePages, Call::Commit];
    for (call, times) in calls.into_iter().flat_map(|call| (0..4).map(move |times| (call, times))) {
        let bench = Bench::new(16);
        let blocks: Vec<_> = (1..5).map(|pages| bench.allocate(pages * PAGE).unwrap()).collect();
        bench.free(&blocks[1]);
        let live_bytes = bench.pool.stats().live_bytes;
        let places: Vec<_> = blocks.iter().map(|block| bench.pool.address(block)).collect();
        bench.device.fail_next(call, times);
        let mut saved: Vec<(u64, u64)> = Vec::new();
        let slept = bench.pool.sleep(|_, _, offset_bytes, size_bytes| {
            saved.push((offset_bytes, size_bytes));
            Ok(())
        });
        bench.pool.verify().unwrap();
        if slept.is_ok() {
            assert_eq!(bench.device.balance().bytes, 0);
            assert_eq!(bench.pool.stats().reserved_bytes, 0);
            assert!(matches!(bench.pool.allocate_on(bench.stream, 1), Err(PoolError::Asleep)));
            let freed = bench.pool.free_on(bench.stream, blocks[0].handle());
            assert!(matches!(freed, Err(PoolError::Asleep)));
        }
        let mut restored: Vec<(u64, u64)> = Vec::new();
        let mut attempts = 0;
        while let Err(error) = bench.pool.wake(|_, _, offset_bytes, size_bytes| {
            restored.push((offset_bytes, size_bytes));
            Ok(())
        }) {
            bench.pool.verify().unwrap();
            attempts += 1;
            assert!(attempts < 10, "{error}");
        }
        if slept.is_ok() {
            saved.sort_unstable();
            restored.sort_unstable();
            assert_eq!(saved, restored);
            assert_eq!(saved.iter().map(|&(_, bytes)| bytes).sum::<u64>(), live_bytes);
        }
        bench.check();
        assert_eq!(bench.pool.stats().live_bytes, live_bytes);
        for (block, place) in blocks.iter().zip(places) {
            assert_eq!(bench.pool.address(block), place);
        }
        bench.device.clear_faults();
        let more = bench.allocate(10 * PAGE).unwrap();
        bench.free(&more);
        for block in [&blocks[0], &blocks[2], &blocks[3]] {
            bench.free(block);
        }
        bench.end();
    }
}

#[test]
fn what_cannot_be_saved_or_restored_is_where_it_was() {
    let bench = Bench::new(8);
    let block = bench.allocate(4 * PAGE).unwrap();
    let refused = |left: &mut u32| {
        *left = left.saturating_sub(1);
        if *left == 0 { Err(pool_core::device::Failure::Unsupported(Call::Copy)) } else { Ok(()) }
    };
    for first in 1..4 {
        let mut left = first;
        assert!(bench.pool.sleep(|_, _, _, _| refused(&mut left)).is_err());
        bench.pool.verify().unwrap();
        bench.pool.wake(|_, _, _, _| Ok(())).unwrap();
        bench.check();
        bench.pool.sleep(|_, _, _, _| Ok(())).unwrap();
        let mut left = first;
        assert!(bench.pool.wake(|_, _, _, _| refused(&mut left)).is_err());
        bench.pool.verify().unwrap();
        assert!(matches!(bench.pool.trim(0), Err(PoolError::Asleep)));
        bench.pool.wake(|_, _, _, _| Ok(())).unwrap();
        bench.check();
    }
    // A pool that ends asleep gives nothing back twice.
    bench.pool.sleep(|_, _, _, _| Ok(())).unwrap();
    assert!(block.size_bytes() > 0);
    bench.end();
}
