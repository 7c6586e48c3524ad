//! The lock-free ring: what is pushed is popped once and in order, and who has a cell is alone
//! with it and sees what was done to it before.

use super::explore::{Bound, Order, Seen, explore, spawn};
use super::memory::Memory;
use super::std::sync::Arc;
use super::std::vec::Vec;
use crate::sync::{AtomicU64, Counter, Ordering};
use crate::threads::ring::Ring;

/// A ring of two cells, so that its cells are soon used again.
struct World {
    ring: Ring<Content>,
    retries: Counter,
}

/// What is in a cell: a value, and memory that is written whenever it is.
#[derive(Default)]
struct Content {
    value: AtomicU64,
    memory: Memory,
}

const CELLS: u64 = 2;

impl World {
    /// A ring with these values in it.
    fn new(values: impl IntoIterator<Item = u64>) -> Arc<Self> {
        let ring = Ring::new(CELLS, Content::default).unwrap();
        let world = Self { ring, retries: Counter::default() };
        values.into_iter().for_each(|value| assert!(world.push(value)));
        Arc::new(world)
    }

    fn push(&self, value: u64) -> bool {
        let fill = |content: &Content| {
            content.memory.write();
            content.value.store(value, Ordering::Relaxed);
        };
        self.ring.push(fill, &self.retries)
    }

    /// Takes the first value out if it is wanted.
    fn pop_if(&self, wanted: impl Fn(u64) -> bool) -> Option<u64> {
        let mut value = None;
        let empty = |content: &Content| {
            content.memory.write();
            value = Some(content.value.load(Ordering::Relaxed));
        };
        let wanted = |content: &Content| wanted(content.value.load(Ordering::Relaxed));
        let popped = self.ring.pop(wanted, empty, &self.retries);
        assert_eq!(popped, value.is_some());
        value
    }

    fn pop(&self) -> Option<u64> {
        self.pop_if(|_| true)
    }

    /// Pops twice.
    fn pop_two(&self) -> Vec<u64> {
        [self.pop(), self.pop()].into_iter().flatten().collect()
    }

    /// That the values in the ring and those popped are these, each once.
    fn expect(&self, values: impl IntoIterator<Item = u64>, popped: impl IntoIterator<Item = u64>) {
        let mut found: Vec<u64> = popped.into_iter().collect();
        // No more than there can be: a broken ring may never be empty.
        found.extend((0..=CELLS).map_while(|_| self.pop()));
        found.sort_unstable();
        assert!(found.iter().copied().eq(values), "lost or doubled: {found:?}");
    }
}

/// One thread pushes two values while the other pops two: it gets none, the first, or both in
/// order. Every order.
#[test]
fn two_pushes_against_two_pops() {
    static NONE: Seen = Seen::new("none");
    static ONE: Seen = Seen::new("one");
    static TWO: Seen = Seen::new("both");
    explore("two_pushes_against_two_pops", Bound::None, &[&NONE, &ONE, &TWO], |order| {
        let world = World::new([]);
        let push = |world: &Arc<World>| assert!(world.push(1) && world.push(2), "there is room");
        let ((), popped) = order.race(&world, push, |world| world.pop_two());
        assert!(popped.iter().copied().eq((1..).take(popped.len())), "out of order: {popped:?}");
        [&NONE, &ONE, &TWO][popped.len()].note();
        world.expect(1..=2, popped);
    });
}

/// Two threads pop from a full ring and push again, into the cells that were emptied. Every order.
#[test]
fn cells_are_used_again_by_two_threads() {
    static FULL: Seen = Seen::new("full, for the other was within its pop");
    static BOTH: Seen = Seen::new("both pushed");
    static RETRIED: Seen = Seen::new("retried");
    let (name, seen) = ("cells_are_used_again_by_two_threads", [&FULL, &BOTH, &RETRIED]);
    explore(name, Bound::None, &seen, |order| {
        let world = World::new([1, 2]);
        let turn = |value| {
            move |world: &Arc<World>| {
                (world.pop().expect("each thread has one at most"), world.push(value))
            }
        };
        let ((one, pushed_one), (other, pushed_other)) = order.race(&world, turn(3), turn(4));
        FULL.note_if(!pushed_one || !pushed_other);
        BOTH.note_if(pushed_one && pushed_other);
        RETRIED.note_if(world.retries.get() > 0);
        let pushed = [pushed_one.then_some(3), pushed_other.then_some(4)];
        world.expect([1, 2].into_iter().chain(pushed.into_iter().flatten()), [one, other]);
    });
}

/// While one thread is within its pop, the other pops both values and pushes one: the cell that
/// the first looked at is full again, of another value (ABA). Every order.
#[test]
fn a_pop_against_a_whole_round() {
    static OLD: Seen = Seen::new("an old value");
    static NEW: Seen = Seen::new("the new value");
    static NONE: Seen = Seen::new("none");
    static RETRIED: Seen = Seen::new("retried");
    let seen = [&OLD, &NEW, &NONE, &RETRIED];
    explore("a_pop_against_a_whole_round", Bound::None, &seen, |order| {
        let world = World::new([1, 2]);
        let round = |world: &Arc<World>| (world.pop_two(), world.push(3));
        let (one, (popped, pushed)) = order.race(&world, |world| world.pop(), round);
        OLD.note_if(one.is_some_and(|one| one < 3));
        NEW.note_if(one == Some(3));
        NONE.note_if(one.is_none());
        RETRIED.note_if(world.retries.get() > 0);
        let values = (1..=2).chain(pushed.then_some(3));
        world.expect(values, popped.into_iter().chain(one));
    });
}

/// Two threads push into the last free cell: one finds the ring full. Every order.
#[test]
fn two_pushes_into_the_last_cell() {
    static ONE: Seen = Seen::new("one has it");
    static OTHER: Seen = Seen::new("the other has it");
    explore("two_pushes_into_the_last_cell", Bound::None, &[&ONE, &OTHER], |order| {
        let world = World::new([1]);
        let (one, other) = order.race(&world, |world| world.push(2), |world| world.push(3));
        assert!(one != other, "one of them has the cell: {one}, {other}");
        ONE.note_if(one);
        OTHER.note_if(other);
        world.expect([1, if one { 2 } else { 3 }], []);
    });
}

/// A thread wants the first value only if it is of one kind, while the other pops it and pushes
/// one of the other kind into the cell. Every order.
#[test]
fn a_choosy_pop_against_a_cell_used_again() {
    static GOT: Seen = Seen::new("got");
    static LEFT: Seen = Seen::new("left");
    explore("a_choosy_pop_against_a_cell_used_again", Bound::None, &[&GOT, &LEFT], |order| {
        let world = World::new([1, 2]);
        let turn = |world: &Arc<World>| (world.pop(), world.pop(), world.push(4));
        let choosy = |world: &Arc<World>| world.pop_if(|value| value % 2 == 1);
        let ((first, second, pushed), odd) = order.race(&world, turn, choosy);
        assert!(odd.is_none_or(|odd| odd == 1), "not wanted: {odd:?}");
        GOT.note_if(odd.is_some());
        LEFT.note_if(odd.is_none());
        let values = (1..=2).chain(pushed.then_some(4));
        world.expect(values, [first, second, odd].into_iter().flatten());
    });
}

/// Three threads: two push, one pops twice. Two preemptions: unbounded there are too many orders,
/// and the models of two threads have them all.
#[test]
fn two_threads_push_and_one_pops() {
    static NONE: Seen = Seen::new("none");
    static TWO: Seen = Seen::new("both");
    static RETRIED: Seen = Seen::new("retried");
    let (name, seen) = ("two_threads_push_and_one_pops", [&NONE, &TWO, &RETRIED]);
    explore(name, Bound::Preemptions(2), &seen, |order: Order| {
        let world = World::new([]);
        let third = world.clone();
        let third = spawn(move || third.push(1));
        let (other, popped) = order.race(&world, |world| world.push(2), |world| world.pop_two());
        assert!(third.join().unwrap() && other, "there is room");
        NONE.note_if(popped.is_empty());
        TWO.note_if(popped.len() == 2);
        RETRIED.note_if(world.retries.get() > 0);
        world.expect(1..=2, popped);
    });
}
