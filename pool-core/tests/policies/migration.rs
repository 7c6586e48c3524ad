//! Blocks that are moved together.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pool_core::device::{Call, Capabilities};
use pool_core::policy::{Growth, Way as GrowthWay};
use pool_core::{GraphId, Movable, On, PoolError, Request, StreamId};
use pool_mock::device::{Access, CaptureMode, Fault, Owner, Pacing, SimStream};

use crate::support::{
    Buffer, GRANULE, KIB, LATE, MIB, Refusal, Way, Where, World, each_way, in_time,
};
use crate::threads::on_threads;

/// What the program usually asks for, and at last.
const USUAL: u64 = 16 * MIB;

/// All memory there is.
const CAPACITY: u64 = 64 * MIB;

/// A movable buffer, and who owns its bytes.
#[derive(Debug)]
struct Kept {
    movable: Movable,
    owner: Owner,
    size_bytes: u64,
    home: StreamId,
    /// Where it was written last.
    last: StreamId,
}

impl Kept {
    /// One that is written on its stream.
    fn new(world: &World, home: StreamId, request: impl Into<Request>) -> Self {
        Self::try_new(world, home, request).unwrap()
    }

    fn try_new(
        world: &World,
        home: StreamId,
        request: impl Into<Request>,
    ) -> Result<Self, Refusal> {
        let movable = world.pool.allocate_movable(home, request)?;
        let size_bytes = world.pool.guard(movable, home).unwrap().block().size_bytes();
        let owner = world.device.new_owner();
        let kept = Self { movable, owner, size_bytes, home, last: home };
        kept.queue(world, home, Access::Write);
        Ok(kept)
    }

    fn offset_bytes(&self, world: &World) -> u64 {
        world.pool.guard(self.movable, self.home).unwrap().block().offset_bytes()
    }

    /// Uses it on a stream under a guard. The caller has ordered that stream.
    fn queue(&self, world: &World, on: StreamId, access: Access) {
        self.queue_raw(world, on, world.raw(on), access);
    }

    fn queue_raw<'a>(
        &self,
        world: &World,
        on: impl Into<Where<'a>>,
        stream: SimStream,
        access: Access,
    ) {
        let guard = world.pool.guard(self.movable, on).unwrap();
        let place = world.pool.location(guard.block().handle()).unwrap();
        let (range, at) = (place.arena.range(), place.offset_bytes);
        world.device.queue_use(stream, range, at, self.size_bytes, self.owner, access).unwrap();
    }

    /// Writes it anew on a stream, behind the last write. Its own stream is not told of that.
    fn rewrite_on(&mut self, world: &World, on: StreamId) {
        world.order(world.raw(self.last), world.raw(on));
        self.queue(world, on, Access::Write);
        self.last = on;
    }

    /// What was written last is found: on its own stream, which is ordered behind the write, and
    /// behind that on another.
    fn check(&self, world: &World, other: StreamId) {
        world.order(world.raw(self.last), world.raw(self.home));
        self.queue(world, self.home, Access::Read);
        world.order(world.raw(self.home), world.raw(other));
        self.queue(world, other, Access::Read);
    }

    fn free(self, world: &World) {
        world.pool.free_movable(self.movable, self.home).unwrap();
    }
}

/// Memory that is full of blocks, some of which may be moved.
struct Scene {
    world: World,
    streams: [StreamId; 3],
    kept: Vec<Kept>,
    fixed: Vec<(StreamId, Buffer)>,
    /// All that was asked for.
    asked: Vec<u64>,
}

/// What lies somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    start: u64,
    end: u64,
    is: Is,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Is {
    Free,
    Fixed,
    Movable,
}

impl Scene {
    /// After a few requests of usual sizes blocks of 1 to 4 MiB, of which some may be moved,
    /// some were used on two streams, and 40 % of the bytes were freed again, here and there.
    fn scattered(world: World, usual: &[u64], seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let streams = world.streams();
        for &size_bytes in usual {
            world.pass(streams[0], size_bytes);
        }
        let (kept, fixed) = (Vec::new(), Vec::new());
        let mut scene = Self { world, streams, kept, fixed, asked: usual.to_vec() };
        let mut left = CAPACITY;
        while left > 0 {
            let size_bytes = (random.u64(1..=4) * MIB).min(left);
            if scene.add(random.usize(..3), size_bytes, random.u8(..4) > 0).is_err() {
                // Where streams have some of their own, all is not in whole MiB.
                assert!(left < 10 * MIB, "{left}");
                break;
            }
            left -= size_bytes;
        }
        let mut freed = left;
        while freed * 5 < CAPACITY * 2 {
            freed += scene.free_one(&mut random);
        }
        for kept in &mut scene.kept {
            if random.bool() {
                kept.rewrite_on(&scene.world, scene.streams[random.usize(..3)]);
            }
        }
        scene
    }

    fn add(&mut self, on: usize, size_bytes: u64, is_movable: bool) -> Result<(), Refusal> {
        let on = self.streams[on];
        if is_movable {
            self.kept.push(Kept::try_new(&self.world, on, size_bytes)?);
        } else {
            let buffer = self.world.try_allocate(on, size_bytes)?;
            self.world.touch(&buffer, self.world.raw(on));
            self.fixed.push((on, buffer));
        }
        self.asked.push(size_bytes);
        Ok(())
    }

    fn free_one(&mut self, random: &mut fastrand::Rng) -> u64 {
        let place = random.usize(..self.kept.len() + self.fixed.len());
        if place < self.kept.len() {
            let kept = self.kept.swap_remove(place);
            let size_bytes = kept.size_bytes;
            kept.free(&self.world);
            size_bytes
        } else {
            let (on, buffer) = self.fixed.swap_remove(place - self.kept.len());
            let size_bytes = buffer.size_bytes;
            self.world.free(on, buffer);
            size_bytes
        }
    }

    /// All that there is, in order.
    fn pieces(&self) -> Vec<Piece> {
        let kept = self.kept.iter().map(|kept| {
            let start = kept.offset_bytes(&self.world);
            Piece { start, end: start + kept.size_bytes, is: Is::Movable }
        });
        let fixed = self.fixed.iter().map(|(_, buffer)| {
            let start = buffer.offset_bytes;
            Piece { start, end: start + buffer.size_bytes, is: Is::Fixed }
        });
        let mut pieces: Vec<Piece> = kept.chain(fixed).collect();
        pieces.sort_unstable();
        let ends = core::iter::once(0).chain(pieces.iter().map(|piece| piece.end));
        let starts = pieces.iter().map(|piece| piece.start).chain([CAPACITY]);
        let free = ends.zip(starts).filter(|(end, start)| end < start);
        let free: Vec<Piece> =
            free.map(|(start, end)| Piece { start, end, is: Is::Free }).collect();
        pieces.extend(free);
        pieces.sort_unstable();
        pieces
    }

    /// The hundredths of what is free, rounded down, that serve no request of those that were made
    /// and one more.
    fn unusable_percent(&self, more_bytes: u64) -> u8 {
        let runs: Vec<u64> = (self.pieces().iter())
            .filter(|piece| piece.is == Is::Free)
            .map(|run| (run.end - run.start) / GRANULE)
            .collect();
        let free: u64 = runs.iter().sum();
        let (mut unusable, mut sum) = (0, 0);
        for size in self.asked.iter().chain([&more_bytes]).map(|&bytes| bytes / GRANULE) {
            unusable += size * runs.iter().filter(|&&run| run < size).sum::<u64>();
            sum += size;
        }
        u8::try_from(unusable * 100 / (sum * free)).unwrap()
    }

    /// The fewest bytes that have to be copied to have a place for a request, if there can be one:
    /// every window is tried, and in each every place for every block.
    fn fewest(&self, need_bytes: u64) -> Option<u64> {
        let pieces = self.pieces();
        // All begins and ends at multiples of this: in a window that begins between two of those
        // lies more than in either.
        let edges = pieces.iter().flat_map(|piece| [piece.start, piece.end]);
        let unit =
            edges.fold(
                MIB,
                |unit, edge| if edge == 0 { unit } else { unit.min(1 << edge.trailing_zeros()) },
            );
        let mut fewest = None;
        for start in (0..=(CAPACITY - need_bytes) / unit).map(|number| number * unit) {
            let end = start + need_bytes;
            let first = pieces.partition_point(|piece| piece.end <= start);
            let inside = &pieces[first..pieces.partition_point(|piece| piece.start < end)];
            if inside.iter().any(|piece| piece.is == Is::Fixed) {
                continue;
            }
            let movable = inside.iter().filter(|piece| piece.is == Is::Movable);
            let mut blocks: Vec<u64> = movable.map(|piece| piece.end - piece.start).collect();
            let bytes = blocks.iter().sum();
            if fewest.is_some_and(|fewest| fewest <= bytes) {
                continue;
            }
            blocks.sort_unstable_by(|one, other| other.cmp(one));
            let free = pieces.iter().filter(|piece| piece.is == Is::Free);
            let outside = free.flat_map(|run| {
                let below = run.end.min(start).saturating_sub(run.start);
                [below, run.end.saturating_sub(run.start.max(end))]
            });
            let mut holes: Vec<u64> = outside.filter(|&len| len > 0).collect();
            if fits(&mut holes, &blocks) {
                fewest = Some(bytes);
            }
        }
        fewest
    }

    /// Everything is found as it was written, and freed.
    fn end(self) {
        let Self { world, streams, kept, fixed, .. } = self;
        for (on, buffer) in fixed {
            assert_eq!(
                world.pool.block(buffer.handle).unwrap().offset_bytes(),
                buffer.offset_bytes
            );
            world.queue(&buffer, world.raw(on), Access::Read);
            world.free(on, buffer);
        }
        for (kept, other) in kept.into_iter().zip(streams.into_iter().cycle()) {
            kept.check(&world, other);
            kept.free(&world);
        }
        for stream in streams {
            world.device.host_wait_stream(world.raw(stream)).unwrap();
        }
        world.end();
    }
}

/// Every block in every hole.
fn fits(holes: &mut [u64], blocks: &[u64]) -> bool {
    let Some((&first, others)) = blocks.split_first() else { return true };
    let mut tried = Vec::new();
    (0..holes.len()).any(|place| {
        if holes[place] < first || tried.contains(&holes[place]) {
            return false;
        }
        tried.push(holes[place]);
        holes[place] -= first;
        let fits = fits(holes, others);
        holes[place] += first;
        fits
    })
}

/// The scene at the limit of the device, in one arena: the pool may have more, and so its streams
/// have memory of their own.
fn at_the_end_of_the_device(way: Way, seed: u64) -> Scene {
    // What is usual is found there at once, and so is not noted.
    let growth = Growth { migrate_from_percent: 0, ..Growth::default() };
    let device = way.device().memory_bytes(CAPACITY);
    let config = way.pool().growth(growth).initial_bytes(CAPACITY);
    Scene::scattered(World::new(device, config), &[], seed)
}

/// The scene at the pool's limit, in one arena: all that is free is common.
fn at_the_limit(way: Way, growth: Growth, seed: u64) -> Scene {
    let config = way.pool().growth(growth).initial_bytes(CAPACITY).limit_bytes(CAPACITY);
    Scene::scattered(World::new(way.device(), config), &[USUAL; 10], seed)
}

/// Of the memory 40 % is free, and no 16 MiB of it lie together. After as few bytes are copied as
/// possible they do, and everything is found where it is then: whether what is free is common, or
/// streams have some of their own.
#[test]
fn scattered_memory_serves_a_request_once_the_fewest_bytes_are_copied() {
    let (served, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let figures = Mutex::new(BTreeMap::new());
    each_way(|way| {
        for seed in 0..15 {
            let scene = match seed {
                0..10 => at_the_limit(way, Growth::default(), seed),
                _ => at_the_end_of_the_device(way, seed),
            };
            let world = &scene.world;
            world.check();
            let before = world.pool.stats();
            assert!(before.free_bytes + before.deferred_bytes >= CAPACITY * 2 / 5);
            let host_waits = world.calls(Call::WaitOnHost);
            let fewest = scene.fewest(USUAL);
            let answer = world.try_allocate(scene.streams[1], USUAL);
            let stats = world.pool.stats();
            match (fewest, answer) {
                (Some(fewest), Ok(buffer)) => {
                    let migrations = u64::from(fewest > 0);
                    assert_eq!(stats.migrations - before.migrations, migrations);
                    assert_eq!(stats.migrated_bytes - before.migrated_bytes, fewest);
                    assert_eq!(world.calls(Call::WaitOnHost), host_waits, "nobody waits");
                    assert_eq!(stats.calls.copies, world.calls(Call::Copy));
                    world.touch(&buffer, world.raw(scene.streams[1]));
                    world.check();
                    world.free(scene.streams[1], buffer);
                    served.fetch_add(migrations, Ordering::Relaxed);
                    let copies = stats.calls.copies - before.calls.copies;
                    let figure = (fewest / KIB, copies);
                    let known = *figures.lock().unwrap().entry(seed).or_insert(figure);
                    assert_eq!(known, figure, "at any pace the same");
                }
                (None, Err(PoolError::OutOfMemory { .. })) => {
                    assert_eq!(stats.calls.copies, before.calls.copies);
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                (fewest, answer) => panic!("seed {seed}: {fewest:?}, but {answer:?}"),
            }
            scene.end();
        }
    });
    for (seed, (bytes, copies)) in figures.into_inner().unwrap() {
        println!("seed {seed}: 16 MiB of 64, 40 % free: {bytes} KiB in {copies} copies");
    }
    assert!(served.into_inner() > 200 && refused.into_inner() > 10);
}

/// The default is 30 %: what is usual decides. A policy that is one hundredth off decides otherwise.
#[test]
fn it_takes_more_than_the_set_share_of_what_is_free() {
    for seed in [0, 3, 5] {
        for (usual, few) in [([MIB; 80].as_slice(), true), (&[USUAL; 10], false)] {
            let with = |percent: Option<u8>| {
                let mut growth = Growth::default();
                growth.migrate_from_percent = percent.unwrap_or(growth.migrate_from_percent);
                let config = LATE.pool().growth(growth);
                let config = config.initial_bytes(CAPACITY).limit_bytes(CAPACITY);
                let scene = Scene::scattered(World::new(LATE.device(), config), usual, seed);
                let share = scene.unusable_percent(USUAL);
                assert!(scene.fewest(USUAL).is_some());
                let free_bytes = scene.world.pool.stats().free_bytes;
                let answer = scene.world.try_allocate(scene.streams[0], USUAL);
                let served = answer.is_ok();
                if let Ok(buffer) = answer {
                    scene.world.free(scene.streams[0], buffer);
                } else {
                    // That is asked for in vain is not usual: a second call finds no more.
                    assert!(scene.world.try_allocate(scene.streams[0], USUAL).is_err());
                    assert_eq!(scene.world.calls(Call::Copy), 0);
                    assert!(free_bytes >= USUAL);
                }
                assert_eq!(scene.world.pool.stats().migrations, u64::from(served));
                scene.end();
                (share, served)
            };
            let (share, served) = with(None);
            println!("seed {seed}: {share} % serve no usual request: moved is {served}");
            assert_eq!((share < 30, served), (few, !few));
            assert_eq!(with(Some(share)), (share, true), "a little more than {share} %");
            assert_eq!(with(Some(share + 1)), (share, false));
        }
    }
}

/// Without migration in the order of growth the same request is refused, and nothing is copied.
#[test]
fn a_pool_that_may_not_migrate_refuses() {
    let never = Growth {
        order: [GrowthWay::InPlace, GrowthWay::Overflow, GrowthWay::Never],
        ..Growth::default()
    };
    for (growth, able, served) in
        [(Growth::default(), true, true), (never, true, false), (Growth::default(), false, false)]
    {
        let mut device = LATE.device();
        if !able {
            device = device.without(Capabilities::COPY);
        }
        let config = LATE.pool().growth(growth).initial_bytes(CAPACITY).limit_bytes(CAPACITY);
        let scene = Scene::scattered(World::new(device, config), &[USUAL; 10], 2);
        match scene.world.try_allocate(scene.streams[0], USUAL) {
            Ok(buffer) => {
                assert!(served);
                scene.world.free(scene.streams[0], buffer);
            }
            Err(PoolError::OutOfMemory { shortage, .. }) => {
                assert!(!served);
                assert!(shortage.free_bytes >= USUAL);
                assert_eq!(shortage.remedy, pool_core::Remedy::Defragment);
            }
            Err(other) => panic!("{other}"),
        }
        assert_eq!(scene.world.calls(Call::Copy) > 0, served);
        scene.end();
    }
}

/// A pool that may grow does that, and moves nothing; once it may not, it migrates.
#[test]
fn growth_comes_first() {
    let config = LATE.pool().initial_bytes(CAPACITY).arena_bytes(MIB).limit_bytes(2 * CAPACITY);
    let scene = Scene::scattered(World::new(LATE.device(), config), &[USUAL; 10], 2);
    let [first, second, _] = scene.streams;
    let before = scene.world.pool.stats();
    let grown = scene.world.used(first, USUAL);
    let stats = scene.world.pool.stats();
    assert_eq!((stats.growths - before.growths, stats.migrations), (1, 0));
    scene.world.pool.set_limit(Some(stats.reserved_bytes)).unwrap();
    let moved = scene.world.used(second, USUAL);
    let stats = scene.world.pool.stats();
    assert_eq!((stats.growths - before.growths, stats.migrations), (1, 1));
    scene.world.free(first, grown);
    scene.world.free(second, moved);
    scene.end();
}

/// In the order that the program chooses: one that would rather copy than take more does.
#[test]
fn migration_comes_first_where_it_is_told_to() {
    let order = [GrowthWay::Migration, GrowthWay::InPlace, GrowthWay::Overflow];
    let config = LATE.pool().initial_bytes(CAPACITY).limit_bytes(2 * CAPACITY);
    let growth = Growth { order, ahead: None, floor_bytes: MIB, ..Growth::default() };
    let scene = Scene::scattered(World::new(LATE.device(), config.growth(growth)), &[USUAL; 10], 2);
    let before = scene.world.pool.stats();
    let moved = scene.world.used(scene.streams[0], USUAL);
    let stats = scene.world.pool.stats();
    assert_eq!((stats.growths - before.growths, stats.migrations), (0, 1));
    scene.world.free(scene.streams[0], moved);
    scene.end();
}

/// A row of blocks of 1 MiB, of which every other one was freed: to have 2 MiB one is moved.
struct Row {
    world: World,
    home: StreamId,
    other: StreamId,
    kept: Vec<Kept>,
}

impl Row {
    fn new(blocks: u64) -> Self {
        Self::on(LATE, blocks, 1)
    }

    /// Of blocks that are so many times as long as what is freed between them.
    fn on(way: Way, blocks: u64, times: u64) -> Self {
        let pairs = blocks / 2;
        let capacity = pairs * (times + 1) * MIB;
        // Whatever is usual.
        let growth = Growth { migrate_from_percent: 0, ..Growth::default() };
        let config = way.pool().growth(growth).initial_bytes(capacity).limit_bytes(capacity);
        let world = World::new(way.device(), config);
        let [home, other] = world.streams();
        let mut kept = Vec::new();
        let mut between = Vec::new();
        for _ in 0..pairs {
            between.push(world.used(home, MIB));
            kept.push(Kept::new(&world, home, times * MIB));
        }
        for buffer in between {
            world.free(home, buffer);
        }
        Self { world, home, other, kept }
    }

    fn try_two(&self) -> Result<Buffer, Refusal> {
        self.world.try_allocate(self.home, 2 * MIB)
    }

    /// One is moved, and so 2 MiB are served.
    fn move_one(&self) {
        let before = self.world.pool.stats();
        let buffer = self.try_two().unwrap();
        self.world.touch(&buffer, self.world.raw(self.home));
        self.world.free(self.home, buffer);
        let stats = self.world.pool.stats();
        assert_eq!(stats.migrations - before.migrations, 1);
        assert_eq!(stats.migrated_bytes - before.migrated_bytes, MIB);
    }

    /// Those that lie elsewhere than they did.
    fn moved(&self) -> Vec<&Kept> {
        let moved = |place: &usize| {
            self.kept[*place].offset_bytes(&self.world) != (2 * *place as u64 + 1) * MIB
        };
        (0..self.kept.len()).filter(moved).map(|place| &self.kept[place]).collect()
    }

    fn end(self) {
        for kept in self.kept {
            kept.check(&self.world, self.other);
            kept.free(&self.world);
        }
        self.world.end();
    }
}

#[test]
fn a_block_whose_guard_is_held_stays() {
    each_way(|way| {
        let row = Row::on(way, 8, 1);
        let pool = &row.world.pool;
        let hold = |kept: &Kept| pool.guard(kept.movable, row.other).unwrap();
        let mut guards: Vec<_> = row.kept.iter().map(hold).collect();
        assert!(matches!(row.try_two(), Err(PoolError::OutOfMemory { .. })));
        let stats = pool.stats();
        assert_eq!((stats.migrations, stats.calls.copies), (0, 0));
        let free = guards.pop().map(|guard| guard.movable()).unwrap();
        // All but this one are still held: it is the one that goes.
        row.move_one();
        drop(guards);
        let moved: Vec<Movable> = row.moved().iter().map(|kept| kept.movable).collect();
        assert_eq!(moved, [free]);
        row.end();
    });
}

/// Two guards are two: as long as one is left, the block stays.
#[test]
fn every_guard_counts() {
    let row = Row::new(4);
    let [first, second] = row.kept.as_slice() else { panic!() };
    let pool = &row.world.pool;
    let pinned = pool.guard(second.movable, row.home).unwrap();
    let guards = [(); 3].map(|()| pool.guard(first.movable, row.home).unwrap());
    for guard in guards {
        assert!(row.try_two().is_err());
        assert!(matches!(
            pool.free_movable(first.movable, row.home),
            Err(PoolError::Guarded(movable)) if movable == first.movable
        ));
        drop(guard);
    }
    row.move_one();
    drop(pinned);
    row.end();
}

/// The block's stream waits for whoever else used it, the copy comes behind that, and whoever uses
/// it next comes behind the copy: one record and one wait each, whatever the number of blocks.
#[test]
fn a_copy_comes_behind_all_uses_and_before_all_later_ones() {
    each_way(|way| {
        let mut row = Row::on(way, 4, 1);
        let unknown = row.world.foreign();
        for kept in &mut row.kept {
            kept.rewrite_on(&row.world, row.other);
            row.world.order(row.world.raw(row.other), unknown);
            kept.queue_raw(&row.world, &unknown, unknown, Access::Read);
        }
        row.move_one();
        let world = &row.world;
        let moved = row.moved()[0].movable;
        let kept = row.kept.iter().find(|kept| kept.movable == moved).unwrap();
        // On a device that is late the copy is pending: another stream waits for it, once.
        for _ in 0..2 {
            kept.queue(world, row.other, Access::Read);
        }
        kept.queue_raw(world, &unknown, unknown, Access::Read);
        for stream in [world.raw(row.other), unknown] {
            world.order(stream, world.raw(row.home));
        }
        kept.queue(world, row.home, Access::Write);
        world.order(world.raw(row.home), unknown);
        kept.queue_raw(world, &unknown, unknown, Access::Read);
        row.end();
    });
}

#[test]
fn a_guard_waits_for_a_pending_copy_once() {
    let row = Row::new(4);
    row.move_one();
    let (world, moved) = (&row.world, row.moved()[0].movable);
    let calls = |kind| world.calls(kind);
    let guarded = |on: Where<'_>| {
        let before = [Call::Record, Call::Wait, Call::WaitOnHost].map(calls);
        drop(world.pool.guard(moved, on).unwrap());
        let after = [Call::Record, Call::Wait, Call::WaitOnHost].map(calls);
        [0, 1, 2].map(|place| after[place] - before[place])
    };
    assert_eq!(guarded(row.home.into()), [0, 0, 0], "its own stream is in order");
    let [_, waits, _] = guarded(row.other.into());
    assert_eq!(waits, 1);
    assert_eq!(guarded(row.other.into()), [0, 0, 0], "it has waited");
    // The host has not: for a use on no stream it does.
    let [_, _, host_waits] = guarded(On::Nothing);
    assert_eq!(host_waits, 1);
    assert_eq!(guarded(On::Nothing), [0, 0, 0]);
    // And since nobody knows what that use was, it stays from now on.
    let others: Vec<_> = row.kept.iter().filter(|kept| kept.movable != moved).collect();
    let pinned = world.pool.guard(others[0].movable, row.home).unwrap();
    assert!(world.try_allocate(row.home, 3 * MIB).is_err());
    drop(pinned);
    row.end();
}

/// A block that was moved may be moved again, at once.
#[test]
fn a_block_goes_wherever_it_is_in_the_way() {
    each_way(|way| {
        let mut row = Row::on(way, 12, 1);
        let mut random = fastrand::Rng::with_seed(1);
        let mut most = 0;
        for _ in 0..12 {
            let before = row.world.pool.stats().migrated_bytes;
            // What is served is put where the next window would be: others have to go.
            let size_bytes = random.u64(2..=6) * MIB;
            let on = [row.home, row.other][random.usize(..2)];
            let buffer = row.world.used(on, size_bytes);
            for kept in &mut row.kept {
                if random.u8(..3) == 0 {
                    kept.rewrite_on(&row.world, row.other);
                }
            }
            row.world.free(on, buffer);
            let scattered: Vec<Buffer> =
                (0..6).map_while(|_| row.world.try_allocate(on, MIB).ok()).collect();
            for (place, buffer) in scattered.into_iter().enumerate() {
                if place % 2 == 0 {
                    row.world.free(on, buffer);
                } else {
                    let kept = Kept::new(&row.world, row.home, 256 * KIB);
                    kept.free(&row.world);
                    row.world.free(row.home, buffer);
                }
            }
            most = most.max(row.world.pool.stats().migrated_bytes - before);
        }
        assert!(most >= MIB);
        row.end();
    });
}

/// Blocks that are longer than every hole stay: no part of one is moved by itself.
#[test]
fn a_block_that_fits_nowhere_stays() {
    let row = Row::on(LATE, 8, 2);
    assert!(matches!(row.try_two(), Err(PoolError::OutOfMemory { .. })));
    assert_eq!(row.world.calls(Call::Copy), 0);
    row.end();
}

/// A block that a graph uses stays as long as the graph does; a capture moves nothing.
#[test]
fn a_block_of_a_graph_stays_until_that_is_released() {
    let row = Row::new(4);
    let (world, graph) = (&row.world, GraphId(1));
    let stream = world.raw(row.other);
    for kept in &row.kept {
        world.device.host_wait_stream(world.raw(row.home)).unwrap();
        kept.check(world, row.other);
    }
    world.pool.begin_capture(row.other, graph).unwrap();
    world.device.begin_capture_in(stream, CaptureMode::Relaxed).unwrap();
    for kept in &row.kept {
        kept.queue(world, row.other, Access::Read);
    }
    assert!(row.try_two().is_err());
    let executable = world.device.end_capture(stream).unwrap();
    world.pool.end_capture(row.other).unwrap();
    assert!(row.try_two().is_err());
    world.device.launch_graph(executable, stream).unwrap();
    world.pool.release_graph(graph).unwrap();
    world.device.drop_graph(executable).unwrap();
    row.move_one();
    row.end();
}

/// What is captured cannot wait for a copy: the guard is refused, and works once that is done.
#[test]
fn a_capture_does_not_wait_for_a_copy() {
    let row = Row::new(4);
    row.move_one();
    let (world, moved) = (&row.world, row.moved()[0].movable);
    let stream = world.raw(row.other);
    world.pool.begin_capture(row.other, GraphId(1)).unwrap();
    world.device.begin_capture_in(stream, CaptureMode::Relaxed).unwrap();
    for on in [On::Stream(row.other), On::Nothing] {
        let refused = world.pool.guard(moved, on);
        assert!(matches!(refused, Err(PoolError::Captured(GraphId(1)))), "{refused:?}");
    }
    let executable = world.device.end_capture(stream).unwrap();
    world.pool.end_capture(row.other).unwrap();
    world.device.drop_graph(executable).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
    row.end();
}

/// The stream of a block that is retired cannot copy it any more; what was copied is still waited
/// for.
#[test]
fn a_block_whose_stream_is_retired_stays() {
    each_way(|way| {
        let row = Row::on(way, 4, 1);
        row.move_one();
        let Row { world, home, other, kept } = row;
        world.pool.retire(home).unwrap();
        for kept in &kept {
            kept.queue(&world, other, Access::Read);
        }
        assert!(world.try_allocate(other, 3 * MIB).is_err());
        for kept in kept {
            world.pool.free_movable(kept.movable, other).unwrap();
        }
        world.pass(other, 4 * MIB);
        world.end();
    });
}

/// Small blocks lie in spans, and stay; those of no stream and of unknown ones, too.
#[test]
fn what_has_no_stream_of_its_own_stays() {
    let Row { world, home, kept, .. } = Row::new(4);
    for kept in kept {
        kept.free(&world);
    }
    let unknown = world.foreign();
    let mut kept = Vec::new();
    let mut between = Vec::new();
    for on in [On::Nothing, On::Raw(&unknown)] {
        between.push(world.allocate(home, MIB));
        kept.push((on, world.pool.allocate_movable(on, MIB).unwrap()));
    }
    for buffer in between {
        world.free(home, buffer);
    }
    assert!(world.try_allocate(home, 2 * MIB).is_err());
    for (on, movable) in kept {
        world.pool.free_movable(movable, on).unwrap();
    }
    let small = world.pool.allocate_movable(home, 256).unwrap();
    assert_eq!(world.pool.guard(small, home).unwrap().block().size_bytes(), 256);
    world.pool.free_movable(small, home).unwrap();
    world.end();
}

/// The new place is aligned as the block was asked for, though a hole that fits better is not.
#[test]
fn a_block_stays_aligned() {
    for (align_bytes, to) in [(MIB, 1), (2 * MIB, 6)] {
        let Row { world, home, other, kept } = Row::new(8);
        for kept in kept {
            kept.free(&world);
        }
        let mut buffers: Vec<Buffer> = (0..4).map(|_| world.used(home, MIB)).collect();
        let kept = Kept::new(&world, home, Request::new(MIB).align_bytes(align_bytes));
        assert_eq!(kept.offset_bytes(&world), 4 * MIB);
        buffers.extend((5..8).map(|_| world.used(home, MIB)));
        for buffer in
            buffers.extract_if(.., |buffer| [MIB, 3 * MIB, 6 * MIB].contains(&buffer.offset_bytes))
        {
            world.free(home, buffer);
        }
        // What is to be free is 3 and 4.
        let served = world.used(home, 2 * MIB);
        assert_eq!(served.offset_bytes, 3 * MIB);
        assert_eq!(kept.offset_bytes(&world), to * MIB);
        for buffer in buffers.into_iter().chain([served]) {
            world.free(home, buffer);
        }
        kept.check(&world, other);
        kept.free(&world);
        world.end();
    }
}

/// A fault of the program's is a typed error, and changes nothing.
#[test]
fn what_is_no_buffer_of_the_pool_is_refused() {
    let row = Row::new(4);
    let (world, kept) = (&row.world, &row.kept[0]);
    let another = Row::new(4);
    let foreign = another.kept[0].movable;
    assert_ne!(foreign, kept.movable);
    let unknown = |answer: Result<(), Refusal>| {
        assert!(matches!(answer, Err(PoolError::UnknownMovable(_))), "{answer:?}");
    };
    unknown(world.pool.guard(foreign, row.home).map(drop));
    unknown(world.pool.free_movable(foreign, row.home).map(drop));
    let gone = world.pool.allocate_movable(row.home, MIB).unwrap();
    world.pool.free_movable(gone, row.home).unwrap();
    unknown(world.pool.free_movable(gone, row.home).map(drop));
    unknown(world.pool.guard(gone, row.home).map(drop));
    // Freed by the handle of its block, it is none any more, wherever that is met first.
    for is_freed in [false, true] {
        let gone = world.pool.allocate_movable(row.home, MIB).unwrap();
        let handle = world.pool.guard(gone, row.home).unwrap().block().handle();
        world.pool.free_on(row.home, handle).unwrap();
        assert!(matches!(world.pool.guard(gone, row.home), Err(PoolError::Handle(_))));
        row.try_two().map(|buffer| world.free(row.home, buffer)).unwrap();
        if is_freed {
            let again = world.pool.free_movable(gone, row.home);
            assert!(matches!(again, Err(PoolError::Handle(_))));
            unknown(world.pool.guard(gone, row.home).map(drop));
        }
    }
    another.end();
    row.end();
}

/// Each call of the device that a migration makes fails once, in each of two ways: the request is
/// served all the same or refused with that call, nothing is lost, and all is found as it was
/// written.
#[test]
fn each_call_that_fails_leaves_everything_as_it_was() {
    let mut struck = BTreeMap::new();
    for fault in [Fault::Plain, Fault::OutOfMemory] {
        for pacing in [Pacing::Idle, Pacing::Lag(3)] {
            for nth in 1.. {
                let way = Way { pacing, ..LATE };
                let scene = at_the_limit(way, Growth::default(), 5);
                let world = &scene.world;
                world.device.fail_with(fault);
                world.device.fail_nth(nth);
                let answer = world.try_allocate(scene.streams[2], USUAL);
                world.device.clear_faults();
                let failed =
                    world.device.last_calls().into_iter().find(|call| call.error.is_some());
                world.check();
                serve_or(&scene, answer, failed.as_ref().map(|record| record.call));
                scene.end();
                let Some(failed) = failed else { break };
                *struck.entry(failed.call).or_insert(0) += 1;
            }
        }
    }
    println!("failed: {struck:?}");
    for call in [Call::Copy, Call::Record, Call::Wait] {
        assert!(struck[&call] > 4, "{struck:?}");
    }
}

/// A call that always fails while one request is made.
#[test]
fn a_call_that_always_fails_is_in_the_refusal() {
    for call in [Call::Copy, Call::Record, Call::Wait] {
        let scene = at_the_limit(LATE, Growth::default(), 5);
        scene.world.device.fail_each(call);
        let answer = scene.world.try_allocate(scene.streams[2], USUAL);
        assert!(matches!(answer, Err(PoolError::OutOfMemory { .. })), "{call}: {answer:?}");
        assert_eq!(scene.world.pool.stats().migrations, 0);
        scene.world.device.clear_faults();
        scene.world.check();
        serve_or(&scene, answer, Some(call));
        scene.end();
    }
}

/// What was served is used and freed; what was refused, for the call that failed, is served when it
/// is asked for again.
fn serve_or(scene: &Scene, answer: Result<Buffer, Refusal>, failed: Option<Call>) {
    let (world, on) = (&scene.world, scene.streams[2]);
    let buffer = match answer {
        Ok(buffer) => buffer,
        Err(PoolError::OutOfMemory { cause, .. }) => {
            assert_eq!(cause.0.map(|cause| cause.call), failed);
            world.allocate(on, USUAL)
        }
        Err(other) => panic!("{other}"),
    };
    world.touch(&buffer, world.raw(on));
    world.free(on, buffer);
}

/// After a call that ends all, nothing is called any more, and the books balance.
#[test]
fn a_fatal_failure_in_a_migration_ends_it() {
    let mut ended = 0;
    for nth in 1.. {
        let scene = at_the_limit(LATE, Growth::default(), 5);
        let Scene { world, streams, kept, .. } = scene;
        world.device.fail_with(Fault::Fatal);
        world.device.fail_nth(nth);
        let answer = world.pool.allocate_on(streams[0], USUAL);
        world.pool.verify().unwrap();
        if answer.is_ok() {
            break;
        }
        ended += 1;
        let poisoned = world.pool.guard(kept[0].movable, streams[0]).map(drop);
        assert!(matches!(poisoned, Err(PoolError::Poisoned)));
        let poisoned = world.pool.free_movable(kept[0].movable, streams[0]);
        assert!(matches!(poisoned, Err(PoolError::Poisoned)));
        world.pool.verify().unwrap();
        drop(world.pool);
        world.device.assert_clean();
    }
    assert!(ended > 5, "{ended}");
}

/// In the midst of every call that a migration makes the pool is used: what is being moved is
/// refused at once, since to wait for it would be for ever, and all else works.
#[test]
fn the_pool_may_be_used_in_the_midst_of_a_migration() {
    for after in [false, true] {
        for nested in [false, true] {
            in_time(move || interrupted(after, nested));
        }
    }
}

fn interrupted(after: bool, nested: bool) {
    let scene = Arc::new(at_the_limit(LATE, Growth::default(), 9));
    let (world, [first, second, third]) = (&scene.world, scene.streams);
    let (is_inside, refused, held) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let counts = Arc::new((is_inside, refused, held));
    let (hooked, seen) = (Arc::downgrade(&scene), counts.clone());
    let hook = move |call: Call| {
        let Some(scene) = hooked.upgrade() else { return };
        if !matches!(call, Call::Copy | Call::Record | Call::Wait) {
            return;
        }
        if seen.0.swap(true, Ordering::AcqRel) {
            return;
        }
        let pool = &scene.world.pool;
        for kept in &scene.kept {
            match pool.guard(kept.movable, kept.home) {
                Ok(guard) => {
                    let again = pool.free_movable(kept.movable, kept.home);
                    assert!(matches!(again, Err(PoolError::Guarded(_))));
                    drop(guard);
                    seen.2.fetch_add(1, Ordering::Relaxed);
                }
                Err(PoolError::InHand(movable)) => {
                    assert_eq!(movable, kept.movable);
                    let freed = pool.free_movable(kept.movable, kept.home);
                    assert!(matches!(freed, Err(PoolError::InHand(_))), "{freed:?}");
                    seen.1.fetch_add(1, Ordering::Relaxed);
                }
                Err(other) => panic!("{other}"),
            }
        }
        let sizes: &[u64] = if nested { &[256, 4 * MIB, USUAL] } else { &[256, MIB] };
        for &size_bytes in sizes {
            if let Ok(buffer) = scene.world.try_allocate(third, size_bytes) {
                scene.world.touch(&buffer, scene.world.raw(third));
                scene.world.free(third, buffer);
            }
        }
        seen.0.store(false, Ordering::Release);
    };
    if after {
        world.device.after_call(hook);
    } else {
        world.device.on_call(hook);
    }
    let answer = world.try_allocate(second, USUAL);
    world.device.clear_hooks();
    assert!(counts.1.load(Ordering::Relaxed) > 3 && counts.2.load(Ordering::Relaxed) > 3);
    let buffer = answer.unwrap_or_else(|_| world.allocate(first, USUAL));
    world.free(first, buffer);
    Arc::into_inner(scene).unwrap().end();
}

/// Another thread that guards or frees what is being moved waits until it is there, and finds it
/// there.
#[test]
fn another_thread_waits_for_a_move() {
    for is_freed in [false, true] {
        in_time(move || {
            let row = Arc::new(Row::new(4));
            let [first, second] = row.kept.as_slice() else { panic!() };
            // The first cannot go, so that it is the second.
            let pinned = row.world.pool.guard(first.movable, row.home).unwrap();
            let (before, movable) = (second.offset_bytes(&row.world), second.movable);
            let other = Arc::new(Mutex::new(None));
            let (started, hooked) = (other.clone(), Arc::downgrade(&row));
            row.world.device.on_call(move |call| {
                if call != Call::Copy {
                    return;
                }
                let row = hooked.upgrade().unwrap();
                let is_done = Arc::new(AtomicBool::new(false));
                let done = is_done.clone();
                let thread = std::thread::spawn(move || {
                    let at = if is_freed {
                        row.world.pool.free_movable(movable, row.home).unwrap().offset_bytes()
                    } else {
                        row.kept[1].queue(&row.world, row.other, Access::Read);
                        row.kept[1].offset_bytes(&row.world)
                    };
                    done.store(true, Ordering::Release);
                    at
                });
                std::thread::sleep(core::time::Duration::from_millis(30));
                assert!(!is_done.load(Ordering::Acquire), "it has not waited");
                *started.lock().unwrap() = Some(thread);
            });
            let served = row.world.used(row.home, 2 * MIB);
            row.world.device.clear_hooks();
            let thread = other.lock().unwrap().take().unwrap();
            assert_ne!(thread.join().unwrap(), before);
            row.world.free(row.home, served);
            drop(pinned);
            let Row { world, home, other, mut kept } = Arc::into_inner(row).unwrap();
            if is_freed {
                kept.truncate(1);
            }
            Row { world, home, other, kept }.end();
        });
    }
}

/// Threads that guard, use, free and take movable buffers while others have them moved.
#[test]
fn threads_use_what_is_being_moved() {
    let mut migrations = 0;
    for seed in 0..200 {
        let pacing = match seed % 3 {
            0 => Pacing::Eager,
            1 => Pacing::Idle,
            _ => Pacing::Random(seed),
        };
        let Row { world, home, kept, .. } = Row::on(Way { pacing, ..LATE }, 24, 1);
        let kept: Vec<_> = kept.into_iter().map(Mutex::new).collect();
        on_threads(4, |thread| {
            let mut random = fastrand::Rng::with_seed(seed * 7 + thread as u64);
            let on = world.stream();
            for _ in 0..40 {
                let mut kept = kept[random.usize(..kept.len())].lock().unwrap();
                match random.u8(..8) {
                    0..4 => {
                        world.order(world.raw(kept.last), world.raw(on));
                        kept.queue(&world, on, Access::Read);
                        kept.rewrite_on(&world, on);
                    }
                    4 => {
                        world.pool.free_movable(kept.movable, kept.last).unwrap();
                        *kept = loop {
                            // Others may have all in their hands.
                            if let Ok(kept) = Kept::try_new(&world, home, MIB) {
                                break kept;
                            }
                        };
                    }
                    _ => {
                        drop(kept);
                        let size_bytes = random.u64(2..6) * MIB;
                        if let Ok(buffer) = world.try_allocate(on, size_bytes) {
                            world.touch(&buffer, world.raw(on));
                            world.free(on, buffer);
                        }
                    }
                }
            }
        });
        migrations += world.pool.stats().migrations;
        for kept in kept {
            let kept = kept.into_inner().unwrap();
            kept.check(&world, home);
            kept.free(&world);
        }
        world.end();
        if seed >= 6 && migrations > 20 {
            break;
        }
    }
    assert!(migrations > 20, "{migrations}");
}
