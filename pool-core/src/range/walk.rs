//! A walk over the pieces of a range, step by step.

use super::allocator::{Free, OffsetAllocator};
use super::block::{Block, Piece};
use super::node::{NONE, State};
use super::storage::Storage;

/// Where a walk over the pieces of a range is. It borrows nothing, so that the range may change
/// between two steps.
///
/// # Example
///
/// ```
/// use pool_core::{Cursor, OffsetAllocator, RangeConfig};
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
/// range.allocate(4096)?;
/// let mut cursor = Cursor::default();
/// assert!(range.next_piece(&mut cursor).is_some());
/// assert_eq!(cursor.offset_bytes, 4096);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Where the walk goes on: bytes from the start of the range. Zero at the start.
    pub offset_bytes: u64,
    /// Where the range finds that piece faster: any number will do.
    pub hint: u32,
}

impl<S: Storage> OffsetAllocator<S> {
    /// The piece that a walk comes to next, and moves its cursor behind it. `None` at the end of
    /// the range.
    ///
    /// A walk over a range that does not change lists what [`blocks`](Self::blocks) does. If the
    /// range changes on the way, each step gives the piece that is then where the cursor is; one
    /// that has merged with what was listed before begins before it. Every walk ends.
    ///
    /// # Complexity
    ///
    /// Constant outside spans, and linear in a piece's granules inside, as long as the piece
    /// behind the one before is still there; else linear in the pieces before the cursor.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Cursor, OffsetAllocator, Piece, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// for _ in 0..8 {
    ///     range.allocate(4096)?;
    /// }
    /// // Frees every other block as it goes.
    /// let (mut cursor, mut number) = (Cursor::default(), 0);
    /// while let Some(piece) = range.next_piece(&mut cursor) {
    ///     if let Piece::Live(block) = piece {
    ///         number += 1;
    ///         if number % 2 == 0 {
    ///             range.free(block.handle())?;
    ///         }
    ///     }
    /// }
    /// assert_eq!(range.stats().live_blocks, 4);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn next_piece(&self, cursor: &mut Cursor) -> Option<Piece> {
        let granule = u32::try_from(cursor.offset_bytes >> self.shape.granule_shift).ok()?;
        let node = self.node_over(granule, cursor.hint)?;
        let piece = if let Some(piece) = self.piece_of(node) {
            cursor.hint = self.table.storage.node(node).after();
            piece
        } else {
            cursor.hint = node;
            self.piece_over(node, granule)?
        };
        let (Piece::Live(Block { offset_bytes, size_bytes, .. })
        | Piece::Free { offset_bytes, size_bytes }) = piece;
        cursor.offset_bytes = offset_bytes + size_bytes;
        Some(piece)
    }

    /// The live or free block that holds an offset; `None` beyond the end of the range.
    ///
    /// # Complexity
    ///
    /// Linear in the blocks outside spans.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, Piece, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(4096)?;
    /// assert_eq!(range.piece_at(4095), Some(Piece::Live(block)));
    /// assert!(matches!(range.piece_at(4096), Some(Piece::Free { offset_bytes: 4096, .. })));
    /// assert_eq!(range.piece_at(1 << 20), None);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn piece_at(&self, offset_bytes: u64) -> Option<Piece> {
        self.next_piece(&mut Cursor { offset_bytes, hint: NONE })
    }

    /// The node of the piece or the span that holds a granule, perhaps this one.
    fn node_over(&self, granule: u32, hint: u32) -> Option<u32> {
        let holds = |&index: &u32| {
            let node = self.table.storage.node(index);
            node.state() != State::Unused
                && node.start <= granule
                && u64::from(granule) < node.end()
        };
        let hint = Some(hint).filter(|&hint| hint < self.table.touched());
        hint.filter(holds).or_else(|| self.table.chain().find(holds))
    }

    /// The piece in the span of a node that holds a granule.
    fn piece_over(&self, node: u32, granule: u32) -> Option<Piece> {
        let Free::Runs(_, spans) = &self.free else { return None };
        let span = self.table.storage.node(node);
        let inside = spans.read(&self.table, span.links[0]).piece_over(granule - span.start);
        Some(self.piece_in_span(span.start, inside))
    }
}
