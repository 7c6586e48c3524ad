//! Blocks that wait in parcels, and who takes them out.

use pool_core::Deferred;
use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
use crate::world::{PATIENT, World};

/// A block is freed by another stream than its owner's, and recorded at once, while its owner
/// takes back what is done and allocates: nothing is done, so its stream waits.
#[test]
fn a_deferred_free_against_the_owners_wait() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let name = "a_deferred_free_against_the_owners_wait";
    explore(name, Bound::Preemptions(2), &[&SERVED, &REFUSED], |order| {
        let world = World::new(1, Pacing::Idle, Deferred::AtOnce);
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        let free = move |world: &World| world.free(other, block);
        let allocate = move |world: &World| {
            world.pool.reclaim().unwrap();
            world.try_allocate(owner, 1).is_ok()
        };
        let ((), served) = order.race(&world, free, allocate);
        SERVED.note_if(served);
        REFUSED.note_if(!served);
        if !served {
            world.allocate(owner, 1);
        }
        world.finish();
    });
}

/// A block that a further stream uses is freed while memory is short, and another request meets
/// it: what it gets has waited for that use.
#[test]
fn a_free_of_a_shared_block_while_memory_is_short() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let name = "a_free_of_a_shared_block_while_memory_is_short";
    explore(name, Bound::Preemptions(2), &[&SERVED, &REFUSED], |order| {
        let world = World::short(1, Pacing::Idle, PATIENT);
        let (owner, user) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        world.write(user, block);
        world.pool.record_use(block.block.handle(), user.id).unwrap();
        let free = move |world: &World| world.free(owner, block);
        let allocate = move |world: &World| {
            world.pool.reclaim().unwrap();
            world.try_allocate(owner, 1).is_ok()
        };
        let ((), served) = order.race(&world, free, allocate);
        SERVED.note_if(served);
        REFUSED.note_if(!served);
        if !served {
            world.allocate(owner, 1);
        }
        world.finish();
    });
}

/// The same while all work is done at once: a poll that meets the free sees that it is done, or
/// leaves it for the next.
#[test]
fn a_deferred_free_against_the_poll() {
    static EARLY: Seen = Seen::new("the poll came first");
    static FREED: Seen = Seen::new("the poll freed it");
    explore("a_deferred_free_against_the_poll", Bound::None, &[&EARLY, &FREED], |order| {
        let world = World::new(1, Pacing::Eager, PATIENT);
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        let free = move |world: &World| world.free(other, block);
        let poll = move |world: &World| world.pool.reclaim().unwrap();
        let ((), reclaimed) = order.race(&world, free, poll);
        let left = world.pool.stats().deferred_bytes;
        EARLY.note_if(left > 0);
        FREED.note_if(reclaimed.freed_bytes > 0);
        world.pool.reclaim().unwrap();
        assert_eq!(world.pool.stats().deferred_bytes, 0, "what is done still waits");
        world.allocate(owner, 1);
        world.finish();
    });
}

/// Two threads take back what waits for the same streams.
#[test]
fn two_reclaims_of_one_parcel() {
    static ONE: Seen = Seen::new("one freed it");
    static OTHER: Seen = Seen::new("the other freed it");
    explore("two_reclaims_of_one_parcel", Bound::Preemptions(4), &[&ONE, &OTHER], |order| {
        let world = World::new(1, Pacing::Eager, PATIENT);
        let (owner, other) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        world.free(other, block);
        let reclaim = |world: &World| world.pool.reclaim().unwrap();
        let (one, others) = order.race(&world, reclaim, reclaim);
        ONE.note_if(one.deferred_bytes == 0 && others.freed_bytes == 0);
        OTHER.note_if(others.deferred_bytes == 0 && one.freed_bytes == 0);
        world.pool.reclaim().unwrap();
        assert_eq!(world.pool.stats().deferred_bytes, 0, "what is done still waits");
        world.finish();
    });
}
