//! Capacities of all shapes.

use pool_core::PoolConfig;
use pool_mock::device::{SimConfig, SimDevice};

use crate::support::{GIB, GRANULE, LATE, MIB, World};

/// What a pool has is what one request gets, whatever power of two lies between.
#[test]
fn p016_all_of_any_capacity_is_one_request() {
    let mut capacities = vec![10 * GIB, 9 * GIB, 8 * GIB + GRANULE];
    for bits in [8, 12, 21, 26, 33] {
        let power = 1_u64 << bits;
        capacities.extend([3 * power, power, power + GRANULE]);
        if power > GRANULE {
            capacities.push(power - GRANULE);
        }
    }
    for capacity in capacities {
        let world = LATE.fixed(capacity);
        let [stream, other] = world.streams();
        for on in [stream, other] {
            world.pass(on, capacity);
            world.pass(on, (capacity / 10 * 9).max(1));
            assert!(world.pool.allocate_on(on, capacity + 1).is_err());
            assert!(world.pool.allocate_on(on, u64::MAX).is_err());
        }
        world.pass(other, capacity);
        world.end();
    }
}

/// The start and the limit are compared as they are given; what is no whole granule is not served.
#[test]
fn p017_start_and_limit_may_be_the_same() {
    for (initial, limit) in [(1000, 1000), (1001, 1000), (0, 1000), (5000, 5000), (MIB, MIB)] {
        let config = PoolConfig::new().initial_bytes(initial).limit_bytes(limit);
        let world = World::new(SimConfig::new(), config);
        let stream = world.stream();
        let usable = limit / GRANULE * GRANULE;
        world.pass(stream, usable);
        assert!(world.pool.allocate_on(stream, usable + 1).is_err());
        assert!(world.pool.stats().reserved_bytes <= limit);
        world.pass(stream, usable);
        world.end();
    }
    // Less than a granule: an error, or a pool that serves nothing.
    let device = SimDevice::new(SimConfig::new());
    for config in [
        PoolConfig::new().limit_bytes(255),
        PoolConfig::new().initial_bytes(255).limit_bytes(255),
        PoolConfig::new().initial_bytes(1).limit_bytes(0),
    ] {
        if let Ok(pool) = pool_core::Pool::new(device.clone(), config) {
            assert!(pool.allocate(1).is_err());
            pool.verify().unwrap();
        }
    }
    assert!(device.balance().is_zero());
    device.assert_clean();
}

/// A range that begins anywhere serves all of itself.
#[test]
fn p106_a_range_that_begins_anywhere_serves_all_of_itself() {
    for misalign in [0, 8, 256, 4096 + 8, MIB - 256] {
        let config = PoolConfig::new().initial_bytes(MIB).limit_bytes(MIB);
        let world = World::new(SimConfig::new().misalign_bytes(misalign), config);
        let stream = world.stream();
        // To begin on a granule takes less than one.
        let usable = if misalign % GRANULE == 0 { MIB } else { MIB - GRANULE };
        for _ in 0..2 {
            world.pass(stream, usable);
            let half = world.used(stream, usable / 2 / GRANULE * GRANULE);
            world.pass(stream, usable / 2 / GRANULE * GRANULE);
            world.free(stream, half);
        }
        world.end();
    }
}
