//! Fences are given back.

use pool_core::device::Call;
use pool_core::{GraphId, On};
use pool_mock::device::CaptureMode;

use crate::support::{KIB, MIB, Walk, each_way};

/// However many blocks pass, the fences of the device are few; and none is left at the end.
#[test]
fn p100_fences_are_few_however_many_blocks_pass() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let [home, side, other] = world.streams();
        let mut most = 0;
        for round in 0..600_u32 {
            let buffer = world.used(home, 64 * KIB);
            world.share(&buffer, side);
            match round % 5 {
                0 => world.free(other, buffer),
                1 => world.free(On::Nothing, buffer),
                _ => world.free(home, buffer),
            }
            if round % 50 == 0 {
                world.pool.reclaim().unwrap();
            }
            most = most.max(world.device.balance().fences);
        }
        assert!(most <= 80, "{most} fences");
        world.end();
    });
}

/// None is lost with blocks that were freed while something was captured, or failed.
#[test]
fn p100_no_fence_is_lost_on_the_way() {
    each_way(|way| {
        for seed in 0..3 {
            let world = way.fixed(2 * MIB);
            let streams: [_; 3] = world.streams();
            let captured = world.stream();
            let mut walk = Walk::new(&world, &streams, seed, MIB);
            for round in 0..4 {
                for _ in 0..20 {
                    walk.step();
                }
                if round % 2 == 0 {
                    world.pool.begin_capture(captured, GraphId(round)).unwrap();
                    world
                        .device
                        .begin_capture_in(world.raw(captured), CaptureMode::Global)
                        .unwrap();
                    for _ in 0..10 {
                        // Steps that a program may take while something is captured.
                        if let Ok(buffer) = world.try_allocate(streams[0], 4 * KIB) {
                            world.touch(&buffer, world.raw(streams[0]));
                            world.share(&buffer, streams[1]);
                            world.free(streams[2], buffer);
                        }
                    }
                    let graph = world.device.end_capture(world.raw(captured)).unwrap();
                    world.pool.end_capture(captured).unwrap();
                    world.pool.release_graph(GraphId(round)).unwrap();
                    world.device.drop_graph(graph).unwrap();
                } else {
                    for call in [Call::Record, Call::Wait, Call::IsDone, Call::RecordAll] {
                        world.device.fail_next(call, 2);
                        if let Ok(buffer) = world.try_allocate(streams[1], MIB) {
                            world.touch(&buffer, world.raw(streams[1]));
                            world.free(streams[0], buffer);
                        }
                        let _ = world.pool.reclaim();
                        world.device.clear_faults();
                    }
                }
            }
            walk.end();
            world.end();
        }
    });
}
