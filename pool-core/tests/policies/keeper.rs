//! A thread that does a pool's upkeep.

use core::time::Duration;
use std::sync::{Arc, Mutex};
use std::thread;

use pool_core::PoolConfig;
use pool_core::device::{Call, Capabilities};
use pool_mock::device::SimConfig;

use crate::support::{MIB, World};

/// A device of which every arena is a range of its own.
fn device() -> SimConfig {
    SimConfig::new().without(Capabilities::EXTEND)
}

/// A thread of the pool's own grows it, and others leave that to it.
#[test]
fn a_keeper_grows_ahead() {
    let world = World::new(device(), PoolConfig::new());
    let stream = world.stream();
    let keeper = world.pool.keep_up(Duration::from_millis(1)).unwrap();
    let here = thread::current().id();
    let by_others = Arc::new(Mutex::new(Vec::new()));
    let seen = by_others.clone();
    world.device.on_call(move |call| {
        if call == Call::Allocate {
            seen.lock().unwrap().push(thread::current().id() == here);
        }
    });
    let buffer = world.used(stream, 60 * MIB);
    while world.pool.stats().growths_ahead == 0 {
        thread::yield_now();
    }
    drop(keeper);
    // The first by need, from here; the second ahead, from there.
    assert_eq!(*by_others.lock().unwrap(), [true, false]);
    world.free(stream, buffer);
    world.end();
}

/// A keeper does not keep the pool: the memory is the device's when the last handle is gone.
#[test]
fn a_keeper_ends_with_the_pool() {
    let World { device, pool } = World::new(device(), PoolConfig::new().initial_bytes(MIB));
    let keeper = pool.keep_up(Duration::from_micros(10)).unwrap();
    drop(pool);
    // It may be in the midst of a tick.
    while device.balance().bytes > 0 {
        thread::yield_now();
    }
    drop(keeper);
}
