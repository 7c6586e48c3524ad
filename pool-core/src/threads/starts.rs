//! Where the live blocks outside spans begin, for those who know an offset and no handle.
//!
//! Such blocks are mostly large, so that a word for each granule would be a cache miss and a
//! fresh page each: a block that is at least a *region* long (the largest size that spans serve)
//! is alone in beginning in its region, and has one entry there. The few shorter ones have an
//! entry by granule. Entries are only written on the way of requests, under the lock that the
//! block is allocated or freed under; a look needs no lock.

use alloc::boxed::Box;

use super::tables::{NoTable, cells, filled};
use crate::range::{Handle, Shape, Stretch};
use crate::sync::{AtomicU32, AtomicU64, Once, Ordering};

/// Regions of a table that is made at a time, in powers of two.
const TABLE_BITS: u32 = if cfg!(any(loom, shuttle)) { 2 } else { 12 };

/// The starts of all live blocks outside spans.
pub(crate) struct Starts {
    by_region: Regions,
    by_granule: Regions,
}

/// An entry for each 2^bits granules.
struct Regions {
    bits: u32,
    tables: Box<[Once<Box<[Entry]>>]>,
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
        let bits = shape.small_granules.max(1).ilog2();
        Ok(Self {
            by_region: Regions::new(shape.capacity, bits)?,
            by_granule: Regions::new(shape.capacity, 0)?,
        })
    }

    #[inline(always)]
    fn regions_for(&self, block: Stretch) -> &Regions {
        if block.len >> self.by_region.bits != 0 { &self.by_region } else { &self.by_granule }
    }

    /// Notes a block, in a table that is made if there is none.
    #[inline(always)]
    pub(crate) fn note(&self, block: Stretch, handle: Handle) -> Result<(), NoTable> {
        let regions = self.regions_for(block);
        let entry = match regions.find(block.start) {
            Some(entry) => entry,
            None => regions.make(block.start)?,
        };
        entry.start.store(block.start, Ordering::Release);
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
        let of = |regions: &Regions| regions.find(granule)?.read(granule);
        of(&self.by_region).or_else(|| of(&self.by_granule))
    }
}

impl Regions {
    fn new(capacity: u64, bits: u32) -> Result<Self, NoTable> {
        Ok(Self { bits, tables: cells(capacity.div_ceil(1 << (bits + TABLE_BITS)))? })
    }

    #[inline(always)]
    fn find(&self, granule: u32) -> Option<&Entry> {
        let region = granule >> self.bits;
        let table = self.tables.get((region >> TABLE_BITS) as usize)?.get()?;
        table.get((region & ((1 << TABLE_BITS) - 1)) as usize)
    }

    #[cold]
    fn make(&self, granule: u32) -> Result<&Entry, NoTable> {
        let table = (granule >> self.bits >> TABLE_BITS) as usize;
        let table = self.tables.get(table).ok_or(NoTable)?;
        table.try_call_once(|| filled(1 << TABLE_BITS, Entry::default))?;
        self.find(granule).ok_or(NoTable)
    }
}

impl Entry {
    fn read(&self, granule: u32) -> Option<Handle> {
        let handle = self.handle.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Acquire);
        let again = self.handle.load(Ordering::Relaxed);
        if start == granule && handle == again { Handle::from_raw(handle) } else { None }
    }
}
