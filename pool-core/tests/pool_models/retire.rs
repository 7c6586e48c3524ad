//! Streams that are retired while others' calls are about them.

use pool_mock::device::Pacing;

use crate::explore::{Bound, Order, Seen, explore};
use crate::world::{PATIENT, World};

/// A stream with free memory is retired, and what is done is taken back, while another stream
/// takes the memory. Whether the other got it, and whether it had to wait.
fn retire_against_steal(order: Order, world: World) -> (bool, bool) {
    let (old, new) = (world.stream(), world.stream());
    let block = world.allocate(old, 1);
    world.free(old, block);
    let retire = move |world: &World| {
        world.pool.retire(old.id).unwrap();
        world.pool.reclaim().unwrap();
    };
    let steal = move |world: &World| world.try_allocate(new, 1).is_ok();
    let ((), served) = order.race(&world, retire, steal);
    if !served {
        world.allocate(new, 1);
    }
    let waited = world.pool.stats().calls.device_waits > 0;
    world.finish();
    (served, waited)
}

/// Before the stream's work is done.
#[test]
fn a_retirement_against_a_steal() {
    static STOLEN: Seen = Seen::new("stolen");
    explore("a_retirement_against_a_steal", Bound::Preemptions(3), &[&STOLEN], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (served, waited) = retire_against_steal(order, world);
        STOLEN.note_if(served && waited);
    });
}

/// With work that is done at once, so that the space is soon nobody's.
#[test]
fn a_retirement_and_its_end_against_a_steal() {
    static STOLEN: Seen = Seen::new("stolen");
    static CLEAN: Seen = Seen::new("clean by then");
    let name = "a_retirement_and_its_end_against_a_steal";
    explore(name, Bound::Preemptions(3), &[&STOLEN, &CLEAN], |order| {
        let world = World::new(1, Pacing::Eager, PATIENT);
        let (served, waited) = retire_against_steal(order, world);
        STOLEN.note_if(served && waited);
        CLEAN.note_if(served && !waited);
    });
}

/// The same while memory is short.
#[test]
fn a_retirement_against_a_request_while_memory_is_short() {
    static STOLEN: Seen = Seen::new("waited for");
    static CLEAN: Seen = Seen::new("clean by then");
    let name = "a_retirement_against_a_request_while_memory_is_short";
    explore(name, Bound::Preemptions(3), &[&STOLEN, &CLEAN], |order| {
        let world = World::short(1, Pacing::Eager, PATIENT);
        let (served, waited) = retire_against_steal(order, world);
        STOLEN.note_if(served && waited);
        CLEAN.note_if(served && !waited);
    });
}

/// A block waits for a stream that is retired while another thread records what is waited for:
/// it is free once the stream's work is done, not before, and not never.
#[test]
fn a_retirement_against_the_close_of_a_parcel() {
    static EARLY: Seen = Seen::new("one record, of the retirement");
    static LATE: Seen = Seen::new("one more before");
    let name = "a_retirement_against_the_close_of_a_parcel";
    explore(name, Bound::Preemptions(4), &[&EARLY, &LATE], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        world.free(other, block);
        let close = move |world: &World| world.pool.reclaim().unwrap();
        let retire = move |world: &World| world.pool.retire(other.id).unwrap();
        let (_, ()) = order.race(&world, close, retire);
        let records = world.pool.stats().calls.records;
        EARLY.note_if(records == 1);
        LATE.note_if(records > 1);
        world.allocate(owner, 1);
        world.finish();
    });
}

/// A block that a stream used is freed by its owner while that stream is retired.
#[test]
fn a_retirement_against_the_free_of_what_it_used() {
    static EARLY: Seen = Seen::new("the owner waits for the retired stream");
    let name = "a_retirement_against_the_free_of_what_it_used";
    explore(name, Bound::None, &[&EARLY], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (owner, user) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        world.write(user, block);
        world.pool.record_use(block.block.handle(), user.id).unwrap();
        let free = move |world: &World| world.free(owner, block);
        let retire = move |world: &World| world.pool.retire(user.id).unwrap();
        let ((), ()) = order.race(&world, free, retire);
        world.allocate(owner, 1);
        EARLY.note_if(world.pool.stats().calls.device_waits > 0);
        world.finish();
    });
}
