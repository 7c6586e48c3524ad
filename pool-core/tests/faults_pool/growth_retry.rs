//! Growth, refusals, and what is tried before one.
//!
//! What a driver remembers of a failed call beyond its answer (P020) is a matter of that driver's
//! device; here it is that the pool forgets what it has handled.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::thread;

use pool_core::device::Call;
use pool_core::{GraphId, On, PoolConfig, PoolError};
use pool_mock::device::{Fault, SimConfig};

use crate::support::{GIB, KIB, LATE, MIB, SimPool, Walk, World, each_way, in_time};
use crate::threads::on_threads;

/// A block that the call itself makes free serves that call.
#[test]
fn p001_what_a_call_frees_serves_that_call() {
    each_way(|way| {
        for (size_bytes, pieces) in [(GIB, 1_u64), (GIB, 4), (MIB, 16)] {
            for asks in 0..4 {
                let world = way.fixed(size_bytes);
                let [first, second, third] = world.streams();
                let blocks: Vec<_> =
                    (0..pieces).map(|_| world.used(first, size_bytes / pieces)).collect();
                for block in &blocks {
                    world.share(block, second);
                }
                world.device.hold(world.raw(second)).unwrap();
                world.touch(&blocks[0], world.raw(second));
                for block in blocks {
                    world.free(first, block);
                }
                let on = [first.into(), second.into(), third.into(), On::Nothing][asks];
                let whole = world.allocate(on, size_bytes);
                let stream = match on {
                    On::Stream(stream) => world.raw(stream),
                    _ => world.foreign(),
                };
                world.touch(&whole, stream);
                world.free(on, whole);
                world.end();
            }
        }
    });
}

/// What another step frees: a cache of another thread, and what waits for all work.
#[test]
fn p001_caches_of_other_threads_serve_a_call() {
    each_way(|way| {
        let world = way.fixed(MIB);
        let [first, second] = world.streams();
        on_threads(2, |thread| {
            let stream = [first, second][thread];
            let blocks: Vec<_> =
                (0..100).filter_map(|_| world.try_allocate(stream, 4 * KIB).ok()).collect();
            for (place, block) in blocks.into_iter().enumerate() {
                world.touch(&block, world.raw(stream));
                match place % 3 {
                    0 => world.free(On::Nothing, block),
                    _ => world.free(stream, block),
                }
            }
        });
        let whole = world.allocate(first, MIB);
        world.touch(&whole, world.raw(first));
        world.free(first, whole);
        world.end();
    });
}

/// A refusal is final: asked again at once, the pool refuses again.
#[test]
fn p001_an_immediate_second_call_is_refused_too() {
    each_way(|way| {
        let mut refusals = 0;
        for seed in 20..25 {
            let config = way.pool().limit_bytes(6 * MIB).arena_bytes(2 * MIB);
            let world = World::new(way.device(), config);
            let streams: [_; 4] = world.streams();
            let mut walk = Walk::new(&world, &streams, seed, 4 * MIB);
            for _ in 0..150 {
                walk.step();
            }
            refusals += walk.refusals;
            walk.end();
            world.end();
        }
        assert!(refusals > 5, "only {refusals}");
    });
}

/// Growth that is refused tries less, down to what is needed.
#[test]
fn p018_growth_tries_less() {
    for (memory, initial, arena, first, second) in [
        (20 * GIB, 8 * GIB, 16 * GIB, 8 * GIB, 8 * GIB),
        (20 * GIB, 0, 16 * GIB, 16 * GIB, 4 * GIB),
        (10 * MIB, 0, 64 * MIB, 8 * MIB, 2 * MIB),
        (10 * MIB, MIB, 64 * MIB, 8 * MIB, MIB),
        (3 * MIB, 0, 1 << 39, 3 * MIB, 0),
    ] {
        let config = PoolConfig::new().initial_bytes(initial).arena_bytes(arena);
        let config = config.address_bytes(1 << 39);
        let world = World::new(SimConfig::new().memory_bytes(memory), config);
        let stream = world.stream();
        let mut buffers = vec![world.used(stream, first)];
        if second > 0 {
            buffers.push(world.used(stream, second));
        }
        let stats = world.pool.stats();
        let tries = stats.calls.allocations + stats.calls.extensions;
        let made = world.calls(Call::Allocate) + world.calls(Call::Extend);
        assert_eq!(tries, made, "tries are counted");
        assert!(tries > stats.growths + 1, "nothing was refused");
        for buffer in buffers {
            world.free(stream, buffer);
        }
        world.end();
    }
}

/// Of a device that has room for exactly the request, the request gets it.
#[test]
fn p018_growth_stops_at_exactly_what_is_needed() {
    for size_bytes in [256, 4096, MIB, 2 * MIB + 256, 33 * MIB] {
        let world = World::new(
            SimConfig::new().memory_bytes(size_bytes),
            PoolConfig::new().address_bytes(GIB),
        );
        let stream = world.stream();
        let buffer = world.used(stream, size_bytes);
        assert!(world.pool.allocate_on(stream, 256).is_err());
        world.free(stream, buffer);
        world.end();
    }
}

/// A refusal by the limit tries the same as one by the device.
#[test]
fn p019_a_limit_takes_the_same_steps() {
    each_way(|way| {
        for (limited, streams) in [(true, 1), (false, 1), (true, 4), (false, 4)] {
            let capacity = 64 * MIB;
            let (device, config) = (way.device(), way.pool().arena_bytes(2 * MIB));
            let world = if limited {
                World::new(device, config.limit_bytes(capacity))
            } else {
                World::new(device.memory_bytes(capacity), config)
            };
            let streams: Vec<_> = (0..streams).map(|_| world.stream()).collect();
            let mut buffers = Vec::new();
            for place in 0..32 {
                let stream = streams[place % streams.len()];
                buffers.push((stream, world.used(stream, 2 * MIB)));
            }
            assert_eq!(world.pool.stats().arenas, 32);
            for (place, (stream, buffer)) in buffers.into_iter().enumerate() {
                world.device.hold(world.raw(stream)).unwrap();
                match place % 5 {
                    0 => world.free(On::Nothing, buffer),
                    _ => world.free(stream, buffer),
                }
            }
            let large = world.used(streams[0], 32 * MIB);
            world.free(streams[0], large);
            world.end();
        }
    });
}

/// A failure that was handled is not said again later.
#[test]
fn p020_a_handled_failure_is_forgotten() {
    for call in [Call::Allocate, Call::Record, Call::Wait, Call::IsDone] {
        for fault in [Fault::Plain, Fault::OutOfMemory] {
            let config = PoolConfig::new().limit_bytes(8 * MIB).arena_bytes(4 * MIB);
            let world = World::new(LATE.device(), config);
            let [first, second] = world.streams();
            world.device.fail_with(fault);
            world.device.fail_next(call, 1);
            let buffer = world.used(first, MIB);
            world.free(first, buffer);
            // A call that fails may end in a refusal: then the next one need not.
            if let Ok(whole) = world.try_allocate(second, 8 * MIB) {
                world.free(second, whole);
            }
            world.device.clear_faults();
            world.pass(second, 8 * MIB);
            world.pool.reclaim().unwrap();
            let refused = world.pool.allocate_on(first, 16 * MIB);
            let Err(PoolError::OutOfMemory { cause, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(cause.0, None, "after a failed {call}");
            world.end();
        }
    }
}

/// What was reserved at the start does not stand in the way of all that is allowed.
#[test]
fn p045_an_initial_arena_is_given_up_for_a_request_of_the_limit() {
    each_way(|way| {
        for (initial, limit) in
            [(256, 1024), (2 * MIB, 8 * MIB), (MIB, 3 * MIB), (7 * MIB, 8 * MIB)]
        {
            for used in [false, true] {
                let config = way.pool().initial_bytes(initial).limit_bytes(limit);
                let world = World::new(way.device(), config);
                let stream = world.stream();
                if used {
                    world.pass(stream, initial);
                }
                let whole = world.used(stream, limit);
                world.free(stream, whole);
                let clean = world.allocate(On::Nothing, limit);
                world.free(On::Nothing, clean);
                world.end();
            }
        }
    });
}

/// A callback that frees nothing is asked once; one that does is asked again, and not for ever. No
/// lock is held meanwhile.
#[test]
fn p046_a_callback_that_frees_nothing_ends() {
    for frees in [0_u64, 1, 3, u64::MAX] {
        in_time(move || {
            let asked = Arc::new(AtomicU64::new(0));
            let hoard = Arc::new(Mutex::new(None));
            let (count, store) = (asked.clone(), hoard.clone());
            let config = PoolConfig::new().initial_bytes(MIB).limit_bytes(MIB).on_shortage(
                move |shortage| {
                    assert_eq!(shortage.size_bytes, 512 * KIB);
                    let turn = count.fetch_add(1, Ordering::AcqRel);
                    let mut hoard = store.lock().unwrap();
                    let Some((pool, blocks)) = &mut *hoard else { return true };
                    let pool: &SimPool = pool;
                    let blocks: &mut Vec<pool_core::Handle> = blocks;
                    pool.verify().unwrap();
                    if turn < frees
                        && let Some(handle) = blocks.pop()
                    {
                        pool.free(handle).unwrap();
                    }
                    true
                },
            );
            let world = World::new(LATE.device(), config);
            let stream = world.stream();
            // Every second one is freed: no two neighbours are free until more are.
            let blocks: Vec<_> = (0..32).map(|_| world.allocate(On::Nothing, 32 * KIB)).collect();
            let handles: Vec<_> = blocks.iter().map(|block| block.handle).collect();
            *hoard.lock().unwrap() = Some((world.pool.clone(), handles));
            let served = world.pool.allocate_on(stream, 512 * KIB);
            let calls = asked.load(Ordering::Acquire);
            match frees {
                0 => assert!(served.is_err() && calls == 1, "{calls}"),
                1 | 3 => assert!(served.is_err() && calls == frees + 1, "{calls}"),
                _ => assert!(calls <= 16, "{calls}"),
            }
            let (_, left) = hoard.lock().unwrap().take().unwrap();
            if served.is_err() {
                assert!(world.pool.allocate_on(stream, 512 * KIB).is_err(), "served now");
            }
            if let Ok(block) = served {
                world.pool.free(block.handle()).unwrap();
            }
            for handle in left {
                world.pool.free(handle).unwrap();
            }
            drop(hoard);
            world.end();
        });
    }
}

/// Threads that all find the pool empty are all served by what one of them gets, when the limit
/// allows no more; and none gets more than it asked for.
#[test]
fn p047_threads_that_grow_at_once_share_what_comes() {
    for (streams, limit) in [(true, 64 * MIB), (false, 64 * MIB), (true, 128 * MIB)] {
        for refused in [0, 3] {
            let world = World::new(LATE.device(), PoolConfig::new().limit_bytes(limit));
            world.device.on_call(|call| {
                if call == Call::Allocate {
                    thread::sleep(Duration::from_millis(10));
                }
            });
            world.device.fail_with(Fault::OutOfMemory);
            world.device.fail_next(Call::Allocate, refused);
            let streams: Vec<_> = (0..16).filter(|_| streams).map(|_| world.stream()).collect();
            let buffers = on_threads(16, |thread| {
                let on = streams.get(thread).map_or(On::Nothing, |&stream| stream.into());
                world.try_allocate(on, MIB).map_err(|refusal| refusal.to_string())
            });
            let failed: Vec<_> = buffers.iter().filter_map(|got| got.as_ref().err()).collect();
            assert!(failed.is_empty(), "{} of 16 were refused: {:?}", failed.len(), failed[0]);
            assert!(world.pool.stats().reserved_bytes <= limit);
            let buffers: Vec<_> = buffers.into_iter().map(Result::unwrap).collect();
            for (place, one) in buffers.iter().enumerate() {
                assert!(buffers[..place].iter().all(|other| !other.overlaps(one)));
            }
            world.check();
            for buffer in buffers {
                world.free(On::Nothing, buffer);
            }
            world.device.clear_hooks();
            world.end();
        }
    }
}

/// How much is reserved beyond need when many grow at once is bounded, with no limit too.
#[test]
fn p047_surplus_growth_is_bounded() {
    let world = World::new(LATE.device(), PoolConfig::new());
    world.device.after_call(|call| {
        if call == Call::Allocate {
            thread::sleep(Duration::from_millis(10));
        }
    });
    let streams: [_; 16] = world.streams();
    let buffers = on_threads(16, |thread| world.allocate(streams[thread], MIB));
    let reserved = world.pool.stats().reserved_bytes;
    assert!(reserved <= 4 * 64 * MIB, "{} MiB for 16 MiB", reserved / MIB);
    for (buffer, stream) in buffers.into_iter().zip(streams) {
        world.free(stream, buffer);
    }
    world.device.clear_hooks();
    world.end();
}

/// To give back as many bytes as are asked is not enough: they must be one piece.
#[test]
fn p102_small_arenas_go_until_a_large_one_fits() {
    each_way(|way| {
        for pinned in [0, 1, 5] {
            let capacity = 128 * MIB;
            let config = way.pool().arena_bytes(2 * MIB);
            let world = World::new(way.device().memory_bytes(capacity), config);
            let [stream, other] = world.streams();
            let mut buffers: Vec<_> = (0..64).map(|_| world.used(stream, 2 * MIB)).collect();
            let live = buffers.split_off(64 - pinned);
            for (place, buffer) in buffers.into_iter().enumerate() {
                world.free(if place % 2 == 0 { stream } else { other }, buffer);
            }
            let large = world.used(stream, 48 * MIB);
            world.free(stream, large);
            for buffer in live {
                world.free(stream, buffer);
            }
            world.end();
        }
    });
}

/// A refusal says what would have helped.
#[test]
fn p001_a_refusal_says_what_would_help() {
    let world = LATE.fixed(MIB);
    let stream = world.stream();
    let buffer = world.used(stream, MIB);
    let Err(PoolError::OutOfMemory { shortage, .. }) = world.try_allocate(stream, 4096) else {
        panic!("it cannot be served");
    };
    assert_eq!((shortage.size_bytes, shortage.live_bytes, shortage.free_bytes), (4096, MIB, 0));
    assert_eq!(shortage.remedy, pool_core::pool::Remedy::RaiseLimit);
    world.free(stream, buffer);
    let capturing = world.foreign();
    world.pool.begin_capture(&capturing, GraphId(1)).unwrap();
    world.device.begin_capture(capturing).unwrap();
    let Err(PoolError::OutOfMemory { shortage, .. }) = world.try_allocate(On::Nothing, MIB) else {
        panic!("a host wait is not allowed now");
    };
    assert_eq!(shortage.captures, [GraphId(1)]);
    assert_eq!(shortage.remedy, pool_core::pool::Remedy::EndCapture);
    let graph = world.device.end_capture(capturing).unwrap();
    world.pool.end_capture(&capturing).unwrap();
    world.pool.release_graph(GraphId(1)).unwrap();
    world.device.drop_graph(graph).unwrap();
    let clean = world.allocate(On::Nothing, MIB);
    world.free(On::Nothing, clean);
    world.end();
}
