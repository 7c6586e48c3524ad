//! Where the live blocks outside spans begin, for those who know an offset and no handle.
//!
//! Such blocks are few for the bytes they have, so that a word for each granule would be a cache
//! miss and a fresh page each. Instead, a block is noted by *region*: it is alone in beginning in
//! any region that is no longer than itself. There are regions of four lengths, and a block is
//! noted in the longest that it fills, so that the table of a few large blocks is small and warm.
//!
//! Entries are only written on the way of requests, and never two at once: a block is struck out
//! under its shard's lock, and the next one of its entry has granules of its, which come from that
//! lock. A look needs no lock.

use alloc::boxed::Box;

use super::sabotage::{ONE_LOOK, START};
use super::tables::{NoTable, Rows, filled};
use crate::range::{Handle, Shape, Stretch};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Regions of one granule; of the longest block that spans serve, or this; and of 16 and 256
/// times as much. All in powers of two.
const LEVELS: usize = 4;
const LEAST_LONG: u32 = 4;
const STEP: u32 = 4;

/// Entries of a table that is made at a time, in powers of two: for regions of one granule, and
/// for others a page.
const GRANULES_TABLE: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 10 };
const TABLE: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// The starts of all live blocks outside spans.
pub(crate) struct Starts {
    /// From the longest regions to the shortest.
    levels: [Regions; LEVELS],
}

/// An entry for each 2^bits granules.
struct Regions {
    bits: u32,
    table_bits: u32,
    tables: Rows<Box<[Entry]>>,
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

impl Starts {
    /// Of a range: nothing is live.
    pub(crate) fn new(shape: &Shape) -> Result<Self, NoTable> {
        let long = shape.small_granules.max(1).ilog2().max(LEAST_LONG);
        let regions = |bits| Regions::new(shape.capacity, bits, TABLE);
        Ok(Self {
            levels: [
                regions(long + 2 * STEP)?,
                regions(long + STEP)?,
                regions(long)?,
                Regions::new(shape.capacity, 0, GRANULES_TABLE)?,
            ],
        })
    }

    /// The longest regions that a block fills one of.
    #[inline(always)]
    fn regions_for(&self, block: Stretch) -> &Regions {
        let [longest, longer, long, granules] = &self.levels;
        if block.len >> longer.bits != 0 {
            if block.len >> longest.bits != 0 { longest } else { longer }
        } else if block.len >> long.bits != 0 {
            long
        } else {
            granules
        }
    }

    /// Notes a block, in a table that is made if there is none.
    #[inline(always)]
    pub(crate) fn note(&self, block: Stretch, handle: Handle) -> Result<(), NoTable> {
        let regions = self.regions_for(block);
        let entry = match regions.find(block.start) {
            Some(entry) => entry,
            None => regions.make(block.start)?,
        };
        entry.start.store(block.start, START.or_relaxed(Ordering::Release));
        entry.handle.store(handle.to_raw(), Ordering::Release);
        Ok(())
    }

    /// Strikes a block out, before another can begin where it was.
    #[inline(always)]
    pub(crate) fn strike(&self, block: Stretch) {
        if let Some(entry) = self.regions_for(block).find(block.start) {
            entry.handle.store(0, Ordering::Release);
        }
    }

    /// The handle of the live block that begins at a granule.
    pub(crate) fn live_at(&self, granule: u32) -> Option<Handle> {
        self.levels.iter().find_map(|regions| regions.find(granule)?.read(granule))
    }
}

impl Regions {
    fn new(capacity: u64, bits: u32, table_bits: u32) -> Result<Self, NoTable> {
        let tables = Rows::new(capacity.div_ceil(1 << (bits + table_bits)))?;
        Ok(Self { bits, table_bits, tables })
    }

    #[inline(always)]
    fn find(&self, granule: u32) -> Option<&Entry> {
        let region = granule >> self.bits;
        let table = self.tables.get(region >> self.table_bits)?;
        table.get((region & ((1 << self.table_bits) - 1)) as usize)
    }

    #[cold]
    fn make(&self, granule: u32) -> Result<&Entry, NoTable> {
        let table = granule >> self.bits >> self.table_bits;
        self.tables.make(table, || filled(1 << self.table_bits, Entry::default))?;
        self.find(granule).ok_or(NoTable)
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
