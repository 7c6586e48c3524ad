//! Shards of a whole allocator: extents are borrowed, given back and recalled while threads work
//! on them, and blocks outside spans are found and freed.

use super::caches::{SMALL, SPAN, World};
use super::explore::{Bound, Seen, explore};
use super::std::sync::Arc;
use crate::threads::{Cache, ModelThreads};

/// Leaves so many spans free.
fn leave(world: &Arc<World>, spans: u64) {
    let all = world.shared.capacity_bytes() / SMALL / SPAN;
    world.shared.allocate((all - spans) * SPAN * SMALL).unwrap();
}

/// A cache that a shard serves, which has borrowed an extent and made its words.
fn at_shard(world: &Arc<World>, shard: u32) -> Cache<ModelThreads> {
    let mut cache = world.shared.cache();
    cache.use_shard(shard);
    let block = world.allocate(&mut cache);
    world.free(&mut cache, &block);
    cache
}

/// A request for all that is left recalls a shard's extent, while a thread allocates and frees
/// there: it is served unless the thread has a block just then, and in the end it is served.
/// Every order.
#[test]
fn a_recall_against_allocation_and_free() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let (name, seen) = ("a_recall_against_allocation_and_free", [&SERVED, &REFUSED]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(2);
        leave(&world, 2);
        let mut cache = at_shard(&world, 1);
        let request = |world: &Arc<World>| {
            let all = world.shared.allocate(2 * SPAN * SMALL);
            all.inspect(|block| {
                // Wherever the shard cut its block.
                world.write(block);
                world.write_at(block.offset_bytes() + SPAN * SMALL);
            })
        };
        let (all, cache) = order.race(&world, request, move |world| {
            if let Ok(block) = cache.allocate(SMALL) {
                world.write(&block);
                world.free(&mut cache, &block);
            }
            cache
        });
        SERVED.note_if(all.is_ok());
        REFUSED.note_if(all.is_err());
        world.shared.verify().unwrap();
        if let Ok(block) = all {
            world.shared.free(block.handle()).unwrap();
        }
        assert!(world.shared.allocate(2 * SPAN * SMALL).is_ok(), "nothing is in flight any more");
        drop(cache);
        world.shared.verify().unwrap();
    });
}

/// Two threads with a shard each want a block when there is one extent left for both: both are
/// served. Every order.
#[test]
fn two_shards_and_one_extent() {
    static ONE: Seen = Seen::new("one has the extent");
    static OTHER: Seen = Seen::new("the other has the extent");
    let (name, seen) = ("two_shards_and_one_extent", [&ONE, &OTHER]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(3);
        leave(&world, 1);
        let [here, there] = [1, 2].map(|shard| {
            let cache = at_shard(&world, shard);
            world.shared.flush();
            // Back to the range.
            assert_eq!(world.shared.largest_free_bytes(), SPAN * SMALL);
            cache
        });
        let allocate = |mut cache: Cache<ModelThreads>| {
            move |world: &Arc<World>| (world.allocate(&mut cache), cache)
        };
        let ((one, here), (two, there)) = order.race(&world, allocate(here), allocate(there));
        assert_ne!(one.offset_bytes(), two.offset_bytes(), "one block for two");
        ONE.note_if(one.offset_bytes() < two.offset_bytes());
        OTHER.note_if(two.offset_bytes() < one.offset_bytes());
        world.expect_live(3);
        drop((here, there));
        world.expect_live(3);
    });
}

/// A shard that has more idle than it should gives an extent back while another borrows one, and
/// a request for a whole extent comes between. Every order.
#[test]
fn giving_back_against_borrowing() {
    static BORROWED: Seen = Seen::new("the other borrows");
    let (name, seen) = ("giving_back_against_borrowing", [&BORROWED]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(3);
        leave(&world, 1);
        let mut here = world.shared.cache();
        here.use_shard(1);
        let block = world.allocate(&mut here);
        let mut there = world.shared.cache();
        there.use_shard(2);
        let free = move |world: &Arc<World>| world.shared.free(block.handle()).unwrap();
        let (_, there) = order.race(&world, free, move |world| {
            let block = world.allocate(&mut there);
            BORROWED.note();
            world.free(&mut there, &block);
            there
        });
        world.expect_live(1);
        assert_eq!(world.shared.largest_free_bytes(), SPAN * SMALL);
        drop((here, there));
    });
}

/// A block outside spans is freed, its place allocated anew and freed by a thread that only knows
/// the offset: each block is freed once, and what is live is found. Every order.
#[test]
fn a_large_free_by_offset_against_free_and_allocation() {
    static OLD: Seen = Seen::new("the old block");
    static NEW: Seen = Seen::new("the new block");
    static NONE: Seen = Seen::new("none");
    let name = "a_large_free_by_offset_against_free_and_allocation";
    explore(name, Bound::None, &[&OLD, &NEW, &NONE], |order| {
        let world = World::new(1);
        leave(&world, 1);
        let large = SPAN * SMALL;
        let old = world.shared.allocate(large).unwrap();
        let turn = move |world: &Arc<World>| {
            (world.shared.free(old.handle()), world.shared.allocate(large).unwrap())
        };
        let ((freed, new), others) = order.race(&world, turn, move |world| {
            let handle = world.shared.block_at(old.offset_bytes())?;
            world.shared.free(handle).ok().map(|_| handle)
        });
        assert_eq!(freed.is_err(), others == Some(old.handle()), "freed once");
        OLD.note_if(others == Some(old.handle()));
        NEW.note_if(others == Some(new.handle()));
        NONE.note_if(others.is_none());
        let live = others != Some(new.handle());
        let found = world.shared.block_at(new.offset_bytes());
        assert_eq!(found, live.then_some(new.handle()), "what is live is found, and nothing else");
        world.expect_live(1 + u64::from(live));
    });
}

/// Two threads free one block outside spans, and a third thread's request waits for its place:
/// one free wins. Every order of the frees, with two preemptions.
#[test]
fn two_threads_free_one_large_block() {
    static ONE: Seen = Seen::new("one wins");
    static OTHER: Seen = Seen::new("the other wins");
    let (name, seen) = ("two_threads_free_one_large_block", [&ONE, &OTHER]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(1);
        leave(&world, 1);
        let large = SPAN * SMALL;
        let block = world.shared.allocate(large).unwrap();
        let free = move |world: &Arc<World>| world.shared.free(block.handle());
        let (freed, (others_freed, next)) = order.race(&world, free, move |world| {
            let freed = world.shared.free(block.handle());
            (freed, world.shared.allocate(large).ok())
        });
        assert!(freed.is_ok() != others_freed.is_ok(), "{freed:?}, {others_freed:?}");
        ONE.note_if(freed.is_ok());
        OTHER.note_if(others_freed.is_ok());
        assert!(next.is_some(), "one of the frees is done by then");
        world.expect_live(2);
    });
}
