//! The depot: full magazines on their way from caches that free to caches that allocate.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::classes::Classes;
use super::owner::Owner;
use super::stack::{Links, Stack};
use super::tables::filled;
use crate::range::Handle;
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering, Padded};

/// The most lanes of a class.
const MOST_LANES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// A lane has as many magazines as this, or its class has fewer lanes.
const MAGAZINES_IN_LANE: usize = 2;

/// A magazine in the depot: cached blocks of one class and one owner.
struct Magazine {
    below: AtomicU32,
    owner: AtomicU32,
    len: AtomicU32,
    slots: Box<[AtomicU64]>,
}

impl Links for [Magazine] {
    #[inline]
    fn link(&self, item: u32) -> &AtomicU32 {
        &self[item as usize].below
    }
}

/// A part of a class's magazines, that some caches fill: so that pairs of caches of which one
/// allocates and one frees meet in a lane of their own.
struct Lane {
    empty: Padded<Stack>,
    full: Padded<Stack>,
}

/// Magazines of all classes. Their number is fixed when it is made, and with it the bytes that
/// the depot keeps at most.
pub(crate) struct Depot {
    magazines: Box<[Magazine]>,
    /// For each class, its lanes.
    lanes: Box<[Box<[Lane]>]>,
    retries: Counter,
}

impl Depot {
    /// An empty depot that keeps at most so many bytes of each class. `None` if the heap refuses.
    pub(crate) fn new(classes: &Classes, bytes_a_class: u64) -> Option<Self> {
        let count = |class| classes.magazines(class, bytes_a_class);
        let mut magazines = Vec::new();
        magazines.try_reserve_exact((0..classes.count()).map(count).sum()).ok()?;
        for class in 0..classes.count() {
            for _ in 0..count(class) {
                magazines.push(Magazine::new(classes.magazine_len(class))?);
            }
        }
        let magazines = magazines.into_boxed_slice();
        let retries = Counter::default();
        let mut lanes = Vec::new();
        lanes.try_reserve_exact(classes.count()).ok()?;
        let mut next = 0..magazines.len() as u32;
        for class in 0..classes.count() {
            let of_class: Box<[Lane]> = filled(lanes_of(count(class)), || Lane {
                empty: Padded(Stack::new()),
                full: Padded(Stack::new()),
            })
            .ok()?;
            for (item, lane) in next.by_ref().take(count(class)).zip(of_class.iter().cycle()) {
                lane.empty.push(&*magazines, item, &retries);
            }
            lanes.push(of_class);
        }
        Some(Self { magazines, lanes: lanes.into_boxed_slice(), retries })
    }

    /// Puts a magazine in, for a cache of some number; false if its lane is full.
    pub(crate) fn put(
        &self,
        class: usize,
        owner: Owner,
        cache: u32,
        blocks: impl Iterator<Item = Handle>,
    ) -> bool {
        let Some(lanes) = self.lanes.get(class) else { return false };
        // Clean blocks serve any cache; those of an owner wait where the owner's caches look.
        let number = if owner == Owner::CLEAN { cache } else { owner.0 };
        let lane = &lanes[number as usize % lanes.len()];
        let Some(item) = lane.empty.pop(&*self.magazines, &self.retries) else { return false };
        self.magazines[item as usize].fill(owner, blocks);
        lane.full.push(&*self.magazines, item, &self.retries);
        true
    }

    /// Takes a magazine of a class and an owner out, and hands over what is in it. Looks first in
    /// the lane where there was one last. One of another owner that lies on top of it hides it.
    pub(crate) fn get(
        &self,
        class: usize,
        owner: Owner,
        last_lane: &mut u32,
        each: impl FnMut(Handle),
    ) -> bool {
        let Some(lanes) = self.lanes.get(class) else { return false };
        let (first, count) =
            if owner == Owner::CLEAN { (*last_lane, lanes.len()) } else { (owner.0, 1) };
        for step in 0..count {
            let number = (first as usize + step) % lanes.len();
            let lane = &lanes[number];
            if lane.full.is_empty() {
                continue;
            }
            let Some(item) = lane.full.pop(&*self.magazines, &self.retries) else { continue };
            let magazine = &self.magazines[item as usize];
            if magazine.owner() != owner {
                lane.full.push(&*self.magazines, item, &self.retries);
                continue;
            }
            magazine.blocks().for_each(each);
            lane.empty.push(&*self.magazines, item, &self.retries);
            *last_lane = number as u32;
            return true;
        }
        false
    }

    /// Takes every magazine out that was in when the call began, and hands over what is in them.
    pub(crate) fn drain(&self, mut each: impl FnMut(Handle)) {
        for lane in self.lanes.iter().flatten() {
            // At most as many as there are: others may put in as fast as this takes out.
            for _ in 0..self.magazines.len() {
                let Some(item) = lane.full.pop(&*self.magazines, &self.retries) else { break };
                self.magazines[item as usize].blocks().for_each(&mut each);
                lane.empty.push(&*self.magazines, item, &self.retries);
            }
        }
    }

    /// Steps that another thread got in before.
    pub(crate) fn retries(&self) -> u64 {
        self.retries.get()
    }
}

/// The lanes of so many magazines.
fn lanes_of(magazines: usize) -> u64 {
    (magazines / MAGAZINES_IN_LANE).clamp(1, MOST_LANES) as u64
}

impl Magazine {
    fn new(len: usize) -> Option<Self> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(len).ok()?;
        slots.resize_with(len, || AtomicU64::new(0));
        Some(Self {
            below: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            len: AtomicU32::new(0),
            slots: slots.into_boxed_slice(),
        })
    }

    fn owner(&self) -> Owner {
        Owner(self.owner.load(Ordering::Relaxed))
    }

    /// Writes what is in it. Nobody else looks until it is pushed.
    fn fill(&self, owner: Owner, blocks: impl Iterator<Item = Handle>) {
        self.owner.store(owner.0, Ordering::Relaxed);
        let mut len = 0;
        for (slot, block) in self.slots.iter().zip(blocks) {
            slot.store(block.to_raw(), Ordering::Relaxed);
            len += 1;
        }
        self.len.store(len, Ordering::Relaxed);
    }

    /// Reads what is in it, once it was popped.
    fn blocks(&self) -> impl Iterator<Item = Handle> + '_ {
        let len = self.len.load(Ordering::Relaxed) as usize;
        let slots = self.slots.iter().take(len);
        slots.filter_map(|slot| Handle::from_raw(slot.load(Ordering::Relaxed)))
    }
}
