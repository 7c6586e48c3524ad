//! One thread of a stress run.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use crossbeam_queue::ArrayQueue;
use fastrand::Rng;
use pool_core::{Block, Owner, SharedAllocator};

use super::door::Door;
use super::finding::Finding;
use super::outcome::Tally;
use super::plan::Plan;
use super::shadow::{Mark, Shadow};
use super::sizes::Wish;

/// How many blocks wait in a thread's mailbox at most. Who finds it full looks into its own.
const MAILBOX: usize = 64;

/// One block in so many is given to another thread to free.
const REMOTE_ONE_IN: u32 = 3;

/// One block in so many is looked up by handle and by offset, and freed twice.
const CHECKED_ONE_IN: u32 = 32;

/// One allocation in so many empties all caches.
const FLUSH_ONE_IN: u32 = 1 << 16;

/// After so many allocations a thread holds more or fewer blocks than before.
const PHASE: u64 = 512;

/// A thread that holds nothing and is refused so often is not refused for want of memory: each
/// time all the others had their turn.
const MOST_REFUSALS: u64 = 100_000;

/// A live block and what it is known by.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    block: Block,
    mark: Mark,
    owner: Owner,
}

/// What the threads of a run share.
#[derive(Debug)]
pub(crate) struct Floor<'a> {
    plan: &'a Plan,
    shared: &'a SharedAllocator,
    shadow: Option<Shadow>,
    /// One a thread, with blocks that it is to free. Their atomics are compiled with ours, which
    /// a race detector needs; those of std's channels are not.
    mailboxes: Vec<ArrayQueue<Parcel>>,
    /// Threads that send no more.
    finished: AtomicU32,
    /// Something was found: the others need not go on.
    stop: AtomicBool,
}

impl<'a> Floor<'a> {
    pub(crate) fn new(plan: &'a Plan, shared: &'a SharedAllocator) -> Self {
        let map = || Shadow::new(shared.capacity_bytes(), shared.granule_bytes());
        Self {
            plan,
            shared,
            shadow: plan.shadow.then(map),
            mailboxes: (0..plan.threads).map(|_| ArrayQueue::new(MAILBOX)).collect(),
            finished: AtomicU32::new(0),
            stop: AtomicBool::new(false),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One thread of a stress run.
#[derive(Debug)]
pub(crate) struct Worker<'a> {
    floor: &'a Floor<'a>,
    number: u32,
    mailbox: &'a ArrayQueue<Parcel>,
    door: Door<'a>,
    numbers: Rng,
    held: Vec<Parcel>,
    tally: Tally,
}

impl<'a> Worker<'a> {
    /// Thread `number` with its mailbox.
    pub(crate) fn new(floor: &'a Floor<'a>, number: u32, mailbox: usize) -> Self {
        let plan = floor.plan;
        let seed = plan.seed.wrapping_add(u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self {
            floor,
            number,
            mailbox: &floor.mailboxes[mailbox],
            door: Door::new(floor.shared, plan.caches),
            numbers: Rng::with_seed(seed),
            held: Vec::with_capacity(plan.live_blocks + 1),
            tally: Tally::default(),
        }
    }

    /// All of the thread's work, to the last block that others give it.
    pub(crate) fn work(mut self) -> Result<Tally, Finding> {
        let outcome = self.churn().and_then(|()| self.free_down_to(0));
        if outcome.is_err() {
            self.floor.stop.store(true, Ordering::Relaxed);
        }
        self.floor.finished.fetch_add(1, Ordering::Release);
        outcome.and_then(|()| self.free_the_rest())?;
        Ok(self.tally)
    }

    /// The thread's allocations, and frees so that it never holds more than it may.
    fn churn(&mut self) -> Result<(), Finding> {
        let plan = self.floor.plan;
        let mut most = plan.live_blocks;
        while self.tally.allocations < plan.allocations && !self.floor.stopped() {
            if self.tally.allocations.is_multiple_of(PHASE) {
                most = self.numbers.usize(..=plan.live_blocks);
            }
            if self.numbers.u32(..FLUSH_ONE_IN) == 0 {
                self.floor.shared.flush();
            }
            self.allocate()?;
            self.free_down_to(most)?;
            self.free_some_of_others(2)?;
        }
        Ok(())
    }

    /// One block; when it is refused, what the thread holds is freed, half by half.
    fn allocate(&mut self) -> Result<(), Finding> {
        let plan = self.floor.plan;
        let count = self.tally.allocations;
        let mark = Mark::new(count, self.number, plan.threads);
        let owner = Owner(self.numbers.u32(..plan.owners.max(1)));
        let mut refusals = 0;
        let (wish, block) = loop {
            let wish = Wish::draw(&mut self.numbers, plan.largest_bytes);
            if let Ok(block) = self.door.allocate(owner, wish.request()) {
                break (wish, block);
            }
            self.tally.refusals += 1;
            if self.held.is_empty() {
                refusals += 1;
                thread::yield_now();
            }
            if self.floor.stopped() {
                return Ok(());
            }
            if refusals == MOST_REFUSALS {
                return Err(Finding::Starved { refusals });
            }
            self.free_down_to(self.held.len() / 2)?;
            self.free_some_of_others(MAILBOX)?;
        };
        self.tally.allocations += 1;
        self.tally.bytes += block.size_bytes();
        if block.size_bytes() < wish.size_bytes {
            return Err(Finding::Short { got: block.size_bytes(), asked: wish.size_bytes });
        }
        let align_bytes = wish.align_bytes.max(self.floor.shared.granule_bytes());
        let offset_bytes = block.offset_bytes();
        if !offset_bytes.is_multiple_of(align_bytes) {
            return Err(Finding::Misaligned { offset_bytes, align_bytes });
        }
        if let Some(shadow) = &self.floor.shadow {
            shadow.fill(&block, mark)?;
        }
        self.held.push(Parcel { block, mark, owner });
        Ok(())
    }

    /// Frees held blocks at random, here or by another thread.
    fn free_down_to(&mut self, most: usize) -> Result<(), Finding> {
        while self.held.len() > most {
            let at = self.numbers.usize(..self.held.len());
            let parcel = self.held.swap_remove(at);
            if self.numbers.u32(..REMOTE_ONE_IN) == 0 {
                self.send(parcel)?;
            } else {
                self.free(parcel)?;
            }
        }
        Ok(())
    }

    /// Gives a block to another thread, which always comes to its mailbox sooner or later.
    fn send(&mut self, parcel: Parcel) -> Result<(), Finding> {
        let to = self.numbers.usize(..self.floor.mailboxes.len());
        let mut unsent = Some(parcel);
        while let Some(parcel) = unsent
            && !self.floor.stopped()
        {
            unsent = self.floor.mailboxes[to].push(parcel).err();
            if unsent.is_some() {
                self.free_some_of_others(MAILBOX)?;
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn free_some_of_others(&mut self, most: usize) -> Result<(), Finding> {
        for _ in 0..most {
            let Some(parcel) = self.mailbox.pop() else { break };
            self.tally.remote_frees += 1;
            self.free(parcel)?;
        }
        Ok(())
    }

    /// Frees what comes in until nobody sends any more.
    fn free_the_rest(&mut self) -> Result<(), Finding> {
        while !self.floor.stopped() {
            // Asked first: what was sent before the last one finished is in the mailbox by then.
            let all_finished =
                self.floor.finished.load(Ordering::Acquire) == self.floor.plan.threads;
            self.free_some_of_others(usize::MAX)?;
            if all_finished {
                break;
            }
            thread::yield_now();
        }
        Ok(())
    }

    fn free(&mut self, parcel: Parcel) -> Result<(), Finding> {
        let Parcel { block, mark, owner } = parcel;
        let checked = self.numbers.u32(..CHECKED_ONE_IN) == 0;
        if checked {
            self.look_up(&block)?;
        }
        if let Some(shadow) = &self.floor.shadow {
            shadow.clear(&block, mark)?;
        }
        let freed = self.door.free(owner, block.handle()).map_err(Finding::Live)?;
        self.tally.frees += 1;
        if freed != block {
            return Err(Finding::WrongBlock);
        }
        if checked {
            if self.door.free(owner, block.handle()).is_ok() {
                return Err(Finding::SecondFree);
            }
            self.tally.second_frees += 1;
        }
        Ok(())
    }

    fn look_up(&self, block: &Block) -> Result<(), Finding> {
        let shared = self.floor.shared;
        if shared.block(block.handle()).map_err(Finding::Live)? != *block {
            return Err(Finding::WrongBlock);
        }
        let offset_bytes = block.offset_bytes();
        if shared.block_at(offset_bytes) != Some(block.handle()) {
            return Err(Finding::NotFound { offset_bytes });
        }
        Ok(())
    }
}
