//! Several devices in one process.
//!
//! Which context is current while a call is made (P036, P051, P078), and whose it is (P079), is a
//! matter of a device's own code: a pool calls no device but its own. Here it is that each pool
//! does, whatever becomes of the others.

use pool_core::device::Call;
use pool_core::{On, PoolError};
use pool_mock::device::Fault;

use crate::support::{MIB, Walk, World, each_way};

/// The end of one device's pool is nothing to another's.
#[test]
fn p036_the_end_of_one_pool_is_nothing_to_another() {
    each_way(|way| {
        let world = way.fixed(4 * MIB);
        let stream = world.stream();
        let buffer = world.used(stream, MIB);
        let other = World::over(world.device.peer(), way.pool());
        let there = other.stream();
        other.pass(there, MIB);
        other.end();
        world.touch(&buffer, world.raw(stream));
        world.free(stream, buffer);
        let another = World::over(world.device.peer(), way.pool().initial_bytes(4 * MIB));
        let there = another.stream();
        let kept = another.used(there, MIB);
        world.pass(stream, 4 * MIB);
        another.free(there, kept);
        world.end();
        another.pass(there, 4 * MIB);
        another.end();
    });
}

/// Each pool's fences are its own device's; where one cannot be recorded, nothing is reused.
#[test]
fn p037_a_fence_that_fails_makes_nothing_free() {
    each_way(|way| {
        let world = way.fixed(MIB);
        let other =
            World::over(world.device.peer(), way.pool().initial_bytes(MIB).limit_bytes(MIB));
        for each in [&world, &other] {
            let [one, next] = each.streams();
            let unknown = each.foreign();
            let buffer = each.used(one, MIB);
            each.device.hold(each.raw(one)).unwrap();
            each.free(one, buffer);
            each.device.fail_with(Fault::Plain);
            for call in [Call::Record, Call::RecordAll, Call::Wait] {
                each.device.fail_each(call);
                for on in [next.into(), On::Nothing, On::Raw(&unknown)] {
                    if let Ok(buffer) = each.try_allocate(on, MIB) {
                        let stream = match on {
                            On::Stream(stream) => each.raw(stream),
                            _ => unknown,
                        };
                        each.touch(&buffer, stream);
                        each.free(one, buffer);
                    }
                }
                each.device.clear_faults();
                each.check();
            }
            each.pass(next, MIB);
        }
        other.end();
        world.end();
    });
}

/// What one pool gives back is its own device's; the other device gets no call.
#[test]
fn p051_a_trim_calls_its_own_device() {
    each_way(|way| {
        let world = way.growing();
        let other = World::over(world.device.peer(), way.pool());
        let (here, there) = (world.stream(), other.stream());
        let buffer = world.used(here, MIB);
        let kept = other.used(there, MIB);
        for stream in [world.raw(here), other.raw(there)] {
            world.device.hold(stream).unwrap();
        }
        world.touch(&buffer, world.raw(here));
        other.touch(&kept, other.raw(there));
        world.free(here, buffer);
        let before = other.device.calls();
        world.pool.trim(0).unwrap();
        world.pool.trim_waiting(0).unwrap();
        assert_eq!(world.pool.stats().reserved_bytes, 0);
        assert_eq!(other.device.calls().since(&before).total(), 0);
        assert!(other.device.queued(other.raw(there)).unwrap() > 0, "nobody waited for it");
        other.touch(&kept, other.raw(there));
        other.free(there, kept);
        other.end();
        world.end();
    });
}

/// Buffers of many devices go in any order, also when one device had none to give.
#[test]
fn p078_buffers_of_many_devices_go_in_any_order() {
    each_way(|way| {
        for seed in 0..3 {
            let first = way.fixed(2 * MIB);
            let mut worlds = vec![];
            for _ in 0..7 {
                let device = first.device.peer();
                worlds.push(World::over(device, way.pool().limit_bytes(2 * MIB)));
            }
            worlds.push(first);
            worlds[4].device.set_foreign_bytes(u64::MAX);
            let mut buffers = Vec::new();
            for (place, world) in worlds.iter().enumerate() {
                let stream = world.stream();
                match world.try_allocate(stream, MIB) {
                    Ok(buffer) => {
                        world.touch(&buffer, world.raw(stream));
                        buffers.push((place, stream, buffer));
                    }
                    Err(PoolError::OutOfMemory { .. }) => assert_eq!(place, 4),
                    Err(error) => panic!("{error}"),
                }
            }
            fastrand::Rng::with_seed(seed).shuffle(&mut buffers);
            for (place, stream, buffer) in buffers {
                worlds[place].free(stream, buffer);
            }
            worlds.into_iter().for_each(World::end);
        }
    });
}

/// Pools of two devices, each with programs of its own, in one process.
#[test]
fn p037_two_pools_at_once() {
    each_way(|way| {
        let world = way.fixed(2 * MIB);
        let other = World::over(
            world.device.peer(),
            way.pool().initial_bytes(2 * MIB).limit_bytes(2 * MIB),
        );
        let (here, there) = (world.streams::<3>(), other.streams::<3>());
        let mut walks = [Walk::new(&world, &here, 31, MIB), Walk::new(&other, &there, 32, MIB)];
        for _ in 0..100 {
            walks.iter_mut().for_each(Walk::step);
        }
        walks.into_iter().for_each(Walk::end);
        world.end();
        other.end();
    });
}
