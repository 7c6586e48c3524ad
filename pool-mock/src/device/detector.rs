//! Finds uses of the same bytes that nothing orders.
//!
//! For each byte of a range the uses are kept that a later one may have to be ordered after: not
//! those that are before a write that is kept, since whoever is ordered after the write is
//! ordered after them, too. So there are at most a few for each stream.

use core::ops::Range;

use super::clock::Point;
use super::intervals::Intervals;
use super::violation::{Access, Owner};

/// A use, as far as later ones need it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Past {
    pub(super) at: Point,
    pub(super) order: u64,
    pub(super) owner: Option<Owner>,
    pub(super) access: Access,
    pub(super) bytes: Range<u64>,
}

/// The uses of some bytes that matter still.
#[derive(Clone, Debug, Default)]
struct Stretch {
    writes: Vec<Past>,
    reads: Vec<Past>,
    updates: Vec<Past>,
}

/// The uses of a range.
#[derive(Debug, Default)]
pub(super) struct Uses {
    map: Intervals<Stretch>,
}

impl Uses {
    /// Adds a use. Gives the earlier ones that it should be ordered after and is not: those for
    /// which `is_before` is false and `matters` true.
    pub(super) fn add(
        &mut self,
        new: &Past,
        is_before: impl Fn(&Past) -> bool,
        matters: impl Fn(&Past) -> bool,
    ) -> Vec<Past> {
        let mut races: Vec<Past> = Vec::new();
        let is_write = new.access == Access::Write;
        let mut kept = Vec::new();
        for (bytes, mut stretch) in self.map.take(new.bytes.clone()) {
            for past in stretch.conflicting(new.access) {
                let known = races.iter().any(|race| race.order == past.order);
                if !known && matters(past) && !is_before(past) {
                    races.push(past.clone());
                }
            }
            stretch.forget(new.access, &is_before);
            if !is_write || !stretch.is_empty() {
                kept.push((bytes, stretch));
            }
        }
        // The rest is new, or as if it were.
        let mut at = new.bytes.start;
        for (bytes, mut stretch) in kept {
            self.map.put(at..bytes.start, Stretch::only(new));
            at = bytes.end;
            stretch.list(new.access).push(new.clone());
            self.map.put(bytes, stretch);
        }
        self.map.put(at..new.bytes.end, Stretch::only(new));
        races
    }

    /// The first use of `bytes` that is not before something.
    pub(super) fn pending(
        &self,
        bytes: Range<u64>,
        is_before: impl Fn(&Past) -> bool,
    ) -> Option<Past> {
        self.map
            .overlapping(bytes)
            .flat_map(|(_, stretch)| stretch.conflicting(Access::Write))
            .find(|past| !is_before(past))
            .cloned()
    }
}

impl Stretch {
    fn only(past: &Past) -> Self {
        let mut stretch = Self::default();
        stretch.list(past.access).push(past.clone());
        stretch
    }

    const fn list(&mut self, access: Access) -> &mut Vec<Past> {
        match access {
            Access::Read => &mut self.reads,
            Access::Write => &mut self.writes,
            Access::Update => &mut self.updates,
        }
    }

    /// The uses that one of this kind has to be ordered with.
    fn conflicting(&self, access: Access) -> impl Iterator<Item = &Past> {
        let reads = self.reads.iter().filter(move |_| access != Access::Read);
        let updates = self.updates.iter().filter(move |_| access != Access::Update);
        self.writes.iter().chain(reads).chain(updates)
    }

    /// Forgets the uses that a new one of this kind is ordered after and stands for.
    fn forget(&mut self, access: Access, is_before: impl Fn(&Past) -> bool) {
        self.list(access).retain(|past| !is_before(past));
        if access == Access::Write {
            self.reads.retain(|past| !is_before(past));
            self.updates.retain(|past| !is_before(past));
        }
    }

    const fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty() && self.updates.is_empty()
    }
}
