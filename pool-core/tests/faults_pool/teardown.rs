//! The pool's end.

use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::OnceLock;
use std::thread;

use pool_core::device::{Call, Device};
use pool_core::{GraphId, On, PoolError};
use pool_mock::device::{Fault, SimConfig, SimDevice};

use crate::support::{GIB, KIB, LATE, MIB, SimPool, Walk, World, each_way};
use crate::threads::on_threads;

/// A pool with live blocks, cached ones, and ones that wait, on several streams.
fn busy(world: &World, seed: u64) {
    let streams: [_; 3] = world.streams();
    let mut walk = Walk::new(world, &streams, seed, MIB);
    for _ in 0..60 {
        walk.step();
    }
}

/// Once the driver is gone, the end of a pool is silent.
#[test]
fn p034_after_the_driver_is_gone_a_pool_ends_silently() {
    each_way(|way| {
        for seed in 0..2 {
            let world = way.fixed(4 * MIB);
            busy(&world, seed);
            let clone = world.pool.clone();
            let World { device, pool } = world;
            device.shut_down();
            let before = device.calls();
            drop(pool);
            drop(clone);
            assert_eq!(device.calls().since(&before).total(), 0);
            assert_eq!(device.calls().discards(), before.discards());
            device.assert_clean();
        }
    });
}

/// A pool that is never dropped, as in a static, is no fault at the end of the process.
#[test]
fn p034_a_static_pool_is_left_alone() {
    static POOL: OnceLock<SimPool> = OnceLock::new();
    let world = LATE.fixed(4 * MIB);
    busy(&world, 1);
    let pool = POOL.get_or_init(|| world.pool.clone());
    drop(world.pool);
    pool.verify().unwrap();
    world.device.shut_down();
    world.device.assert_clean();
}

/// The order in which a program drops what it holds does not matter.
#[test]
fn p035_handles_may_go_in_any_order() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let stream = world.stream();
        let buffer = world.used(stream, MIB);
        let location = world.pool.location(buffer.handle).unwrap();
        let World { device, pool } = world;
        let watch = device.clone();
        drop(device);
        let clone = pool.clone();
        drop(pool);
        clone.free_on(stream, buffer.handle).unwrap();
        drop(clone);
        // What names a place on the device does not keep it.
        assert!(watch.balance().is_zero());
        drop(location);
        drop(buffer);
        watch.assert_clean();
    });
}

/// After an error that ends all, every call says so, and the device gets no call any more.
#[test]
fn p075_after_a_fatal_error_nothing_is_called() {
    each_way(|way| {
        for seed in 0..2 {
            let world = way.fixed(4 * MIB);
            let stream = world.stream();
            let (kept, waits) = (world.used(stream, MIB), world.used(stream, MIB));
            busy(&world, seed);
            world.free(On::Nothing, waits);
            world.device.make_fatal();
            // The first one to call the device hears it.
            let heard = world.pool.create_stream();
            assert!(matches!(heard, Err(PoolError::Device(_))), "{heard:?}");
            let before = world.device.calls();
            let refused = [
                world.pool.create_stream().map(drop),
                world.pool.allocate_on(stream, MIB).map(drop),
                world.pool.allocate(256).map(drop),
                world.pool.free(kept.handle).map(drop),
                world.pool.free_on(stream, kept.handle).map(drop),
                world.pool.record_use(kept.handle, stream),
                world.pool.retire(stream),
                world.pool.begin_capture(stream, GraphId(1)),
                world.pool.release_graph(GraphId(1)),
                world.pool.reclaim().map(drop),
                world.pool.tick().map(drop),
                world.pool.trim(0).map(drop),
                world.pool.trim_waiting(0).map(drop),
            ];
            for (place, result) in refused.into_iter().enumerate() {
                assert!(matches!(result, Err(PoolError::Poisoned)), "{place}: {result:?}");
            }
            world.pool.verify().unwrap();
            let World { device, pool } = world;
            drop(pool);
            assert_eq!(device.calls().since(&before).total(), 0);
            device.assert_clean();
        }
    });
}

/// Where memory is short no call of the device need fail: what is lost is not told as what is missing.
#[test]
fn p075_a_lost_device_is_no_lack_of_memory() {
    for asks_first in [false, true] {
        let world = LATE.fixed(4 * MIB);
        let stream = world.stream();
        let kept = world.used(stream, 4 * MIB);
        let refused = world.pool.allocate_on(stream, MIB);
        assert!(matches!(refused, Err(PoolError::OutOfMemory { .. })), "{refused:?}");
        world.device.make_fatal();
        if asks_first {
            let heard = world.pool.explain(stream, MIB);
            assert!(matches!(heard, Err(PoolError::Device(_))), "{heard:?}");
        } else {
            let heard = world.pool.allocate_on(stream, MIB);
            assert!(matches!(heard, Err(PoolError::Device(_))), "{heard:?}");
        }
        let heard = world.pool.allocate_on(stream, MIB);
        assert!(matches!(heard, Err(PoolError::Poisoned)), "{heard:?}");
        drop(kept);
        world.pool.verify().unwrap();
    }
}

/// A process that ends takes its device away from whoever asks for memory just then.
#[test]
fn p075_a_device_that_is_no_more_is_no_lack_of_memory() {
    each_way(|way| {
        for grows in [false, true] {
            let mut refused = 0;
            for answers in 0.. {
                let world = if grows { way.growing() } else { way.fixed(4 * MIB) };
                let [giver, taker] = world.streams();
                let kept = world.used(giver, MIB);
                let waiting = [(); 3].map(|()| world.used(giver, MIB));
                for buffer in waiting {
                    world.free(giver, buffer);
                }
                world.device.shut_down_after(answers);
                let served = world.pool.allocate_on(taker, if grows { 64 * MIB } else { 2 * MIB });
                world.pool.verify().unwrap();
                match served {
                    Ok(_) if world.device.is_alive() => break,
                    // What is asked for ahead may fail.
                    Ok(_) => {}
                    Err(PoolError::Poisoned) => {
                        refused += 1;
                        let freed = world.pool.free_on(giver, kept.handle);
                        assert!(matches!(freed, Err(PoolError::Poisoned)), "{answers}: {freed:?}");
                    }
                    Err(error) => panic!("{grows}, {answers}: {error}"),
                }
                drop(world.pool);
                world.device.assert_clean();
            }
            assert!(refused > 0, "{grows}");
        }
    });
}

/// An error that concerns one call is that call's: the end tries again, and reports nothing.
#[test]
fn p075_a_give_back_that_fails_once_is_tried_again() {
    for call in [Call::Free, Call::RecordAll, Call::WaitOnHost, Call::Synchronize] {
        for times in [1, 2] {
            let world = World::new(LATE.device(), LATE.pool().arena_bytes(2 * MIB));
            busy(&world, 3);
            let World { device, pool } = world;
            let ranges = device.balance().ranges;
            device.fail_next(call, times);
            drop(pool);
            // What the device refused to take twice it has still; nothing else.
            let lost = usize::from(call == Call::Free && times == 2);
            assert_eq!(device.balance().ranges, lost, "{call} failed {times} times of {ranges}");
            assert_eq!((device.balance().streams, device.balance().fences), (0, 0));
            device.assert_clean();
        }
    }
}

/// A stream that the device refuses to end does not keep the rest.
#[test]
fn p075_a_stream_that_does_not_end_keeps_nothing_else() {
    let world = LATE.fixed(4 * MIB);
    busy(&world, 4);
    let World { device, pool } = world;
    device.fail_each(Call::DestroyStream);
    drop(pool);
    assert_eq!((device.balance().ranges, device.balance().fences), (0, 0));
    device.assert_clean();
}

/// What waits at the end is waited for, and goes back.
#[test]
fn p076_blocks_that_wait_go_back_at_the_end() {
    each_way(|way| {
        for kind in 0..5 {
            let world = World::new(way.device(), way.pool().arena_bytes(2 * MIB));
            let [home, side] = world.streams();
            let unknown = world.foreign();
            let buffers: Vec<_> = (0..6).map(|_| world.used(home, MIB)).collect();
            for stream in [world.raw(home), world.raw(side), unknown] {
                world.device.hold(stream).unwrap();
            }
            for buffer in buffers {
                world.share(&buffer, side);
                match kind {
                    0 => world.free(home, buffer),
                    1 => world.free(side, buffer),
                    2 => world.free(On::Nothing, buffer),
                    3 => {
                        world.share(&buffer, &unknown);
                        world.free(&unknown, buffer);
                    }
                    // Never freed.
                    _ => drop(buffer),
                }
            }
            world.end();
        }
    });
}

/// A block may be freed on any thread, also while that unwinds; and so may the pool be dropped.
#[test]
fn p077_any_thread_may_free_and_drop() {
    struct Guard(SimPool, pool_core::Handle);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.free(self.1);
        }
    }
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let stream = world.stream();
        let buffers: Vec<_> = (0..4).map(|_| world.used(stream, 64 * KIB)).collect();
        let guards: Vec<_> =
            buffers.iter().map(|buffer| Guard(world.pool.clone(), buffer.handle)).collect();
        thread::spawn(move || drop(guards)).join().unwrap();
        let guard = Guard(world.pool.clone(), world.used(stream, 4 * KIB).handle);
        let unwound = thread::spawn(move || {
            catch_unwind(AssertUnwindSafe(move || {
                let _guard = guard;
                std::panic::resume_unwind(Box::new(()));
            }))
            .is_err()
        });
        assert!(unwound.join().unwrap());
        world.check();
        assert_eq!(world.pool.stats().live_blocks, 0);
        let World { device, pool } = world;
        thread::spawn(move || drop(pool)).join().unwrap();
        assert!(device.balance().is_zero());
        device.assert_clean();
    });
}

/// Pools come and go, and leave the device as it was.
#[test]
fn p111_a_hundred_pools_leave_nothing() {
    let device = SimDevice::new(SimConfig::new().memory_bytes(GIB));
    for round in 0..100 {
        let world = World::over(device.clone(), LATE.pool().initial_bytes(round % 3 * 64 * MIB));
        let stream = world.stream();
        let side = world.stream();
        for _ in 0..3 {
            let buffer = world.used(stream, 64 * MIB);
            world.share(&buffer, side);
            world.free(if round % 2 == 0 { stream } else { side }, buffer);
        }
        if round % 5 == 0 {
            world.pool.retire(side).unwrap();
        }
        world.end();
    }
    assert_eq!(device.balance().bytes, 0);
}

/// Threads that hold the last clones drop them at the same moment.
#[test]
fn p111_the_last_of_many_clones_ends_it_once() {
    for _ in 0..20 {
        let world = LATE.fixed(4 * MIB);
        busy(&world, 9);
        let World { device, pool } = world;
        let clones: Vec<_> = (0..4).map(|_| std::sync::Mutex::new(Some(pool.clone()))).collect();
        drop(pool);
        on_threads(4, |thread| drop(clones[thread].lock().unwrap().take()));
        assert!(device.balance().is_zero());
        device.assert_clean();
    }
}

/// An out-of-memory error at the end of the device's life is no reason to call it again.
#[test]
fn p075_a_fatal_error_in_any_call_ends_all() {
    for call in [Call::Record, Call::Wait, Call::IsDone, Call::RecordAll, Call::WaitOnHost] {
        let world = LATE.fixed(2 * MIB);
        let [one, other] = world.streams();
        let buffer = world.used(one, 2 * MIB);
        world.free(On::Nothing, buffer);
        world.device.fail_with(Fault::Fatal);
        world.device.fail_next(call, 1);
        let served = world.pool.allocate_on(other, 2 * MIB);
        let clean = world.pool.allocate(2 * MIB);
        if world.device.injected() > 0 {
            assert!(served.is_err() || clean.is_err());
            assert!(matches!(world.pool.allocate(256), Err(PoolError::Poisoned)));
        }
        world.pool.verify().unwrap();
        drop(world.pool);
        world.device.assert_clean();
    }
}
