//! Events that nobody ends.

use crate::raw;
use crate::run::Test;
use crate::world::World;

pub(crate) const TESTS: &[Test] = crate::tests![p100_events_are_bounded_and_end];

fn p100_events_are_bounded_and_end(world: &World) {
    let pool = world.pool();
    let device = pool.device().clone();
    let [one, other] = [(); 2].map(|()| pool.create_stream().unwrap());
    let foreign = world.pool().create_stream().unwrap();
    let per_thread = pool.per_thread_stream();
    let mut most = 0;
    for round in 0..world.times(3_000, 200_000) {
        let home = if round % 7 == 0 { &per_thread } else { &one };
        let mut buffer = pool.alloc::<u8>(1000, home).unwrap();
        let side = if round % 5 == 0 { &foreign } else { &other };
        buffer.on_mut(side).unwrap();
        drop(buffer);
        if round % 512 == 0 {
            raw::synchronize(&device);
        }
        most = most.max(device.events().live);
    }
    assert!(most < 2048, "{most} events");
    drop((one, other, foreign, per_thread, pool));
    let counts = device.events();
    assert_eq!(counts.live, counts.spare, "all are given back");
}
