//! What requests have in common: blocks last used under the same key, and lifetimes apart.

use std::collections::{BTreeSet, VecDeque};

use pool_core::device::{Call, Capabilities};
use pool_core::policy::Reuse;
use pool_core::{
    Affinity, AllocError, GraphId, Lifetime, On, Placement, PoolError, Request, StreamId,
};

use crate::support::{Buffer, GIB, GRANULE, KIB, LATE, MIB, Where, World, each_way};

fn shelves(shelf_bytes: u64) -> Reuse {
    Reuse { shelf_bytes, ..Reuse::default() }
}

fn of_key(key: u32) -> Affinity {
    Affinity::new(key)
}

/// A buffer under an affinity.
fn take<'a>(
    world: &World,
    on: impl Into<Where<'a>>,
    affinity: Affinity,
    request: impl Into<Request>,
) -> Buffer {
    let on = on.into();
    let stream = match on {
        On::Stream(id) => world.pool.stream(id),
        On::Raw(handle) => Some(*handle),
        On::Nothing => None,
    };
    world.own(world.pool.allocate_for(on, affinity, request).unwrap(), stream)
}

/// Takes a buffer for a moment, uses it, and frees it there: where it was.
fn pass(world: &World, on: StreamId, affinity: Affinity, request: impl Into<Request>) -> u64 {
    let buffer = take(world, on, affinity, request);
    world.touch(&buffer, world.raw(on));
    let offset_bytes = buffer.offset_bytes;
    world.free(on, buffer);
    offset_bytes
}

/// How many places the buffers of 16 layers are at over 100 steps: each layer asks for its own and a
/// scratch of a size that varies, and frees them in an order that a seed chooses.
fn places_of_layers(with_affinity: bool) -> (usize, u64) {
    let world = World::new(LATE.device(), LATE.pool());
    let stream = world.stream();
    let mut random = fastrand::Rng::with_seed(1);
    let mut places: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); 16];
    for _ in 0..100 {
        let mut live = Vec::new();
        for (layer, of_layer) in (0..).zip(&mut places) {
            let size_bytes = (1 + u64::from(layer) % 4) * 256 * KIB;
            let buffer = if with_affinity {
                take(&world, stream, of_key(layer), size_bytes)
            } else {
                world.allocate(stream, size_bytes)
            };
            of_layer.insert(buffer.offset_bytes);
            live.push(buffer);
            live.push(world.allocate(stream, random.u64(100 * KIB..400 * KIB)));
        }
        random.shuffle(&mut live);
        for buffer in live {
            world.free(stream, buffer);
        }
    }
    let hits = world.pool.stats().shelf_hits;
    world.end();
    (places.iter().map(BTreeSet::len).sum(), hits)
}

/// With affinity every layer has its own memory again at each step: one place for each of 16, where
/// it is at dozens without.
#[test]
fn each_layer_gets_its_own_memory_again() {
    assert_eq!(places_of_layers(true), (16, 16 * 99));
    let (places, hits) = places_of_layers(false);
    assert!(places > 16 * 20 && hits == 0, "{places}");
}

/// What a program with blocks that come and go and others that stay reserves at its peak, and what
/// those that stay keep the pool from giving back, in KiB.
fn mix(placement: Placement, arena_bytes: u64, apart: bool, seed: u64) -> (u64, u64) {
    let reuse = Reuse { placement, ..shelves(0) };
    let device = LATE.device().memory_bytes(2 * GIB);
    let world = World::new(device, LATE.pool().arena_bytes(arena_bytes).reuse(reuse));
    let stream = world.stream();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut long: VecDeque<Buffer> = VecDeque::new();
    for _ in 0..150 {
        let mut short: Vec<Buffer> = Vec::new();
        for _ in 0..random.usize(20..40) {
            let least = 1 << random.u32(14..23);
            short.push(world.allocate(stream, random.u64(least..2 * least)));
            if short.len() > 12 {
                world.free(stream, short.swap_remove(random.usize(0..short.len())));
            }
            if random.u32(0..8) == 0 {
                let size_bytes = random.u64(16 * KIB..MIB);
                long.push_back(if apart {
                    take(&world, stream, of_key(1).lifetime(Lifetime::Long), size_bytes)
                } else {
                    world.allocate(stream, size_bytes)
                });
            }
            if long.len() > 60 {
                let place = random.usize(0..long.len());
                world.free(stream, long.remove(place).unwrap());
            }
        }
        for buffer in short {
            world.free(stream, buffer);
        }
    }
    let peak = world.pool.stats().peak_reserved_bytes / KIB;
    world.pool.trim_waiting(0).unwrap();
    let kept = world.pool.stats().reserved_bytes / KIB;
    for buffer in long {
        world.free(stream, buffer);
    }
    world.end();
    (peak, kept)
}

/// Blocks that stay do not lie between those that come and go: when these are gone, the pool keeps
/// half as much as where they are mixed (42 MiB for 92, in arenas of 4 MiB). The peak is much the
/// same.
#[test]
fn lifetimes_apart_hold_less_memory() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        for arena_bytes in [4 * MIB, 16 * MIB] {
            let [mixed, apart] = [false, true].map(|apart| {
                (0..4)
                    .map(|seed| mix(placement, arena_bytes, apart, seed))
                    .fold((0, 0), |(peak, kept), of_seed| {
                        (peak + of_seed.0 / 4, kept + of_seed.1 / 4)
                    })
            });
            let figures = format!("{placement:?}, {arena_bytes}: {mixed:?} mixed, {apart:?} apart");
            let most_kept = if placement == Placement::BestFit { 60 } else { 80 };
            assert!(apart.1 * 100 <= mixed.1 * most_kept, "{figures}");
            assert!(apart.0 * 100 <= mixed.0 * 115, "{figures}");
        }
    }
}

/// An arena that is kept apart and not used any more serves others, before the pool grows; one that
/// is used does not.
#[test]
fn idle_arenas_of_a_lifetime_are_everybodys() {
    for size_bytes in [4 * KIB, MIB, 64 * MIB] {
        let world = World::new(LATE.device(), LATE.pool());
        let stream = world.stream();
        let long = of_key(1).lifetime(Lifetime::Long);
        pass(&world, stream, long, size_bytes);
        world.pass(stream, 64 * MIB);
        assert_eq!(world.calls(Call::Allocate), 1);
        let weights = take(&world, stream, long, size_bytes);
        assert_eq!(world.calls(Call::Allocate), 2);
        let held = world.allocate(stream, 64 * MIB);
        world.pass(stream, MIB);
        assert_eq!(world.calls(Call::Allocate), 3);
        // From here on each has its own.
        let calls = world.device.calls().total();
        for _ in 0..20 {
            pass(&world, stream, long.lifetime(Lifetime::Usual), MIB);
            world.pass(stream, MIB);
        }
        assert_eq!(world.device.calls().total(), calls);
        world.free(stream, held);
        world.free(stream, weights);
        world.end();
    }
}

/// Where the pool cannot grow, what is free for one lifetime serves another.
#[test]
fn lifetimes_lend_each_other_what_is_free() {
    for lifetime in [Lifetime::Short, Lifetime::Long] {
        let world = LATE.fixed(64 * MIB);
        let stream = world.stream();
        let apart = of_key(1).lifetime(lifetime);
        let usual = world.used(stream, 40 * MIB);
        let other = take(&world, stream, apart, 20 * MIB);
        world.free(stream, usual);
        let larger = take(&world, stream, apart, 36 * MIB);
        world.free(stream, larger);
        world.free(stream, other);
        // Nothing was waited for, nor taken: it is the same stream's.
        assert_eq!(world.calls(Call::Allocate) + world.calls(Call::Wait), 1);
        world.pass(stream, 64 * MIB);
        pass(&world, stream, apart, 64 * MIB);
        world.end();
    }
}

/// A block at a place that is not aligned is passed over, and serves where that does not matter.
#[test]
fn alignment_is_checked_on_reuse() {
    for placement in [Placement::BestFit, Placement::FirstFit] {
        let reuse = Reuse { placement, ..Reuse::default() };
        let world = World::new(LATE.device(), LATE.pool().reuse(reuse));
        let stream = world.stream();
        let first = world.allocate(stream, 80 * KIB);
        let at = pass(&world, stream, of_key(1), 100 * KIB);
        assert_ne!(at % (64 * KIB), 0);
        for (of_affinity, of_request) in [(64 * KIB, 1), (1, 64 * KIB), (64 * KIB, 512)] {
            let affinity = of_key(1).align_bytes(of_affinity);
            let aligned =
                take(&world, stream, affinity, Request::new(100 * KIB).align_bytes(of_request));
            assert!(aligned.offset_bytes % (64 * KIB) == 0 && aligned.offset_bytes != at);
            // Now there are two, and the one that is aligned is found again.
            let there = aligned.offset_bytes;
            world.free(stream, aligned);
            assert_eq!(pass(&world, stream, affinity, 100 * KIB), there);
            world.pool.flush();
            assert_eq!(pass(&world, stream, of_key(1), 100 * KIB), at);
        }
        let crooked = world.pool.allocate_for(stream, of_key(1).align_bytes(24), 4096);
        let expected = AllocError::Alignment { align_bytes: 24 };
        assert!(matches!(crooked, Err(PoolError::Request(error)) if error == expected));
        let zero = Request::new(4096).align_bytes(4096);
        assert!(world.pool.allocate_for(stream, of_key(1).align_bytes(0), zero).is_err());
        world.free(stream, first);
        world.end();
    }
}

/// Of blocks on a shelf the one that fits best serves, the newest of several; one that is much
/// larger never does, and none is split.
#[test]
fn a_shelf_serves_what_fits_within_its_tolerance() {
    for (percent, least_served) in
        [(0, MIB), (1, MIB * 100 / 101), (12, MIB * 100 / 112), (100, MIB / 2)]
    {
        let reuse = Reuse { shelf_tolerance_percent: percent, ..Reuse::default() };
        let world = World::new(LATE.device(), LATE.pool().reuse(reuse));
        let stream = world.stream();
        let at = pass(&world, stream, of_key(1), MIB);
        let granules = least_served.div_ceil(GRANULE);
        for (size_bytes, served) in [
            (MIB, true),
            (MIB + 1, false),
            (granules * GRANULE, true),
            ((granules - 1) * GRANULE, false),
        ] {
            let hits = world.pool.stats().shelf_hits;
            let buffer = take(&world, stream, of_key(1), size_bytes);
            let hit = world.pool.stats().shelf_hits > hits;
            assert_eq!(hit, served, "{size_bytes} at {percent} %");
            assert_eq!(buffer.offset_bytes == at, served);
            if served {
                assert_eq!(buffer.size_bytes, MIB, "whole");
            }
            // Others go elsewhere, so that there is one on the shelf.
            let other = world.pool.stats().shelved_bytes;
            world.free(stream, buffer);
            if !served {
                assert_eq!(other, MIB);
                world.pool.flush();
                assert_eq!(pass(&world, stream, of_key(1), MIB), at);
            }
        }
        world.end();
    }
}

/// The best of several sizes; of one size the newest.
#[test]
fn a_shelf_serves_the_best_and_the_newest() {
    let world = World::new(LATE.device(), LATE.pool());
    let stream = world.stream();
    let sizes = [MIB, 1100 * KIB, 1050 * KIB, MIB, 1000 * KIB];
    let buffers = sizes.map(|size_bytes| take(&world, stream, of_key(1), size_bytes));
    let offsets = buffers.each_ref().map(|buffer| buffer.offset_bytes);
    for buffer in buffers {
        world.free(stream, buffer);
    }
    let order: Vec<usize> = (0..4)
        .map(|_| {
            let buffer = take(&world, stream, of_key(1), 1010 * KIB);
            let place = offsets.iter().position(|&at| at == buffer.offset_bytes).unwrap();
            core::mem::forget(buffer);
            place
        })
        .collect();
    assert_eq!(order, [3, 0, 2, 1]);
    world.check();
}

/// Shelves have no more bytes than they may; what came first goes first.
#[test]
fn shelves_are_bounded() {
    for (shelf_bytes, kept) in [(0, 0), (MIB - 1, 0), (MIB, 1), (3 * MIB, 3), (GIB, 8)] {
        let world = World::new(LATE.device(), LATE.pool().reuse(shelves(shelf_bytes)));
        let stream = world.stream();
        let buffers: Vec<_> = (0..8).map(|key| take(&world, stream, of_key(key), MIB)).collect();
        let offsets: Vec<u64> = buffers.iter().map(|buffer| buffer.offset_bytes).collect();
        for buffer in buffers {
            world.free(stream, buffer);
        }
        let stats = world.pool.stats();
        assert_eq!((stats.shelved_bytes, stats.deferred_bytes), (kept * MIB, 0));
        assert!(stats.cached_bytes >= stats.shelved_bytes);
        for (key, &offset_bytes) in (0..).zip(&offsets).skip(8 - usize::try_from(kept).unwrap()) {
            let buffer = take(&world, stream, of_key(key), MIB);
            assert_eq!(buffer.offset_bytes, offset_bytes);
            core::mem::forget(buffer);
        }
        assert_eq!(world.pool.stats().shelf_hits, kept);
        world.check();
    }
    // Many small ones are bounded by their number.
    let world = World::new(LATE.device(), LATE.pool());
    let stream = world.stream();
    let buffers: Vec<_> = (0..3000).map(|_| take(&world, stream, of_key(1), 256)).collect();
    for buffer in buffers {
        world.free(stream, buffer);
    }
    assert_eq!(world.pool.stats().shelved_bytes, 1024 * 256);
    world.end();
}

/// What is on shelves serves whoever finds nothing else, before anything is waited for or taken.
#[test]
fn shelves_are_empty_before_a_pool_grows() {
    let world = World::new(LATE.device(), LATE.pool().initial_bytes(64 * MIB));
    let stream = world.stream();
    for size_bytes in [64 * MIB, 33 * MIB] {
        let at = pass(&world, stream, of_key(1), 32 * MIB);
        let second = pass(&world, stream, of_key(2), 32 * MIB);
        assert_ne!(at, second);
        assert_eq!(world.pool.stats().shelved_bytes, 64 * MIB);
        world.pass(stream, size_bytes);
        // Of the stream's own shelves no call came.
        assert_eq!(world.calls(Call::Allocate), 1);
        assert_eq!(world.calls(Call::Record) + world.calls(Call::Wait), 0);
    }
    pass(&world, stream, of_key(1), 60 * MIB);
    let other = world.stream();
    world.pass(other, 64 * MIB);
    assert_eq!((world.calls(Call::Allocate), world.calls(Call::Wait)), (1, 1), "with a wait");
    world.end();
}

/// A flush, a trim, a capture, and the end of the stream empty shelves.
#[test]
fn shelves_are_emptied_when_they_have_to_be() {
    let world = World::new(LATE.device(), LATE.pool());
    let [stream, other] = world.streams();
    let put = |on: StreamId| {
        for lifetime in [Lifetime::Usual, Lifetime::Short, Lifetime::Long] {
            pass(&world, on, of_key(1).lifetime(lifetime), 3 * MIB);
            pass(&world, on, of_key(2).lifetime(lifetime), 4 * KIB);
        }
        world.pool.stats().shelved_bytes
    };
    let full = 3 * (3 * MIB + 4 * KIB);
    // At first the pool grows, and what is on shelves is needed.
    for _ in 0..3 {
        put(stream);
        put(other);
    }
    assert_eq!((put(stream), put(other)), (2 * full, 2 * full));
    world.pool.flush();
    assert_eq!(put(stream), full);
    world.pool.flush();
    assert_eq!(world.pool.stats().shelved_bytes, 0);
    assert_eq!(world.pool.stats().cached_bytes, 0);
    assert_eq!(put(stream), full);
    world.pool.begin_capture(other, GraphId(1)).unwrap();
    assert_eq!(world.pool.stats().shelved_bytes, 0);
    world.pool.end_capture(other).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
    assert_eq!(put(stream), full);
    assert_eq!(put(other), 2 * full);
    world.pool.retire(stream).unwrap();
    assert_eq!(world.pool.stats().shelved_bytes, full, "those of the other stream stay");
    world.check();
    world.pool.trim_waiting(0).unwrap();
    assert_eq!(world.pool.stats().reserved_bytes, 0);
    world.end();
}

/// A block that other streams used is on no shelf before they are done; nor is one that another
/// stream freed, or none.
#[test]
fn only_what_waits_for_nothing_is_shelved() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().initial_bytes(64 * MIB));
        let [stream, other] = world.streams();
        let unknown = world.foreign();
        for way_of_use in 0..5 {
            let buffer = take(&world, stream, of_key(1), MIB);
            world.touch(&buffer, world.raw(stream));
            let at = buffer.offset_bytes;
            match way_of_use {
                0 => {
                    world.share(&buffer, other);
                    world.free(stream, buffer);
                }
                1 => {
                    world.share(&buffer, &unknown);
                    world.free(stream, buffer);
                }
                2 => {
                    world.order(world.raw(stream), world.raw(other));
                    world.touch(&buffer, world.raw(other));
                    world.free(other, buffer);
                }
                3 => world.free(On::Nothing, buffer),
                _ => world.free(stream, buffer),
            }
            let shelved = world.pool.stats().shelved_bytes;
            assert_eq!(shelved, if way_of_use == 4 { MIB } else { 0 }, "{way_of_use}");
            // Whoever comes next is in order: the device says so.
            let next = take(&world, other, of_key(1), MIB);
            world.touch(&next, world.raw(other));
            let again = take(&world, stream, of_key(1), MIB);
            world.touch(&again, world.raw(stream));
            assert_eq!(again.offset_bytes == at, way_of_use == 4 || again.offset_bytes == at);
            world.free(other, next);
            world.free(stream, again);
            world.pool.flush();
            world.device.run_all();
            world.pool.reclaim().unwrap();
            world.check();
        }
        world.end();
    });
}

/// Streams have shelves of their own.
#[test]
fn a_shelf_is_one_streams() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool());
        let streams: [_; 3] = world.streams();
        let first = streams.map(|on| pass(&world, on, of_key(1), MIB));
        for _ in 0..5 {
            assert_eq!(streams.map(|on| pass(&world, on, of_key(1), MIB)), first);
        }
        assert_eq!(world.calls(Call::Record) + world.calls(Call::Wait), 0);
        world.end();
    });
}

/// While memory is short nothing is kept on shelves, and lifetimes share what there is.
#[test]
fn short_memory_is_everybodys() {
    let world = LATE.fixed(16 * MIB);
    let stream = world.stream();
    pass(&world, stream, of_key(1), 12 * MIB);
    assert_eq!(world.pool.stats().shelved_bytes, 12 * MIB);
    let other = world.stream();
    // Now it is seen that two streams have to do with what there is.
    world.pass(other, 12 * MIB);
    assert_eq!(world.pool.stats().shelved_bytes, 0);
    for lifetime in [Lifetime::Usual, Lifetime::Short, Lifetime::Long] {
        for on in [stream, other] {
            pass(&world, on, of_key(2).lifetime(lifetime), 16 * MIB);
            assert_eq!(world.pool.stats().shelved_bytes, 0);
        }
    }
    world.end();
}

/// On a device with one queue there are shelves, for all.
#[test]
fn one_queue_has_shelves_too() {
    let device = LATE.device().without(Capabilities::FENCES | Capabilities::STREAMS);
    let world = World::new(device, LATE.pool());
    let first = world.pool.allocate_for(On::Nothing, of_key(1), MIB).unwrap();
    let second = world.pool.allocate_for(On::Nothing, of_key(2), MIB).unwrap();
    world.pool.free(first.handle()).unwrap();
    world.pool.free(second.handle()).unwrap();
    assert_eq!(world.pool.stats().shelved_bytes, 2 * MIB);
    assert!(world.pool.free(first.handle()).is_err(), "a second free is an error");
    let again = world.pool.allocate_for(On::Nothing, of_key(1), MIB).unwrap();
    assert_eq!(again.offset_bytes(), first.offset_bytes());
    assert_ne!(again.handle(), first.handle());
    assert!(world.pool.free(first.handle()).is_err());
    assert_eq!(world.pool.block_at(again.offset_bytes()), Some(again.handle()));
    world.pool.free(again.handle()).unwrap();
    world.end();
}

/// Handles, places and counters of blocks from shelves are those of any other.
#[test]
fn a_block_from_a_shelf_is_as_good_as_new() {
    for size_bytes in [256, 5000, 64 * KIB, 3 * MIB] {
        let world = World::new(LATE.device(), LATE.pool());
        let stream = world.stream();
        let mut earlier = Vec::new();
        for _ in 0..50 {
            let buffer = take(&world, stream, of_key(1), size_bytes);
            assert!(!earlier.contains(&buffer.handle), "a handle is never used again");
            assert_eq!(world.pool.block_at(buffer.offset_bytes), Some(buffer.handle));
            let stats = world.pool.stats();
            assert_eq!((stats.live_blocks, stats.live_bytes), (1, buffer.size_bytes));
            earlier.push(buffer.handle);
            world.free(stream, buffer);
            for &handle in &earlier {
                assert!(world.pool.free_on(stream, handle).is_err());
            }
            world.check();
        }
        assert_eq!(world.pool.stats().shelf_hits, 49);
        world.end();
    }
}

/// Streams that come and go with memory for lifetimes leave nothing behind.
#[test]
fn lifetimes_of_streams_that_end() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().arena_bytes(4 * MIB));
        let mut reserved = 0;
        for round in 0..240u32 {
            if round == 120 {
                reserved = world.pool.stats().reserved_bytes;
            }
            let stream = world.stream();
            let lifetime = [Lifetime::Short, Lifetime::Long][round as usize % 2];
            let buffer = take(&world, stream, of_key(round).lifetime(lifetime), MIB);
            world.touch(&buffer, world.raw(stream));
            if round % 3 == 0 {
                world.pool.retire(stream).unwrap();
                world.free(On::Nothing, buffer);
            } else {
                world.free(stream, buffer);
                world.pool.retire(stream).unwrap();
            }
            world.device.run_all();
        }
        let stats = world.pool.stats();
        assert!(stats.reserved_bytes <= reserved, "{stats:?}, {reserved} after half of it");
        world.end();
    });
}

/// Beyond what can be told apart there is memory for one lifetime alone, and all is served.
#[test]
fn when_all_spaces_are_taken_lifetimes_are_not_kept_apart() {
    let world = World::new(LATE.device(), LATE.pool());
    let streams: Vec<_> = (0..120).map(|_| world.stream()).collect();
    for &stream in &streams {
        for lifetime in [Lifetime::Usual, Lifetime::Short, Lifetime::Long] {
            let affinity = of_key(1).lifetime(lifetime);
            let at = pass(&world, stream, affinity, 8 * KIB);
            assert_eq!(pass(&world, stream, affinity, 8 * KIB), at);
        }
    }
    for stream in streams {
        world.pool.retire(stream).unwrap();
    }
    world.end();
}

/// A stream that the pool does not know, and a captured one, are served as without.
#[test]
fn others_are_served_as_without() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().initial_bytes(256 * MIB));
        let stream = world.stream();
        let unknown = world.foreign();
        let affinity = of_key(1).lifetime(Lifetime::Long);
        for _ in 0..3 {
            let buffer = take(&world, &unknown, affinity, MIB);
            world.touch(&buffer, unknown);
            world.free(&unknown, buffer);
            let buffer = take(&world, On::Nothing, affinity, MIB);
            world.free(On::Nothing, buffer);
        }
        pass(&world, stream, affinity, MIB);
        world.device.run_all();
        world.pool.begin_capture(stream, GraphId(7)).unwrap();
        let handle = world.raw(stream);
        world.device.begin_capture(handle).unwrap();
        let block = world.pool.allocate_for(stream, affinity, MIB).unwrap();
        world.pool.free_on(stream, block.handle()).unwrap();
        let graph = world.device.end_capture(handle).unwrap();
        world.device.drop_graph(graph).unwrap();
        world.pool.end_capture(stream).unwrap();
        assert_eq!(world.pool.stats().shelf_hits, 0);
        world.pool.release_graph(GraphId(7)).unwrap();
        world.end();
    });
}
