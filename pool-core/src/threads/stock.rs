//! What others may see and take of a cache: its blocks and its counters.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::Range;

use arrayvec::ArrayVec;

use super::classes::{Classes, MOST_CLASSES, MOST_DEPTH};
use super::sabotage::{
    HEAVY, IGNORES_BUSY, LIGHT, PUT, TAKE, TORN_STEAL, TORN_TAKE, UNCHECKED_TAKE,
};
use crate::range::Handle;
use crate::sabotage::Switch;
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering, Padded, UnevenFences};

/// Owners whose blocks a cache keeps apart at a time.
pub(crate) const SETS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// Stocks that a flush empties at a time, behind one fence.
const MOST_AT_ONCE: usize = 64;

/// Blocks on their way.
pub(crate) type Blocks = ArrayVec<Handle, MOST_DEPTH>;

/// The blocks of a cache and what it counts.
///
/// A block is in one slot, and whoever takes it out of there has it: the cache itself, or a
/// flush. Only the cache puts blocks in, in slots that it knows to be empty. So a cache needs no
/// lock, and a flush reaches those of threads that sleep. It is on cache lines of its own.
///
/// # Protocol
///
/// - The cache takes the last block of a bin by an atomic exchange, as a flush takes each.
/// - Where fences may be uneven, it needs none: it first counts the block out, makes the light fence,
///   and looks whether somebody is at the bin. A flush says that it is, makes the heavy fence, and
///   then looks how many blocks there are. So one of the two sees the other: either the flush
///   leaves the block alone, or the cache makes the exchange.
#[repr(align(128))]
pub(crate) struct Stock {
    classes: usize,
    /// For each set, one for each class.
    bins: Box<[Padded<Slots>]>,
    fences: Option<UnevenFences>,
    pub(crate) counts: Counts,
}

/// The slots of a set's class.
#[repr(C)]
struct Slots {
    /// Whether somebody takes several blocks out: the cache, which then needs no exchange for
    /// each, or a flush. Who finds it taken does without: a flush goes on to the next bin.
    busy: AtomicU32,
    /// The blocks are in the first so many slots. The cache alone counts; what is in a slot past them
    /// is not there.
    len: AtomicU32,
    /// The handle that a block will have, or zero.
    cells: [AtomicU64; MOST_DEPTH],
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
    pub(crate) fn new(classes: &Classes, fences: Option<UnevenFences>) -> Self {
        let bin = |_| {
            let cells = core::array::from_fn(|_| AtomicU64::new(0));
            Padded(Slots { busy: AtomicU32::new(0), len: AtomicU32::new(0), cells })
        };
        let bins = (0..SETS * classes.count()).map(bin).collect();
        Self { classes: classes.count(), bins, fences, counts: Counts::default() }
    }

    /// A set's first bin. Its classes follow each other.
    pub(crate) fn first_of(&self, set: usize) -> usize {
        set * self.classes
    }

    /// Takes the block out of a bin's last slot, which the cache alone does; none if a flush took it.
    #[inline(always)]
    pub(crate) fn take(&self, bin: usize, slot: usize) -> Option<Handle> {
        let of_bin = self.bins.get(bin)?;
        let cell = of_bin.cells.get(slot)?;
        of_bin.set_len(slot);
        if let Some(fences) = self.fences {
            if !LIGHT.is_out() {
                fences.light();
            }
            // Behind the end of a flush, what it took is seen to be gone.
            if of_bin.busy.load(Ordering::Acquire) == 0 || UNCHECKED_TAKE.is_out() {
                return Handle::from_raw(cell.load(Ordering::Relaxed));
            }
        }
        take_out(cell, TORN_TAKE)
    }

    /// Puts a block into the slot behind a bin's last one, which is empty. Only the cache does.
    #[inline(always)]
    pub(crate) fn put(&self, bin: usize, slot: usize, block: Handle) {
        let Some(of_bin) = self.bins.get(bin) else { return };
        let Some(cell) = of_bin.cells.get(slot) else { return };
        let put = PUT.or_relaxed(Ordering::Release);
        if cfg!(loom) {
            // The checker does not know that an exchange is ordered before a store that came
            // after what it read. Nothing else is in the slot, but what was there before it was
            // taken by plain steps.
            let before = cell.swap(block.to_raw(), put);
            assert!(before == 0 || self.fences.is_some(), "a block is overwritten");
        } else {
            cell.store(block.to_raw(), put);
        }
        of_bin.set_len(slot + 1);
    }

    /// Takes the blocks out of a bin's last slots, for the cache.
    pub(crate) fn take_many(&self, bin: usize, slots: Range<usize>) -> Blocks {
        let Some(of_bin) = self.bins.get(bin) else { return Blocks::new() };
        let left = slots.start;
        let taken = of_bin.cells.get(slots).unwrap_or_default();
        let blocks = if of_bin.begin() {
            let blocks = taken.iter().filter_map(|slot| {
                let block = Handle::from_raw(slot.load(Ordering::Relaxed))?;
                slot.store(0, Ordering::Relaxed);
                Some(block)
            });
            let blocks = blocks.collect();
            of_bin.end();
            blocks
        } else {
            taken.iter().filter_map(|slot| take_out(slot, TORN_TAKE)).collect()
        };
        of_bin.set_len(left);
        blocks
    }

    /// Begins to take all blocks out, for a flush by anyone: of which bins.
    fn begin_steal(&self) -> u64 {
        const { assert!(SETS * MOST_CLASSES <= u64::BITS as usize) };
        let full = self.bins.iter().enumerate().filter(|(_, of_bin)| of_bin.len() > 0);
        let begun = full.filter(|(_, of_bin)| of_bin.begin());
        begun.fold(0, |begun, (place, _)| begun | 1 << place)
    }

    /// Takes all blocks out of the bins of which that has begun.
    fn steal(&self, begun: u64, pass_on: &mut impl FnMut(Blocks)) {
        for (place, of_bin) in self.bins.iter().enumerate() {
            if begun & 1 << place == 0 {
                continue;
            }
            let cells = of_bin.cells.iter().take(of_bin.len());
            // Mostly there is none, and a look costs the cache less than an exchange.
            let full = cells.filter(|cell| cell.load(Ordering::Relaxed) != 0);
            let blocks = full.filter_map(|cell| take_out(cell, TORN_STEAL)).collect();
            of_bin.end();
            pass_on(blocks);
        }
    }
}

/// Takes all blocks out of stocks, for a flush by anyone, and passes them on by bins.
pub(crate) fn steal_all(stocks: &[Arc<Stock>], mut pass_on: impl FnMut(Blocks)) {
    let fences = stocks.iter().find_map(|stock| stock.fences);
    for some in stocks.chunks(MOST_AT_ONCE) {
        let begun: ArrayVec<u64, MOST_AT_ONCE> =
            some.iter().map(|stock| stock.begin_steal()).collect();
        if let Some(fences) = fences
            && begun.iter().any(|&begun| begun != 0)
            && !HEAVY.is_out()
        {
            fences.heavy();
        }
        for (stock, begun) in some.iter().zip(begun) {
            stock.steal(begun, &mut pass_on);
        }
    }
}

/// Takes the block out of a slot, of which another may take it out, too.
#[inline(always)]
fn take_out(slot: &AtomicU64, torn: Switch) -> Option<Handle> {
    if torn.is_out() {
        let block = slot.load(Ordering::Acquire);
        slot.store(0, Ordering::Relaxed);
        return Handle::from_raw(block);
    }
    Handle::from_raw(slot.swap(0, TAKE.or_relaxed(Ordering::Acquire)))
}

impl Slots {
    /// In how many slots there may be blocks.
    #[inline(always)]
    fn len(&self) -> usize {
        self.len.load(Ordering::Acquire) as usize
    }

    /// Says in how many slots there are blocks. Only the cache does.
    #[inline(always)]
    fn set_len(&self, len: usize) {
        // Released: who sees the number sees what is in the slots, and never what was there before.
        self.len.store(len as u32, Ordering::Release);
    }

    /// Begins to take several blocks out; false if somebody else does.
    fn begin(&self) -> bool {
        let begun = self.busy.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        begun.is_ok() || IGNORES_BUSY.is_out()
    }

    fn end(&self) {
        self.busy.store(0, Ordering::Release);
    }
}
