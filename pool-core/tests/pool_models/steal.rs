//! Memory that goes from one stream straight to another.

use pool_mock::device::Pacing;

use crate::explore::{Bound, Order, Seen, explore};
use crate::world::{PATIENT, World};

/// A stream frees a block, whose memory another takes from it: behind a fence of all that came
/// before the free. Whether it was there in time.
fn a_free_and_a_taker(order: Order, world: World) -> bool {
    let (old, new) = (world.stream(), world.stream());
    let block = world.allocate(old, 1);
    let free = move |world: &World| world.free(old, block);
    let steal = move |world: &World| world.try_allocate(new, 1).is_ok();
    let ((), stolen) = order.race(&world, free, steal);
    if !stolen {
        world.allocate(new, 1);
    }
    world.finish();
    stolen
}

/// The two, each of which has its own memory.
#[test]
fn a_steal_against_a_free_on_the_old_stream() {
    static STOLEN: Seen = Seen::new("stolen");
    static REFUSED: Seen = Seen::new("refused");
    let name = "a_steal_against_a_free_on_the_old_stream";
    explore(name, Bound::Preemptions(3), &[&STOLEN, &REFUSED], |order| {
        let stolen = a_free_and_a_taker(order, World::new(1, Pacing::Idle, PATIENT));
        STOLEN.note_if(stolen);
        REFUSED.note_if(!stolen);
    });
}

/// The two while memory is short.
#[test]
fn a_request_against_a_free_while_memory_is_short() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let name = "a_request_against_a_free_while_memory_is_short";
    explore(name, Bound::Preemptions(3), &[&SERVED, &REFUSED], |order| {
        let served = a_free_and_a_taker(order, World::short(1, Pacing::Idle, PATIENT));
        SERVED.note_if(served);
        REFUSED.note_if(!served);
    });
}

/// Two threads allocate for one stream that has nothing, so that one of them takes memory of
/// another stream: the other thread does not get it before their stream waits for it. How often
/// it waited. A request that met the memory in the other's hands is made again.
fn two_takers(order: Order, world: World) -> u64 {
    let (old, new) = (world.stream(), world.stream());
    let block = world.allocate(old, 2);
    world.free(old, block);
    let allocate = move |world: &World| world.try_allocate(new, 1).ok();
    let (one, other) = order.race(&world, allocate, allocate);
    let [one, other] = [one, other].map(|held| held.unwrap_or_else(|| world.allocate(new, 1)));
    assert_ne!(one.block.offset_bytes(), other.block.offset_bytes(), "one block for two");
    let waits = world.pool.stats().calls.device_waits;
    world.finish();
    waits
}

/// The two, where each stream has its own memory.
#[test]
fn a_steal_against_an_allocation_on_the_new_stream() {
    static WAITED: Seen = Seen::new("each waited");
    let name = "a_steal_against_an_allocation_on_the_new_stream";
    explore(name, Bound::Preemptions(2), &[&WAITED], |order| {
        let waits = two_takers(order, World::new(2, Pacing::Idle, PATIENT));
        WAITED.note_if(waits == 2);
    });
}

/// The two while memory is short.
#[test]
fn two_requests_on_one_stream_while_memory_is_short() {
    static ONE: Seen = Seen::new("one wait");
    static TWO: Seen = Seen::new("two waits");
    let name = "two_requests_on_one_stream_while_memory_is_short";
    explore(name, Bound::Preemptions(3), &[&ONE, &TWO], |order| {
        let waits = two_takers(order, World::short(2, Pacing::Idle, PATIENT));
        ONE.note_if(waits == 1);
        TWO.note_if(waits == 2);
    });
}

/// A stream takes memory of another one twice, while that one frees more: what was waited for the
/// first time is not behind what is freed later.
#[test]
fn a_second_steal_against_a_free() {
    static BOTH: Seen = Seen::new("both served");
    static REFUSED: Seen = Seen::new("one refused");
    explore("a_second_steal_against_a_free", Bound::Preemptions(2), &[&BOTH, &REFUSED], |order| {
        let world = World::new(2, Pacing::Idle, PATIENT);
        let (old, new) = (world.stream(), world.stream());
        let [first, second] = [(); 2].map(|()| world.allocate(old, 1));
        world.free(old, first);
        let free = move |world: &World| world.free(old, second);
        let steal = move |world: &World| {
            let served = [(); 2].map(|()| world.try_allocate(new, 1).is_ok());
            served == [true; 2]
        };
        let ((), both) = order.race(&world, free, steal);
        BOTH.note_if(both);
        REFUSED.note_if(!both);
        world.finish();
    });
}
