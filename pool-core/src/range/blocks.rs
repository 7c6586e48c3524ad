//! The pieces of a range, listed in address order.

use super::allocator::{Free, OffsetAllocator};
use super::block::{Block, Piece, SpanExtent};
use super::handle::{Handle, Slot};
use super::node::{NONE, State};
use super::span::SpanPiece;
use super::storage::Storage;

/// The pieces of a range in address order; made by [`OffsetAllocator::blocks`].
#[derive(Debug)]
struct Blocks<'a, S: Storage> {
    range: &'a OffsetAllocator<S>,
    node: u32,
    /// The next granule of the span that `node` is, while in one.
    granule: u32,
}

impl<S: Storage> OffsetAllocator<S> {
    /// Every live and free block in address order. They tile the range.
    ///
    /// # Complexity
    ///
    /// Constant memory; linear in the blocks.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, Piece, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(1 << 18)?;
    /// let pieces: Vec<Piece> = range.blocks().collect();
    /// let free = Piece::Free { offset_bytes: 1 << 18, size_bytes: 3 << 18 };
    /// assert_eq!(pieces, [Piece::Live(block), free]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn blocks(&self) -> impl Iterator<Item = Piece> + '_ {
        self.blocks_from(self.table.chain.first)
    }

    /// The pieces from a node on.
    pub(super) fn blocks_from(&self, node: u32) -> impl Iterator<Item = Piece> + '_ {
        Blocks { range: self, node, granule: 0 }
    }

    /// The open spans in address order.
    ///
    /// # Complexity
    ///
    /// Constant memory; linear in the blocks outside spans.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 30))?;
    /// assert_eq!(range.spans().count(), 0);
    /// range.allocate(256)?;
    /// assert_eq!(range.spans().next().map(|span| span.size_bytes), Some(1 << 20));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn spans(&self) -> impl Iterator<Item = SpanExtent> + '_ {
        self.table
            .chain()
            .map(|node| self.table.storage.node(node))
            .filter(|piece| piece.state() == State::Span)
            .map(|piece| SpanExtent {
                offset_bytes: self.shape.bytes(u64::from(piece.start)),
                size_bytes: self.shape.bytes(piece.len()),
            })
    }
}

impl<S: Storage> Blocks<'_, S> {
    /// The piece of the current span at `granule`.
    fn in_span(&mut self, start: u32, slot: u32) -> Option<Piece> {
        let Free::Runs(_, spans) = &self.range.free else { return None };
        let piece = spans.read(&self.range.table, slot).piece_over(self.granule);
        self.granule += 1 << piece.order;
        Some(self.range.piece_in_span(start, piece))
    }
}

impl<S: Storage> OffsetAllocator<S> {
    /// What a node in the chain describes, if that is one piece.
    pub(super) fn piece_of(&self, node: u32) -> Option<Piece> {
        let piece = self.table.storage.node(node);
        let live = match piece.state() {
            State::Span => return None,
            State::Live => Some((Slot::Node(node), piece.links[0])),
            State::Free | State::Unused => None,
        };
        Some(self.piece(live, u64::from(piece.start), piece.len()))
    }

    /// A piece of the span that starts at a granule.
    pub(super) fn piece_in_span(&self, start: u32, piece: SpanPiece) -> Piece {
        let granule = start + piece.granule;
        let live = piece.generation.map(|generation| (Slot::Granule(granule), generation));
        self.piece(live, u64::from(granule), 1 << piece.order)
    }

    fn piece(&self, live: Option<(Slot, u32)>, start: u64, len: u64) -> Piece {
        let offset_bytes = self.shape.bytes(start);
        let size_bytes = self.shape.bytes(len);
        match live {
            Some((slot, generation)) => {
                let handle = Handle::with_bits(slot, generation);
                Piece::Live(Block { handle, offset_bytes, size_bytes })
            }
            None => Piece::Free { offset_bytes, size_bytes },
        }
    }
}

impl<S: Storage> Iterator for Blocks<'_, S> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        loop {
            if self.node == NONE {
                return None;
            }
            let node = self.node;
            let piece = self.range.table.storage.node(node);
            if piece.state() == State::Span && u64::from(self.granule) < piece.len() {
                return self.in_span(piece.start, piece.links[0]);
            }
            self.node = piece.after();
            self.granule = 0;
            if let Some(piece) = self.range.piece_of(node) {
                return Some(piece);
            }
        }
    }
}
