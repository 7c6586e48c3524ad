//! The lock-free stack: nothing is lost or given out twice, and what was done to an item before
//! it was pushed is seen by whoever pops it.

use super::explore::{Bound, Seen, explore, spawn};
use super::memory::{Memory, memories};
use super::std::boxed::Box;
use super::std::sync::Arc;
use super::std::vec::Vec;
use crate::sync::{AtomicU32, Counter};
use crate::threads::stack::{Links, Stack};

/// A stack, its links, and the memory that goes with each item.
struct World {
    stack: Stack,
    links: Box<[AtomicU32]>,
    memories: Box<[Memory]>,
    retries: Counter,
}

impl Links for [AtomicU32] {
    fn link(&self, item: u32) -> &AtomicU32 {
        &self[item as usize]
    }
}

impl World {
    /// All items in the stack, the first on top.
    fn new(items: u32) -> Arc<Self> {
        let world = Self {
            stack: Stack::new(),
            links: (0..items).map(|_| AtomicU32::new(0)).collect(),
            memories: memories(items as usize),
            retries: Counter::default(),
        };
        (0..items).rev().for_each(|item| world.push(item));
        Arc::new(world)
    }

    fn push(&self, item: u32) {
        self.memories[item as usize].write();
        self.stack.push(&*self.links, item, &self.retries);
    }

    fn pop(&self) -> Option<u32> {
        let item = self.stack.pop(&*self.links, &self.retries)?;
        self.memories[item as usize].write();
        Some(item)
    }

    /// Pops an item and pushes it again.
    fn turn(&self) {
        let item = self.pop().expect("each thread has one at most");
        self.push(item);
    }

    /// That the items in the stack and those that threads kept are all, each once.
    fn expect_all(&self, kept: impl IntoIterator<Item = u32>) {
        let mut items: Vec<u32> = kept.into_iter().collect();
        // No more than there are: a broken stack may be a ring.
        items.extend((0..=self.links.len()).map_while(|_| self.pop()));
        items.sort_unstable();
        assert!(items.into_iter().eq(0..self.links.len() as u32), "items were lost or doubled");
    }
}

/// Two threads that each pop and push again, on two items. Every order.
#[test]
fn pop_and_push_against_pop_and_push() {
    static RETRIED: Seen = Seen::new("retried");
    explore("pop_and_push_against_pop_and_push", Bound::None, &[&RETRIED], |order| {
        let world = World::new(2);
        order.race(&world, |world| world.turn(), |world| world.turn());
        RETRIED.note_if(world.retries.get() > 0);
        world.expect_all([]);
    });
}

/// ABA: while one thread is within its pop, the other takes two items and puts the first one
/// back. Every order.
#[test]
fn pop_against_pop_pop_and_push_of_the_first() {
    static RETRIED: Seen = Seen::new("retried");
    static FIRST: Seen = Seen::new("the one thread first");
    static LATER: Seen = Seen::new("the other first");
    let seen = [&RETRIED, &FIRST, &LATER];
    explore("pop_against_pop_pop_and_push_of_the_first", Bound::None, &seen, |order| {
        let world = World::new(3);
        let pop = |world: &Arc<World>| world.pop().expect("one of three");
        let (one, second) = order.race(&world, pop, |world| {
            let first = world.pop().expect("two of three");
            let second = world.pop().expect("two of three");
            world.push(first);
            second
        });
        RETRIED.note_if(world.retries.get() > 0);
        FIRST.note_if((one, second) == (0, 2));
        LATER.note_if(second == 1);
        world.expect_all([one, second]);
    });
}

/// Two threads for one item: one gets it, the other finds the stack empty or, later, the item
/// that was pushed. Every order.
#[test]
fn pops_of_an_empty_stack_against_a_push() {
    static EMPTY: Seen = Seen::new("empty");
    static FULL: Seen = Seen::new("not empty");
    explore("pops_of_an_empty_stack_against_a_push", Bound::None, &[&EMPTY, &FULL], |order| {
        let world = World::new(2);
        let mine = [world.pop(), world.pop()].map(|item| item.expect("there are two"));
        let push = move |world: &Arc<World>| mine.into_iter().for_each(|item| world.push(item));
        let ((), popped) = order.race(&world, push, |world| [world.pop(), world.pop()]);
        EMPTY.note_if(popped.contains(&None));
        FULL.note_if(popped != [None; 2]);
        world.expect_all(popped.into_iter().flatten());
    });
}

/// Three threads that each pop and push again, on three items. Two preemptions: unbounded there
/// are too many orders, and the first model has them all for two threads.
#[test]
fn three_threads_pop_and_push() {
    static RETRIED: Seen = Seen::new("retried");
    explore("three_threads_pop_and_push", Bound::Preemptions(3), &[&RETRIED], |order| {
        let world = World::new(3);
        let third = world.clone();
        let third = spawn(move || third.turn());
        order.race(&world, |world| world.turn(), |world| world.turn());
        third.join().unwrap();
        RETRIED.note_if(world.retries.get() > 0);
        world.expect_all([]);
    });
}
