//! Caches of a whole allocator with one shard: frees on other threads, flushes, ends of threads,
//! refusals. Every block has a memory, which its holder uses: two holders at once, or a hand-over
//! that orders nothing, are races.

use super::explore::{Bound, Seen, explore};
use super::memory::{Memory, memories};
use super::std::boxed::Box;
use super::std::sync::Arc;
use crate::range::{Block, HandleError, RangeConfig, Spans};
use crate::threads::classes::CLASS_SHARE;
use crate::threads::{Cache, ModelThreads, Owner, SharedAllocator, SharedConfig};

/// A block that caches keep: one granule, the only class.
pub(super) const SMALL: u64 = 256;
/// Granules of a span and of the range, which is large enough for a depot of two magazines.
pub(super) const SPAN: u64 = 64;
const GRANULES: u64 = 512;

/// Small blocks that a cache keeps; a magazine has one.
const DEPTH: usize = 2;

/// An allocator, and the memory of every granule.
pub(super) struct World {
    pub(super) shared: SharedAllocator<ModelThreads>,
    memories: Box<[Memory]>,
}

impl World {
    /// With so many shards, and caches that keep little.
    pub(super) fn new(shards: u32) -> Arc<Self> {
        let spans = Spans::Sized { span_bytes: SPAN * SMALL, small_bytes: SMALL };
        let range = RangeConfig::new(GRANULES * SMALL).spans(spans);
        let cache_bytes = DEPTH as u64 * SMALL * CLASS_SHARE;
        let config = SharedConfig::new(range).shards(shards).cache_bytes(cache_bytes);
        let shared = SharedAllocator::on_platform(config).unwrap();
        let classes = shared.inner().classes;
        assert_eq!((classes.depth(0), classes.magazine_len(0)), (DEPTH, 1));
        Arc::new(Self { shared, memories: memories(GRANULES as usize) })
    }

    /// With no more free than so many small blocks, all in one span; the words of that span are
    /// made.
    fn nearly_full(small: u64) -> Arc<Self> {
        let world = Self::new(1);
        let mut cache = world.shared.cache();
        world.shared.allocate((GRANULES - SPAN) * SMALL).unwrap();
        for _ in 0..SPAN - small {
            cache.allocate(SMALL).unwrap();
        }
        cache.flush();
        assert_eq!(world.shared.stats().free_bytes, small * SMALL);
        world
    }

    /// Uses the first granule of a block.
    pub(super) fn write(&self, block: &Block) {
        self.write_at(block.offset_bytes());
    }

    pub(super) fn write_at(&self, offset_bytes: u64) {
        self.memories[(offset_bytes / SMALL) as usize].write();
    }

    pub(super) fn allocate(&self, cache: &mut Cache<ModelThreads>) -> Block {
        let block = cache.allocate(SMALL).expect("there is room");
        self.write(&block);
        block
    }

    pub(super) fn free(&self, cache: &mut Cache<ModelThreads>, block: &Block) {
        self.write(block);
        assert_eq!(cache.free(block.handle()), Ok(*block));
    }

    /// That the books are right, and after a flush nothing is kept but so many live blocks.
    pub(super) fn expect_live(&self, blocks: u64) {
        self.shared.verify().unwrap();
        self.shared.flush();
        self.shared.verify().unwrap();
        let stats = self.shared.stats();
        assert_eq!((stats.live_blocks, stats.cached_blocks), (blocks, 0), "something is kept");
    }
}

/// A block goes from the cache that frees it through the depot to the cache that it once came
/// from, which allocates at the same time. Every order.
#[test]
fn remote_frees_against_the_owners_allocation() {
    static CAME: Seen = Seen::new("the block came back");
    static OTHER: Seen = Seen::new("another block");
    let (name, seen) = ("remote_frees_against_the_owners_allocation", [&CAME, &OTHER]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(1);
        let (mut here, mut there) = (world.shared.cache(), world.shared.cache());
        let blocks = [(); DEPTH + 1].map(|()| world.allocate(&mut here));
        // What else was cached would be found first.
        here.flush();
        let allocate = move |world: &Arc<World>| (world.allocate(&mut here), here);
        let ((block, here), there) = order.race(&world, allocate, move |world| {
            for block in &blocks {
                world.free(&mut there, block);
            }
            there
        });
        CAME.note_if(blocks.iter().any(|old| old.offset_bytes() == block.offset_bytes()));
        OTHER.note_if(blocks.iter().all(|old| old.offset_bytes() != block.offset_bytes()));
        world.expect_live(1);
        drop((here, there));
        world.expect_live(1);
    });
}

/// Two caches free one block: one wins, the other is told, and both allocate after it: they have
/// two blocks. Every order.
#[test]
fn two_caches_free_one_block() {
    static ONE: Seen = Seen::new("one wins");
    static OTHER: Seen = Seen::new("the other wins");
    explore("two_caches_free_one_block", Bound::None, &[&ONE, &OTHER], |order| {
        let world = World::new(1);
        let (mut here, there) = (world.shared.cache(), world.shared.cache());
        let block = world.allocate(&mut here);
        let turn = |mut cache: Cache<ModelThreads>| {
            move |world: &Arc<World>| {
                let freed = cache.free(block.handle());
                (freed, world.allocate(&mut cache), cache)
            }
        };
        let ((freed, mine, here), (others_freed, others, there)) =
            order.race(&world, turn(here), turn(there));
        assert_ne!(mine.offset_bytes(), others.offset_bytes(), "one block for two");
        match (freed, others_freed) {
            (Ok(_), Err(HandleError::Stale)) => ONE.note(),
            (Err(HandleError::Stale), Ok(_)) => OTHER.note(),
            both => panic!("one wins and the other is told: {both:?}"),
        }
        world.expect_live(2);
        drop((here, there));
    });
}

/// All caches are flushed while one gives a cached block out and takes it back. Every order.
#[test]
fn a_flush_against_allocation_and_free() {
    static CACHED: Seen = Seen::new("from the cache");
    static FLUSHED: Seen = Seen::new("flushed before");
    let seen = [&CACHED, &FLUSHED];
    explore("a_flush_against_allocation_and_free", Bound::None, &seen, |order| {
        let world = World::new(1);
        let mut cache = world.shared.cache();
        let block = world.allocate(&mut cache);
        world.free(&mut cache, &block);
        let turn = move |world: &Arc<World>| {
            let again = world.allocate(&mut cache);
            world.free(&mut cache, &again);
            (again, cache)
        };
        let ((again, cache), ()) = order.race(&world, turn, |world| world.shared.flush());
        CACHED.note_if(again.offset_bytes() == block.offset_bytes());
        FLUSHED.note_if(world.shared.stats().cached_blocks == 0);
        world.expect_live(0);
        drop(cache);
    });
}

/// A thread flushes all caches and allocates what it found, while the cache that had it gives it
/// out: they have two blocks. Every order.
#[test]
fn a_flush_and_allocation_against_allocation() {
    static SAME: Seen = Seen::new("the flushed block goes out anew");
    static KEPT: Seen = Seen::new("the cache was first");
    let seen = [&SAME, &KEPT];
    explore("a_flush_and_allocation_against_allocation", Bound::None, &seen, |order| {
        let world = World::new(1);
        let (mut here, mut there) = (world.shared.cache(), world.shared.cache());
        let block = world.allocate(&mut here);
        world.free(&mut here, &block);
        let allocate = move |world: &Arc<World>| (world.allocate(&mut here), here);
        let ((mine, here), (others, there)) = order.race(&world, allocate, move |world| {
            world.shared.flush();
            (world.allocate(&mut there), there)
        });
        assert_ne!(mine.offset_bytes(), others.offset_bytes(), "one block for two");
        SAME.note_if(others.offset_bytes() == block.offset_bytes());
        KEPT.note_if(mine.offset_bytes() == block.offset_bytes());
        world.expect_live(2);
        drop((here, there));
        world.expect_live(2);
    });
}

/// A thread ends, and its cache with it, while another frees a block that came from there and
/// flushes all caches. Every order.
#[test]
fn the_end_of_a_thread_against_a_remote_free() {
    static EARLY: Seen = Seen::new("ended before the flush");
    static LATE: Seen = Seen::new("ended after the free");
    let (name, seen) = ("the_end_of_a_thread_against_a_remote_free", [&EARLY, &LATE]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(1);
        let (mut ending, mut staying) = (world.shared.cache(), world.shared.cache());
        let blocks = [(); 2].map(|()| world.allocate(&mut ending));
        world.free(&mut ending, &blocks[0]);
        let ((), staying) = order.race(
            &world,
            move |_| drop(ending),
            move |world| {
                world.free(&mut staying, &blocks[1]);
                LATE.note_if(world.shared.stats().cached_blocks > 1);
                world.shared.flush();
                EARLY.note_if(world.shared.stats().cached_blocks == 0);
                staying
            },
        );
        world.shared.verify().unwrap();
        assert_eq!(world.shared.stats().cached_blocks, 0, "the ended cache keeps blocks");
        world.expect_live(0);
        drop(staying);
    });
}

/// The last free block is in a cache, where another thread freed it, or will. A request that
/// began after the free is served; one that met it is served or refused, and nothing is lost.
/// Every order.
#[test]
fn the_last_request_before_refusal_against_a_free() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let (name, seen) = ("the_last_request_before_refusal_against_a_free", [&SERVED, &REFUSED]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::nearly_full(1);
        let (mut here, mut there) = (world.shared.cache(), world.shared.cache());
        let last = world.allocate(&mut here);
        let request = move |world: &Arc<World>| {
            let met = here.allocate(SMALL);
            (met.inspect(|block| world.write(block)), here)
        };
        let ((met, mut here), there) = order.race(&world, request, move |world| {
            world.free(&mut there, &last);
            there
        });
        SERVED.note_if(met.is_ok());
        REFUSED.note_if(met.is_err());
        let later = here.allocate(SMALL);
        assert!(met.is_ok() != later.is_ok(), "the block goes out once: {met:?}, {later:?}");
        world.shared.verify().unwrap();
        drop((here, there));
    });
}

/// Two threads want the last free block, which a third cache has: one gets it. Two preemptions:
/// both flush and recall.
#[test]
fn two_requests_for_the_last_cached_block() {
    static ONE: Seen = Seen::new("one gets it");
    static OTHER: Seen = Seen::new("the other gets it");
    let (name, seen) = ("two_requests_for_the_last_cached_block", [&ONE, &OTHER]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::nearly_full(1);
        let mut third = world.shared.cache();
        let last = world.allocate(&mut third);
        world.free(&mut third, &last);
        let request = |world: &Arc<World>| {
            let block = world.shared.allocate(SMALL);
            block.inspect(|block| world.write(block)).is_ok()
        };
        let (mine, others) = order.race(&world, request, request);
        assert!(!(mine && others), "one block for two");
        ONE.note_if(mine);
        OTHER.note_if(others);
        world.shared.verify().unwrap();
        drop(third);
    });
}

/// All free blocks are on their way through a cache to the depot while a request meets them: in
/// the end every block is served, and none is lost in the depot. Every order.
#[test]
fn requests_against_a_magazine_on_its_way() {
    static SERVED: Seen = Seen::new("served");
    static REFUSED: Seen = Seen::new("refused");
    let (name, seen) = ("requests_against_a_magazine_on_its_way", [&SERVED, &REFUSED]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::nearly_full(DEPTH as u64 + 1);
        let mut cache = world.shared.cache();
        let blocks = [(); DEPTH + 1].map(|()| world.allocate(&mut cache));
        let request = |world: &Arc<World>| {
            let met = world.shared.allocate(SMALL);
            met.inspect(|block| world.write(block)).is_ok()
        };
        let (met, cache) = order.race(&world, request, move |world| {
            for block in &blocks {
                world.free(&mut cache, block);
            }
            cache
        });
        SERVED.note_if(met);
        REFUSED.note_if(!met);
        world.shared.verify().unwrap();
        let left = if met { DEPTH } else { DEPTH + 1 };
        for _ in 0..left {
            let block = world.shared.allocate(SMALL).expect("nothing is in flight any more");
            world.write(&block);
        }
        assert!(world.shared.allocate(SMALL).is_err(), "a block went out twice");
        world.shared.verify().unwrap();
        drop(cache);
    });
}

/// A cache frees for one owner while another allocates for a second: what the first owner's work
/// may still use never reaches the second, but through the centre. Every order.
#[test]
fn frees_of_one_owner_against_allocations_of_another() {
    static DEPOT: Seen = Seen::new("magazines in the depot");
    let name = "frees_of_one_owner_against_allocations_of_another";
    explore(name, Bound::None, &[&DEPOT], |order| {
        let world = World::new(1);
        let (mut here, mut there) = (world.shared.cache(), world.shared.cache());
        let blocks = [(); DEPTH + 1].map(|()| world.allocate(&mut here));
        here.flush();
        let allocate = move |_: &Arc<World>| (here.allocate_for(Owner(2), SMALL).unwrap(), here);
        let ((block, here), there) = order.race(&world, allocate, move |_| {
            for block in &blocks {
                there.free_for(Owner(1), block.handle()).unwrap();
            }
            there
        });
        DEPOT.note_if(world.shared.stats().work.magazines > 0);
        let old = blocks.iter().any(|old| old.offset_bytes() == block.offset_bytes());
        assert!(!old, "a block passed from owner to owner without the centre");
        drop((here, there));
        world.expect_live(1);
    });
}

/// A free by an offset, found by a look without a lock, against the free by the handle and a new
/// block in the place. Every order.
#[test]
fn a_free_by_offset_against_free_and_allocation() {
    static OLD: Seen = Seen::new("the old block");
    static NEW: Seen = Seen::new("the new block");
    static NONE: Seen = Seen::new("none");
    let (name, seen) = ("a_free_by_offset_against_free_and_allocation", [&OLD, &NEW, &NONE]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new(1);
        let mut cache = world.shared.cache();
        let old = world.allocate(&mut cache);
        let turn =
            move |_: &Arc<World>| (cache.free(old.handle()), cache.allocate(SMALL).unwrap(), cache);
        let ((freed, new, cache), others) = order.race(&world, turn, move |world| {
            let handle = world.shared.block_at(old.offset_bytes())?;
            world.shared.free(handle).ok()
        });
        let others_handle = others.map(|block| block.handle());
        assert_eq!(freed.is_err(), others_handle == Some(old.handle()), "freed once");
        OLD.note_if(others_handle == Some(old.handle()));
        NEW.note_if(others_handle == Some(new.handle()));
        NONE.note_if(others.is_none());
        let live = u64::from(others_handle != Some(new.handle()));
        assert_eq!(world.shared.block(new.handle()).is_ok(), live == 1);
        world.expect_live(live);
        drop(cache);
    });
}
