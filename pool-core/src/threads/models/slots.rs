//! The slots of a cache: a block is taken out once, by the cache or by a flush, and whoever takes
//! it sees what was done to its memory before. Each model is there twice, for a cache that makes an
//! exchange and for one with uneven fences.

use super::explore::{Bound, Order, Seen, explore, spawn};
use super::memory::{Memory, memories};
use super::std::boxed::Box;
use super::std::sync::Arc;
use super::std::vec::Vec;
use crate::range::{Handle, Shape, Slot};
use crate::sync::UnevenFences;
use crate::threads::classes::{CLASS_SHARE, Classes};
use crate::threads::stock::{Stock, steal_all};

/// The stock of a cache, and the memory of all blocks.
struct World {
    stock: Arc<Stock>,
    memories: Box<[Memory]>,
}

impl World {
    /// With so many blocks in the first slots.
    fn new(blocks: u32, fences: Fences) -> Arc<Self> {
        let shape = Shape { granule_shift: 8, capacity: 64, span_granules: 64, small_granules: 1 };
        let classes = Classes::new(&shape, 4 * 256 * CLASS_SHARE);
        assert_eq!(classes.count(), 1);
        let world = Self { stock: Arc::new(Stock::new(&classes, fences)), memories: memories(4) };
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
        let mut taken = Vec::new();
        steal_all(core::slice::from_ref(&self.stock), |blocks| {
            taken.extend(blocks.into_iter().map(|handle| self.use_block(handle)));
        });
        taken
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

type Fences = Option<UnevenFences>;

/// Uneven fences, which are even for the checker.
const UNEVEN: Fences = Some(UnevenFences::new(|| {}));

/// Makes of a scenario one model with exchanges and one with uneven fences.
macro_rules! both {
    ($scenario:ident: $exchange:ident, $uneven:ident, $bound:expr, [$($seen:ident = $what:literal),*]) => {
        #[test]
        fn $exchange() {
            $(static $seen: Seen = Seen::new($what);)*
            explore(stringify!($exchange), $bound, &[$(&$seen),*], |order| {
                $scenario(order, None, [$(&$seen),*]);
            });
        }

        #[test]
        fn $uneven() {
            $(static $seen: Seen = Seen::new($what);)*
            explore(stringify!($uneven), $bound, &[$(&$seen),*], |order| {
                $scenario(order, UNEVEN, [$(&$seen),*]);
            });
        }
    };
}

both!(take_against_flush: a_take_against_a_flush, an_uneven_take_against_a_flush,
    Bound::None, [CACHE = "the cache has it", FLUSH = "the flush has it"]);

/// A cache takes its last block while a flush takes all: one of them has it. Every order.
fn take_against_flush(order: Order, fences: Fences, [cache, flush]: [&Seen; 2]) {
    let world = World::new(1, fences);
    let (mine, flushed) = order.race(&world, |world| world.take(0), |world| world.take_all());
    cache.note_if(mine.is_some());
    flush.note_if(!flushed.is_empty());
    world.expect(1, flushed.into_iter().chain(mine));
}

both!(put_against_flush: a_put_against_a_flush, an_uneven_put_against_a_flush,
    Bound::None, [TAKEN = "taken", LEFT = "left"]);

/// A cache frees a block into a slot while a flush looks there: it takes it or leaves it, and
/// sees the use before. Every order.
fn put_against_flush(order: Order, fences: Fences, [taken, left]: [&Seen; 2]) {
    let world = World::new(0, fences);
    let ((), flushed) = order.race(&world, |world| world.put(0, 0), |world| world.take_all());
    taken.note_if(!flushed.is_empty());
    left.note_if(flushed.is_empty());
    world.expect(1, flushed);
}

both!(flush_against_flush: a_flush_against_a_flush, an_uneven_flush_against_a_flush,
    Bound::None, [ONE = "one has both", OTHER = "the other has both"]);

/// Two threads flush one cache: each block is taken once, and one of them may find the other at
/// it. Every order.
fn flush_against_flush(order: Order, fences: Fences, [one, other]: [&Seen; 2]) {
    let world = World::new(2, fences);
    let (mine, others) = order.race(&world, |world| world.take_all(), |world| world.take_all());
    one.note_if(mine.len() == 2);
    other.note_if(others.len() == 2);
    world.expect(2, mine.into_iter().chain(others));
}

both!(pass_on_against_flush: blocks_passed_on_against_a_flush, blocks_passed_on_against_an_uneven_flush,
    Bound::None, [CACHE = "the cache has both", FLUSH = "the flush has both"]);

/// A cache passes its blocks on while a flush takes all: each goes with one of them. Every order.
fn pass_on_against_flush(order: Order, fences: Fences, [cache, flush]: [&Seen; 2]) {
    let world = World::new(2, fences);
    let (passed, flushed) =
        order.race(&world, |world| world.take_many(2), |world| world.take_all());
    cache.note_if(passed.len() == 2);
    flush.note_if(flushed.len() == 2);
    world.expect(2, passed.into_iter().chain(flushed));
}

both!(refill_against_flush: a_bin_that_is_filled_again_against_a_flush,
    an_uneven_bin_that_is_filled_again_against_a_flush,
    Bound::None, [AGAIN = "the flush has what was put in again", KEPT = "the cache has it"]);

/// A cache passes its blocks on, frees another into the first slot, and takes it again, while a
/// flush takes all: the flush sees what was done to a block before. Every order.
fn refill_against_flush(order: Order, fences: Fences, [flushed_again, kept]: [&Seen; 2]) {
    let world = World::new(2, fences);
    let turn = |world: &Arc<World>| {
        let mut taken = world.take_many(2);
        world.put(0, 2);
        let again = world.take(0);
        taken.extend(again);
        (taken, again.is_some())
    };
    let ((taken, again), flushed) = order.race(&world, turn, |world| world.take_all());
    flushed_again.note_if(!again);
    kept.note_if(again);
    world.expect(3, taken.into_iter().chain(flushed));
}

both!(pairs_against_flush: blocks_taken_and_put_again_against_a_flush,
    blocks_taken_and_put_again_against_an_uneven_flush,
    Bound::None, [NONE = "the cache kept both", ONE = "each has one", FLUSH = "the flush has both"]);

/// A cache takes a block, frees it again and takes the next two, while a flush takes all. Every
/// order.
fn pairs_against_flush(order: Order, fences: Fences, [none, one, flush]: [&Seen; 3]) {
    let world = World::new(2, fences);
    let turn = |world: &Arc<World>| {
        if let Some(block) = world.take(1) {
            world.put(1, block);
        }
        [1, 0].into_iter().filter_map(|slot| world.take(slot)).collect::<Vec<_>>()
    };
    let (taken, flushed) = order.race(&world, turn, |world| world.take_all());
    [none, one, flush][flushed.len()].note();
    world.expect(2, taken.into_iter().chain(flushed));
}

both!(reuse_against_two_flushes: slots_that_are_used_again_against_two_flushes,
    slots_that_are_used_again_against_two_uneven_flushes,
    Bound::Preemptions(3),
    [NONE = "the cache kept all", AGAIN = "a flush took what was put in again"]);

/// A cache takes a block, and frees it and another into the slot that it emptied and the next, while two
/// threads flush it. Three preemptions: with three threads every order is too many.
fn reuse_against_two_flushes(order: Order, fences: Fences, [none, again]: [&Seen; 2]) {
    let world = World::new(1, fences);
    let third = world.clone();
    let third = spawn(move || third.take_all());
    let cache = |world: &Arc<World>| {
        let taken = world.take(0);
        let blocks = taken.into_iter().chain([1]);
        blocks.enumerate().for_each(|(slot, block)| world.put(slot, block));
        taken.is_some()
    };
    let (kept, mut flushed) = order.race(&world, cache, |world| world.take_all());
    flushed.extend(third.join().unwrap());
    none.note_if(flushed.is_empty());
    again.note_if(kept && flushed.contains(&0));
    world.expect(2, flushed);
}
