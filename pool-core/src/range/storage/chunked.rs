//! Storage from the heap: chunks that are added when needed, never move, and can fail cleanly.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::super::config::Shape;
use super::super::error::Metadata;
use super::super::node::{NONE, Node};
use super::super::span;
use super::NO_SPAN;
use super::sealed::{Nodes, Tables};

/// Nodes in every chunk after the first: 128 KiB.
const CHUNK_NODES: usize = 4096;

/// Places for spans in a row of the map, in powers of two: a page.
const ROW_BITS: u32 = 10;

/// Storage in chunks from the heap (feature `alloc`): the first as large as the configuration
/// [expects](crate::RangeConfig::expect_blocks), the others of 4,096 nodes. A span's tables are
/// a chunk of their own.
#[derive(Debug)]
pub struct Chunked {
    /// The first chunk, apart so that a range that was sized right finds a node in one step.
    first: Box<[Node]>,
    more: Vec<Box<[Node]>>,
    spans: Vec<Box<[u64]>>,
    /// For each place of a span its slot, in rows that are there where spans were ever opened: a range
    /// of hundreds of GiB has megabytes of them.
    map: Vec<Option<Box<[u32]>>>,
}

impl Chunked {
    /// `None` if the heap refuses.
    pub(crate) fn new(nodes: usize) -> Option<Self> {
        let first = filled(nodes.min(NONE as usize), Node::UNUSED)?;
        Some(Self { first, more: Vec::new(), spans: Vec::new(), map: Vec::new() })
    }

    fn add_nodes(&mut self, missing: u32) -> bool {
        let chunks = (missing as usize).div_ceil(CHUNK_NODES);
        let before = self.more.len();
        if self.count() as usize + chunks * CHUNK_NODES > NONE as usize
            || self.more.try_reserve(chunks).is_err()
        {
            return false;
        }
        for _ in 0..chunks {
            let Some(chunk) = filled(CHUNK_NODES, Node::UNUSED) else {
                self.more.truncate(before);
                return false;
            };
            self.more.push(chunk);
        }
        true
    }

    /// One step is enough, so where only the row was missing a later span has the tables.
    fn add_span(&mut self, shape: &Shape, place: u32) -> bool {
        if !self.has_span_place(place) && !self.add_row(place) {
            return false;
        }
        if self.spans.try_reserve(1).is_err() {
            return false;
        }
        let Some(words) = filled(span::words(shape.span_granules), 0) else { return false };
        self.spans.push(words);
        true
    }

    fn add_row(&mut self, place: u32) -> bool {
        let row = (place >> ROW_BITS) as usize;
        let more = (row + 1).saturating_sub(self.map.len());
        if self.map.try_reserve(more).is_err() {
            return false;
        }
        let Some(slots) = filled(1 << ROW_BITS, NO_SPAN) else { return false };
        self.map.resize(self.map.len() + more, None);
        self.map[row] = Some(slots);
        true
    }
}

/// Where a place's slot is: the row, and where in it.
#[inline(always)]
fn in_map(place: u32) -> (usize, usize) {
    ((place >> ROW_BITS) as usize, (place & ((1 << ROW_BITS) - 1)) as usize)
}

/// A boxed slice of copies, or `None` if the heap refuses.
fn filled<T: Clone>(len: usize, value: T) -> Option<Box<[T]>> {
    let mut items = Vec::new();
    items.try_reserve_exact(len).ok()?;
    items.resize(len, value);
    Some(items.into_boxed_slice())
}

impl Nodes for Chunked {
    #[inline(always)]
    fn node(&self, index: u32) -> &Node {
        let index = index as usize;
        match index.checked_sub(self.first.len()) {
            None => &self.first[index],
            Some(later) => &self.more[later / CHUNK_NODES][later % CHUNK_NODES],
        }
    }

    #[inline(always)]
    fn node_mut(&mut self, index: u32) -> &mut Node {
        let index = index as usize;
        match index.checked_sub(self.first.len()) {
            None => &mut self.first[index],
            Some(later) => &mut self.more[later / CHUNK_NODES][later % CHUNK_NODES],
        }
    }

    #[inline]
    fn count(&self) -> u32 {
        (self.first.len() + self.more.len() * CHUNK_NODES) as u32
    }
}

impl Tables for Chunked {
    const GROWS: bool = true;

    #[inline(always)]
    fn slice(&mut self) -> Option<&mut [Node]> {
        self.more.is_empty().then_some(&mut self.first)
    }

    fn span_slots(&self) -> u32 {
        self.spans.len() as u32
    }

    #[inline]
    fn span(&self, slot: u32) -> &[u64] {
        &self.spans[slot as usize]
    }

    #[inline]
    fn span_mut(&mut self, slot: u32) -> &mut [u64] {
        &mut self.spans[slot as usize]
    }

    fn has_span_place(&self, place: u32) -> bool {
        let (row, _) = in_map(place);
        self.map.get(row).is_some_and(Option::is_some)
    }

    #[inline]
    fn span_at(&self, place: u32) -> u32 {
        let (row, inside) = in_map(place);
        match self.map.get(row) {
            Some(Some(slots)) => slots.get(inside).copied().unwrap_or(NO_SPAN),
            _ => NO_SPAN,
        }
    }

    fn set_span_at(&mut self, place: u32, slot: u32) {
        let (row, inside) = in_map(place);
        if let Some(Some(slots)) = self.map.get_mut(row) {
            slots[inside] = slot;
        }
    }

    fn replenish(&mut self, shape: &Shape, missing: Metadata) -> bool {
        match missing {
            Metadata::Nodes(nodes) => self.add_nodes(nodes),
            Metadata::Span { place } => self.add_span(shape, place),
            // Not the range's.
            Metadata::Words => false,
        }
    }
}
