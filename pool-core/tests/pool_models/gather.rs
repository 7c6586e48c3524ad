//! Memory of several streams that is put together in the hub.

use pool_mock::device::Pacing;

use crate::explore::{Preemptions, Seen, explore};
use crate::world::{Held, PATIENT, Stream, World};

/// Uses and frees a block, and has all free memory put together.
fn free_and_gather(world: &World, on: Stream, block: Held) {
    world.free(on, block);
    world.pool.trim(u64::MAX).unwrap();
}

/// Two threads put free memory together, a part of which was freed between their fences: whoever
/// gets it waits for the later one, in whichever order they arrive.
#[test]
fn a_gather_against_a_free_and_another_gather() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let name = "a_gather_against_a_free_and_another_gather";
    explore(name, Preemptions(2), &[&SERVED, &REFUSED], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let (first, second) = (world.allocate(old, 1), world.allocate(old, 1));
        world.free(old, first);
        let gather = move |world: World| world.try_allocate(new, 2).is_ok();
        let free = move |world: World| free_and_gather(&world, old, second);
        let (served, ()) = order.race(world.clone(), gather, free);
        SERVED.note_if(served);
        REFUSED.note_if(!served);
        if !served {
            world.allocate(new, 2);
        }
        world.finish();
    });
}

/// A stream waits for what is in the hub while more comes there behind a later fence.
#[test]
fn a_join_against_a_gather() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    explore("a_join_against_a_gather", Preemptions(2), &[&SERVED, &REFUSED], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let (first, second) = (world.allocate(old, 1), world.allocate(old, 1));
        free_and_gather(&world, old, first);
        let join = move |world: World| world.try_allocate(new, 2).is_ok();
        let free = move |world: World| free_and_gather(&world, old, second);
        let (served, ()) = order.race(world.clone(), join, free);
        SERVED.note_if(served);
        REFUSED.note_if(!served);
        if !served {
            world.allocate(new, 2);
        }
        world.finish();
    });
}
