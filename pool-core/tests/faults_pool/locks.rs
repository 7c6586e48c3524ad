//! Waiting for each other, and calls that come back.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pool_core::On;
use pool_core::device::Call;
use pool_mock::device::Access;

use crate::support::{KIB, LATE, MIB, World, each_way, in_time};
use crate::threads::on_threads;

/// Many more threads than cores, on few streams: it takes little longer than one thread alone.
#[test]
fn p072_many_threads_on_few_cores_make_progress() {
    const THREADS: usize = 64;
    const ROUNDS: usize = 100;
    let world = || {
        let device = LATE.device().detector(false).marks(false);
        World::new(device, LATE.pool().initial_bytes(64 * MIB).limit_bytes(64 * MIB))
    };
    let work = |world: &World, stream, rounds: usize| {
        for round in 0..rounds {
            let block = world.pool.allocate_on(stream, 4096 << (round % 5)).unwrap();
            match round % 8 {
                0 => world.pool.free(block.handle()).unwrap(),
                _ => world.pool.free_on(stream, block.handle()).unwrap(),
            };
        }
    };
    let alone = world();
    let stream = alone.stream();
    let start = Instant::now();
    work(&alone, stream, THREADS * ROUNDS);
    let one_thread = start.elapsed();
    let crowded = world();
    let streams: [_; 4] = crowded.streams();
    let start = Instant::now();
    on_threads(THREADS, |thread| work(&crowded, streams[thread % 4], ROUNDS));
    let elapsed = start.elapsed();
    let most = 20 * one_thread + Duration::from_secs(5);
    assert!(elapsed < most, "{elapsed:?}, alone {one_thread:?}");
    alone.end();
    crowded.end();
}

/// A call of the device that comes back into the pool finds no lock held.
#[test]
fn p073_a_call_of_the_device_may_use_the_pool() {
    for at in [Call::Record, Call::Allocate, Call::Free, Call::IsDone, Call::CreateStream] {
        in_time(move || {
            let world = World::new(LATE.device(), LATE.pool().arena_bytes(2 * MIB));
            let inner = Arc::new((world.pool.clone(), AtomicBool::new(false), AtomicU64::new(0)));
            let hooked = inner.clone();
            world.device.on_call(move |call| {
                let (pool, inside, entered) = &*hooked;
                if call != at || inside.swap(true, Ordering::AcqRel) {
                    return;
                }
                entered.fetch_add(1, Ordering::AcqRel);
                if let Ok(block) = pool.allocate(64) {
                    pool.free(block.handle()).unwrap();
                }
                pool.flush();
                inside.store(false, Ordering::Release);
            });
            let [first, second] = world.streams();
            for _ in 0..4 {
                let buffer = world.used(first, 3 * MIB);
                world.share(&buffer, second);
                world.free(first, buffer);
                world.pass(second, 3 * MIB);
                world.pool.trim_waiting(0).unwrap();
            }
            world.device.clear_hooks();
            assert!(inner.2.load(Ordering::Acquire) > 0, "{at} was never called");
            drop(inner);
            world.end();
        });
    }
}

/// A free from a callback of a stream makes no call of the device, and hangs on nothing.
#[test]
fn p074_a_callback_may_free() {
    each_way(|way| {
        in_time(move || {
            let world = way.fixed(4 * MIB);
            let [stream, other] = world.streams();
            for round in 0..8_u64 {
                let buffer = world.used(stream, (64 * KIB) << (round % 4));
                if round % 3 == 0 {
                    world.share(&buffer, other);
                }
                let (pool, handle) = (world.pool.clone(), buffer.handle);
                let refused = buffer.handle;
                world
                    .device
                    .queue_callback(world.raw(stream), move || {
                        pool.free(handle).unwrap();
                        assert!(pool.free(refused).is_err());
                    })
                    .unwrap();
                if let Ok(buffer) = world.try_allocate(other, MIB) {
                    world.queue(&buffer, world.raw(other), Access::Write);
                    world.free(other, buffer);
                }
            }
            world.device.run_all();
            world.pool.reclaim().unwrap();
            world.pass(other, 4 * MIB);
            world.end();
        });
    });
}

/// While one thread is between two launches, another gives memory back: nothing of what a trim
/// that does not wait calls waits for the device.
#[test]
fn p109_a_trim_waits_for_nothing() {
    each_way(|way| {
        let world = World::new(way.device(), way.pool().arena_bytes(2 * MIB));
        let [half, idle] = world.streams();
        let busy = world.used(half, 2 * MIB);
        let dead = world.used(idle, 2 * MIB);
        // Half of a collective: it ends only with the other half, which is not launched yet.
        world.device.hold(world.raw(half)).unwrap();
        world.touch(&busy, world.raw(half));
        world.free(idle, dead);
        let waits = [Call::WaitOnHost, Call::Synchronize];
        let before = waits.map(|call| world.calls(call));
        thread::scope(|scope| {
            scope.spawn(|| {
                world.pool.trim(0).unwrap();
                world.pool.flush();
                world.pool.reclaim().unwrap();
            });
        });
        assert_eq!(waits.map(|call| world.calls(call)), before);
        assert!(world.device.queued(world.raw(half)).unwrap() > 0);
        world.free(half, busy);
        world.end();
    });
}

/// Maintenance of what is empty ends, and changes nothing; it does not call itself.
#[test]
fn p110_maintenance_of_nothing_ends() {
    each_way(|way| {
        let world = way.growing();
        let check_idle = || {
            let before = world.device.calls();
            for _ in 0..10 {
                world.pool.flush();
                world.pool.reclaim().unwrap();
                world.pool.tick().unwrap();
                world.pool.trim(0).unwrap();
                world.pool.trim_waiting(0).unwrap();
                world.pool.set_limit(Some(0)).unwrap();
                world.pool.set_limit(None).unwrap();
            }
            assert_eq!(world.device.calls().since(&before).total(), 0);
            world.check();
        };
        check_idle();
        let stream = world.stream();
        check_idle();
        for on in [On::Nothing, stream.into()] {
            let buffer = world.allocate(on, MIB);
            world.free(on, buffer);
            world.pool.trim_waiting(0).unwrap();
            check_idle();
        }
        world.end();
    });
}
