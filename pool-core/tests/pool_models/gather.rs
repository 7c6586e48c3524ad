//! Memory of several streams that is put together in the hub.

use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
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
    explore(name, Bound::Preemptions(2), &[&SERVED, &REFUSED], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let (first, second) = (world.allocate(old, 1), world.allocate(old, 1));
        world.free(old, first);
        let gather = move |world: &World| world.try_allocate(new, 2).is_ok();
        let free = move |world: &World| free_and_gather(&world, old, second);
        let (served, ()) = order.race(&world, gather, free);
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
    explore("a_join_against_a_gather", Bound::Preemptions(2), &[&SERVED, &REFUSED], |order| {
        let world = World::short(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let (first, second) = (world.allocate(old, 1), world.allocate(old, 1));
        free_and_gather(&world, old, first);
        let join = move |world: &World| world.try_allocate(new, 2).is_ok();
        let free = move |world: &World| free_and_gather(&world, old, second);
        let (served, ()) = order.race(&world, join, free);
        SERVED.note_if(served);
        REFUSED.note_if(!served);
        if !served {
            world.allocate(new, 2);
        }
        world.finish();
    });
}

/// Two threads take common memory for one stream: neither has it before their stream waits.
#[test]
fn two_joins_of_one_stream() {
    static ONE: Seen = Seen::new("one wait");
    static TWO: Seen = Seen::new("two waits");
    explore("two_joins_of_one_stream", Bound::Preemptions(3), &[&ONE, &TWO], |order| {
        let world = World::short(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let block = world.allocate(old, 2);
        free_and_gather(&world, old, block);
        let allocate = move |world: &World| world.allocate(new, 1);
        let (one, other) = order.race(&world, allocate, allocate);
        assert_ne!(one.block.offset_bytes(), other.block.offset_bytes(), "one block for two");
        let waits = world.pool.stats().calls.device_waits;
        ONE.note_if(waits == 1);
        TWO.note_if(waits == 2);
        world.finish();
    });
}

/// Free memory is put together while a stream is made, and with it its space: what is free beside a
/// live block is one piece with it again once that is freed.
#[test]
fn a_gather_against_a_new_stream() {
    static SERVED: Seen = Seen::new("served");
    explore("a_gather_against_a_new_stream", Bound::Preemptions(2), &[&SERVED], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let old = world.stream();
        let (first, second) = (world.allocate(old, 1), world.allocate(old, 1));
        world.free(old, second);
        let make = move |world: &World| {
            let new = world.stream();
            let served = world.try_allocate(new, 1);
            served.map(|block| world.free(new, block)).is_ok()
        };
        let gather = move |world: &World| world.pool.trim(u64::MAX).unwrap();
        let (served, _) = order.race(&world, make, gather);
        SERVED.note_if(served);
        world.free(old, first);
        let whole = world.allocate(old, 2);
        world.free(old, whole);
        world.finish();
    });
}
