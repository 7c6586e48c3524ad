//! What the layer above needs to work on one range in several places at once: stretches of it
//! that are lent out, and allocators that own nothing but such stretches (*islands*).
//!
//! An allocator of islands has the shape of the whole range, so that offsets, spans and
//! alignments mean the same in all of them, but its chain of pieces ends where an island ends:
//! nothing merges across. The lender keeps a lent stretch as one live block of its own.

use alloc::vec::Vec;

use super::allocator::{Free, OffsetAllocator};
use super::block::{Block, Piece};
use super::buddies::{order_of, pieces};
use super::config::RangeConfig;
use super::error::{AllocError, ConfigError, Metadata};
use super::handle::{Handle, Slot};
use super::node::{NONE, Node, State};
use super::request::{Options, Request};
use super::storage::{Chunked, Storage};

/// Marks the generation of a live block that stands for a lent stretch: no handle has it.
pub(super) const LENT: u32 = 1 << 31;

/// A stretch of a range, in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) start: u32,
    pub(crate) len: u64,
}

impl Stretch {
    /// The granule behind it, up to 2^32.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.start) + self.len
    }
}

/// What is left of a lent stretch when a part of it came back: the nodes of the live pieces
/// before and behind that part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) before: Option<u32>,
    pub(crate) behind: Option<u32>,
}

impl Rest {
    /// How many pieces it is.
    pub(super) fn count(self) -> u64 {
        u64::from(self.before.is_some()) + u64::from(self.behind.is_some())
    }
}

impl OffsetAllocator<Chunked> {
    /// An allocator in the shape of a range that owns none of it yet.
    pub(crate) fn of_islands(config: &RangeConfig) -> Result<Self, ConfigError> {
        let mut range = Self::new(config)?;
        // The free run that a range starts as, or its buddies.
        while range.take_longest().is_some() {}
        range.islands = Some(0);
        Ok(range)
    }
}

impl<S: Storage> OffsetAllocator<S> {
    /// Serves a request, or says that no free block does without a search for what would.
    pub(crate) fn serve(&mut self, request: &Request) -> Result<Option<Block>, AllocError> {
        if let Some(block) = self.serve_plainly(request) {
            return Ok(Some(block));
        }
        match self.look(request) {
            Err(AllocError::OutOfMetadata(missing)) if S::GROWS => {
                match self.replenish(*request, missing) {
                    Ok(block) => Ok(Some(block)),
                    Err(AllocError::OutOfMemory { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
            result => result,
        }
    }

    /// Serves a request of a length from the open spans alone.
    pub(crate) fn serve_from_spans(&mut self, len: u64) -> Option<Block> {
        let Free::Runs(_, spans) = &mut self.free else { return None };
        let (order, generation) = (order_of(len), self.generation.bits());
        let block = spans
            .allocate_quickly(&mut self.table, order, generation)
            .or_else(|| spans.allocate(&mut self.table, order, 0, generation))?;
        let handle = self.admit(Slot::Granule(block.granule), 1 << order);
        Some(self.describe(handle, block.granule, 1 << order))
    }

    /// Frees the live block in a span that begins at a granule, whatever its generation: the
    /// layer above has made sure that nobody else frees it. False if there is none.
    #[inline(always)]
    pub(crate) fn free_in_span(&mut self, granule: u32) -> bool {
        let Free::Runs(_, spans) = &self.free else { return false };
        let Some(generation) = spans.generation(&self.table, granule) else { return false };
        let (freed, _) = self.release(Handle::with_bits(Slot::Granule(granule), generation));
        freed.is_some()
    }

    /// Frees a block by its handle: where it was.
    #[inline(always)]
    pub(crate) fn free_stretch(&mut self, handle: Handle) -> Option<Stretch> {
        let (len, start) = self.release(handle);
        Some(Stretch { start, len: len?.get() })
    }

    /// Gives the live block outside spans that a handle names another handle, so that no copy of
    /// the old one is good any more: the new one, and where the block lies.
    pub(crate) fn rename(&mut self, handle: Handle) -> Option<(Handle, Stretch)> {
        let (_, stretch) = self.live_outside(handle)?;
        Some((self.renew(handle), stretch))
    }

    /// The same for a handle that is known to name one.
    #[inline(always)]
    pub(crate) fn renew(&mut self, handle: Handle) -> Handle {
        let generation = self.generation;
        self.generation = generation.next();
        self.table.storage.node_mut(handle.slot().index()).links[0] = generation.bits();
        Handle::new(handle.slot(), generation)
    }

    /// Takes a free stretch of so many bytes, aligned to `align_bytes`, away: it is none of this
    /// allocator's any more. `None` if there is none.
    pub(crate) fn take_stretch(
        &mut self,
        bytes: u64,
        align_bytes: u64,
        options: Options,
    ) -> Option<Stretch> {
        let options = options.union(Options::OUTSIDE_SPANS);
        let request = Request::new(bytes).align_bytes(align_bytes).options(options);
        let peak = self.books.peak_live_granules;
        let block = self.serve(&request).ok()??;
        let stretch = self.stretch_of(&block);
        let Slot::Node(node) = block.handle.slot() else { return None };
        self.cut_live(node, stretch.len);
        self.books.peak_live_granules = peak;
        Some(stretch)
    }

    /// Takes the live block outside spans that a handle names away, with its memory.
    pub(crate) fn take_live(&mut self, handle: Handle) -> Option<Stretch> {
        let (node, stretch) = self.live_outside(handle)?;
        self.cut_live(node, stretch.len);
        Some(stretch)
    }

    /// The node of the live block outside spans that a handle names, and where it lies.
    fn live_outside(&self, handle: Handle) -> Option<(u32, Stretch)> {
        let Slot::Node(node) = handle.slot() else { return None };
        if node >= self.table.touched() {
            return None;
        }
        let piece = self.table.storage.node(node);
        let stretch = Stretch { start: piece.start, len: piece.len() };
        piece.is_live(handle.generation_bits()).then_some((node, stretch))
    }

    fn cut_live(&mut self, node: u32, len: u64) {
        self.table.chain.cut(&mut self.table.storage, node);
        self.books.live_granules -= len;
        self.books.live_blocks -= 1;
        self.note_islands(0, len);
    }

    /// Takes an island away that is one free run, from a granule on and so long; false if there
    /// is none.
    pub(crate) fn take_island(&mut self, island: Stretch) -> bool {
        self.gather();
        let found = self.table.heads().find(|&head| {
            self.table.storage.node(head).start == island.start && self.is_free_island(head, island)
        });
        let Some(mut at) = found else { return false };
        while at != NONE {
            let after = self.table.storage.node(at).after();
            self.cut_free(at);
            at = after;
        }
        true
    }

    /// Whether an island that begins with a piece is so long and free.
    fn is_free_island(&self, head: u32, island: Stretch) -> bool {
        let mut len = 0;
        let mut pieces = self.table.chain_from(head).map(|node| self.table.storage.node(node));
        let is_free = pieces.all(|piece| {
            len += piece.len();
            piece.state() == State::Free
        });
        is_free && len == island.len
    }

    /// Takes a free run, or a free buddy, away: where it was. What lies before and behind it are
    /// ends of islands.
    fn cut_free(&mut self, node: u32) -> Stretch {
        let stretch = match &mut self.free {
            Free::Runs(runs, _) => {
                let piece = self.table.storage.node(node);
                let stretch = Stretch { start: piece.start, len: piece.len() };
                runs.unindex(&mut self.table.storage, node);
                self.table.chain.cut(&mut self.table.storage, node);
                stretch
            }
            Free::Buddies(buddies) => {
                let (start, len) = buddies.cut(&mut self.table, node);
                Stretch { start, len }
            }
        };
        self.note_islands(0, stretch.len);
        stretch
    }

    /// Granules of the longest free run.
    pub(crate) fn longest_run(&self) -> u64 {
        match &self.free {
            Free::Runs(runs, _) => runs.longest(&self.table),
            Free::Buddies(buddies) => buddies.longest(),
        }
    }

    /// Makes a stretch, of which nothing is owned, an island of its own.
    pub(crate) fn adopt(&mut self, stretch: Stretch) -> Result<(), Metadata> {
        self.prepare(self.pieces_of(stretch))?;
        let run = Node::piece(State::Free, stretch.start, stretch.len);
        let run = self.table.chain.insert(&mut self.table.storage, NONE, NONE, run);
        match &mut self.free {
            Free::Runs(runs, _) => runs.index(&mut self.table.storage, run),
            Free::Buddies(buddies) => buddies.release_in_pieces(&mut self.table, run),
        }
        self.note_islands(stretch.len, 0);
        Ok(())
    }

    /// Makes a stretch, of which nothing is owned, a part of the island that ends where it begins; or
    /// an island of its own, if none does.
    ///
    /// Linear in the nodes.
    pub(crate) fn append(&mut self, stretch: Stretch) -> Result<(), Metadata> {
        let last = (0..self.table.touched()).find(|&at| {
            let node = self.table.storage.node(at);
            let is_last = node.state() != State::Unused && node.after() == NONE;
            is_last && node.end() == u64::from(stretch.start)
        });
        let (Some(last), Free::Runs(..)) = (last, &self.free) else { return self.adopt(stretch) };
        self.prepare(1)?;
        if let Free::Runs(runs, _) = &mut self.free {
            runs.lengthen(&mut self.table, last, stretch.len);
        }
        self.note_islands(stretch.len, 0);
        Ok(())
    }

    /// Granules of the free run that ends before a granule.
    pub(crate) fn free_before(&self, end: u64) -> u64 {
        let nodes = (0..self.table.touched()).map(|node| self.table.storage.node(node));
        nodes
            .filter(|node| node.state() == State::Free && node.end() == end)
            .map(Node::len)
            .next()
            .unwrap_or(0)
    }

    /// How many pieces a stretch is while it is free and nothing is beside it.
    fn pieces_of(&self, stretch: Stretch) -> u32 {
        let start = u64::from(stretch.start);
        match self.free {
            Free::Runs(..) => 1,
            Free::Buddies(_) => pieces(start, start + stretch.len).count() as u32,
        }
    }

    /// That there are so many nodes to be had, after more were added if need be.
    pub(crate) fn prepare(&mut self, nodes: u32) -> Result<(), Metadata> {
        match self.table.require(nodes) {
            Err(missing) if !self.table.storage.replenish(&self.shape, missing) => Err(missing),
            _ => self.table.require(nodes),
        }
    }

    /// Makes a stretch, of which nothing is owned, an island that is lent: the node of the live
    /// block that stands for it.
    pub(crate) fn adopt_lent(&mut self, stretch: Stretch) -> Result<u32, Metadata> {
        self.prepare(1)?;
        let generation = self.generation.bits() | LENT;
        let block = Node::live(stretch.start, stretch.len, generation);
        let node = self.table.chain.insert(&mut self.table.storage, NONE, NONE, block);
        self.note_islands(stretch.len, 0);
        self.books.live_granules += stretch.len;
        self.books.live_blocks += 1;
        self.rebase_peak_at_least();
        Ok(node)
    }

    pub(super) fn rebase_peak_at_least(&mut self) {
        let books = &mut self.books;
        books.peak_live_granules = books.peak_live_granules.max(books.live_granules);
    }

    /// Takes the longest free run away, if it is a whole island and at least `least` granules.
    pub(crate) fn take_idle_island(&mut self, least: u64) -> Option<Stretch> {
        let Free::Runs(runs, _) = &self.free else { return None };
        let run = runs.longest_run(&self.table)?;
        let piece = self.table.storage.node(run);
        let whole = piece.before() == NONE && piece.after() == NONE;
        if whole && piece.len() >= least { self.take_longest() } else { None }
    }

    /// Merges what can be merged: freed blocks that still look taken to their spans, and the
    /// empty span.
    pub(crate) fn gather(&mut self) {
        let Free::Runs(runs, spans) = &mut self.free else { return };
        spans.settle(&mut self.table);
        if let Some(node) = spans.close_empty(&mut self.table) {
            runs.release_span(&mut self.table, node);
        }
    }

    /// Takes the longest free run (or buddy) away: it is none of this allocator's any more, and what
    /// lies before and behind it are ends of islands.
    pub(crate) fn take_longest(&mut self) -> Option<Stretch> {
        let longest = match &self.free {
            Free::Runs(runs, _) => runs.longest_run(&self.table)?,
            Free::Buddies(buddies) => buddies.longest_piece()?,
        };
        Some(self.cut_free(longest))
    }

    pub(super) fn note_islands(&mut self, more: u64, less: u64) {
        if let Some(owned) = &mut self.islands {
            *owned = *owned + more - less;
        }
    }

    /// Takes a stretch of so many bytes, aligned to `align_bytes`, out of what this range serves
    /// from: its node, a live block that no handle names. `None` if there is none free.
    pub(crate) fn lend(&mut self, bytes: u64, align_bytes: u64) -> Option<(u32, Stretch)> {
        let request = Request::new(bytes).align_bytes(align_bytes).options(Options::OUTSIDE_SPANS);
        self.lend_for(&request)
    }

    /// The same for a request outside spans.
    pub(crate) fn lend_for(&mut self, request: &Request) -> Option<(u32, Stretch)> {
        let block = self.serve(request).ok()??;
        let Slot::Node(node) = block.handle.slot() else { return None };
        self.table.storage.node_mut(node).links[0] |= LENT;
        Some((node, self.stretch_of(&block)))
    }

    /// Takes every free run of an island out of what this range serves from, as if it were lent:
    /// the nodes and where they lie, in `taken`, which has to have room for them; what finds none
    /// there stays.
    pub(crate) fn lend_free_of(&mut self, island: Stretch, taken: &mut Vec<(u32, Stretch)>) {
        self.gather();
        let generation = self.generation.bits() | LENT;
        let mut at = self.table.head_at(island.start);
        while at != NONE {
            let piece = *self.table.storage.node(at);
            let node = core::mem::replace(&mut at, piece.after());
            if piece.state() != State::Free || taken.try_reserve(1).is_err() {
                continue;
            }
            match &mut self.free {
                Free::Runs(runs, _) => runs.unindex(&mut self.table.storage, node),
                Free::Buddies(buddies) => buddies.unlink(&mut self.table.storage, node),
            }
            self.table.storage.node_mut(node).make_live(generation);
            taken.push((node, Stretch { start: piece.start, len: piece.len() }));
            self.books.live_granules += piece.len();
            self.books.live_blocks += 1;
        }
        self.rebase_peak_at_least();
    }

    /// Granules of an island's free runs.
    pub(crate) fn free_granules_of(&mut self, island: Stretch) -> u64 {
        self.gather();
        let pieces = self.table.chain_from(self.table.head_at(island.start));
        let pieces = pieces.map(|piece| self.table.storage.node(piece));
        pieces.filter(|piece| piece.state() == State::Free).map(Node::len).sum()
    }

    /// Makes a part of a lent stretch free again. The part lies in it. An error changes nothing.
    pub(crate) fn take_back(&mut self, node: u32, part: Stretch) -> Result<Rest, Metadata> {
        let (freed, rest) = self.carve(node, part, self.pieces_of(part) - 1)?;
        self.release_whole(freed);
        self.books.live_granules -= part.len;
        self.books.live_blocks = self.books.live_blocks + rest.count() - 1;
        Ok(rest)
    }

    /// Makes a part of a live piece one of its own, and leaves nodes for so many more: its node, and
    /// those of what lies before and behind it, which are as the whole was. An error changes nothing.
    pub(super) fn carve(
        &mut self,
        node: u32,
        part: Stretch,
        more: u32,
    ) -> Result<(u32, Rest), Metadata> {
        let whole = *self.table.storage.node(node);
        let (before, behind) = (whole.start < part.start, part.end() < whole.end());
        self.prepare(u32::from(before) + u32::from(behind) + more)?;
        let alike = |start: u32, len: u64| Node::live(start, len, whole.links[0]);
        let carved = if before {
            self.table.storage.node_mut(node).set_len(u64::from(part.start - whole.start));
            self.insert_like(node, alike(part.start, part.len), &whole)
        } else {
            self.table.storage.node_mut(node).set_len(part.len);
            node
        };
        let behind = behind.then(|| {
            let rest = alike(part.end() as u32, whole.end() - part.end());
            self.insert_like(carved, rest, &whole)
        });
        Ok((carved, Rest { before: before.then_some(node), behind }))
    }

    fn insert_like(&mut self, before: u32, node: Node, whole: &Node) -> u32 {
        let inserted = self.table.insert_after(before, node);
        self.table.storage.node_mut(inserted).set_bare(whole.is_bare());
        inserted
    }

    /// Makes a live piece free, and merges it. The caller has made sure of nodes for buddies.
    pub(super) fn release_whole(&mut self, node: u32) {
        let generation = self.table.storage.node(node).links[0];
        match &mut self.free {
            Free::Runs(runs, _) => {
                runs.free(&mut self.table.storage, &mut self.table.chain, node, generation);
            }
            Free::Buddies(buddies) => buddies.release_in_pieces(&mut self.table, node),
        }
    }

    /// Makes one lent stretch two, of which the second begins at a granule inside: its node. The
    /// first keeps its own. An error changes nothing.
    pub(crate) fn split_lent(&mut self, node: u32, at: u32) -> Result<u32, Metadata> {
        if let Err(missing) = self.table.require(1)
            && !self.table.storage.replenish(&self.shape, missing)
        {
            return Err(missing);
        }
        let whole = *self.table.storage.node(node);
        self.table.storage.node_mut(node).set_len(u64::from(at - whole.start));
        let behind = Node::live(at, whole.end() - u64::from(at), whole.links[0]);
        let behind = self.table.insert_after(node, behind);
        self.books.live_blocks += 1;
        Ok(behind)
    }

    /// Has the live block outside spans that a handle names stand for a lent stretch, which no
    /// handle names: its node, and where it lies.
    pub(crate) fn lend_live(&mut self, handle: Handle) -> Option<(u32, Stretch)> {
        let (node, stretch) = self.live_outside(handle)?;
        self.table.storage.node_mut(node).links[0] |= LENT;
        Some((node, stretch))
    }

    /// Makes a stretch, of which nothing is owned, an island that is one live block.
    pub(crate) fn adopt_live(&mut self, stretch: Stretch) -> Result<Block, Metadata> {
        if let Err(missing) = self.table.require(1)
            && !self.table.storage.replenish(&self.shape, missing)
        {
            return Err(missing);
        }
        let block = Node::live(stretch.start, stretch.len, self.generation.bits());
        let node = self.table.chain.insert(&mut self.table.storage, NONE, NONE, block);
        self.note_islands(stretch.len, 0);
        Ok(self.admit_node(node))
    }

    /// Where a block lies and how long it is.
    pub(crate) fn stretch_of(&self, block: &Block) -> Stretch {
        self.shape.stretch(block.offset_bytes, block.size_bytes)
    }

    /// The live blocks of every island, or of the range; lent stretches are none.
    pub(crate) fn live_blocks_of_islands(&self) -> impl Iterator<Item = Block> + '_ {
        let first = self.table.chain.first;
        let islands = self.islands.is_some();
        let heads = self.table.heads().filter(move |&head| islands || head == first);
        heads.flat_map(|head| self.blocks_from(head)).filter_map(|piece| match piece {
            Piece::Live(block) if !self.stands_for_lent(&block) => Some(block),
            _ => None,
        })
    }

    /// The sizes of the free pieces of every island, or of the range.
    #[cfg(feature = "record")]
    pub(crate) fn free_pieces(&self) -> impl Iterator<Item = u64> + '_ {
        let heads = self.table.heads();
        heads.flat_map(|head| self.blocks_from(head)).filter_map(|piece| match piece {
            Piece::Free { size_bytes, .. } => Some(size_bytes),
            Piece::Live(_) => None,
        })
    }

    fn stands_for_lent(&self, block: &Block) -> bool {
        match block.handle.slot() {
            Slot::Node(node) => self.table.storage.node(node).links[0] & LENT != 0,
            Slot::Granule(_) => false,
        }
    }

    /// Granules of live blocks.
    #[inline(always)]
    pub(crate) fn live_granules(&self) -> u64 {
        self.books.live_granules
    }

    /// Live blocks.
    pub(crate) fn live_blocks(&self) -> u64 {
        self.books.live_blocks
    }

    /// The most granules that were live at once.
    pub(crate) fn peak_live_granules(&self) -> u64 {
        self.books.peak_live_granules
    }

    /// Starts the peak anew from what is live.
    pub(crate) fn rebase_peak(&mut self) {
        self.books.peak_live_granules = self.books.live_granules;
    }

    /// The granules that an allocator of islands owns; none for a whole range.
    pub(crate) fn owned_granules(&self) -> Option<u64> {
        self.islands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::Spans;

    fn config() -> RangeConfig {
        RangeConfig::new(64 << 20)
    }

    #[test]
    fn what_is_lent_comes_back_in_any_pieces() {
        let mut range = OffsetAllocator::new(&config().spans(Spans::Off)).unwrap();
        let (node, stretch) = range.lend(100 * 256, 1).unwrap();
        let part = |start: u32, len| Stretch { start: stretch.start + start, len };
        let rest = range.take_back(node, part(40, 20)).unwrap();
        range.verify().unwrap();
        assert_eq!(range.live_granules(), 80);
        let behind = rest.behind.unwrap();
        let rest = range.take_back(rest.before.unwrap(), part(0, 40)).unwrap();
        assert_eq!((rest.before, rest.behind), (None, None));
        range.verify().unwrap();
        let rest = range.take_back(behind, part(90, 10)).unwrap();
        range.verify().unwrap();
        range.take_back(rest.before.unwrap(), part(60, 30)).unwrap();
        range.verify().unwrap();
        assert_eq!(range.largest_free_bytes(), 64 << 20);
    }

    #[test]
    fn what_is_lent_in_parts_comes_back_without_metadata() {
        let mut range = OffsetAllocator::of_islands(&config().spans(Spans::Off)).unwrap();
        range.adopt(Stretch { start: 0, len: 100 }).unwrap();
        let block = range.serve(&Request::new(30 * 256)).unwrap().unwrap();
        let (whole, stretch) = range.lend(70 * 256, 1).unwrap();
        assert_eq!(stretch, Stretch { start: 30, len: 70 });
        let second = range.split_lent(whole, 50).unwrap();
        let third = range.split_lent(second, 90).unwrap();
        let (first, stretch) = range.lend_live(block.handle()).unwrap();
        assert_eq!(stretch, Stretch { start: 0, len: 30 });
        assert!(range.block(block.handle()).is_err(), "no handle names it");
        range.verify().unwrap();
        for (node, start, len) in [(second, 50, 40), (first, 0, 30), (third, 90, 10)] {
            let rest = range.take_back(node, Stretch { start, len }).unwrap();
            assert_eq!(rest, Rest { before: None, behind: None });
            range.verify().unwrap();
        }
        range.take_back(whole, Stretch { start: 30, len: 20 }).unwrap();
        range.verify().unwrap();
        assert_eq!(range.longest_run(), 100);
    }

    #[test]
    fn a_stretch_is_adopted_with_a_block_in_it() {
        let mut islands = OffsetAllocator::of_islands(&config()).unwrap();
        let block = islands.adopt_live(Stretch { start: 4096, len: 600 }).unwrap();
        assert_eq!((block.offset_bytes(), block.size_bytes()), (4096 * 256, 600 * 256));
        assert_eq!(islands.block(block.handle()), Ok(block));
        islands.verify().unwrap();
        islands.free(block.handle()).unwrap();
        islands.verify().unwrap();
        assert_eq!(islands.longest_run(), 600);
    }

    #[test]
    fn what_is_free_of_an_island_of_buddies_is_lent() {
        let config = config().placement(crate::range::Placement::Buddy);
        let mut range = OffsetAllocator::of_islands(&config).unwrap();
        range.adopt(Stretch { start: 0, len: 128 }).unwrap();
        range.adopt(Stretch { start: 128, len: 64 }).unwrap();
        let mut get = |granules: u64| range.serve(&Request::new(granules * 256)).unwrap().unwrap();
        let blocks = [get(64), get(32), get(32)];
        range.free(blocks[1].handle()).unwrap();
        let island = range.stretch_of(&blocks[1]).start / 128 * 128;
        let island = Stretch { start: island, len: if island == 0 { 128 } else { 64 } };
        let free = range.free_granules_of(island);
        let mut taken = Vec::new();
        range.lend_free_of(island, &mut taken);
        range.verify().unwrap();
        assert_eq!(taken.iter().map(|(_, stretch)| stretch.len).sum::<u64>(), free);
        assert_eq!(range.free_granules_of(island), 0);
        for (node, stretch) in taken {
            range.take_back(node, stretch).unwrap();
        }
        range.verify().unwrap();
        assert_eq!(range.free_granules_of(island), free);
    }

    #[test]
    fn what_is_free_of_an_island_is_lent_and_nothing_else() {
        let mut range = OffsetAllocator::of_islands(&config().spans(Spans::Off)).unwrap();
        range.adopt(Stretch { start: 0, len: 100 }).unwrap();
        range.adopt(Stretch { start: 100, len: 50 }).unwrap();
        let mut get = |granules: u64| range.serve(&Request::new(granules * 256)).unwrap().unwrap();
        let (whole, first, second) = (get(50), get(30), get(20));
        range.free(first.handle()).unwrap();
        assert_eq!(range.free_granules_of(Stretch { start: 0, len: 100 }), 80);
        let mut taken = Vec::new();
        range.lend_free_of(Stretch { start: 0, len: 100 }, &mut taken);
        range.verify().unwrap();
        let stretches: Vec<Stretch> = taken.iter().map(|&(_, stretch)| stretch).collect();
        let parts = [Stretch { start: 0, len: 30 }, Stretch { start: 50, len: 50 }];
        assert_eq!(stretches, parts);
        assert!(range.serve(&Request::new(256)).unwrap().is_none(), "nothing else is free");
        range.free(second.handle()).unwrap();
        range.free(whole.handle()).unwrap();
        assert_eq!(range.free_granules_of(Stretch { start: 100, len: 50 }), 50);
        for (node, stretch) in taken {
            range.take_back(node, stretch).unwrap();
        }
        range.verify().unwrap();
        assert!(range.take_island(Stretch { start: 0, len: 100 }));
    }

    #[test]
    fn islands_do_not_merge_with_each_other() {
        let mut islands = OffsetAllocator::of_islands(&config()).unwrap();
        assert!(islands.serve(&Request::new(256)).unwrap().is_none());
        islands.adopt(Stretch { start: 4096, len: 4096 }).unwrap();
        islands.adopt(Stretch { start: 8192, len: 4096 }).unwrap();
        islands.verify().unwrap();
        assert!(islands.serve(&Request::new(4097 * 256)).unwrap().is_none());
        let block = islands.serve(&Request::new(4000 * 256)).unwrap().unwrap();
        assert_eq!(block.offset_bytes(), 4096 * 256);
        islands.verify().unwrap();
        islands.free(block.handle()).unwrap();
        let island = islands.take_idle_island(4096).unwrap();
        assert_eq!(island.len, 4096);
        islands.verify().unwrap();
        assert_eq!(islands.owned_granules(), Some(4096));
    }

    #[test]
    fn an_island_grows_at_its_end_whatever_lies_there() {
        let mut islands = OffsetAllocator::of_islands(&config().spans(Spans::Off)).unwrap();
        let island = |len| Stretch { start: 100, len };
        islands.adopt(island(50)).unwrap();
        islands.adopt(Stretch { start: 1000, len: 50 }).unwrap();
        let behind = |start, len| Stretch { start, len };
        assert_eq!(islands.free_before(150), 50);
        islands.append(behind(150, 30)).unwrap();
        islands.verify().unwrap();
        let mut get =
            |granules: u64| islands.serve(&Request::new(granules * 256)).unwrap().unwrap();
        let (_other, whole) = (get(50), get(80));
        assert_eq!(islands.free_before(180), 0);
        islands.append(behind(180, 20)).unwrap();
        islands.verify().unwrap();
        assert_eq!((islands.free_before(200), islands.longest_run()), (20, 20));
        islands.free(whole.handle()).unwrap();
        assert_eq!(islands.longest_run(), 100);
        assert!(islands.take_island(island(100)));
        islands.verify().unwrap();
        // Behind nothing it is one of its own.
        islands.append(behind(200, 20)).unwrap();
        islands.verify().unwrap();
        assert!(islands.take_island(behind(200, 20)));
    }

    #[test]
    fn a_run_that_is_taken_away_leaves_two_islands() {
        let mut islands = OffsetAllocator::of_islands(&config().spans(Spans::Off)).unwrap();
        islands.adopt(Stretch { start: 0, len: 100 }).unwrap();
        let mut get =
            |granules: u64| islands.serve(&Request::new(granules * 256)).unwrap().unwrap();
        let (a, b, c) = (get(20), get(60), get(20));
        islands.free(b.handle()).unwrap();
        assert_eq!(islands.take_longest(), Some(Stretch { start: 20, len: 60 }));
        islands.verify().unwrap();
        islands.free(a.handle()).unwrap();
        islands.free(c.handle()).unwrap();
        islands.verify().unwrap();
        assert!(islands.serve(&Request::new(21 * 256)).unwrap().is_none());
        assert_eq!(islands.take_idle_island(1).map(|island| island.len), Some(20));
    }
}
