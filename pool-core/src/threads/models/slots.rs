//! The slots of a cache: a block is taken out once, by the cache or by a flush, and whoever takes
//! it sees what was done to its memory before.

use super::explore::{Bound, Seen, explore, spawn};
use super::memory::{Memory, memories};
use super::std::boxed::Box;
use super::std::sync::Arc;
use super::std::vec::Vec;
use crate::range::{Handle, Shape, Slot};
use crate::threads::classes::{CLASS_SHARE, Classes};
use crate::threads::stock::Stock;

/// The stock of a cache, and the memory of all blocks.
struct World {
    stock: Stock,
    memories: Box<[Memory]>,
}

impl World {
    /// With so many blocks in the first slots.
    fn new(blocks: u32) -> Arc<Self> {
        let shape = Shape { granule_shift: 8, capacity: 64, span_granules: 64, small_granules: 1 };
        let classes = Classes::new(&shape, 4 * 256 * CLASS_SHARE);
        assert_eq!(classes.count(), 1);
        let world = Self { stock: Stock::new(&classes), memories: memories(4) };
        (0..blocks).for_each(|block| world.put(block as usize, block));
        Arc::new(world)
    }

    /// Uses a block and puts it into a slot.
    fn put(&self, slot: usize, block: u32) {
        self.memories[block as usize].write();
        self.stock.put(0, slot, Handle::with_bits(Slot::Granule(block), 1));
    }

    /// Takes a block out, as the cache does, and uses it.
    fn take(&self, slot: usize) -> Option<u32> {
        self.stock.take(0, slot).map(|handle| self.use_block(handle))
    }

    /// Takes the first blocks out, as a cache does that passes them on, and uses them.
    fn take_many(&self, count: usize) -> Vec<u32> {
        self.stock.take_many(0, 0..count).into_iter().map(|handle| self.use_block(handle)).collect()
    }

    /// Takes all blocks out, as a flush does, and uses them.
    fn take_all(&self) -> Vec<u32> {
        self.stock.steal(0).into_iter().map(|handle| self.use_block(handle)).collect()
    }

    fn use_block(&self, handle: Handle) -> u32 {
        let block = handle.slot().index();
        self.memories[block as usize].write();
        block
    }

    /// That the blocks that are left and those taken are so many, each once.
    fn expect(&self, blocks: u32, taken: impl IntoIterator<Item = u32>) {
        let mut found = self.take_all();
        found.extend(taken);
        found.sort_unstable();
        assert!(found.iter().copied().eq(0..blocks), "lost or doubled: {found:?}");
    }
}

/// A cache takes its last block while a flush takes all: one of them has it. Every order.
#[test]
fn a_take_against_a_flush() {
    static CACHE: Seen = Seen::new("the cache has it");
    static FLUSH: Seen = Seen::new("the flush has it");
    explore("a_take_against_a_flush", Bound::None, &[&CACHE, &FLUSH], |order| {
        let world = World::new(1);
        let (mine, flushed) = order.race(&world, |world| world.take(0), |world| world.take_all());
        CACHE.note_if(mine.is_some());
        FLUSH.note_if(!flushed.is_empty());
        world.expect(1, flushed.into_iter().chain(mine));
    });
}

/// A cache frees a block into a slot while a flush looks there: it takes it or leaves it, and
/// sees the use before. Every order.
#[test]
fn a_put_against_a_flush() {
    static TAKEN: Seen = Seen::new("taken");
    static LEFT: Seen = Seen::new("left");
    explore("a_put_against_a_flush", Bound::None, &[&TAKEN, &LEFT], |order| {
        let world = World::new(0);
        let ((), flushed) = order.race(&world, |world| world.put(0, 0), |world| world.take_all());
        TAKEN.note_if(!flushed.is_empty());
        LEFT.note_if(flushed.is_empty());
        world.expect(1, flushed);
    });
}

/// Two threads flush one cache: each block is taken once, and one of them may find the other at
/// it. Every order.
#[test]
fn a_flush_against_a_flush() {
    static ONE: Seen = Seen::new("one has both");
    static OTHER: Seen = Seen::new("the other has both");
    explore("a_flush_against_a_flush", Bound::None, &[&ONE, &OTHER], |order| {
        let world = World::new(2);
        let (mine, others) = order.race(&world, |world| world.take_all(), |world| world.take_all());
        ONE.note_if(mine.len() == 2);
        OTHER.note_if(others.len() == 2);
        world.expect(2, mine.into_iter().chain(others));
    });
}

/// A cache passes its blocks on while a flush takes all: each goes with one of them. Every order.
#[test]
fn blocks_passed_on_against_a_flush() {
    static CACHE: Seen = Seen::new("the cache has both");
    static FLUSH: Seen = Seen::new("the flush has both");
    static SHARED: Seen = Seen::new("each has one");
    let (name, seen) = ("blocks_passed_on_against_a_flush", [&CACHE, &FLUSH, &SHARED]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(2);
        let (passed, flushed) =
            order.race(&world, |world| world.take_many(2), |world| world.take_all());
        [&FLUSH, &SHARED, &CACHE][passed.len()].note();
        world.expect(2, passed.into_iter().chain(flushed));
    });
}

/// A cache passes its blocks on, frees another into the first slot, and takes it again, while a
/// flush takes all: the flush sees what was done to a block before. Every order.
#[test]
fn a_bin_that_is_filled_again_against_a_flush() {
    static AGAIN: Seen = Seen::new("the flush has what was put in again");
    static KEPT: Seen = Seen::new("the cache has it");
    let (name, seen) = ("a_bin_that_is_filled_again_against_a_flush", [&AGAIN, &KEPT]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(2);
        let turn = |world: &Arc<World>| {
            let mut taken = world.take_many(2);
            world.put(0, 2);
            let again = world.take(0);
            taken.extend(again);
            (taken, again.is_some())
        };
        let ((taken, again), flushed) = order.race(&world, turn, |world| world.take_all());
        AGAIN.note_if(!again);
        KEPT.note_if(again);
        world.expect(3, taken.into_iter().chain(flushed));
    });
}

/// A cache takes two blocks, and frees them and a third into the slots that it emptied, while two
/// threads flush it. Three preemptions: with three threads every order is too many.
#[test]
fn slots_that_are_used_again_against_two_flushes() {
    static NONE: Seen = Seen::new("the cache kept all");
    static AGAIN: Seen = Seen::new("a flush took what was put in again");
    let (name, seen) = ("slots_that_are_used_again_against_two_flushes", [&NONE, &AGAIN]);
    explore(name, Bound::Preemptions(3), &seen, |order| {
        let world = World::new(2);
        let third = world.clone();
        let third = spawn(move || third.take_all());
        let cache = |world: &Arc<World>| {
            let taken: Vec<u32> = [1, 0].into_iter().filter_map(|slot| world.take(slot)).collect();
            let kept = taken.len();
            let blocks = taken.into_iter().chain([2]);
            blocks.enumerate().for_each(|(slot, block)| world.put(slot, block));
            kept
        };
        let (kept, mut flushed) = order.race(&world, cache, |world| world.take_all());
        flushed.extend(third.join().unwrap());
        NONE.note_if(flushed.is_empty());
        AGAIN.note_if(kept == 2 && !flushed.is_empty());
        world.expect(3, flushed);
    });
}
