//! Best fit by an ordered tree, the lowest address on ties.

use std::collections::{BTreeMap, BTreeSet};

use crate::replay::{Extent, Locate, Placer};

/// Textbook best fit: of all free blocks that hold the request the smallest, of several such the
/// lowest, cut at its low end; a freed block merges with its free neighbours.
///
/// Written for comparison, not for speed: every call is logarithmic in the free blocks and
/// allocates from the heap.
///
/// # Example
///
/// ```
/// use pool_mock::{reference::BestFit, replay::{Extent, Placer}};
///
/// let mut range = BestFit::new(10);
/// let first = range.place(4).unwrap();
/// let second = range.place(2).unwrap();
/// range.release(first);
/// assert_eq!(range.place(4), Some(Extent { offset_granules: 0, granules: 4 }));
/// assert_eq!(range.place(5), None);
/// # let _ = second;
/// ```
#[derive(Clone, Debug, Default)]
pub struct BestFit {
    /// The free blocks as (length, offset): the first one at or above a length is the best fit.
    by_length: BTreeSet<(u64, u64)>,
    /// The same blocks, offset to length.
    by_offset: BTreeMap<u64, u64>,
}

impl BestFit {
    /// A range of so many granules, all free.
    ///
    /// ```
    /// use pool_mock::reference::BestFit;
    ///
    /// assert_eq!(BestFit::new(7).free_blocks().collect::<Vec<_>>(), [(0, 7)]);
    /// ```
    #[must_use]
    pub fn new(capacity_granules: u64) -> Self {
        let mut range = Self::default();
        if capacity_granules > 0 {
            range.insert(0, capacity_granules);
        }
        range
    }

    /// The free blocks in address order, as offset and length in granules.
    ///
    /// ```
    /// use pool_mock::{reference::BestFit, replay::Placer};
    ///
    /// let mut range = BestFit::new(7);
    /// range.place(3);
    /// assert_eq!(range.free_blocks().collect::<Vec<_>>(), [(3, 4)]);
    /// ```
    pub fn free_blocks(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.by_offset.iter().map(|(offset, length)| (*offset, *length))
    }

    fn insert(&mut self, offset: u64, length: u64) {
        self.by_offset.insert(offset, length);
        self.by_length.insert((length, offset));
    }

    fn remove(&mut self, offset: u64, length: u64) {
        self.by_offset.remove(&offset);
        self.by_length.remove(&(length, offset));
    }
}

impl Placer for BestFit {
    type Block = Extent;

    fn place(&mut self, granules: u64) -> Option<Extent> {
        let (length, offset) = *self.by_length.range((granules, 0)..).next()?;
        self.remove(offset, length);
        if length > granules {
            self.insert(offset + granules, length - granules);
        }
        Some(Extent { offset_granules: offset, granules })
    }

    fn release(&mut self, block: Extent) {
        let Extent { mut offset_granules, mut granules } = block;
        if let Some((&offset, &length)) = self.by_offset.range(..offset_granules).next_back()
            && offset + length == offset_granules
        {
            self.remove(offset, length);
            (offset_granules, granules) = (offset, length + granules);
        }
        let end = offset_granules + granules;
        if let Some(&length) = self.by_offset.get(&end) {
            self.remove(end, length);
            granules += length;
        }
        self.insert(offset_granules, granules);
    }
}

impl Locate for BestFit {
    fn locate(&self, block: &Extent) -> Extent {
        *block
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offset(placed: Option<Extent>) -> Option<u64> {
        placed.map(|extent| extent.offset_granules)
    }

    #[test]
    fn the_smallest_hole_wins_and_then_the_lowest() {
        let mut range = BestFit::new(100);
        let blocks: Vec<_> =
            [5, 1, 3, 1, 3, 1].into_iter().map(|n| range.place(n).unwrap()).collect();
        for hole in [0, 4, 2] {
            range.release(blocks[hole]);
        }
        // Holes: 5 at 0, 3 at 6, 3 at 10, the rest from 14.
        assert_eq!(offset(range.place(2)), Some(6), "the lower of the two smallest");
        assert_eq!(offset(range.place(3)), Some(10), "the one that fits exactly");
        assert_eq!(offset(range.place(4)), Some(0));
        assert_eq!(offset(range.place(87)), None);
        assert_eq!(offset(range.place(86)), Some(14));
    }

    #[test]
    fn no_capacity_serves_nothing() {
        assert_eq!(BestFit::new(0).place(1), None);
    }

    proptest! {
        /// Against a map of every granule.
        #[test]
        fn agrees_with_a_map_of_granules(
            calls in prop::collection::vec((any::<bool>(), 1_u64..20, any::<prop::sample::Index>()), 1..200)
        ) {
            const CAPACITY: usize = 64;
            let mut range = BestFit::new(CAPACITY as u64);
            let mut taken = [false; CAPACITY];
            let mut live: Vec<Extent> = Vec::new();
            for (allocate, granules, index) in calls {
                if allocate {
                    let holes = holes(&taken);
                    let best = holes.iter().filter(|(_, length)| *length >= granules);
                    let best = best.min_by_key(|(offset, length)| (*length, *offset));
                    let placed = range.place(granules);
                    prop_assert_eq!(offset(placed), best.map(|(offset, _)| *offset));
                    if let Some(extent) = placed {
                        taken[cells(extent)].fill(true);
                        live.push(extent);
                    }
                } else if !live.is_empty() {
                    let extent = live.swap_remove(index.index(live.len()));
                    taken[cells(extent)].fill(false);
                    range.release(extent);
                }
                prop_assert_eq!(range.free_blocks().collect::<Vec<_>>(), holes(&taken));
            }
        }
    }

    fn cells(extent: Extent) -> core::ops::Range<usize> {
        let cell = |granule| usize::try_from(granule).unwrap();
        cell(extent.offset_granules)..cell(extent.end_granules())
    }

    /// The maximal runs of free cells.
    fn holes(taken: &[bool]) -> Vec<(u64, u64)> {
        let mut holes: Vec<(u64, u64)> = Vec::new();
        for (offset, _) in (0_u64..).zip(taken).filter(|(_, taken)| !**taken) {
            match holes.last_mut() {
                Some((start, length)) if *start + *length == offset => *length += 1,
                _ => holes.push((offset, 1)),
            }
        }
        holes
    }
}
