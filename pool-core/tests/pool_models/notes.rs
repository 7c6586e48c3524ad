//! What is noted of a block while it is freed.

use pool_mock::device::Pacing;

use crate::explore::{Bound, Seen, explore};
use crate::world::{PATIENT, World};

/// Two threads free a block that a further stream uses: one of them does, and its memory waits
/// for that use whichever it is.
#[test]
fn two_frees_of_a_block_with_a_further_use() {
    static ONE: Seen = Seen::new("one frees it");
    static OTHER: Seen = Seen::new("the other frees it");
    let name = "two_frees_of_a_block_with_a_further_use";
    explore(name, Bound::None, &[&ONE, &OTHER], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (owner, user) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        world.write(user, block);
        let handle = block.block.handle();
        world.pool.record_use(handle, user.id).unwrap();
        let free = move |world: &World| world.pool.free_on(owner.id, handle).is_ok();
        let (one, other) = order.race(&world, free, free);
        assert!(one != other, "one frees it and the other is told: {one}, {other}");
        ONE.note_if(one);
        OTHER.note_if(other);
        world.allocate(owner, 1);
        world.finish();
    });
}

/// A use is noted on a block that another thread frees, on no stream: it is noted or the block is
/// gone, and no note is left on a block that is.
#[test]
fn a_use_against_a_free() {
    static NOTED: Seen = Seen::new("noted");
    static GONE: Seen = Seen::new("gone");
    explore("a_use_against_a_free", Bound::None, &[&NOTED, &GONE], |order| {
        let world = World::new(1, Pacing::Idle, PATIENT);
        let (owner, user) = (world.stream(), world.stream());
        let block = world.allocate(owner, 1);
        let handle = block.block.handle();
        let note = move |world: &World| world.pool.record_use(handle, user.id).is_ok();
        let free = move |world: &World| world.pool.free(handle).unwrap();
        let (noted, _) = order.race(&world, note, free);
        NOTED.note_if(noted);
        GONE.note_if(!noted);
        world.allocate(owner, 1);
        world.finish();
    });
}
