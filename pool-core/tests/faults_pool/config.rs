//! Settings whose least and greatest values mean what they say.

use pool_core::policy::Reuse;
use pool_core::{Affinity, ConfigError, Placement, Pool, PoolError};
use pool_mock::device::SimDevice;

use crate::support::{GRANULE, LATE, MIB, World};

/// A tolerance of one is one in a hundred, zero is none, and what is over a hundred is refused.
#[test]
fn p114_tolerances_are_taken_as_they_are_or_refused() {
    for (tolerance_percent, shelf_tolerance_percent) in
        [(0, 0), (1, 0), (0, 1), (100, 100), (101, 0), (0, 101), (100, 255), (255, 255)]
    {
        let reuse = Reuse { tolerance_percent, shelf_tolerance_percent, ..Reuse::default() };
        let made = Pool::new(SimDevice::new(LATE.device()), LATE.pool().reuse(reuse));
        let percent = tolerance_percent.max(shelf_tolerance_percent);
        match made {
            Ok(_) => assert!(percent <= 100),
            Err(PoolError::Config(error)) => {
                assert_eq!(error, ConfigError::Tolerance { percent });
                assert!(percent > 100);
            }
            Err(other) => panic!("{other}"),
        }
    }
    for placement in [Placement::BestFit, Placement::FirstFit] {
        for percent in [0, 1, 2, 50, 99, 100] {
            let reuse = Reuse { placement, tolerance_percent: percent, ..Reuse::default() };
            let world = World::new(LATE.device(), LATE.pool().reuse(reuse));
            let stream = world.stream();
            // A hole of a thousand granules more than what is asked for, and just less.
            for asked in [1000 * 100 / (100 + u64::from(percent)), 1000] {
                for asked in [asked.saturating_sub(1), asked, asked + 1] {
                    let hole = world.allocate(stream, 1000 * GRANULE);
                    let behind = world.allocate(stream, MIB);
                    world.free(stream, hole);
                    let block = world.allocate(stream, asked * GRANULE);
                    let over = 1000_u64.saturating_sub(asked);
                    let whole = asked <= 1000 && over * 100 <= asked * u64::from(percent);
                    let expected = if whole { 1000 } else { asked };
                    assert_eq!(block.size_bytes, expected * GRANULE, "{asked} at {percent} %");
                    world.free(stream, block);
                    world.free(stream, behind);
                }
            }
            world.end();
        }
    }
}

/// Shelves of no bytes are none, of a granule for one; and a key of zero is a key.
#[test]
fn p114_least_shelves_are_not_taken_for_unset() {
    for shelf_bytes in [0, 1, GRANULE - 1, GRANULE, 2 * GRANULE] {
        let reuse = Reuse { shelf_bytes, ..Reuse::default() };
        let world = World::new(LATE.device(), LATE.pool().reuse(reuse));
        let stream = world.stream();
        for key in [0, u32::MAX] {
            let block = world.pool.allocate_for(stream, Affinity::new(key), 1).unwrap();
            world.pool.free_on(stream, block.handle()).unwrap();
        }
        let kept = (shelf_bytes / GRANULE).min(2);
        assert_eq!(world.pool.stats().shelved_bytes, kept * GRANULE);
        for key in [u32::MAX, 0] {
            let _ = world.pool.allocate_for(stream, Affinity::new(key), 1).unwrap();
        }
        assert_eq!(world.pool.stats().shelf_hits, kept);
        world.check();
    }
}
