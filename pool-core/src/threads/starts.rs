//! Where the live blocks outside spans begin, for those who know an offset and no handle.
//!
//! Such blocks are few for the bytes they have, so that a word for each granule would be a cache
//! miss and a fresh page each. Instead, a block is noted by *region*: it is alone in beginning in
//! any region that is no longer than itself. There are regions of four lengths, each a part of the
//! next longer one, and a block is noted in the longest that it fills, so that what is kept of a few
//! large blocks is small and warm, and a look goes down from the one to the other.
//!
//! Entries are only written on the way of requests, and never two at once: a block is struck out
//! under its shard's lock, and the next one of its entry has granules of its, which come from that
//! lock. A look needs no lock.

use alloc::boxed::Box;

use once_cell::race::OnceBox;

use super::sabotage::{ONE_LOOK, START};
use super::tables::{NoTable, alone, filled};
use crate::range::{Handle, Shape, Stretch};
use crate::sync::{AtomicU32, AtomicU64, Once, Ordering};

/// The lengths of regions, in powers of two of granules: one; that of the longest block that spans serve, or
/// this; and twice so many times as much.
const LEAST_LONG: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 4 };
const STEP: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// The starts of all live blocks outside spans.
pub(crate) struct Starts {
    /// The length of a long region.
    long_bits: u32,
    /// All of the range, made where blocks begin.
    longest: Box<[OnceBox<[Longest; 1]>]>,
}

/// One of the longest regions, and the shorter ones in it.
#[derive(Default)]
struct Longest {
    whole: Entry,
    longer: [Entry; 1 << STEP],
    long: Once<Box<[Long]>>,
}

/// A long region, and its granules.
#[derive(Default)]
struct Long {
    whole: Entry,
    granules: Once<Box<[Entry]>>,
}

/// One block, or none: the handle is zero then.
///
/// A look reads the handle, the start, and the handle again. Between two blocks the handle is
/// zero, and no two have the same, so that what lies between equal handles is of one block.
#[derive(Default)]
struct Entry {
    handle: AtomicU64,
    start: AtomicU32,
}

/// Which regions a block is noted in.
#[derive(Clone, Copy)]
enum Level {
    Longest,
    Longer,
    Long,
    Granules,
}

impl Starts {
    /// Of a range: nothing is live.
    pub(crate) fn new(shape: &Shape) -> Result<Self, NoTable> {
        let long_bits = shape.small_granules.max(1).ilog2().max(LEAST_LONG);
        let count = shape.capacity.div_ceil(1 << (long_bits + 2 * STEP));
        Ok(Self { long_bits, longest: filled(count, OnceBox::new)? })
    }

    /// The longest regions that a block fills one of.
    #[inline(always)]
    fn level_of(&self, block: Stretch) -> Level {
        let longs = block.len >> self.long_bits;
        if longs >> STEP != 0 {
            if longs >> (2 * STEP) != 0 { Level::Longest } else { Level::Longer }
        } else if longs != 0 {
            Level::Long
        } else {
            Level::Granules
        }
    }

    /// Where the longest region is that a granule is in.
    #[inline(always)]
    fn cell(&self, granule: u32) -> Option<&OnceBox<[Longest; 1]>> {
        self.longest.get((granule >> (self.long_bits + 2 * STEP)) as usize)
    }

    /// That region, once it is made.
    #[inline(always)]
    fn longest(&self, granule: u32) -> Option<&Longest> {
        self.cell(granule)?.get().map(|[longest]| longest)
    }

    #[inline(always)]
    fn longer<'a>(&self, longest: &'a Longest, granule: u32) -> &'a Entry {
        &longest.longer[(granule >> (self.long_bits + STEP)) as usize % (1 << STEP)]
    }

    #[inline(always)]
    fn long<'a>(&self, longest: &'a Longest, granule: u32) -> Option<&'a Long> {
        longest.long.get()?.get((granule >> self.long_bits) as usize % (1 << (2 * STEP)))
    }

    #[inline(always)]
    fn granule<'a>(&self, long: &'a Long, granule: u32) -> Option<&'a Entry> {
        long.granules.get()?.get((granule & ((1 << self.long_bits) - 1)) as usize)
    }

    /// A block's entry, if it was made.
    #[inline(always)]
    fn entry(&self, block: Stretch) -> Option<&Entry> {
        let longest = self.longest(block.start)?;
        match self.level_of(block) {
            Level::Longest => Some(&longest.whole),
            Level::Longer => Some(self.longer(longest, block.start)),
            Level::Long => Some(&self.long(longest, block.start)?.whole),
            Level::Granules => self.granule(self.long(longest, block.start)?, block.start),
        }
    }

    /// Makes a block's entry. Of two threads that do so at once both have that of one.
    #[cold]
    fn make(&self, block: Stretch) -> Result<&Entry, NoTable> {
        let cell = self.cell(block.start).ok_or(NoTable)?;
        let [longest] = cell.get_or_try_init(|| alone(Longest::default()))?;
        let level = self.level_of(block);
        if matches!(level, Level::Long | Level::Granules) {
            longest.long.try_call_once(|| filled(1 << (2 * STEP), Long::default))?;
        }
        if matches!(level, Level::Granules) {
            let long = self.long(longest, block.start).ok_or(NoTable)?;
            long.granules.try_call_once(|| filled(1 << self.long_bits, Entry::default))?;
        }
        self.entry(block).ok_or(NoTable)
    }

    /// Notes a block, in tables that are made if there are none.
    #[inline(always)]
    pub(crate) fn note(&self, block: Stretch, handle: Handle) -> Result<(), NoTable> {
        let entry = match self.entry(block) {
            Some(entry) => entry,
            None => self.make(block)?,
        };
        entry.start.store(block.start, START.or_relaxed(Ordering::Release));
        entry.handle.store(handle.to_raw(), Ordering::Release);
        Ok(())
    }

    /// Strikes a block out, before another can begin where it was.
    #[inline(always)]
    pub(crate) fn strike(&self, block: Stretch) {
        if let Some(entry) = self.entry(block) {
            entry.handle.store(0, Ordering::Release);
        }
    }

    /// The handle of the live block that begins at a granule.
    pub(crate) fn live_at(&self, granule: u32) -> Option<Handle> {
        let longest = self.longest(granule)?;
        let large = longest.whole.read(granule);
        large.or_else(|| self.longer(longest, granule).read(granule)).or_else(|| {
            let long = self.long(longest, granule)?;
            let whole = long.whole.read(granule);
            whole.or_else(|| self.granule(long, granule)?.read(granule))
        })
    }
}

impl Entry {
    fn read(&self, granule: u32) -> Option<Handle> {
        let handle = self.handle.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let again = self.handle.load(Ordering::Relaxed);
        if start == granule && (handle == again || ONE_LOOK.is_out()) {
            Handle::from_raw(handle)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{RangeConfig, Slot};

    #[test]
    fn blocks_of_every_length_are_found_where_they_begin_and_nowhere_else() {
        for capacity_bytes in [1 << 20, 1 << 30] {
            let shape = Shape::of(&RangeConfig::new(capacity_bytes)).unwrap();
            let starts = Starts::new(&shape).unwrap();
            // Side by side, each twice as long as the last, from an odd granule on.
            let (mut start, mut len) = (3u32, 1u64);
            let mut blocks = alloc::vec![];
            while u64::from(start) + len <= shape.capacity {
                let handle = Handle::with_bits(Slot::Node(len.ilog2()), 7);
                blocks.push((Stretch { start, len }, handle));
                starts.note(Stretch { start, len }, handle).unwrap();
                start += u32::try_from(len).unwrap();
                len *= 2;
            }
            for &(block, handle) in &blocks {
                assert_eq!(starts.live_at(block.start), Some(handle));
                assert_eq!(starts.live_at(block.start - 1).is_some(), block.len == 2);
            }
            for &(block, _) in &blocks {
                starts.strike(block);
                assert_eq!(starts.live_at(block.start), None);
            }
        }
    }
}
