//! Shelves: blocks that were freed under an affinity, kept as they are for the next request that
//! has the same.
//!
//! A block comes here only if nothing has to be waited for but the stream of the space that it is
//! of, and is given out again only to that stream. It is set aside meanwhile: for its space it is
//! in use. What is on shelves is put back when any request finds nothing else, before anything is
//! waited for or taken from the device, and whenever caches are emptied.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::range::Tolerance;
use crate::threads::{Aside, Owner};

/// The most blocks on all shelves.
const MOST_BLOCKS: usize = 1024;

/// A shelf, by space and key.
type Place = (u32, u32);

/// A block on a shelf.
struct Shelved {
    /// When it was put there: a count of such.
    serial: u64,
    block: Aside,
}

/// What is looked for on a shelf, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    /// The least size.
    pub(crate) least_bytes: u64,
    /// The size that a fresh block would have.
    pub(crate) usual_bytes: u64,
    pub(crate) align_bytes: u64,
}

/// All shelves of a pool.
pub(crate) struct Shelves {
    shelves: BTreeMap<Place, Vec<Shelved>>,
    blocks: usize,
    size_bytes: u64,
    serial: u64,
    most_bytes: u64,
    tolerance: Tolerance,
    granule_bytes: u64,
}

impl Shelves {
    /// Shelves for so many bytes of blocks, which may be longer than usual by a tolerance.
    pub(crate) fn new(most_bytes: u64, tolerance: Tolerance, granule_bytes: u64) -> Self {
        Self {
            shelves: BTreeMap::new(),
            blocks: 0,
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

    /// Every block on a shelf, with the space that it is there for.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Owner, &Aside)> {
        self.shelves.iter().flat_map(|(&(space, _), shelf)| {
            shelf.iter().map(move |shelved| (Owner(space), &shelved.block))
        })
    }

    /// Puts a block on the shelf of its space's for a key.
    pub(crate) fn push(&mut self, key: u32, block: Aside) {
        self.serial += 1;
        self.blocks += 1;
        self.size_bytes += block.size_bytes;
        let shelf = self.shelves.entry((block.space.0, key)).or_default();
        shelf.push(Shelved { serial: self.serial, block });
    }

    /// Takes away what is too much: the block that has been there longest. None if it is not.
    pub(crate) fn pop_excess(&mut self) -> Option<Aside> {
        if self.size_bytes <= self.most_bytes && self.blocks <= MOST_BLOCKS {
            return None;
        }
        let age = |shelf: &Vec<Shelved>| shelf.first().map(|oldest| oldest.serial);
        let (&place, _) = self.shelves.iter().min_by_key(|(_, shelf)| age(shelf))?;
        self.take_at(place, 0)
    }

    /// Takes the block that fits best, of several such the one that was put there last.
    pub(crate) fn take(&mut self, space: Owner, key: u32, fit: &Fit) -> Option<Aside> {
        let place = (space.0, key);
        let shelf = self.shelves.get(&place)?;
        let fitting = shelf.iter().enumerate().rev().filter(|(_, shelved)| {
            let Aside { offset_bytes, size_bytes, .. } = shelved.block;
            size_bytes >= fit.least_bytes
                && offset_bytes & (fit.align_bytes - 1) == 0
                && self.is_tolerable(fit.usual_bytes, size_bytes)
        });
        let (at, _) = fitting.min_by_key(|(_, shelved)| shelved.block.size_bytes)?;
        self.take_at(place, at)
    }

    /// Whether a block of a size may serve where one of the usual size would.
    fn is_tolerable(&self, usual_bytes: u64, size_bytes: u64) -> bool {
        let over = size_bytes.saturating_sub(usual_bytes) / self.granule_bytes;
        self.tolerance.covers(usual_bytes / self.granule_bytes, over)
    }

    fn take_at(&mut self, place: Place, at: usize) -> Option<Aside> {
        let shelf = self.shelves.get_mut(&place)?;
        let block = shelf.get(at)?.block;
        shelf.remove(at);
        if shelf.is_empty() {
            self.shelves.remove(&place);
        }
        self.blocks -= 1;
        self.size_bytes -= block.size_bytes;
        Some(block)
    }

    /// Takes any block of a space, or of all.
    pub(crate) fn pop(&mut self, space: Option<Owner>) -> Option<Aside> {
        let place = match space {
            Some(Owner(space)) => *self.shelves.range((space, 0)..=(space, u32::MAX)).next()?.0,
            None => *self.shelves.first_key_value()?.0,
        };
        let last = self.shelves.get(&place)?.len().checked_sub(1)?;
        self.take_at(place, last)
    }

    /// Whether what is counted is what is there.
    pub(crate) fn are_counted(&self) -> bool {
        let sum = self.all().fold((0, 0), |sum, (_, block)| (sum.0 + 1, sum.1 + block.size_bytes));
        sum == (self.blocks, self.size_bytes)
    }
}
