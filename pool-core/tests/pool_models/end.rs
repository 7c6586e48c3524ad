//! The end of a pool.

use pool_core::Deferred;
use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
use crate::world::World;

/// A thread frees a block by another stream than its owner's, one takes back what is done, and
/// whichever comes last ends the pool: it gives everything back, behind all work.
#[test]
fn the_end_of_a_pool_against_a_reclaim() {
    static HERE: Seen = Seen::new("ended by the free");
    static THERE: Seen = Seen::new("ended by the reclaim");
    let name = "the_end_of_a_pool_against_a_reclaim";
    explore(name, Bound::Preemptions(4), &[&HERE, &THERE], |order| {
        let world = World::new(1, Pacing::Idle, Deferred::AtOnce);
        let device = world.device.clone();
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        let end = |World { pool, device, .. }: World| {
            drop(pool);
            device.balance().is_zero()
        };
        let free = move |world: World| {
            world.free(other, block);
            world.turn();
            end(world)
        };
        let reclaim = move |world: World| {
            world.pool.reclaim().unwrap();
            world.turn();
            end(world)
        };
        let (here, there) = order.race_for(world, free, reclaim);
        HERE.note_if(here && !there);
        THERE.note_if(there && !here);
        device.assert_clean();
        let balance = device.balance();
        assert!(balance.is_zero(), "left on the device: {balance:?}");
    });
}
