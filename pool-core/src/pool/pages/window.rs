//! Where a block is to lie that no free memory serves: which addresses, and which of their pages
//! have no memory yet.

use alloc::vec::Vec;
use core::ops::Range;

use crate::range::{Part, PartKind, Stretch};

/// A block that leaves no more than this part of it of its last page fills its pages.
const PART_LEFT: u64 = 256;

/// How addresses are cut into pages, in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// The first granule of the first page.
    pub(super) start: u64,
    pub(super) page: u64,
}

impl Grid {
    /// Pages that begin before a granule.
    pub(super) fn begun(&self, granule: u64) -> u32 {
        (granule - self.start).div_ceil(self.page) as u32
    }

    /// Pages that end at a granule or before.
    pub(super) fn ended(&self, granule: u64) -> u32 {
        ((granule - self.start) / self.page) as u32
    }

    /// The first granule of a page.
    fn start_of(&self, page: u32) -> u64 {
        self.start + u64::from(page) * self.page
    }

    /// The granules of pages.
    pub(super) fn stretch(&self, pages: &Range<u32>) -> Stretch {
        let start = self.start_of(pages.start) as u32;
        Stretch { start, len: u64::from(pages.end - pages.start) * self.page }
    }
}

/// A row of addresses between two pieces that are taken: what is free, and what is bare.
#[derive(Clone, Debug, Default)]
pub(super) struct Hole {
    parts: Vec<HolePart>,
}

#[derive(Clone, Copy, Debug)]
struct HolePart {
    start: u64,
    end: u64,
    is_bare: bool,
    /// Bare pages of the parts before it.
    bare_before: u32,
}

impl Hole {
    fn start(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.start)
    }

    fn end(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    fn len(&self) -> u64 {
        self.end() - self.start()
    }

    fn push(&mut self, grid: &Grid, start: u64, end: u64, is_bare: bool) {
        let bare_before = self.parts.last().map_or(0, |part| part.bare_up_to_end(grid));
        self.parts.push(HolePart { start, end, is_bare, bare_before });
    }

    /// The page behind the bare part that has a granule, or none.
    fn bare_end(&self, grid: &Grid, granule: u64) -> u32 {
        let part = self.parts.iter().find(|part| (part.start..part.end).contains(&granule));
        part.filter(|part| part.is_bare).map_or(0, |part| grid.ended(part.end))
    }

    /// Bare pages in some of its granules, not all of them bare.
    fn bare_in(&self, grid: &Grid, start: u64, end: u64) -> u32 {
        let place = |granule| {
            let behind = self.parts.partition_point(|part| part.start <= granule);
            self.parts.get(behind.saturating_sub(1))
        };
        let (Some(first), Some(last)) = (place(start), place(end - 1)) else { return 0 };
        let ended = if first.is_bare { grid.ended(start) - grid.begun(first.start) } else { 0 };
        let begun = if last.is_bare { grid.begun(end) - grid.begun(last.start) } else { 0 };
        (last.bare_before + begun) - (first.bare_before + ended)
    }

    /// The bare pages in some of its granules, in rows.
    fn bare_rows(&self, grid: &Grid, start: u64, end: u64) -> Vec<Range<u32>> {
        let bare = self.parts.iter().filter(|part| part.is_bare);
        let inside = bare.filter(|part| part.start < end && start < part.end);
        let rows =
            inside.map(|part| grid.ended(start.max(part.start))..grid.begun(end.min(part.end)));
        rows.collect()
    }
}

impl HolePart {
    fn bare_up_to_end(&self, grid: &Grid) -> u32 {
        let own = if self.is_bare { grid.begun(self.end) - grid.begun(self.start) } else { 0 };
        self.bare_before + own
    }
}

/// All holes of a space.
#[derive(Debug, Default)]
pub(super) struct Holes {
    list: Vec<Hole>,
    end: u64,
}

impl Holes {
    /// Adds a piece, as a walk over islands shows it. Pages that are `claimed` are as taken.
    pub(super) fn add(&mut self, grid: &Grid, part: Part, claimed: &[Range<u32>]) {
        let (start, end) = (u64::from(part.stretch.start), part.stretch.end());
        let is_new = part.is_head || start != self.end || self.list.is_empty();
        self.end = end;
        if part.kind == PartKind::Taken {
            self.list.push(Hole::default());
            return;
        }
        if is_new {
            self.list.push(Hole::default());
        }
        let is_bare = part.kind == PartKind::Bare;
        let mut at = start;
        let within = |claim: &&Range<u32>| {
            let stretch = grid.stretch(claim);
            is_bare && u64::from(stretch.start) >= start && stretch.end() <= end
        };
        for claim in claimed.iter().filter(within) {
            let stretch = grid.stretch(claim);
            self.push(grid, at, stretch.start.into(), is_bare);
            self.list.push(Hole::default());
            at = stretch.end();
        }
        self.push(grid, at, end, is_bare);
    }

    fn push(&mut self, grid: &Grid, start: u64, end: u64, is_bare: bool) {
        if let Some(hole) = self.list.last_mut().filter(|_| start < end) {
            hole.push(grid, start, end, is_bare);
        }
    }

    /// What is free, in stretches.
    pub(super) fn free(&self) -> impl Iterator<Item = Stretch> + '_ {
        let parts = self.list.iter().flat_map(|hole| &hole.parts);
        parts
            .filter(|part| !part.is_bare)
            .map(|part| Stretch { start: part.start as u32, len: part.end - part.start })
    }

    /// The page behind the bare row that a page is of; none if it is of none.
    pub(super) fn bare_from(&self, grid: &Grid, page: u32) -> Option<u32> {
        let mut ends = self.list.iter().map(|hole| hole.bare_end(grid, grid.start_of(page)));
        ends.find(|&end| end > 0)
    }

    /// The page in the middle of the longest bare row.
    pub(super) fn middle(&self, grid: &Grid) -> Option<u32> {
        let rows = self.list.iter().flat_map(|hole| &hole.parts).filter(|part| part.is_bare);
        let longest = rows.max_by_key(|row| row.end - row.start)?;
        Some(grid.begun(longest.start + (longest.end - longest.start) / 2))
    }

    /// The places for a block, those that need the fewest pages first; of those that need as many,
    /// the ones in the shortest hole; and of those in one hole, for a block that fills pages, the ones
    /// where it shares none with others, so that its pages can go elsewhere when it does.
    ///
    /// In each hole the fewest are needed where the block begins or ends with something free, or with
    /// the hole: whatever lies between needs as many as one of these.
    pub(super) fn places(&self, grid: &Grid, need: Need) -> Vec<Place> {
        let mut places = Vec::new();
        let fills = need.fills_pages(grid);
        for (number, hole) in self.list.iter().enumerate() {
            if hole.len() < need.len {
                continue;
            }
            let last = hole.end() - need.len;
            let mut add = |start: Option<u64>| {
                let fits = |start: &u64| {
                    (hole.start()..=last).contains(start) && start.is_multiple_of(need.align)
                };
                if let Some(start) = start.filter(fits) {
                    let end = start + need.len;
                    let new = hole.bare_in(grid, start, end);
                    let touched = if fills { grid.begun(end) - grid.ended(start) } else { 0 };
                    places.push(Place { new, touched, hole_len: hole.len(), start, number });
                }
            };
            let edges = hole.parts.iter().filter(|part| !part.is_bare);
            let edges = edges.map(|part| (part.start, part.end));
            for (start, end) in edges.chain([(hole.start(), hole.end())]) {
                for start in [Some(start), end.checked_sub(need.len)].into_iter().flatten() {
                    // Where it would lie without an alignment, and the aligned places on both sides.
                    add(Some(start - start % need.align));
                    if need.align > 1 {
                        add(start.checked_next_multiple_of(need.align));
                    }
                }
                if fills {
                    add(Some(grid.start_of(grid.begun(start))));
                    add(grid.start_of(grid.ended(end)).checked_sub(need.len));
                }
            }
        }
        places
            .sort_unstable_by_key(|place| (place.new, place.hole_len, place.touched, place.start));
        places
    }

    /// The pages that a block at a place needs, in rows, with some more behind the last if they are
    /// bare, and the granules that it lies in.
    pub(super) fn window(&self, grid: &Grid, need: Need, place: &Place, extra: u64) -> Window {
        let end = place.start + need.len;
        let hole = self.list.get(place.number);
        let mut rows = hole.map_or(Vec::new(), |hole| hole.bare_rows(grid, place.start, end));
        if let Some(hole) = hole
            && let Some(row) = rows.last_mut()
            && grid.stretch(row).end() >= end
        {
            let most = hole.bare_end(grid, end - 1).saturating_sub(row.end);
            row.end += u32::try_from(extra).unwrap_or(u32::MAX).min(most);
        }
        Window { rows, granules: place.start..end }
    }
}

/// Granules that are needed in a row, and to what their first one is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) len: u64,
    pub(super) align: u64,
    /// Whether it is for a span, of which the block is a part.
    pub(super) is_span: bool,
}

impl Need {
    /// Whether it fills as many pages as it needs, but for a small part. A single page does not count:
    /// what is left beside it could be as much as itself.
    fn fills_pages(&self, grid: &Grid) -> bool {
        let left = self.len.next_multiple_of(grid.page) - self.len;
        self.len > grid.page && left <= self.len / PART_LEFT && grid.page.is_multiple_of(self.align)
    }
}

/// A place for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Pages without memory in it.
    pub(super) new: u32,
    /// Pages that it would lie in, also in part.
    touched: u32,
    hole_len: u64,
    start: u64,
    number: usize,
}

/// Where a block is to lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    /// The pages that need memory, in rows.
    pub(super) rows: Vec<Range<u32>>,
    pub(super) granules: Range<u64>,
}

impl Window {
    /// Whether some granules are of it.
    pub(super) fn overlaps(&self, stretch: Stretch) -> bool {
        u64::from(stretch.start) < self.granules.end && self.granules.start < stretch.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holes at random, as a row of granules has them.
    fn holes(random: &mut fastrand::Rng, grid: &Grid, pages: u64) -> (Holes, Vec<PartKind>) {
        let mut map = alloc::vec![PartKind::Taken; (pages * grid.page) as usize];
        let mut page = 0;
        while page < pages {
            let count = random.u64(1..=(pages - page).min(3));
            let row = (page * grid.page) as usize..((page + count) * grid.page) as usize;
            if random.bool() {
                map[row].fill(PartKind::Bare);
            } else {
                for place in row {
                    let before = place.checked_sub(1).map_or(PartKind::Free, |place| map[place]);
                    let kinds = [PartKind::Free, PartKind::Taken];
                    let keep = random.u32(0..5) > 0 && before != PartKind::Bare;
                    map[place] = if keep { before } else { kinds[random.usize(0..2)] };
                }
            }
            page += count;
        }
        let mut list = Holes::default();
        let mut start = 0;
        while start < map.len() {
            let kind = map[start];
            let len = map[start..].iter().take_while(|&&other| other == kind).count();
            let stretch = Stretch { start: grid.start as u32 + start as u32, len: len as u64 };
            list.add(grid, Part { stretch, kind, is_head: start == 0 }, &[]);
            start += len;
        }
        (list, map)
    }

    /// No place needs fewer pages than the first, of all that there are.
    #[test]
    fn the_first_place_needs_as_few_pages_as_any() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut found = 0;
        for _ in 0..4000 {
            let grid = Grid { start: 8 * random.u64(0..5), page: 8 };
            let (holes, map) = holes(&mut random, &grid, 24);
            let align = 1 << random.u32(0..5);
            let need = Need { len: random.u64(1..60), align, is_span: false };
            let fits = |start: usize| {
                let row = map.get(start..start + need.len as usize);
                row.is_some_and(|row| row.iter().all(|kind| *kind != PartKind::Taken))
                    && (grid.start + start as u64).is_multiple_of(need.align)
            };
            let new = |start: usize| {
                let pages = start / 8..(start + need.len as usize).div_ceil(8);
                pages.filter(|page| map[page * 8] == PartKind::Bare).count() as u32
            };
            let fewest = (0..map.len()).filter(|&start| fits(start)).map(new).min();
            let places = holes.places(&grid, need);
            assert_eq!(places.first().map(|place| place.new), fewest, "{map:?} {need:?}");
            for place in &places {
                let start = (place.start - grid.start) as usize;
                assert!(fits(start));
                assert_eq!(place.new, new(start));
                let window = holes.window(&grid, need, place, 0);
                let rows: u32 = window.rows.iter().map(|row| row.end - row.start).sum();
                assert_eq!(rows, place.new);
                let bare = window.rows.iter().cloned().flatten();
                assert!(bare.into_iter().all(|page| map[page as usize * 8] == PartKind::Bare));
                found += 1;
            }
        }
        assert!(found > 1000);
    }

    #[test]
    fn what_is_claimed_is_no_place() {
        let grid = Grid { start: 0, page: 8 };
        let mut holes = Holes::default();
        let bare =
            Part { stretch: Stretch { start: 0, len: 80 }, kind: PartKind::Bare, is_head: true };
        holes.add(&grid, bare, &[2..3, 5..7]);
        let places = holes.places(&grid, Need { len: 16, align: 1, is_span: false });
        let mut starts: Vec<u64> = places.iter().map(|place| place.start).collect();
        starts.dedup();
        assert_eq!(starts, [0, 24, 56, 64]);
    }

    #[test]
    fn a_block_that_fills_pages_shares_none_if_that_costs_none() {
        let grid = Grid { start: 8, page: 8 };
        let part =
            |start, len, kind| Part { stretch: Stretch { start, len }, kind, is_head: start == 8 };
        let place = |free: u64, len: u64| {
            let mut holes = Holes::default();
            // What is left of a page, and bare ones behind it.
            let taken = 8 - free as u32;
            holes.add(&grid, part(8, taken.into(), PartKind::Taken), &[]);
            holes.add(&grid, part(8 + taken, free, PartKind::Free), &[]);
            holes.add(&grid, part(16, 16, PartKind::Bare), &[]);
            let places = holes.places(&grid, Need { len, align: 1, is_span: false });
            (places[0].new, places[0].start)
        };
        // From the first page boundary on, and not from the first free granule on.
        assert_eq!(place(3, 16), (2, 16));
        // What would leave half a page begins where free memory does.
        assert_eq!(place(3, 12), (2, 13));
        // So does a single page.
        assert_eq!(place(3, 8), (1, 13));
    }

    /// Also where it would end with a page, but for its alignment.
    #[test]
    fn p026_a_block_that_nearly_fills_pages_is_aligned() {
        let grid = Grid { start: 8, page: 8 };
        let mut holes = Holes::default();
        let stretch = Stretch { start: 8, len: 520 };
        holes.add(&grid, Part { stretch, kind: PartKind::Bare, is_head: true }, &[]);
        let places = holes.places(&grid, Need { len: 511, align: 4, is_span: false });
        assert!(places.iter().all(|place| place.start.is_multiple_of(4)), "{places:?}");
        assert_eq!((places[0].new, places[0].start), (64, 8));
    }
}
