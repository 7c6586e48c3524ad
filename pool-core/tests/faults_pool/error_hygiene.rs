//! Errors that belong to what failed, and to nothing else.

use pool_core::device::Call;
use pool_core::{GraphId, On, PoolError};
use pool_mock::device::{CaptureMode, Fault};

use crate::support::{LATE, MIB, each_way};

/// What a graph that is gone leaves behind fails nothing later.
#[test]
fn p056_nothing_of_a_graph_that_is_gone_fails_later() {
    each_way(|way| {
        for (freed_before, released_before, spoil) in
            [(true, true, false), (true, false, true), (false, true, true), (false, false, false)]
        {
            let world = way.fixed(8 * MIB);
            let [captured, other] = world.streams();
            let before = world.used(other, MIB);
            world.device.host_wait_stream(world.raw(other)).unwrap();
            world.pool.begin_capture(captured, GraphId(1)).unwrap();
            world.device.begin_capture_in(world.raw(captured), CaptureMode::Global).unwrap();
            world.pool.record_use(before.handle, captured).unwrap();
            world.touch(&before, world.raw(captured));
            let mut before = Some(before);
            if freed_before {
                world.free(other, before.take().unwrap());
            }
            if spoil {
                world.device.spoil_capture(world.raw(captured)).unwrap();
                assert!(world.device.end_capture(world.raw(captured)).is_err());
            } else {
                let graph = world.device.end_capture(world.raw(captured)).unwrap();
                world.device.drop_graph(graph).unwrap();
            }
            world.pool.end_capture(captured).unwrap();
            if released_before {
                world.pool.release_graph(GraphId(1)).unwrap();
            }
            if let Some(before) = before {
                world.free(other, before);
            }
            if !released_before {
                world.pool.release_graph(GraphId(1)).unwrap();
            }
            world.pool.reclaim().unwrap();
            world.pool.tick().unwrap();
            world.pass(other, 8 * MIB);
            world.pass(captured, 8 * MIB);
            world.end();
        }
    });
}

/// An error of a call is in that call's answer, and in no later one's.
#[test]
fn p056_an_error_is_said_once_by_the_call_that_met_it() {
    for call in [Call::Record, Call::RecordAll, Call::IsDone] {
        let world = LATE.fixed(4 * MIB);
        let [home, side] = world.streams();
        let (shared, nobodys) = (world.used(home, MIB), world.used(home, MIB));
        world.share(&shared, side);
        world.free(home, shared);
        world.free(On::Nothing, nobodys);
        world.device.fail_with(Fault::Plain);
        world.device.fail_next(call, 1);
        let refused = world.pool.reclaim();
        assert!(
            matches!(&refused, Err(PoolError::Device(error)) if error.call == call),
            "{refused:?}"
        );
        world.device.clear_faults();
        world.pool.reclaim().unwrap();
        world.pool.tick().unwrap();
        world.pass(home, 4 * MIB);
        world.end();
    }
}

/// A free that had to record at once and could not leaves the block as it was.
#[test]
fn p056_a_free_that_fails_changes_nothing() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let unknown = world.foreign();
        let (home, side) = (world.stream(), world.foreign());
        let buffer = world.used(home, 2 * MIB);
        world.share(&buffer, &side);
        for on in [On::Raw(&unknown), home.into(), On::Nothing] {
            let before = world.pool.stats();
            world.device.fail_next(Call::Record, 1);
            let refused = match on {
                On::Nothing => world.pool.free(buffer.handle),
                on => world.pool.free_on(on, buffer.handle),
            };
            let Err(PoolError::Device(error)) = refused else { panic!("{refused:?}") };
            assert_eq!(error.call, Call::Record);
            world.device.clear_faults();
            let after = world.pool.stats();
            assert_eq!(
                (after.live_bytes, after.deferred_bytes),
                (before.live_bytes, before.deferred_bytes)
            );
            world.check();
        }
        // The use that was declared is still known.
        world.device.hold(side).unwrap();
        world.touch(&buffer, side);
        world.free(home, buffer);
        world.pass(home, 2 * MIB);
        world.end();
    });
}
