//! A live block's size, changed where it lies.

use super::allocator::{Found, Free, OffsetAllocator};
use super::block::Block;
use super::buddies::{Buddies, order_of};
use super::error::ResizeError;
use super::handle::Handle;
use super::runs::Runs;
use super::storage::Storage;

impl<S: Storage> OffsetAllocator<S> {
    /// Changes a block's size in place: its handle and offset stay. Returns the block as it is
    /// then.
    ///
    /// A shrink always succeeds; where no metadata is to be had for what it would free, the
    /// block keeps its usable size. A block grows if the free granules behind it allow (in spans
    /// and under buddy placement: if it is the lower half of what it grows to).
    ///
    /// # Errors
    ///
    /// [`ResizeError`]; the block is as before.
    ///
    /// # Complexity
    ///
    /// As a free.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(4096)?;
    /// assert_eq!(range.resize(block.handle(), 1 << 20)?.size_bytes(), 1 << 20);
    /// assert_eq!(range.resize(block.handle(), 1000)?.size_bytes(), 1024);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn resize(&mut self, handle: Handle, size_bytes: u64) -> Result<Block, ResizeError> {
        let found = self.find(handle)?;
        if size_bytes == 0 {
            return Err(ResizeError::ZeroSize);
        }
        let most = self.most_len(found);
        let len = ((size_bytes - 1) >> self.shape.granule_shift) + 1;
        if len > most {
            return Err(ResizeError::NoRoom { size_bytes, most_bytes: self.shape.bytes(most) });
        }
        let before = self.block(handle)?;
        if let Err(missing) = self.table.require(self.nodes_to_shrink(found, len)) {
            // Without them the block keeps its size.
            self.add_metadata(missing);
        }
        self.set_len(found, len);
        let after = self.block(handle)?;
        let granules = |block: Block| block.size_bytes() >> self.shape.granule_shift;
        self.books.resize(granules(before), granules(after));
        Ok(after)
    }

    /// The longest length that a live block can have where it lies.
    fn most_len(&self, found: Found) -> u64 {
        match (&self.free, found) {
            (Free::Runs(_, spans), Found::Node(node)) => {
                let most = Runs::most_len(&self.table, node);
                let piece = self.table.storage.node(node);
                match Self::run_over_empty_span(&self.table, spans) {
                    Some((start, end)) if start == piece.end() => end - u64::from(piece.start),
                    _ => most,
                }
            }
            (Free::Runs(_, spans), Found::InSpan(block)) => {
                let span = spans.read(&self.table, block.slot);
                1 << span.most_order(spans.inside(block.granule), block.order)
            }
            (Free::Buddies(_), Found::Node(node)) => Buddies::most_len(&self.table, node),
            // There are no spans under buddy placement.
            (Free::Buddies(_), Found::InSpan(block)) => 1 << block.order,
        }
    }

    /// The most nodes that a change to a length takes.
    fn nodes_to_shrink(&self, found: Found, len: u64) -> u32 {
        match (&self.free, found) {
            (_, Found::InSpan(_)) => 0,
            (Free::Runs(..), Found::Node(_)) => 1,
            (Free::Buddies(_), Found::Node(node)) => {
                let now = order_of(self.table.storage.node(node).len());
                now.saturating_sub(order_of(len))
            }
        }
    }

    fn set_len(&mut self, found: Found, len: u64) {
        match (&mut self.free, found) {
            (Free::Runs(runs, spans), Found::Node(node)) => {
                if len == self.table.storage.node(node).len() {
                    return;
                }
                if len > Runs::most_len(&self.table, node)
                    && let Some(span) = spans.close_empty(&mut self.table)
                {
                    runs.release_span(&mut self.table, span);
                }
                runs.resize(&mut self.table, node, len);
            }
            (Free::Runs(_, spans), Found::InSpan(block)) => {
                spans.settle(&mut self.table);
                spans.resize(&mut self.table, block, order_of(len));
            }
            (Free::Buddies(buddies), Found::Node(node)) => {
                buddies.resize(&mut self.table, node, len);
            }
            (Free::Buddies(_), Found::InSpan(_)) => {}
        }
    }
}
