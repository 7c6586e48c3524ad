//! What a pool takes before anyone asks.

use pool_core::budget::{Budget, Share};
use pool_core::device::{Call, Capabilities};
use pool_core::policy::{Ahead, Growth, Preallocation, SizeHint};
use pool_core::{Pool, PoolConfig, PoolError};
use pool_mock::device::{Fault, SimConfig, SimDevice};

use crate::support::{GIB, KIB, MIB, World};

fn world(preallocation: Preallocation) -> World {
    let device = SimConfig::new().memory_bytes(8 * GIB);
    World::new(device, PoolConfig::new().preallocation(preallocation))
}

/// The calls of the device for memory: before the first request, for it, and for 3 GiB more in
/// blocks of 16 MiB; and what was reserved before the first request and at the end.
fn figures(preallocation: Preallocation) -> ([u64; 3], [u64; 2]) {
    let world = world(preallocation);
    let asked = |world: &World| world.calls(Call::Allocate) + world.calls(Call::Extend);
    let reserved = |world: &World| world.pool.stats().reserved_bytes / MIB;
    let (at_start, before) = (asked(&world), reserved(&world));
    let stream = world.stream();
    let mut live = vec![world.used(stream, MIB)];
    let with_first = asked(&world) - at_start;
    live.extend((0..192).map(|_| world.used(stream, 16 * MIB)));
    let later = asked(&world) - at_start - with_first;
    let after = reserved(&world);
    for buffer in live {
        world.free(stream, buffer);
    }
    world.end();
    ([at_start, with_first, later], [before, after])
}

#[test]
fn what_each_choice_costs_and_saves() {
    // By 64 MiB at a time, the last of them ahead of need.
    assert_eq!(figures(Preallocation::Nothing), ([0, 1, 49], [0, 50 * 64]));
    assert_eq!(figures(Preallocation::Bytes(4 * GIB)), ([1, 0, 0], [4096, 4096]));
    let all = Preallocation::AllBut { margin_bytes: GIB };
    assert_eq!(figures(all), ([1, 0, 0], [7168, 7168]));
    let on_demand = Preallocation::OnDemand { base_bytes: 4 * GIB };
    assert_eq!(figures(on_demand), ([0, 1, 0], [0, 4096]));
}

#[test]
fn all_but_a_margin_is_of_what_is_free_now() {
    let device = SimDevice::new(SimConfig::new().memory_bytes(8 * GIB));
    device.set_foreign_bytes(3 * GIB);
    let all =
        |margin_bytes| PoolConfig::new().preallocation(Preallocation::AllBut { margin_bytes });
    let reserved = |config| Pool::new(device.clone(), config).unwrap().stats().reserved_bytes;
    assert_eq!(reserved(all(GIB)), 4 * GIB);
    assert_eq!(reserved(all(5 * GIB)), 0);
    assert_eq!(reserved(all(u64::MAX)), 0);
    assert_eq!(reserved(all(0).limit_bytes(GIB)), GIB);
    // Of a device that does not know, nothing is taken.
    let blind = SimDevice::new(SimConfig::new().without(Capabilities::MEMORY));
    assert_eq!(Pool::new(blind, all(0)).unwrap().stats().reserved_bytes, 0);
}

#[test]
fn a_hint_is_a_sum_with_a_margin() {
    let hint = SizeHint {
        parameters_bytes: 100 * MIB,
        optimizer_bytes: 200 * MIB,
        gradients_bytes: 50 * MIB,
        activations_bytes: 150 * MIB,
        ..SizeHint::default()
    };
    assert_eq!(hint.bytes(), 600 * MIB);
    assert_eq!(SizeHint { margin_percent: 0, ..hint }.bytes(), 500 * MIB);
    assert_eq!(SizeHint { margin_percent: 150, ..hint }.bytes(), 1250 * MIB);
    let small = SizeHint { parameters_bytes: 5, ..SizeHint::default() };
    assert_eq!(small.bytes(), 6);
    let huge = SizeHint { optimizer_bytes: u64::MAX, margin_percent: u32::MAX, ..hint };
    assert_eq!(huge.bytes(), u64::MAX);
    assert_eq!(Preallocation::from(hint), Preallocation::Bytes(600 * MIB));
}

/// Parts come when they are asked for; on a device that can extend, they are one arena.
#[test]
fn what_is_left_for_later_comes_in_parts() {
    for (capabilities, arenas, largest) in
        [(Capabilities::empty(), 4, 256 * MIB), (Capabilities::EXTEND, 1, 1000 * MIB)]
    {
        let device = SimConfig::new().without(Capabilities::EXTEND).with(capabilities);
        let config = PoolConfig::new().initial_bytes(1000 * MIB).warms_later(true);
        let world = World::new(device, config.growth(Growth { ahead: None, ..Growth::new() }));
        assert_eq!(world.pool.stats().reserved_bytes, 0);
        let mut left = Vec::new();
        loop {
            let warmed = world.pool.warm(256 * MIB).unwrap();
            if warmed.reserved_bytes == 0 {
                break;
            }
            left.push(warmed.left_bytes / MIB);
        }
        assert_eq!(left, [744, 488, 232, 0]);
        let stats = world.pool.stats();
        assert_eq!((stats.reserved_bytes, stats.arenas), (1000 * MIB, arenas));
        assert_eq!(stats.growths, 0, "what was to be there is no growth");
        let stream = world.stream();
        world.pass(stream, largest);
        assert_eq!(world.pool.stats().growths, 0);
        world.end();
    }
}

/// A part that the device refuses is left for later; a limit takes it off.
#[test]
fn a_refused_part_is_left() {
    let config = PoolConfig::new().initial_bytes(64 * MIB).warms_later(true);
    let world = World::new(SimConfig::new(), config.limit_bytes(48 * MIB));
    world.device.fail_with(Fault::OutOfMemory);
    world.device.fail_each(Call::Allocate);
    assert!(matches!(world.pool.warm(16 * MIB), Err(PoolError::Device(_))));
    assert_eq!(world.pool.stats().reserved_bytes, 0);
    world.device.clear_faults();
    let mut parts = 0;
    while world.pool.warm(16 * MIB).unwrap().left_bytes > 0 {
        parts += 1;
        assert!(parts < 10);
    }
    assert_eq!(world.pool.stats().reserved_bytes, 48 * MIB);
    world.end();
}

/// On demand the base comes with the first request, whatever its size, and only then.
#[test]
fn the_base_comes_with_the_first_request() {
    let world = world(Preallocation::OnDemand { base_bytes: 512 * MIB });
    let stream = world.stream();
    let block = world.used(stream, 4 * KIB);
    assert_eq!(world.pool.stats().reserved_bytes, 512 * MIB);
    let larger = world.used(stream, 600 * MIB);
    assert!(world.pool.stats().reserved_bytes < 1300 * MIB, "not twice the base");
    world.free(stream, block);
    world.free(stream, larger);
    world.end();
    // A first request that is larger gets what it needs.
    let world = self::world(Preallocation::OnDemand { base_bytes: MIB });
    let stream = world.stream();
    world.pass(stream, 100 * MIB);
    assert_eq!(world.pool.stats().arenas, 1);
    world.end();
}

#[test]
fn defaults_are_as_documented() {
    assert_eq!(Ahead::default(), Ahead { from_percent: 80, most_bytes: 64 * MIB });
    assert_eq!(Growth::default().ahead, Some(Ahead::default()));
    assert_eq!(Preallocation::default(), Preallocation::Nothing);
}

/// What there can never be room for is not left for later: a loop that warms up ends.
#[test]
fn warming_up_ends_where_a_quota_or_the_offsets_do() {
    let budget = Budget::new(GIB);
    let tenancy = budget.tenant(Share::borrowing(32 * MIB)).unwrap();
    let later = || PoolConfig::new().initial_bytes(64 * MIB).warms_later(true);
    for config in [later().tenancy(&tenancy), later().address_bytes(32 * MIB)] {
        let world = World::new(SimConfig::new(), config);
        let mut parts = 0;
        while world.pool.warm(16 * MIB).unwrap().left_bytes > 0 {
            parts += 1;
            assert!(parts < 10, "it goes on for ever");
        }
        let stats = world.pool.stats();
        assert_eq!((stats.reserved_bytes, stats.initial_bytes), (32 * MIB, 32 * MIB));
        world.end();
    }
}
