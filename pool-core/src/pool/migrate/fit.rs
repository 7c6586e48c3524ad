//! Places for blocks in the holes that are left.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

/// A block that needs another place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Granules.
    pub(super) len: u64,
    /// A power of two.
    pub(super) align: u64,
}

/// Free stretches, by length and start, in granules.
#[derive(Clone, Debug, Default)]
pub(super) struct Holes(BTreeSet<(u64, u64)>);

impl Holes {
    pub(super) fn add(&mut self, start: u64, len: u64) {
        if len > 0 {
            self.0.insert((len, start));
        }
    }

    pub(super) fn remove(&mut self, start: u64, len: u64) {
        self.0.remove(&(len, start));
    }

    /// The shortest hole that a block fits in, of those behind another, if one is named; and where
    /// the block would begin. Holes of one length are all alike for a block that can begin
    /// anywhere.
    fn next(&self, wanted: Wanted, behind: Option<(u64, u64)>) -> Option<(u64, u64, u64)> {
        let from = match behind {
            Some((len, _)) if wanted.align == 1 => (len + 1, 0),
            Some((len, start)) => (len, start + 1),
            None => (wanted.len, 0),
        };
        self.0.range(from..).find_map(|&(len, start)| {
            let at = start.next_multiple_of(wanted.align);
            (at + wanted.len <= start + len).then_some((len, start, at))
        })
    }

    /// Puts a block into a hole, of which what is left stays.
    fn fill(&mut self, (len, start, at): (u64, u64, u64), wanted: Wanted) {
        self.remove(start, len);
        self.add(start, at - start);
        self.add(at + wanted.len, start + len - (at + wanted.len));
    }

    fn empty(&mut self, (len, start, at): (u64, u64, u64), wanted: Wanted) {
        self.remove(start, at - start);
        self.remove(at + wanted.len, start + len - (at + wanted.len));
        self.add(start, len);
    }

    /// Finds a place for each block: the largest first, each in the hole that fits it best. If that
    /// leaves one over, other holes are tried, as long as there are steps left: with enough of them
    /// a place for each is found if there is one, where all can begin anywhere. The holes are as
    /// before.
    pub(super) fn place(&mut self, blocks: &[Wanted], steps: &mut u32) -> Option<Vec<u64>> {
        // To sort them takes as long as to go through them a few times.
        let Some(left) = steps.checked_sub(blocks.len() as u32) else {
            *steps = 0;
            return None;
        };
        *steps = left;
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&place| core::cmp::Reverse((blocks[place].len, blocks[place].align)));
        let mut filled: Vec<(u64, u64, u64)> = Vec::new();
        // The hole that the next block was taken out of last.
        let mut last = None;
        while filled.len() < order.len() && *steps > 0 {
            *steps -= 1;
            let wanted = blocks[order[filled.len()]];
            if let Some(hole) = self.next(wanted, last.take()) {
                self.fill(hole, wanted);
                filled.push(hole);
                continue;
            }
            let hole = filled.pop()?;
            self.empty(hole, blocks[order[filled.len()]]);
            last = Some((hole.0, hole.1));
        }
        let is_placed = filled.len() == order.len();
        let mut starts = alloc::vec![0; blocks.len()];
        while let Some(hole) = filled.pop() {
            let place = order[filled.len()];
            starts[place] = hole.2;
            self.empty(hole, blocks[place]);
        }
        is_placed.then_some(starts)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn holes(lens: &[u64]) -> Holes {
        let mut holes = Holes::default();
        for (place, &len) in (0..).zip(lens) {
            holes.add(place * 1000, len);
        }
        holes
    }

    fn plain(lens: &[u64]) -> Vec<Wanted> {
        lens.iter().map(|&len| Wanted { len, align: 1 }).collect()
    }

    #[test]
    fn what_best_fit_leaves_over_is_placed_otherwise() {
        // The largest first, each where it fits best, would put the 3s together and fail.
        let (mut two, blocks) = (holes(&[6, 7]), plain(&[4, 3, 3, 3]));
        let before = two.clone();
        assert!(two.place(&blocks, &mut 1000).is_some());
        assert!(two.place(&blocks, &mut 8).is_none(), "no steps left");
        assert!(two.place(&plain(&[4, 4, 4]), &mut 1000).is_none());
        assert_eq!(two.0, before.0, "the holes are as before");
    }

    #[test]
    fn aligned_blocks_begin_where_they_may() {
        let mut holes = Holes::default();
        holes.add(1, 8);
        holes.add(13, 4);
        let wanted = [Wanted { len: 4, align: 4 }, Wanted { len: 3, align: 1 }];
        let placed = holes.place(&wanted, &mut 100).unwrap();
        assert_eq!(placed[0] % 4, 0);
        assert!(holes.place(&[Wanted { len: 4, align: 16 }], &mut 100).is_none());
    }

    #[test]
    fn a_place_is_found_if_there_is_one() {
        let mut random = 1u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (random >> 33) % below
        };
        let (mut found, mut refused) = (0, 0);
        for _ in 0..3000 {
            let lens: Vec<u64> = (0..=draw(4)).map(|_| 1 + draw(12)).collect();
            let blocks: Vec<u64> = (0..=draw(5)).map(|_| 1 + draw(8)).collect();
            let placed = holes(&lens).place(&plain(&blocks), &mut 100_000);
            assert_eq!(placed.is_some(), fits(&mut lens.clone(), &blocks), "{lens:?} {blocks:?}");
            found += u32::from(placed.is_some());
            refused += u32::from(placed.is_none());
        }
        assert!(found > 300 && refused > 300, "{found} {refused}");
    }

    /// Every block in every hole.
    pub(in crate::pool::migrate) fn fits(holes: &mut [u64], blocks: &[u64]) -> bool {
        let Some((&first, others)) = blocks.split_first() else { return true };
        (0..holes.len()).any(|place| {
            holes[place] >= first && {
                holes[place] -= first;
                let fits = fits(holes, others);
                holes[place] += first;
                fits
            }
        })
    }
}
