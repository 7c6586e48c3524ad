//! Shelves: blocks that were freed under an affinity, kept as they are for the next request that
//! has the same.
//!
//! A block comes here only if nothing has to be waited for but the stream of the space that it is
//! of, and is given out again only to that stream. It is set aside meanwhile: for its space it is
//! in use. What is on shelves is put back when any request finds nothing else, before anything is
//! waited for or taken from the device, and whenever caches are emptied.

use alloc::collections::BTreeMap;
use core::cmp::Reverse;

use crate::range::Tolerance;
use crate::threads::{Aside, Owner};

/// The most blocks on all shelves.
const MOST_BLOCKS: usize = 1024;

/// Where a block is: on the shelf of a space for a key, by size, and of one size the newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    space: u32,
    key: u32,
    size_bytes: u64,
    serial: Reverse<u64>,
}

impl Place {
    /// Before all blocks of a space.
    const fn first_of(space: u32) -> Self {
        Self { space, key: 0, size_bytes: 0, serial: Reverse(u64::MAX) }
    }
}

/// What is looked for on a shelf, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// The least size.
    pub(crate) least: u64,
    /// The size that a fresh block would have.
    pub(crate) usual: u64,
    pub(crate) align: u64,
}

/// All shelves of a pool.
pub(crate) struct Shelves {
    blocks: BTreeMap<Place, Aside>,
    /// Where each block is, in the order in which they came: by serial.
    ages: BTreeMap<u64, Place>,
    size_bytes: u64,
    /// The last serial.
    serial: u64,
    most_bytes: u64,
    tolerance: Tolerance,
    granule_bytes: u64,
}

impl Shelves {
    /// Shelves for so many bytes of blocks, which may be longer than usual by a tolerance.
    pub(crate) fn new(most_bytes: u64, tolerance: Tolerance, granule_bytes: u64) -> Self {
        Self {
            blocks: BTreeMap::new(),
            ages: BTreeMap::new(),
            size_bytes: 0,
            serial: 0,
            most_bytes,
            tolerance,
            granule_bytes,
        }
    }

    /// Whether a block of a size can be put on a shelf at all.
    pub(crate) fn have_room_for(&self, size_bytes: u64) -> bool {
        size_bytes <= self.most_bytes
    }

    /// Bytes on all shelves.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Every block on a shelf, with the space whose shelf it is.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Owner, &Aside)> {
        self.blocks.iter().map(|(place, block)| (Owner(place.space), block))
    }

    /// Puts a block on the shelf of its space for a key.
    pub(crate) fn push(&mut self, key: u32, block: Aside) {
        self.serial += 1;
        let serial = Reverse(self.serial);
        let Aside { space, size_bytes, .. } = block;
        let place = Place { space: space.0, key, size_bytes, serial };
        self.blocks.insert(place, block);
        self.ages.insert(self.serial, place);
        self.size_bytes += size_bytes;
    }

    /// Takes away what is too much: the block that has been there longest. None if it is not.
    pub(crate) fn pop_excess(&mut self) -> Option<Aside> {
        if self.size_bytes <= self.most_bytes && self.blocks.len() <= MOST_BLOCKS {
            return None;
        }
        let (_, &oldest) = self.ages.first_key_value()?;
        self.take_at(oldest)
    }

    /// Takes the block that fits best, of several such the one that was put there last.
    pub(crate) fn take(&mut self, space: Owner, key: u32, fit: &Fit) -> Option<Aside> {
        let first = Place { key, size_bytes: fit.least, ..Place::first_of(space.0) };
        let longer = self.blocks.range(first..);
        let mut fitting = longer.take_while(|(place, _)| {
            (place.space, place.key) == (space.0, key)
                && self.is_tolerable(fit.usual, place.size_bytes)
        });
        let aligned = fitting.find(|(_, block)| block.offset_bytes & (fit.align - 1) == 0);
        let (&place, _) = aligned?;
        self.take_at(place)
    }

    /// Whether a block of a size may serve where one of the usual size would.
    fn is_tolerable(&self, usual_bytes: u64, size_bytes: u64) -> bool {
        let over = size_bytes.saturating_sub(usual_bytes) / self.granule_bytes;
        self.tolerance.covers(usual_bytes / self.granule_bytes, over)
    }

    fn take_at(&mut self, place: Place) -> Option<Aside> {
        let block = self.blocks.remove(&place)?;
        self.ages.remove(&place.serial.0);
        self.size_bytes -= block.size_bytes;
        Some(block)
    }

    /// Takes any block of a space, or of all.
    pub(crate) fn pop(&mut self, space: Option<Owner>) -> Option<Aside> {
        let first = Place::first_of(space.map_or(0, |space| space.0));
        let (&place, _) = self.blocks.range(first..).next()?;
        let is_wanted = space.is_none_or(|space| space.0 == place.space);
        if is_wanted { self.take_at(place) } else { None }
    }

    /// Whether what is counted is what is there.
    pub(crate) fn are_counted(&self) -> bool {
        let size_bytes: u64 = self.blocks.values().map(|block| block.size_bytes).sum();
        let places = self.ages.values().all(|place| self.blocks.contains_key(place));
        size_bytes == self.size_bytes && places && self.ages.len() == self.blocks.len()
    }
}
