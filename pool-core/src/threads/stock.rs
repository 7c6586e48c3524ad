//! What others may see and take of a cache: its blocks and its counters.

use alloc::boxed::Box;

use super::classes::{Classes, MOST_CLASSES, MOST_DEPTH};
use super::sabotage::{PUT, TAKE, TORN_STEAL, TORN_TAKE};
use crate::range::Handle;
use crate::sync::{AtomicU64, Counter, Ordering, Padded};

/// Owners whose blocks a cache keeps apart at a time.
pub(crate) const SETS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// The blocks of a cache and what it counts.
///
/// A block is in one slot, and whoever takes it out of there has it: the cache itself, or a
/// flush. Only the cache puts blocks in, in slots that it knows to be empty. So a cache needs no
/// lock, and a flush reaches those of threads that sleep. It is on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Stock {
    classes: usize,
    /// For each set and class, `MOST_DEPTH` slots: a handle that the block will have, or zero.
    slots: Box<[Padded<[AtomicU64; MOST_DEPTH]>]>,
    pub(crate) counts: Counts,
}

/// What a cache counts: by class what it gives out and takes back, and apart from that the
/// blocks that no cache keeps.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allocated: [Counter; MOST_CLASSES],
    pub(crate) freed: [Counter; MOST_CLASSES],
    /// Operations of these that the cache did not do alone.
    pub(crate) missed: Counter,
    pub(crate) magazines: Counter,
    pub(crate) large: Large,
}

impl Counts {
    /// Adds what a cache counted that ends.
    pub(crate) fn absorb(&self, ended: &Self) {
        for (sum, count) in self.each().zip(ended.each()) {
            sum.add_shared(count.get());
        }
    }

    fn each(&self) -> impl Iterator<Item = &Counter> + '_ {
        let Large { allocated, allocated_bytes, freed, freed_bytes } = &self.large;
        let single =
            [&self.missed, &self.magazines, allocated, allocated_bytes, freed, freed_bytes];
        self.allocated.iter().chain(&self.freed).chain(single)
    }
}

/// Blocks that no cache keeps.
#[derive(Debug, Default)]
pub(crate) struct Large {
    pub(crate) allocated: Counter,
    pub(crate) allocated_bytes: Counter,
    pub(crate) freed: Counter,
    pub(crate) freed_bytes: Counter,
}

impl Stock {
    /// An empty stock.
    pub(crate) fn new(classes: &Classes) -> Self {
        let bin = |_| Padded(core::array::from_fn(|_| AtomicU64::new(0)));
        let slots = (0..SETS * classes.count()).map(bin).collect();
        Self { classes: classes.count(), slots, counts: Counts::default() }
    }

    /// A set's first slot. Its classes follow each other, `MOST_DEPTH` slots each.
    pub(crate) fn first_of(&self, set: usize) -> usize {
        set * self.classes * MOST_DEPTH
    }

    #[inline(always)]
    fn slot(&self, slot: usize) -> Option<&AtomicU64> {
        self.slots.get(slot / MOST_DEPTH)?.0.get(slot % MOST_DEPTH)
    }

    /// Takes the block out of a slot; none if a flush took it.
    #[inline(always)]
    pub(crate) fn take(&self, slot: usize) -> Option<Handle> {
        let slot = self.slot(slot)?;
        if TORN_TAKE {
            let block = slot.load(Ordering::Acquire);
            slot.store(0, Ordering::Relaxed);
            return Handle::from_raw(block);
        }
        Handle::from_raw(slot.swap(0, TAKE))
    }

    /// Puts a block into an empty slot. Only the cache does.
    #[inline(always)]
    pub(crate) fn put(&self, slot: usize, block: Handle) {
        if let Some(slot) = self.slot(slot) {
            if cfg!(loom) {
                // The checker does not know that an exchange is ordered before a store that came
                // after what it read. Nothing else is in the slot.
                assert_eq!(slot.swap(block.to_raw(), PUT), 0, "a block is overwritten");
            } else {
                slot.store(block.to_raw(), PUT);
            }
        }
    }

    /// Takes all blocks out, for anyone.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = Handle> + '_ {
        self.slots.iter().flat_map(|bin| &bin.0).filter_map(|slot| {
            // Mostly there is none, and a look costs the cache less than an exchange.
            if slot.load(Ordering::Relaxed) == 0 {
                return None;
            }
            if TORN_STEAL {
                let block = slot.load(Ordering::Acquire);
                slot.store(0, Ordering::Relaxed);
                return Handle::from_raw(block);
            }
            Handle::from_raw(slot.swap(0, TAKE))
        })
    }
}
