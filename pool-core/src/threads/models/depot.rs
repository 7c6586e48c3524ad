//! The depot: whole magazines pass from cache to cache; none is lost or comes twice, none reaches
//! another owner, and what was done to its blocks before is seen.

use super::explore::{Bound, Seen, explore, spawn};
use super::memory::{Memory, memories};
use super::std::boxed::Box;
use super::std::sync::Arc;
use super::std::vec::Vec;
use crate::range::{Handle, Shape, Slot};
use crate::threads::classes::Classes;
use crate::threads::depot::Depot;
use crate::threads::owner::Owner;
use crate::threads::word::Giver;

/// The only class, and the owner of most magazines.
const CLASS: usize = 0;
const OWNER: Owner = Owner(7);

/// Blocks in a magazine.
const LEN: u32 = 2;

/// A depot, and the memory of all blocks.
struct World {
    depot: Depot,
    memories: Box<[Memory]>,
}

fn hint(block: u32) -> Handle {
    Handle::with_bits(Slot::Granule(block), 1)
}

/// The blocks of the n-th magazine.
fn magazine(n: u32) -> core::ops::Range<u32> {
    n * LEN..(n + 1) * LEN
}

impl World {
    /// An empty depot with room for two magazines.
    fn new() -> Arc<Self> {
        let shape = Shape { granule_shift: 8, capacity: 64, span_granules: 64, small_granules: 1 };
        let classes = Classes::new(&shape, 32 << 10);
        assert_eq!((classes.count(), classes.magazine_len(CLASS)), (1, LEN as usize));
        let depot = Depot::new(&classes, 2 * 256 * u64::from(LEN)).unwrap();
        Arc::new(Self { depot, memories: memories(8) })
    }

    /// Uses the blocks of the n-th magazine and puts it in.
    fn put(&self, owner: Owner, n: u32) -> bool {
        magazine(n).for_each(|block| self.memories[block as usize].write());
        self.depot.put(CLASS, owner, Giver::NO_CACHE, magazine(n).map(hint))
    }

    /// Takes a magazine out and uses its blocks: its number.
    fn get(&self, owner: Owner) -> Option<u32> {
        let mut blocks = Vec::new();
        let got =
            self.depot.get(CLASS, owner, Giver::NO_CACHE, |hint| blocks.push(self.use_block(hint)));
        got.then(|| Self::whole(&blocks))
    }

    fn use_block(&self, hint: Handle) -> u32 {
        let block = hint.slot().index();
        self.memories[block as usize].write();
        block
    }

    /// The number of the magazine that had these blocks and no others.
    fn whole(blocks: &[u32]) -> u32 {
        let n = blocks[0] / LEN;
        assert!(blocks.iter().copied().eq(magazine(n)), "not one magazine: {blocks:?}");
        n
    }

    fn drain(&self) -> Vec<u32> {
        let mut blocks = Vec::new();
        self.depot.drain(|taken| blocks.extend(taken.into_iter().map(|hint| self.use_block(hint))));
        blocks.chunks(LEN as usize).map(Self::whole).collect()
    }

    /// That the magazines in the depot and those got from it are these.
    fn expect(&self, magazines: impl IntoIterator<Item = u32>, got: impl IntoIterator<Item = u32>) {
        let mut found = self.drain();
        found.extend(got);
        found.sort_unstable();
        assert!(found.iter().copied().eq(magazines), "lost or doubled: {found:?}");
    }
}

/// One cache puts a magazine in while another asks for one. Every order.
#[test]
fn a_put_against_a_get() {
    static EMPTY: Seen = Seen::new("empty");
    static GOT: Seen = Seen::new("got");
    explore("a_put_against_a_get", Bound::None, &[&EMPTY, &GOT], |order| {
        let world = World::new();
        let (put, got) = order.race(&world, |world| world.put(OWNER, 0), |world| world.get(OWNER));
        assert!(put, "there is room");
        EMPTY.note_if(got.is_none());
        GOT.note_if(got.is_some());
        world.expect(0..1, got);
    });
}

/// Two caches that each pass a magazine on and take one, in a depot that has room for two: both
/// come through, each to one of them. Every order.
#[test]
fn two_caches_exchange_magazines() {
    static OWN: Seen = Seen::new("its own");
    static OTHERS: Seen = Seen::new("the other's");
    static RETRIED: Seen = Seen::new("retried");
    let seen = [&OWN, &OTHERS, &RETRIED];
    explore("two_caches_exchange_magazines", Bound::None, &seen, |order| {
        let world = World::new();
        let exchange = |n| {
            move |world: &Arc<World>| {
                assert!(world.put(OWNER, n), "there is room");
                world.get(OWNER)
            }
        };
        let (mine, others) = order.race(&world, exchange(0), exchange(1));
        OWN.note_if(mine == Some(0));
        OTHERS.note_if(mine == Some(1));
        RETRIED.note_if(world.depot.retries() > 0);
        world.expect(0..2, [mine, others].into_iter().flatten());
    });
}

/// Two caches pass a magazine each on to a depot that is full of others, while a third takes one
/// out: what is written over is what was taken. Every order.
#[test]
fn a_magazine_is_used_again() {
    static FULL: Seen = Seen::new("full");
    static AGAIN: Seen = Seen::new("used again");
    explore("a_magazine_is_used_again", Bound::None, &[&FULL, &AGAIN], |order| {
        let world = World::new();
        assert!(world.put(OWNER, 0) && world.put(OWNER, 1), "there is room");
        let third = world.clone();
        let third = spawn(move || third.put(OWNER, 3));
        let (two, got) = order.race(&world, |world| world.put(OWNER, 2), |world| world.get(OWNER));
        let three = third.join().unwrap();
        assert_eq!(got, Some(0), "out of order");
        FULL.note_if(!two && !three);
        AGAIN.note_if(two || three);
        assert!(!(two && three), "one magazine was emptied");
        let put = [two.then_some(2), three.then_some(3)].into_iter().flatten();
        world.expect([0, 1].into_iter().chain(put), got);
    });
}

/// A flush drains the depot while a cache puts a magazine in and another takes one. Every
/// order.
#[test]
fn a_drain_against_a_put_and_a_get() {
    static BOTH: Seen = Seen::new("drained both");
    static NONE: Seen = Seen::new("drained none");
    static GOT: Seen = Seen::new("got");
    let seen = [&BOTH, &NONE, &GOT];
    explore("a_drain_against_a_put_and_a_get", Bound::None, &seen, |order| {
        let world = World::new();
        assert!(world.put(OWNER, 0));
        let third = world.clone();
        let third = spawn(move || third.get(OWNER));
        let (put, drained) = order.race(&world, |world| world.put(OWNER, 1), |world| world.drain());
        assert!(put, "there is room");
        let got = third.join().unwrap();
        BOTH.note_if(drained.len() == 2);
        NONE.note_if(drained.is_empty());
        GOT.note_if(got.is_some());
        world.expect(0..2, drained.into_iter().chain(got));
    });
}

/// Two owners ask for magazines, of whom the second's lies behind the first's: each gets its own
/// or none. Every order.
#[test]
fn magazines_of_two_owners() {
    static OWN: Seen = Seen::new("its own");
    static HIDDEN: Seen = Seen::new("hidden by the other's");
    explore("magazines_of_two_owners", Bound::None, &[&OWN, &HIDDEN], |order| {
        let world = World::new();
        assert!(world.put(OWNER, 0) && world.put(Owner(8), 1), "there is room");
        let (first, second) =
            order.race(&world, |world| world.get(OWNER), |world| world.get(Owner(8)));
        assert_eq!(first, Some(0), "nothing hides it");
        assert!(second.is_none_or(|n| n == 1), "another owner's magazine");
        OWN.note_if(second.is_some());
        HIDDEN.note_if(second.is_none());
        world.expect(0..2, [first, second].into_iter().flatten());
    });
}
