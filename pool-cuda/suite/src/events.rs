//! Events are used again, and are bounded.

use pool_cuda::PinnedPool;

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, config};

pub(crate) const TESTS: &[Test] = crate::tests![
    events_are_used_again,
    events_of_many_waiting_blocks_are_bounded,
    spare_events_are_bounded,
];

fn events_are_used_again(world: &World) {
    let pool = world.fixed_pool(2 * MIB);
    let device = pool.device().clone();
    let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let mut most = 0;
    for _ in 0..world.times(500, 20_000) {
        let mut buffer = pool.alloc::<u8>(MIB, &one).unwrap();
        buffer.on_mut(&other).unwrap().fill_bytes(1).unwrap();
        drop(buffer);
        let mut buffer = pool.alloc::<u8>(2 * MIB, &other).unwrap();
        buffer.on_mut(&one).unwrap().fill_bytes(2).unwrap();
        most = most.max(device.events().live);
    }
    assert!(most <= 64, "{most} events");
    let counts = device.events();
    assert!(counts.spare <= counts.live);
    drop((one, other, pool));
    let counts = device.events();
    assert_eq!(counts.spare, counts.live, "nothing uses them");
}

fn events_of_many_waiting_blocks_are_bounded(world: &World) {
    let pool = world.pool();
    let device = pool.device().clone();
    let kernels = Kernels::load(&device);
    let [home, side] = [(); 2].map(|()| pool.create_stream().unwrap());
    world.slow(&kernels, &side);
    for _ in 0..world.times(2_000, 5_000) {
        let mut buffer = pool.alloc::<u8>(1000, &home).unwrap();
        buffer.on_mut(&side).unwrap().fill_bytes(1).unwrap();
    }
    let live = device.events().live;
    assert!(live < 1100, "{live} events");
    world.go();
}

fn spare_events_are_bounded(world: &World) {
    let pool = world.pool();
    let device = pool.device().clone();
    let staging = PinnedPool::new(&device, config()).unwrap();
    let stream = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(100, &stream).unwrap();
    // The last copy of each has an event, until it goes; what came before has none.
    let hosts: Vec<_> = (0..1500).map(|_| staging.alloc::<u8>(100).unwrap()).collect();
    for host in hosts.iter().chain(&hosts) {
        buffer.on_mut(&stream).unwrap().async_copy_from(host).unwrap();
    }
    let live = device.events().live;
    assert!((1500..1600).contains(&live), "{live} events");
    drop((hosts, staging));
    let counts = device.events();
    assert!(counts.live < 1100 && counts.spare <= counts.live, "{counts:?}");
}
