//! Memory that goes from one stream straight to another.

use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
use crate::world::{PATIENT, World};

/// A stream frees a block, whose memory another takes from it: behind a fence of all that came
/// before the free.
#[test]
fn a_steal_against_a_free_on_the_old_stream() {
    static STOLEN: Seen = Seen::new("stolen");
    static REFUSED: Seen = Seen::new("refused");
    let name = "a_steal_against_a_free_on_the_old_stream";
    explore(name, Bound::None, &[&STOLEN, &REFUSED], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let block = world.allocate(old, 1);
        let free = move |world: World| world.free(old, block);
        let steal = move |world: World| world.try_allocate(new, 1).is_ok();
        let ((), stolen) = order.race(world.clone(), free, steal);
        STOLEN.note_if(stolen);
        REFUSED.note_if(!stolen);
        if !stolen {
            world.allocate(new, 1);
        }
        world.finish();
    });
}

/// Two threads allocate for one stream that has nothing, so that one of them takes memory of
/// another stream: the other thread does not get it before their stream waits for it.
#[test]
fn a_steal_against_an_allocation_on_the_new_stream() {
    static ONE: Seen = Seen::new("one steal");
    static TWO: Seen = Seen::new("two steals");
    let name = "a_steal_against_an_allocation_on_the_new_stream";
    explore(name, Bound::Preemptions(3), &[&ONE, &TWO], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let block = world.allocate(old, 2);
        world.free(old, block);
        let allocate = move |world: World| world.allocate(new, 1);
        let (one, other) = order.race(world.clone(), allocate, allocate);
        assert_ne!(one.block.offset_bytes(), other.block.offset_bytes(), "one block for two");
        let steals = world.pool.stats().steals;
        ONE.note_if(steals == 1);
        TWO.note_if(steals == 2);
        world.finish();
    });
}
