//! Requests for nothing.

use pool_core::{On, PoolConfig, PoolError, Request};
use pool_mock::device::SimConfig;

use crate::support::{LATE, MIB, World};
use crate::threads::on_threads;

/// A request for nothing is refused, for whomever and however aligned, and changes nothing.
#[test]
fn p058_a_request_for_nothing_is_refused() {
    let world = LATE.fixed(MIB);
    let stream = world.stream();
    let unknown = world.foreign();
    on_threads(8, |_| {
        for on in [On::Nothing, stream.into(), On::Raw(&unknown)] {
            for align_bytes in [1, 256, 4096] {
                let refused = world.pool.allocate_on(on, Request::new(0).align_bytes(align_bytes));
                assert!(matches!(refused, Err(PoolError::Request(_))), "{refused:?}");
            }
        }
    });
    let stats = world.pool.stats();
    assert_eq!((stats.live_blocks, stats.cached_bytes, stats.deferred_blocks), (0, 0, 0));
    world.end();
}

/// The device is never asked for nothing: the simulated one refuses that.
#[test]
fn p105_the_device_is_never_asked_for_nothing() {
    for (initial, limit) in [(0, 0), (0, 255), (1, 1), (255, 4096), (256, 256)] {
        let config = PoolConfig::new().initial_bytes(initial).limit_bytes(limit).arena_bytes(0);
        let device = pool_mock::device::SimDevice::new(SimConfig::new());
        // A pool of nothing is an error, or one that serves nothing.
        let Ok(pool) = pool_core::Pool::new(device.clone(), config) else { continue };
        let world = World { device, pool };
        let stream = world.stream();
        for size_bytes in [0, 1, 256, 257] {
            if let Ok(buffer) = world.try_allocate(stream, size_bytes) {
                assert!(buffer.size_bytes <= limit);
                world.free(stream, buffer);
            }
        }
        world.device.assert_clean();
        drop(world.pool);
        assert!(world.device.balance().is_zero());
    }
}
