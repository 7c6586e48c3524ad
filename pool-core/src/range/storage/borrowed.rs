//! Storage that the caller lends: nothing is allocated, not even at the start.

use super::super::config::Shape;
use super::super::error::Metadata;
use super::super::node::{NONE, Node};
use super::super::span;
use super::NO_SPAN;
use super::sealed::{Nodes, Tables};

/// Storage lent by the caller: a slice of nodes and a slice of words for spans.
///
/// # Example
///
/// ```
/// use pool_core::{Node, OffsetAllocator, RangeConfig};
///
/// let mut nodes = [Node::UNUSED; 64];
/// let mut range = OffsetAllocator::in_storage(&RangeConfig::new(1 << 20), &mut nodes, &mut [])?;
/// let block = range.allocate(4096)?;
/// range.free(block.handle())?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Borrowed<'a> {
    nodes: &'a mut [Node],
    /// For each place of a span its slot: two to a word, the low half first.
    map: &'a mut [u64],
    spans: &'a mut [u64],
    words_per_span: usize,
    places: u32,
}

impl<'a> Borrowed<'a> {
    /// Nothing is lent.
    pub(crate) const fn none() -> Self {
        Self { nodes: &mut [], map: &mut [], spans: &mut [], words_per_span: 0, places: 0 }
    }

    pub(crate) fn new(shape: &Shape, nodes: &'a mut [Node], span_words: &'a mut [u64]) -> Self {
        let most = nodes.len().min(NONE as usize);
        let nodes = &mut nodes[..most];
        nodes.fill(Node::UNUSED);
        let map_words = shape.map_words();
        let words_per_span = span::words(shape.span_granules);
        let (map, spans, places) = if shape.has_spans() && span_words.len() > map_words {
            let (map, spans) = span_words.split_at_mut(map_words);
            map.fill(u64::MAX);
            (map, spans, shape.span_places())
        } else {
            (&mut [][..], &mut [][..], 0)
        };
        Self { nodes, map, spans, words_per_span, places }
    }

    fn words_of(&self, slot: u32) -> core::ops::Range<usize> {
        let first = slot as usize * self.words_per_span;
        first..first + self.words_per_span
    }
}

impl Nodes for Borrowed<'_> {
    #[inline(always)]
    fn node(&self, index: u32) -> &Node {
        self.nodes.node(index)
    }

    #[inline(always)]
    fn node_mut(&mut self, index: u32) -> &mut Node {
        self.nodes.node_mut(index)
    }

    #[inline(always)]
    fn count(&self) -> u32 {
        self.nodes.count()
    }
}

impl Tables for Borrowed<'_> {
    const GROWS: bool = false;

    #[inline(always)]
    fn slice(&mut self) -> Option<&mut [Node]> {
        Some(self.nodes)
    }

    fn span_slots(&self) -> u32 {
        if self.places == 0 {
            return 0;
        }
        u32::try_from(self.spans.len() / self.words_per_span).unwrap_or(NO_SPAN - 1)
    }

    #[inline]
    fn span(&self, slot: u32) -> &[u64] {
        &self.spans[self.words_of(slot)]
    }

    #[inline]
    fn span_mut(&mut self, slot: u32) -> &mut [u64] {
        let words = self.words_of(slot);
        &mut self.spans[words]
    }

    fn has_span_place(&self, place: u32) -> bool {
        place < self.places
    }

    #[inline]
    fn span_at(&self, place: u32) -> u32 {
        match self.map.get(place as usize / 2) {
            Some(pair) => (pair >> (place % 2 * 32)) as u32,
            None => NO_SPAN,
        }
    }

    fn set_span_at(&mut self, place: u32, slot: u32) {
        let shift = place % 2 * 32;
        let pair = &mut self.map[place as usize / 2];
        *pair = *pair & !(u64::from(u32::MAX) << shift) | u64::from(slot) << shift;
    }

    fn replenish(&mut self, _: &Shape, _: Metadata) -> bool {
        false
    }
}
