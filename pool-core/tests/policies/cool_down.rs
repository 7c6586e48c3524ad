//! Freed memory that rests, also from its own stream.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use pool_core::device::{Call, Capabilities};
use pool_core::policy::{CoolDown, Deferred, Reclaim};
use pool_core::sync::{Lock, Spinning};
use pool_core::threads::Threads;
use pool_core::{
    Cache, GraphId, On, Pool, PoolConfig, PoolError, Remedy, SharedAllocator, StreamId, Tag,
};
use pool_mock::device::{Access, CaptureMode, Pacing, SimDevice, SimStream, Violation};

use crate::support::{Buffer, GIB, KIB, LATE, MIB, SimPool, Walk, Way, World, each_way};
use crate::threads::on_threads;

const BOTH: [CoolDown; 2] = [CoolDown::Off, CoolDown::UntilDone];

fn config(way: Way, cool_down: CoolDown) -> PoolConfig {
    let reclaim = Reclaim { deferred: way.deferred, cool_down, ..Reclaim::default() };
    PoolConfig::new().reclaim(reclaim)
}

/// A pool that has all that it may have.
fn fixed(way: Way, cool_down: CoolDown, capacity_bytes: u64) -> World {
    let config = config(way, cool_down);
    let config = config.initial_bytes(capacity_bytes).limit_bytes(capacity_bytes);
    World::new(way.device().memory_bytes(GIB), config)
}

/// One that grows.
fn growing(way: Way, cool_down: CoolDown) -> World {
    World::new(way.device(), config(way, cool_down))
}

/// Has the pool record what is missing, everything run, and the pool look again: then nothing rests.
fn see(world: &World) {
    world.pool.tick().unwrap();
    world.device.run_all();
    world.pool.tick().unwrap();
    assert_eq!(world.pool.stats().resting_bytes, 0);
}

fn set(pool: &SimPool, cool_down: CoolDown) {
    pool.set_reclaim(Reclaim { cool_down, ..pool.reclaim_policy() });
}

/// Uses a buffer that is freed, and says whether that was reported, as what it is.
fn is_reported(world: &World, buffer: &Buffer, stream: SimStream) -> bool {
    world.device.assert_clean();
    world.queue(buffer, stream, Access::Write);
    let found = world.device.take_violations();
    match found.as_slice() {
        [] => false,
        [Violation::Resting { queued, bytes }] => {
            assert_eq!(queued.owner, Some(buffer.owner));
            assert_eq!(bytes.end - bytes.start, buffer.size_bytes);
            true
        }
        other => panic!("{other:?}"),
    }
}

/// A use that is queued behind the free, on the block's own stream, before anything else has the
/// bytes: it is in order with everything, so that only a cool-down shows it.
#[test]
fn a_use_after_the_free_on_one_stream_is_reported() {
    each_way(|way| {
        for cool_down in BOTH {
            for size_bytes in [300, 64 * KIB, 3 * MIB] {
                let world = growing(way, cool_down);
                let stream = world.stream();
                let buffer = world.used(stream, size_bytes);
                let ghost = buffer.again();
                world.free(stream, buffer);
                let reported = is_reported(&world, &ghost, world.raw(stream));
                assert_eq!(reported, cool_down == CoolDown::UntilDone, "{size_bytes}");
                world.end();
            }
        }
    });
}

/// The same however the block was taken and freed, and where its memory lies in common.
#[test]
fn it_is_reported_however_the_block_was_freed() {
    type Free = fn(&World, [StreamId; 2], SimStream, Buffer);
    let frees: [(&str, Free); 6] = [
        ("at home", |world, [home, _], _, buffer| world.free(home, buffer)),
        ("by its handle", |world, [home, _], _, buffer| {
            world.free(&world.raw(home), buffer);
        }),
        ("elsewhere", |world, [_, other], _, buffer| world.free(other, buffer)),
        ("unknown", |world, _, raw, buffer| world.free(&raw, buffer)),
        ("nowhere", |world, _, _, buffer| world.free(On::Nothing, buffer)),
        ("noted", |world, [home, other], raw, buffer| {
            world.share(&buffer, other);
            world.share(&buffer, &raw);
            world.free(home, buffer);
        }),
    ];
    each_way(|way| {
        for cool_down in BOTH {
            for common in [false, true] {
                for (name, free) in frees {
                    for taken in 0..4 {
                        let world = if common {
                            fixed(way, cool_down, 16 * MIB)
                        } else {
                            growing(way, cool_down)
                        };
                        let streams = world.streams();
                        let raw = world.foreign();
                        let home = world.raw(streams[0]);
                        let buffer = match taken {
                            0 => world.allocate(streams[0], 100 * KIB),
                            1 => world.allocate(On::Nothing, 100 * KIB),
                            2 => world.allocate(&raw, 100 * KIB),
                            _ => {
                                let on = streams[0];
                                let block = world.pool.allocate_tagged(on, Tag(1), 100 * KIB);
                                world.own(block.unwrap(), Some(home))
                            }
                        };
                        world.touch_behind(&buffer, home);
                        if taken != 0 && taken != 3 {
                            world.pool.record_use(buffer.handle, streams[0]).unwrap();
                        }
                        let ghost = buffer.again();
                        free(&world, streams, raw, buffer);
                        assert_eq!(
                            is_reported(&world, &ghost, home),
                            cool_down == CoolDown::UntilDone,
                            "{name}, taken {taken}, common {common}"
                        );
                        assert_eq!(world.pool.tag_live_bytes(Tag(1)), 0);
                        world.device.close_stream(raw).unwrap();
                        world.end();
                    }
                }
            }
        }
    });
}

/// Where blocks lie: at once in the same place without a cool-down; with it elsewhere, until the
/// host has seen the work done, for which it is not enough that it is.
#[test]
fn a_block_serves_again_once_its_work_is_seen_done() {
    let offsets = |cool_down| {
        let world = fixed(LATE, cool_down, 64 * MIB);
        let stream = world.stream();
        let first = world.pass(stream, MIB);
        let second = world.pass(stream, MIB);
        // The fence of both is recorded, and passed; nobody has looked.
        world.pool.reclaim().unwrap();
        world.device.run_all();
        let third = world.pass(stream, MIB);
        let resting = world.pool.stats().resting_bytes;
        let seen = world.pool.reclaim().unwrap();
        let fourth = world.pass(stream, MIB);
        assert_eq!(seen.freed_bytes + seen.deferred_bytes, resting);
        world.end();
        let places = [first, second, third, fourth].map(|offset| offset / MIB);
        (places, resting / MIB, seen.freed_bytes / MIB)
    };
    assert_eq!(offsets(CoolDown::Off), ([0, 0, 0, 0], 0, 0));
    assert_eq!(offsets(CoolDown::UntilDone), ([0, 1, 2, 0], 3, 2));
}

/// It rests until all are seen done that may still use it: where it was freed, whose memory it is,
/// and who was noted.
#[test]
fn it_rests_until_all_its_streams_are_done() {
    for late in 0..3 {
        let world = growing(Way { pacing: Pacing::Eager, ..LATE }, CoolDown::UntilDone);
        let streams: [_; 3] = world.streams();
        let [home, freeing, noted] = streams;
        let buffer = world.used(home, MIB);
        world.share(&buffer, noted);
        let held = world.raw(streams[late]);
        world.device.hold(held).unwrap();
        world.touch(&buffer, held);
        if late == 1 {
            world.pool.record_use(buffer.handle, freeing).unwrap();
        }
        let ghost = buffer.again();
        world.free(freeing, buffer);
        for _ in 0..3 {
            world.pool.tick().unwrap();
            assert!(is_reported(&world, &ghost, world.raw(noted)), "stream {late} is late");
        }
        world.device.go(held).unwrap();
        world.pool.tick().unwrap();
        assert_eq!(world.pool.stats().resting_bytes, 0);
        world.end();
    }
}

/// A request whose own memory rests looks before the pool takes more of the device: where work is
/// done soon, one arena of 64 MiB is enough for 4,096 MiB that pass through it.
#[test]
fn what_is_done_serves_before_the_pool_grows() {
    let world = growing(Way { pacing: Pacing::Eager, ..LATE }, CoolDown::UntilDone);
    let stream = world.stream();
    for _ in 0..4096 {
        world.pass(stream, MIB);
    }
    let stats = world.pool.stats();
    assert_eq!((stats.arenas, stats.growths, stats.reserved_bytes), (1, 1, 64 * MIB));
    let calls = stats.calls;
    // When all of the arena rests, and when the queue has had its 256 MiB: 63 times and 15.
    assert_eq!((calls.records, calls.queries, calls.host_waits), (78, 78, 0));
    world.end();
    // While it is not, memory grows as far as it may, and is waited for after that.
    let config = config(LATE, CoolDown::UntilDone).limit_bytes(256 * MIB);
    let world = World::new(LATE.device(), config);
    let stream = world.stream();
    for _ in 0..4096 {
        world.pass(stream, MIB);
    }
    let stats = world.pool.stats();
    assert_eq!((stats.arenas, stats.reserved_bytes), (4, 256 * MIB));
    assert_eq!((stats.calls.host_waits, stats.calls.records), (15, 33));
    world.end();
}

/// No wait of a stream ends a rest, which frees the block without: the asker's own memory, and that
/// of a parcel for which it could wait on the device. While a capture forbids the host to look,
/// nobody gets it.
#[test]
fn stream_order_alone_frees_nothing_that_rests() {
    for freed_elsewhere in [false, true] {
        for cool_down in BOTH {
            let world = fixed(LATE, cool_down, 4 * MIB);
            let [home, other, captured] = world.streams();
            let buffer = world.used(home, 4 * MIB);
            world.pool.begin_capture(captured, GraphId(1)).unwrap();
            world.device.begin_capture_in(world.raw(captured), CaptureMode::Global).unwrap();
            world.free(if freed_elsewhere { other } else { home }, buffer);
            let served = world.try_allocate(home, MIB);
            match (cool_down, &served) {
                (CoolDown::Off, Ok(_)) => {}
                (CoolDown::UntilDone, Err(PoolError::OutOfMemory { shortage, .. })) => {
                    assert_eq!((shortage.deferred_bytes, shortage.free_bytes), (4 * MIB, 0));
                    assert_eq!(shortage.remedy, Remedy::EndCapture);
                }
                (_, other) => panic!("{cool_down:?}: {other:?}"),
            }
            let graph = world.device.end_capture(world.raw(captured)).unwrap();
            world.pool.end_capture(captured).unwrap();
            world.device.drop_graph(graph).unwrap();
            world.pool.release_graph(GraphId(1)).unwrap();
            if let Ok(buffer) = served {
                world.free(home, buffer);
            }
            let whole = world.used(home, 4 * MIB);
            world.free(home, whole);
            world.end();
        }
    }
}

/// A request that only resting memory can serve waits for it on the host, once each, and is not
/// refused, whoever asks; without a cool-down a stream waits for nothing.
#[test]
fn a_shortage_waits_on_the_host() {
    let waits = |cool_down, ask: fn(&World, StreamId, SimStream)| {
        let world = fixed(LATE, cool_down, 4 * MIB);
        let (stream, raw) = (world.stream(), world.foreign());
        for _ in 0..20 {
            ask(&world, stream, raw);
        }
        let waits = world.pool.stats().calls.host_waits;
        world.device.close_stream(raw).unwrap();
        world.end();
        waits
    };
    let at_home = |world: &World, stream: StreamId, _: SimStream| {
        world.pass(stream, 4 * MIB);
    };
    assert_eq!(waits(CoolDown::Off, at_home), 0);
    assert_eq!(waits(CoolDown::UntilDone, at_home), 19);
    // In halves, both of which rest behind one fence: one wait gets two requests further.
    assert_eq!(
        waits(CoolDown::UntilDone, |world, stream, _| {
            world.pass(stream, 2 * MIB);
        }),
        9
    );
    let unknown = |world: &World, _: StreamId, raw: SimStream| {
        let buffer = world.allocate(&raw, 4 * MIB);
        world.touch(&buffer, raw);
        world.free(&raw, buffer);
    };
    assert_eq!(waits(CoolDown::Off, unknown), 0);
    assert_eq!(waits(CoolDown::UntilDone, unknown), 19);
}

/// A refusal is final, and memory that rests is no reason for one: random programs on a pool that
/// is full, in every way.
#[test]
fn random_programs_are_served_and_reported_for_nothing() {
    each_way(|way| {
        for seed in 0..4 {
            let world = fixed(way, CoolDown::UntilDone, 2 * MIB);
            let streams: [_; 3] = world.streams();
            let mut walk = Walk::new(&world, &streams, seed, MIB);
            for step in 0..300 {
                walk.step();
                if step % 50 == 0 {
                    world.check();
                }
                if step == 150 {
                    set(&world.pool, CoolDown::Off);
                }
            }
            walk.end();
            world.check();
            let whole = world.used(streams[0], 2 * MIB);
            world.free(streams[0], whole);
            world.end();
        }
    });
}

/// What a free costs: nothing of its own in the queue, where one fence of a stream serves all that
/// it freed; a fence each at once.
#[test]
fn what_a_hundred_frees_cost() {
    let calls = |cool_down, deferred, streams: usize| {
        let way = Way { deferred, pacing: Pacing::Eager, ..LATE };
        let world = World::new(way.device(), config(way, cool_down).initial_bytes(64 * MIB));
        let streams: Vec<StreamId> = (0..streams).map(|_| world.stream()).collect();
        let buffers: Vec<(StreamId, Buffer)> = (0..100)
            .map(|turn| {
                let stream = streams[turn % streams.len()];
                (stream, world.used(stream, 4 * KIB))
            })
            .collect();
        let before = world.device.calls();
        for (stream, buffer) in buffers {
            world.free(stream, buffer);
        }
        let at_frees = world.device.calls().since(&before);
        world.pool.reclaim().unwrap();
        let all = world.device.calls().since(&before);
        assert_eq!(world.pool.stats().deferred_bytes, 0);
        world.end();
        let count = |call| (at_frees.of(call), all.of(call));
        assert_eq!(all.total(), all.of(Call::Record) + all.of(Call::IsDone));
        (count(Call::Record), count(Call::IsDone))
    };
    // At the frees, and when the pool has looked behind them.
    let queue = LATE.deferred;
    assert_eq!(calls(CoolDown::Off, queue, 1), ((0, 0), (0, 0)));
    assert_eq!(calls(CoolDown::UntilDone, queue, 1), ((0, 1), (0, 1)));
    assert_eq!(calls(CoolDown::UntilDone, queue, 4), ((0, 4), (0, 4)));
    let few = Deferred::Queue { blocks: 9, bytes: u64::MAX };
    assert_eq!(calls(CoolDown::UntilDone, few, 1), ((10, 10), (9, 10)));
    assert_eq!(calls(CoolDown::UntilDone, Deferred::AtOnce, 1), ((100, 100), (99, 100)));
}

/// Threads of which one is enough, and whose locks are counted.
#[derive(Debug)]
struct Counting;

#[derive(Debug)]
struct CountingLock<V>(Spinning<V>);

std::thread_local! {
    static LOCKS: Cell<u64> = const { Cell::new(0) };
    static CACHE: RefCell<Option<Cache<Counting>>> = const { RefCell::new(None) };
}

impl Threads for Counting {
    type Lock<V: Send> = CountingLock<V>;

    fn with_cache<R>(
        shared: &SharedAllocator<Self>,
        work: impl FnOnce(&mut Cache<Self>) -> R,
    ) -> Option<R> {
        CACHE.with(|cache| {
            let mut cache = cache.try_borrow_mut().ok()?;
            Some(work(cache.get_or_insert_with(|| shared.cache())))
        })
    }
}

impl<V: Send> Lock<V> for CountingLock<V> {
    type Guard<'a>
        = <Spinning<V> as Lock<V>>::Guard<'a>
    where
        Self: 'a;

    fn new(value: V) -> Self {
        Self(Lock::new(value))
    }

    fn lock(&self) -> Self::Guard<'_> {
        LOCKS.set(LOCKS.get() + 1);
        self.0.lock()
    }

    fn try_lock(&self) -> Option<Self::Guard<'_>> {
        LOCKS.set(LOCKS.get() + 1);
        self.0.try_lock()
    }
}

/// Requests that their own space serves are hits nevertheless: they make no call, and take no lock
/// more. A free takes some.
#[test]
fn requests_are_hits_as_ever() {
    let locks = |cool_down| {
        let config = config(LATE, cool_down).initial_bytes(64 * MIB).limit_bytes(64 * MIB);
        let device = SimDevice::new(LATE.device());
        let pool = Pool::<_, Counting>::on_platform(device.clone(), config).unwrap();
        let stream = pool.create_stream().unwrap();
        let first = pool.allocate_on(stream, 32 * MIB).unwrap();
        let small = pool.allocate_on(stream, 300).unwrap();
        pool.free_on(stream, first.handle()).unwrap();
        let (calls, before) = (device.calls(), LOCKS.get());
        let sizes = [300, 40 * KIB].into_iter().cycle().take(1000);
        let blocks: Vec<_> = sizes.map(|size| pool.allocate_on(stream, size).unwrap()).collect();
        let at_requests = LOCKS.get() - before;
        let count = blocks.len() as u64;
        for block in blocks.into_iter().chain([small]) {
            pool.free_on(stream, block.handle()).unwrap();
        }
        let at_frees = LOCKS.get() - before - at_requests;
        assert_eq!(device.calls().since(&calls).total(), 0);
        CACHE.take();
        pool.verify().unwrap();
        drop(pool);
        device.assert_clean();
        (at_requests, at_frees / count)
    };
    let (off, on) = (locks(CoolDown::Off), locks(CoolDown::UntilDone));
    println!("locks of 1,000 requests, and of a free: {off:?}, {on:?}");
    assert_eq!(off.0, on.0);
    assert!(off.1 == 0 && on.1 > 0);
}

/// It is changed while blocks live and rest: frees from then on are as it says, and what rests goes
/// on.
#[test]
fn it_changes_while_the_pool_runs() {
    let world = fixed(LATE, CoolDown::Off, 64 * MIB);
    let stream = world.stream();
    let queue = world.raw(stream);
    let buffers = [(); 4].map(|()| world.used(stream, MIB));
    let ghosts = buffers.each_ref().map(Buffer::again);
    let [first, second, third, fourth] = buffers;
    world.free(stream, first);
    assert!(!is_reported(&world, &ghosts[0], queue));
    set(&world.pool, CoolDown::UntilDone);
    assert_eq!(world.pool.reclaim_policy().cool_down, CoolDown::UntilDone);
    world.free(stream, second);
    assert!(is_reported(&world, &ghosts[1], queue));
    set(&world.pool, CoolDown::Off);
    world.free(stream, third);
    assert!(!is_reported(&world, &ghosts[2], queue));
    assert!(is_reported(&world, &ghosts[1], queue), "it rests still");
    assert_eq!(world.pool.stats().resting_bytes, MIB);
    // The first and the third one's places serve at once, the second one's does not.
    let next = [(); 2].map(|()| world.used(stream, MIB));
    assert_eq!(next.each_ref().map(|buffer| buffer.offset_bytes / MIB), [0, 2]);
    see(&world);
    let last = world.used(stream, MIB);
    assert_eq!(last.offset_bytes, MIB);
    for buffer in next.into_iter().chain([last, fourth]) {
        world.free(stream, buffer);
    }
    world.end();
}

/// Blocks that rest and others are never one parcel, though they wait for the same: those that do
/// not go home as soon as their stream has waited for them.
#[test]
fn what_rests_keeps_apart() {
    let world = fixed(LATE, CoolDown::Off, 64 * MIB);
    let [home, other] = world.streams();
    let blocks: Vec<Buffer> = (0..16).map(|_| world.used(home, MIB)).collect();
    let ghosts: Vec<Buffer> = blocks.iter().map(Buffer::again).collect();
    for (place, buffer) in blocks.into_iter().enumerate() {
        // In turns, all for both streams.
        set(&world.pool, BOTH[place % 2]);
        world.share(&buffer, home);
        world.share(&buffer, other);
        let freeing = if place % 4 < 2 { home } else { other };
        world.free(freeing, buffer);
        if place % 3 == 0 {
            // Closed by then, so that the next one is another's.
            world.pool.reclaim().unwrap();
        }
        world.check();
    }
    for (place, ghost) in ghosts.iter().enumerate() {
        assert_eq!(is_reported(&world, ghost, world.raw(home)), place % 2 == 1, "{place}");
    }
    assert_eq!(world.pool.stats().resting_bytes, 8 * MIB);
    see(&world);
    world.end();
}

/// What rests is a retired stream's until its work is done; then it is anybody's.
#[test]
fn a_retired_streams_blocks_go_on_resting() {
    each_way(|way| {
        for size_bytes in [300, 2 * MIB] {
            let world = fixed(way, CoolDown::UntilDone, 2 * MIB);
            let [first, second] = world.streams();
            let buffer = world.used(first, size_bytes);
            let ghost = buffer.again();
            world.free(first, buffer);
            world.pool.retire(first).unwrap();
            if way.pacing == Pacing::Idle {
                assert!(is_reported(&world, &ghost, world.raw(second)));
            }
            let whole = world.used(second, 2 * MIB);
            world.free(second, whole);
            world.end();
        }
    });
}

/// An arena of which a part rests stays; a trim that waits gives it back, as does an exchange for a
/// larger one.
#[test]
fn arenas_stay_while_a_part_rests() {
    let config = config(LATE, CoolDown::UntilDone).arena_bytes(2 * MIB).limit_bytes(8 * MIB);
    let world = World::new(LATE.device(), config);
    let stream = world.stream();
    let fill = || {
        let buffers = [(); 4].map(|()| world.used(stream, 2 * MIB));
        assert_eq!(world.pool.stats().arenas, 4);
        for buffer in buffers {
            world.free(stream, buffer);
        }
    };
    fill();
    assert_eq!(world.pool.trim(0).unwrap().released_bytes, 0);
    assert_eq!(world.pool.stats().resting_bytes, 8 * MIB);
    assert_eq!(world.pool.trim_waiting(0).unwrap().released_bytes, 8 * MIB);
    assert_eq!(world.pool.stats().resting_bytes, 0);
    fill();
    let whole = world.used(stream, 8 * MIB);
    assert_eq!((world.pool.stats().arenas, world.pool.stats().resting_bytes), (1, 0));
    world.free(stream, whole);
    // Seen done, it is the stream's as ever, for which a trim need not wait.
    see(&world);
    assert_eq!(world.pool.trim(0).unwrap().pending_bytes, 8 * MIB);
    world.device.run_all();
    assert_eq!(world.pool.trim(0).unwrap().released_bytes, 8 * MIB);
    world.end();
}

/// At the pool's end the device hears of all that rests that it does no more, before it gets the
/// memory back.
#[test]
fn nothing_rests_in_an_arena_that_goes_back() {
    each_way(|way| {
        let world = growing(way, CoolDown::UntilDone);
        let [first, second] = world.streams();
        let raw = world.foreign();
        let frees: [On<'_, SimStream>; 4] =
            [first.into(), second.into(), (&raw).into(), On::Nothing];
        for on in frees {
            for size_bytes in [300, MIB] {
                let buffer = world.used(first, size_bytes);
                world.free(on, buffer);
            }
        }
        assert!(world.pool.stats().resting_bytes > 0);
        let most = Arc::new(AtomicU64::new(0));
        let (device, seen) = (world.device.clone(), most.clone());
        world.device.on_call(move |call| {
            if call == Call::Free {
                seen.fetch_max(1 + device.resting_bytes(), Ordering::Relaxed);
            }
        });
        world.device.close_stream(raw).unwrap();
        let device = world.device.clone();
        world.end();
        device.clear_hooks();
        assert_eq!(most.load(Ordering::Relaxed), 1, "one more than what rests at a free");
    });
}

/// What belongs to a graph does not rest: each launch uses it again.
#[test]
fn a_graphs_blocks_do_not_rest() {
    let world = fixed(LATE, CoolDown::UntilDone, 16 * MIB);
    let [captured, other] = world.streams();
    let shared = world.used(other, MIB);
    world.order(world.raw(other), world.raw(captured));
    world.pool.begin_capture(captured, GraphId(1)).unwrap();
    let queue = world.raw(captured);
    world.device.begin_capture_in(queue, CaptureMode::Global).unwrap();
    let inside = world.used(captured, MIB);
    world.pool.record_use(shared.handle, captured).unwrap();
    world.touch(&shared, queue);
    world.free(captured, inside);
    let graph = world.device.end_capture(queue).unwrap();
    world.pool.end_capture(captured).unwrap();
    world.free(other, shared);
    assert_eq!(world.pool.stats().resting_bytes, 0);
    world.device.launch_graph(graph, queue).unwrap();
    world.device.launch_graph(graph, queue).unwrap();
    world.check();
    world.device.drop_graph(graph).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
    world.end();
}

/// A block that rests and is used by a graph is reported when the graph is launched.
#[test]
fn a_launch_that_uses_resting_bytes_is_reported() {
    let world = fixed(LATE, CoolDown::UntilDone, 16 * MIB);
    let stream = world.stream();
    let queue = world.raw(stream);
    let buffer = world.used(stream, MIB);
    // The pool is told of no capture.
    world.device.begin_capture_in(queue, CaptureMode::Relaxed).unwrap();
    world.queue(&buffer, queue, Access::Write);
    let graph = world.device.end_capture(queue).unwrap();
    world.device.launch_graph(graph, queue).unwrap();
    world.free(stream, buffer);
    world.device.assert_clean();
    world.device.launch_graph(graph, queue).unwrap();
    let found = world.device.take_violations();
    assert!(matches!(found.as_slice(), [Violation::Resting { .. }]), "{found:?}");
    world.device.drop_graph(graph).unwrap();
    world.end();
}

/// A free in a callback of a stream makes no call but notices.
#[test]
fn a_callback_may_free() {
    let world = fixed(LATE, CoolDown::UntilDone, 16 * MIB);
    let stream = world.stream();
    let queue = world.raw(stream);
    let buffer = world.used(stream, MIB);
    let (pool, handle) = (world.pool.clone(), buffer.handle);
    world.device.queue_callback(queue, move || drop(pool.free(handle))).unwrap();
    world.device.run_all();
    assert_eq!(world.pool.stats().resting_bytes, MIB);
    assert!(is_reported(&world, &buffer, queue));
    see(&world);
    world.end();
}

/// On a device with one queue nothing can be seen done: it is as if off.
#[test]
fn a_device_without_fences_knows_no_rest() {
    let device = LATE.device().without(Capabilities::FENCES | Capabilities::STREAMS);
    let world = World::new(device, config(LATE, CoolDown::UntilDone).initial_bytes(4 * MIB));
    let queue = world.device.legacy_stream();
    for _ in 0..3 {
        let buffer = world.allocate(On::Nothing, MIB);
        assert_eq!(buffer.offset_bytes, 0);
        world.touch(&buffer, queue);
        let ghost = buffer.again();
        world.free(On::Nothing, buffer);
        assert!(!is_reported(&world, &ghost, queue));
    }
    world.end();
}

/// Threads that work on their own stream and on a common one, while another switches it on and
/// off: nothing is reported of programs that do nothing wrong.
#[test]
fn threads_are_reported_for_nothing() {
    for pacing in [Pacing::Eager, Pacing::Lag(3), Pacing::Random(5)] {
        let way = Way { pacing, ..LATE };
        let world = fixed(way, CoolDown::UntilDone, 8 * MIB);
        let common = world.stream();
        on_threads(4, |number| {
            let own = world.stream();
            let mut random = fastrand::Rng::with_seed(number as u64);
            let mut live: Vec<(StreamId, Buffer)> = Vec::new();
            for turn in 0..400 {
                let stream = if random.bool() { own } else { common };
                let size_bytes = 1 << random.u32(8..18);
                if let Ok(buffer) = world.try_allocate(stream, size_bytes) {
                    world.touch(&buffer, world.raw(stream));
                    live.push((stream, buffer));
                }
                if live.len() > 12 {
                    let (stream, buffer) = live.swap_remove(random.usize(0..live.len()));
                    match random.u32(0..6) {
                        0 => world.free(On::Nothing, buffer),
                        _ => world.free(stream, buffer),
                    }
                }
                if number == 0 && turn % 50 == 0 {
                    set(&world.pool, BOTH[turn / 50 % 2]);
                }
                if turn % 64 == 0 {
                    world.pool.tick().unwrap();
                }
            }
            for (stream, buffer) in live {
                world.free(stream, buffer);
            }
            world.pool.retire(own).unwrap();
        });
        world.end();
    }
}

/// Does what a rest can meet, in a pool of which some call fails; what an operation refuses for
/// that is done again.
fn scenario(world: &World) {
    let again = |what: &str, work: &dyn Fn() -> bool| {
        let done = work() || work();
        world.pool.verify().unwrap();
        assert_eq!(world.pool.stats().resting_bytes, world.device.resting_bytes());
        assert!(done, "{what} does not work again");
    };
    let take = |on: On<'_, SimStream>, size_bytes, stream: SimStream| {
        let buffer = world.try_allocate(on, size_bytes);
        let buffer = buffer.or_else(|_| world.try_allocate(on, size_bytes)).unwrap();
        world.touch_behind(&buffer, stream);
        buffer
    };
    let give = |on: On<'_, SimStream>, buffer: Buffer| {
        again("free", &|| match on {
            On::Nothing => world.pool.free(buffer.handle).is_ok(),
            on => world.pool.free_on(on, buffer.handle).is_ok(),
        });
    };
    let create = || world.pool.create_stream().or_else(|_| world.pool.create_stream()).unwrap();
    let (first, second) = (create(), create());
    let raw = world.foreign();
    let queue = world.raw(first);
    let frees: [On<'_, SimStream>; 4] = [first.into(), second.into(), (&raw).into(), On::Nothing];
    for size_bytes in [300, MIB, 3 * MIB] {
        for on in frees {
            give(on, take(first.into(), size_bytes, queue));
        }
        again("tick", &|| world.pool.tick().is_ok());
    }
    let whole = take(On::Nothing, 4 * MIB, queue);
    again("record_use", &|| world.pool.record_use(whole.handle, first).is_ok());
    give(second.into(), whole);
    again("retire", &|| {
        // A stream that could not be destroyed is retired nevertheless.
        let retired = world.pool.retire(second);
        retired.is_ok() || matches!(retired, Err(PoolError::UnknownStream(_)))
    });
    give(first.into(), take(first.into(), 4 * MIB, queue));
    again("trim", &|| world.pool.trim(0).is_ok());
    again("trim_waiting", &|| world.pool.trim_waiting(0).is_ok());
    give(first.into(), take(first.into(), 2 * MIB, queue));
    world.device.close_stream(raw).unwrap();
}

/// Every call of the device fails once: the books balance after each, the device and the pool
/// agree on what rests, and at the end all is the device's again.
#[test]
fn each_call_fails_once() {
    let run = |deferred, nth: Option<u64>| {
        let way = Way { deferred, ..LATE };
        let config = config(way, CoolDown::UntilDone);
        let world = World::new(way.device(), config.arena_bytes(2 * MIB).limit_bytes(4 * MIB));
        if let Some(nth) = nth {
            world.device.fail_nth(nth);
        }
        let before = world.device.calls();
        scenario(&world);
        let calls = world.device.calls().since(&before).total();
        assert_eq!(world.device.injected(), u64::from(nth.is_some()));
        world.end();
        calls
    };
    for deferred in [LATE.deferred, Deferred::AtOnce] {
        let calls = run(deferred, None);
        assert!(calls > 100, "{calls}");
        for nth in 1..=calls {
            run(deferred, Some(nth));
        }
    }
}
