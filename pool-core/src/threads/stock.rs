//! What others may see and take of a cache: its hints and its counters.

use alloc::boxed::Box;

use super::classes::{Classes, MOST_CLASSES, MOST_DEPTH};
use crate::range::Handle;
use crate::sync::{AtomicU64, Counter, Ordering};

/// Owners whose blocks a cache keeps apart at a time.
pub(crate) const SETS: usize = if cfg!(any(loom, shuttle)) { 1 } else { 4 };

/// The hints of a cache and what it counts. Only the cache writes; a flush reads the hints and
/// takes the blocks that they name, by the blocks' words, so that what it leaves behind are
/// hints that are old.
pub(crate) struct Stock {
    classes: usize,
    /// For each set and class, `MOST_DEPTH` places.
    hints: Box<[AtomicU64]>,
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
        let places = SETS * classes.count() * MOST_DEPTH;
        let hints = (0..places).map(|_| AtomicU64::new(0)).collect();
        Self { classes: classes.count(), hints, counts: Counts::default() }
    }

    /// The place of a set's first hint. Its classes follow each other, `MOST_DEPTH` places each.
    pub(crate) fn first_of(&self, set: usize) -> usize {
        set * self.classes * MOST_DEPTH
    }

    /// The hint in a place; old ones too.
    #[inline(always)]
    pub(crate) fn hint(&self, place: usize) -> Option<Handle> {
        Handle::from_raw(self.hints.get(place)?.load(Ordering::Relaxed))
    }

    /// Writes a hint. Only the cache does.
    #[inline(always)]
    pub(crate) fn set_hint(&self, place: usize, hint: Handle) {
        if let Some(cell) = self.hints.get(place) {
            cell.store(hint.to_raw(), Ordering::Relaxed);
        }
    }

    /// Every hint, those that are old too.
    pub(crate) fn hints(&self) -> impl Iterator<Item = Handle> + '_ {
        self.hints.iter().filter_map(|cell| Handle::from_raw(cell.load(Ordering::Relaxed)))
    }
}
