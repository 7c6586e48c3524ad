//! What others may see and take of a cache: its blocks and its counters.

use alloc::boxed::Box;
use core::ops::Range;

use arrayvec::ArrayVec;

use super::classes::{Classes, MOST_CLASSES, MOST_DEPTH};
use super::sabotage::{IGNORES_BUSY, PUT, TAKE, TORN_STEAL, TORN_TAKE};
use crate::range::Handle;
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering, Padded};

/// Owners whose blocks a cache keeps apart at a time.
pub(crate) const SETS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// Blocks on their way.
pub(crate) type Blocks = ArrayVec<Handle, MOST_DEPTH>;

/// The blocks of a cache and what it counts.
///
/// A block is in one slot, and whoever takes it out of there has it: the cache itself, or a
/// flush. Only the cache puts blocks in, in slots that it knows to be empty. So a cache needs no
/// lock, and a flush reaches those of threads that sleep. It is on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Stock {
    classes: usize,
    /// For each set, one for each class.
    bins: Box<[Padded<Slots>]>,
    pub(crate) counts: Counts,
}

/// The slots of a set's class.
struct Slots {
    /// Whether somebody takes several blocks out: the cache, which then needs no exchange for
    /// each, or a flush. Who finds it taken does without: a flush goes on to the next bin.
    busy: AtomicU32,
    /// The handle that a block will have, or zero.
    slots: [AtomicU64; MOST_DEPTH],
}

/// What a cache counts: by class what it gives out and takes back, and apart from that the
/// blocks that no cache keeps.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) allocated: [Counter; MOST_CLASSES],
    pub(crate) freed: [Counter; MOST_CLASSES],
    /// Operations of these that the cache did not do alone.
    pub(crate) missed: [Counter; MOST_CLASSES],
    pub(crate) magazines: Counter,
    pub(crate) large: Large,
}

impl Large {
    /// A block was given out.
    #[inline]
    pub(crate) fn gave(&self, bytes: u64) {
        self.allocated.add(1);
        self.allocated_bytes.add(bytes);
    }

    /// A block was taken back.
    #[inline]
    pub(crate) fn took(&self, bytes: u64) {
        self.freed.add(1);
        self.freed_bytes.add(bytes);
    }

    /// A block was given out, by any thread.
    pub(crate) fn gave_shared(&self, bytes: u64) {
        self.allocated.add_shared(1);
        self.allocated_bytes.add_shared(bytes);
    }

    /// A block was taken back, by any thread.
    pub(crate) fn took_shared(&self, bytes: u64) {
        self.freed.add_shared(1);
        self.freed_bytes.add_shared(bytes);
    }
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
        let single = [&self.magazines, allocated, allocated_bytes, freed, freed_bytes];
        self.allocated.iter().chain(&self.freed).chain(&self.missed).chain(single)
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
        let bin = |_| {
            let slots = core::array::from_fn(|_| AtomicU64::new(0));
            Padded(Slots { busy: AtomicU32::new(0), slots })
        };
        let bins = (0..SETS * classes.count()).map(bin).collect();
        Self { classes: classes.count(), bins, counts: Counts::default() }
    }

    /// A set's first bin. Its classes follow each other.
    pub(crate) fn first_of(&self, set: usize) -> usize {
        set * self.classes
    }

    /// How many bins there are.
    pub(crate) fn bins(&self) -> usize {
        self.bins.len()
    }

    #[inline(always)]
    fn slot(&self, bin: usize, slot: usize) -> Option<&AtomicU64> {
        self.bins.get(bin)?.0.slots.get(slot)
    }

    /// Takes the block out of a slot; none if a flush took it.
    #[inline(always)]
    pub(crate) fn take(&self, bin: usize, slot: usize) -> Option<Handle> {
        let slot = self.slot(bin, slot)?;
        if TORN_TAKE.is_out() {
            let block = slot.load(Ordering::Acquire);
            slot.store(0, Ordering::Relaxed);
            return Handle::from_raw(block);
        }
        Handle::from_raw(slot.swap(0, TAKE.or_relaxed(Ordering::Acquire)))
    }

    /// Puts a block into an empty slot. Only the cache does.
    #[inline(always)]
    pub(crate) fn put(&self, bin: usize, slot: usize, block: Handle) {
        if let Some(slot) = self.slot(bin, slot) {
            let put = PUT.or_relaxed(Ordering::Release);
            if cfg!(loom) {
                // The checker does not know that an exchange is ordered before a store that came
                // after what it read. Nothing else is in the slot.
                assert_eq!(slot.swap(block.to_raw(), put), 0, "a block is overwritten");
            } else {
                slot.store(block.to_raw(), put);
            }
        }
    }

    /// Takes the blocks out of several slots, for the cache.
    pub(crate) fn take_many(&self, bin: usize, slots: Range<usize>) -> Blocks {
        let Some(of_bin) = self.bins.get(bin) else { return Blocks::new() };
        if !of_bin.begin() {
            return slots.filter_map(|slot| self.take(bin, slot)).collect();
        }
        let taken = of_bin.slots.get(slots).unwrap_or_default();
        let blocks = taken.iter().filter_map(|slot| {
            let block = Handle::from_raw(slot.load(Ordering::Relaxed))?;
            slot.store(0, Ordering::Relaxed);
            Some(block)
        });
        let blocks = blocks.collect();
        of_bin.end();
        blocks
    }

    /// Takes all blocks out of a bin, for a flush by anyone.
    pub(crate) fn steal(&self, bin: usize) -> Blocks {
        let Some(of_bin) = self.bins.get(bin) else { return Blocks::new() };
        if !of_bin.begin() {
            return Blocks::new();
        }
        let blocks = of_bin.slots.iter().filter_map(|slot| {
            // Mostly there is none, and a look costs the cache less than an exchange.
            if slot.load(Ordering::Relaxed) == 0 {
                return None;
            }
            if TORN_STEAL.is_out() {
                let block = slot.load(Ordering::Acquire);
                slot.store(0, Ordering::Relaxed);
                return Handle::from_raw(block);
            }
            Handle::from_raw(slot.swap(0, TAKE.or_relaxed(Ordering::Acquire)))
        });
        let blocks = blocks.collect();
        of_bin.end();
        blocks
    }
}

impl Slots {
    /// Begins to take several blocks out; false if somebody else does.
    fn begin(&self) -> bool {
        let begun = self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        begun.is_ok() || IGNORES_BUSY.is_out()
    }

    fn end(&self) {
        self.busy.store(0, Ordering::Release);
    }
}
