//! Addresses without memory: parts of islands that are neither free nor live until the layer above
//! has memory mapped there.
//!
//! A bare piece is a live node that no handle names and no book counts, so that nothing is placed
//! in it and nothing merges with it. Once there is memory it is a free run as any other.

use alloc::vec::Vec;

use super::allocator::{Free, OffsetAllocator};
use super::error::Metadata;
use super::islands::{LENT, Rest, Stretch};
use super::node::{NONE, Node, State};
use super::runs::Place;
use super::storage::Storage;

/// What a piece of an island is to one who looks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartKind {
    /// Free.
    Free,
    /// Without memory.
    Bare,
    /// Anything else.
    Taken,
}

/// A piece, as one walks over islands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) stretch: Stretch,
    pub(crate) kind: PartKind,
    /// Whether an island begins with it.
    pub(crate) is_head: bool,
}

impl<S: Storage> OffsetAllocator<S> {
    /// Granules that no memory is behind.
    pub(crate) fn bare_granules(&self) -> u64 {
        self.bare
    }

    /// Shows every piece of every island, each island in order. Linear in the nodes.
    pub(crate) fn walk(&mut self, mut each: impl FnMut(Part)) {
        self.gather();
        for head in self.table.heads() {
            for at in self.table.chain_from(head) {
                let node = self.table.storage.node(at);
                let kind = match node.state() {
                    State::Free => PartKind::Free,
                    State::Live if node.is_bare() => PartKind::Bare,
                    _ => PartKind::Taken,
                };
                let stretch = Stretch { start: node.start, len: node.len() };
                each(Part { stretch, kind, is_head: at == head });
            }
        }
    }

    /// Makes a stretch, of which nothing is owned, an island without memory but for some parts of it,
    /// which lie apart and are free. An error changes nothing.
    pub(crate) fn adopt_bare(
        &mut self,
        stretch: Stretch,
        free: &[Stretch],
    ) -> Result<(), Metadata> {
        // Each part leaves a bare one before it, and itself.
        let parts = u32::try_from(free.len()).unwrap_or(u32::MAX);
        self.prepare(parts.saturating_mul(2).saturating_add(1))?;
        let bare = Node::live(stretch.start, stretch.len, LENT);
        let node = self.table.chain.insert(&mut self.table.storage, NONE, NONE, bare);
        self.table.storage.node_mut(node).set_bare(true);
        self.note_islands(stretch.len, 0);
        self.bare += stretch.len;
        for &part in free {
            self.back(part)?;
        }
        Ok(())
    }

    /// There is memory behind a bare part now: it is free. An error, for want of metadata or of such
    /// a part, changes nothing.
    pub(crate) fn back(&mut self, part: Stretch) -> Result<(), Metadata> {
        let (node, _) = self.carve_bare(part)?;
        self.table.storage.node_mut(node).set_bare(false);
        self.release_whole(node);
        self.bare -= part.len;
        Ok(())
    }

    /// A bare part is none of this allocator's any more: what lies before and behind it are ends of
    /// islands. An error changes nothing.
    pub(crate) fn cut_bare(&mut self, part: Stretch) -> Result<(), Metadata> {
        let (node, _) = self.carve_bare(part)?;
        self.table.chain.cut(&mut self.table.storage, node);
        self.bare -= part.len;
        self.note_islands(0, part.len);
        Ok(())
    }

    /// A bare part stands for one that is lent from now on: its node. An error changes nothing.
    pub(crate) fn lend_bare(&mut self, part: Stretch) -> Result<u32, Metadata> {
        let (node, _) = self.carve_bare(part)?;
        let generation = self.generation.bits() | LENT;
        let lent = self.table.storage.node_mut(node);
        lent.set_bare(false);
        lent.links[0] = generation;
        self.bare -= part.len;
        self.books.live_granules += part.len;
        self.books.live_blocks += 1;
        self.rebase_peak_at_least();
        Ok(node)
    }

    /// A part of what is lent is bare from now on, and this allocator's. An error changes nothing.
    pub(crate) fn take_bare_back(&mut self, node: u32, part: Stretch) -> Result<Rest, Metadata> {
        let (bare, rest) = self.carve(node, part, 0)?;
        self.books.live_granules -= part.len;
        self.books.live_blocks = self.books.live_blocks + rest.count() - 1;
        self.bare += part.len;
        self.table.storage.node_mut(bare).set_bare(true);
        self.merge_bare(bare);
        Ok(rest)
    }

    /// Memory is about to go from behind parts that are free: they are bare from now on. Those that
    /// are, as far as there is metadata.
    pub(crate) fn make_bare(&mut self, parts: &[Stretch]) -> Vec<Stretch> {
        self.gather();
        let mut parts = parts.to_vec();
        parts.sort_unstable_by_key(|part| part.start);
        let mut made = Vec::new();
        let heads: Vec<u32> = self.table.heads().collect();
        for head in heads {
            let mut at = head;
            while at != NONE {
                let node = *self.table.storage.node(at);
                let place = parts.partition_point(|part| part.start < node.start);
                let inside = parts.get(place).filter(|part| part.end() <= node.end()).copied();
                if let Some(part) = inside
                    && node.state() == State::Free
                {
                    let Some(bare) = self.make_bare_in(at, part) else { return made };
                    made.push(part);
                    at = bare;
                }
                at = self.table.storage.node(at).after();
            }
        }
        made
    }

    /// The same for a part of a free run: the bare piece that it is in.
    fn make_bare_in(&mut self, run: u32, part: Stretch) -> Option<u32> {
        self.prepare(2).ok()?;
        let Free::Runs(runs, _) = &mut self.free else { return None };
        let place = Place { node: run, start: part.start.into() };
        let node = runs.claim(&mut self.table, place, part.len, self.generation).ok()?;
        let bare = self.table.storage.node_mut(node);
        bare.links[0] |= LENT;
        bare.set_bare(true);
        self.bare += part.len;
        Some(self.merge_bare(node))
    }

    /// Makes one of bare pieces side by side: its node.
    fn merge_bare(&mut self, node: u32) -> u32 {
        let piece = *self.table.storage.node(node);
        let (before, after) = (piece.before(), piece.after());
        let is_bare = |at: u32| at != NONE && self.table.storage.node(at).is_bare();
        let (joins_before, joins_after) = (is_bare(before), is_bare(after));
        let mut merged = node;
        if joins_after {
            let len = piece.len() + self.table.storage.node(after).len();
            self.table.storage.node_mut(node).set_len(len);
            self.table.remove(after);
        }
        if joins_before {
            let len = self.table.storage.node(node).len();
            let first = self.table.storage.node_mut(before);
            first.set_len(first.len() + len);
            self.table.remove(node);
            merged = before;
        }
        merged
    }

    /// Makes a part of a bare piece one of its own.
    fn carve_bare(&mut self, part: Stretch) -> Result<(u32, Rest), Metadata> {
        let whole = (0..self.table.touched()).find(|&at| {
            let node = self.table.storage.node(at);
            node.is_bare() && node.start <= part.start && part.end() <= node.end()
        });
        debug_assert!(whole.is_some(), "{part:?} is not bare");
        self.carve(whole.ok_or(Metadata::Nodes(0))?, part, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{Chunked, Placement, RangeConfig, Request, Spans};

    const PAGE: u64 = 16;
    const PAGES: u64 = 64;

    fn islands(placement: Placement) -> OffsetAllocator<Chunked> {
        let config = RangeConfig::new(PAGES * PAGE * 256).placement(placement).spans(Spans::Off);
        OffsetAllocator::of_islands(&config).unwrap()
    }

    fn pages(first: u64, count: u64) -> Stretch {
        Stretch { start: (first * PAGE) as u32, len: count * PAGE }
    }

    /// Which granules are free and which are bare.
    fn map(range: &mut OffsetAllocator<Chunked>) -> Vec<PartKind> {
        let mut map = alloc::vec![PartKind::Taken; (PAGES * PAGE) as usize];
        let mut bare_before = None;
        range.walk(|part| {
            let (start, end) = (part.stretch.start as usize, part.stretch.end() as usize);
            map[start..end].fill(part.kind);
            if part.kind == PartKind::Bare {
                assert_ne!(bare_before, Some(start), "two bare pieces side by side");
                bare_before = Some(end);
            }
        });
        map
    }

    /// Memory comes and goes behind an island in any order, with blocks in it: what is free, bare
    /// and live is as a row of granules has it, and all of it is one run in the end.
    #[test]
    fn memory_comes_and_goes_as_in_a_row_of_granules() {
        for placement in [Placement::BestFit, Placement::FirstFit] {
            let mut range = islands(placement);
            range.adopt_bare(pages(0, PAGES), &[pages(2, 3), pages(9, 1)]).unwrap();
            let mut model = alloc::vec![PartKind::Bare; (PAGES * PAGE) as usize];
            for part in [pages(2, 3), pages(9, 1)] {
                model[part.start as usize..part.end() as usize].fill(PartKind::Free);
            }
            let mut random = fastrand::Rng::with_seed(11);
            let (mut blocks, mut gone) = (Vec::new(), 0);
            for _ in 0..6000 {
                let first = random.u64(0..PAGES);
                let part = pages(first, random.u64(1..=(PAGES - first).min(4)));
                let inside = part.start as usize..part.end() as usize;
                match random.u32(0..9) {
                    0 | 1 if model[inside.clone()].iter().all(|kind| *kind == PartKind::Bare) => {
                        range.back(part).unwrap();
                        model[inside].fill(PartKind::Free);
                    }
                    2 | 6 if model[inside.clone()].iter().all(|kind| *kind == PartKind::Free) => {
                        assert_eq!(range.make_bare(&[part]), [part]);
                        gone += 1;
                        model[inside].fill(PartKind::Bare);
                    }
                    3 | 4 => {
                        let request = Request::new(256 * random.u64(1..40));
                        if let Some(block) = range.serve(&request).unwrap() {
                            let stretch = range.stretch_of(&block);
                            model[stretch.start as usize..stretch.end() as usize]
                                .fill(PartKind::Taken);
                            blocks.push((block.handle(), stretch));
                        }
                    }
                    5 | 7 | 8 if !blocks.is_empty() => {
                        let (handle, stretch) = blocks.swap_remove(random.usize(0..blocks.len()));
                        range.free(handle).unwrap();
                        model[stretch.start as usize..stretch.end() as usize].fill(PartKind::Free);
                    }
                    _ => {}
                }
                range.verify().unwrap();
                assert_eq!(map(&mut range), model);
            }
            for (handle, _) in blocks {
                range.free(handle).unwrap();
            }
            let mut bare = Vec::new();
            range.walk(|part| bare.extend((part.kind == PartKind::Bare).then_some(part.stretch)));
            for part in bare {
                range.back(part).unwrap();
            }
            range.verify().unwrap();
            assert_eq!(range.longest_run(), PAGES * PAGE);
            assert!(gone > 100, "{placement:?}: {gone}");
        }
    }

    #[test]
    fn several_parts_of_one_run_are_made_bare_at_once() {
        let mut range = islands(Placement::BestFit);
        range.adopt(pages(0, 16)).unwrap();
        let parts = [pages(9, 2), pages(0, 1), pages(11, 1), pages(14, 2)];
        assert_eq!(range.make_bare(&parts).len(), 4);
        range.verify().unwrap();
        assert_eq!(range.bare_granules(), 6 * PAGE);
        assert_eq!(range.longest_run(), 8 * PAGE);
        assert_eq!(range.make_bare(&parts), [], "they are");
    }

    #[test]
    fn bare_parts_are_lent_come_back_and_are_cut_off() {
        let mut range = islands(Placement::BestFit);
        range.adopt_bare(pages(0, 16), &[pages(0, 4)]).unwrap();
        let node = range.lend_bare(pages(8, 4)).unwrap();
        range.verify().unwrap();
        assert_eq!((range.bare_granules(), range.live_granules()), (8 * PAGE, 4 * PAGE));
        let rest = range.take_bare_back(node, pages(9, 1)).unwrap();
        range.verify().unwrap();
        range.take_bare_back(rest.before.unwrap(), pages(8, 1)).unwrap();
        range.take_back(rest.behind.unwrap(), pages(10, 2)).unwrap();
        range.verify().unwrap();
        assert_eq!((range.bare_granules(), range.live_granules()), (10 * PAGE, 0));
        range.cut_bare(pages(5, 2)).unwrap();
        range.verify().unwrap();
        assert_eq!(range.owned_granules(), Some(14 * PAGE));
        range.back(pages(4, 1)).unwrap();
        assert_eq!(range.longest_run(), 5 * PAGE);
    }
}
