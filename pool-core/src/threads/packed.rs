//! A block in two registers.

use crate::range::{Block, Handle, Shape, Stretch};

/// A block in 16 bytes; `None` by its handle. A whole [`Block`] would, through the hands of a platform,
/// be copied in memory before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    handle: Handle,
    start: u32,
    /// Granules less one.
    last: u32,
}

/// The same in two parts, which a call returns in registers. Of three, though they are as short, it
/// would not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Folded {
    handle: Handle,
    /// The start, and above it the last.
    place: u64,
}

impl Packed {
    /// Packs a block, by the program's handle.
    #[inline(always)]
    pub(crate) fn new(handle: Handle, stretch: Stretch) -> Self {
        Self { handle, start: stretch.start, last: stretch.len.wrapping_sub(1) as u32 }
    }

    /// Its bytes.
    #[inline(always)]
    pub(crate) fn size_bytes(self, shape: &Shape) -> u64 {
        shape.bytes(u64::from(self.last) + 1)
    }

    /// The block.
    #[inline(always)]
    pub(crate) fn block(self, shape: &Shape) -> Block {
        Block {
            handle: self.handle,
            offset_bytes: shape.bytes(self.start.into()),
            size_bytes: self.size_bytes(shape),
        }
    }

    /// For the way out of a call.
    #[inline(always)]
    pub(crate) fn fold(self) -> Folded {
        let place = u64::from(self.start) | u64::from(self.last) << u32::BITS;
        Folded { handle: self.handle, place }
    }
}

impl Folded {
    /// As it was.
    #[inline(always)]
    pub(crate) fn unfold(self) -> Packed {
        let Self { handle, place } = self;
        Packed { handle, start: place as u32, last: (place >> u32::BITS) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{RangeConfig, Slot};

    #[test]
    fn blocks_of_all_lengths_survive() {
        assert_eq!([size_of::<Option<Packed>>(), size_of::<Option<Folded>>()], [16; 2]);
        let shape = Shape::of(&RangeConfig::new(1 << 40)).unwrap();
        let handle = Handle::with_bits(Slot::Node(7), 3);
        for (start, len) in [(0, 1), (0, 1 << 32), (u32::MAX, 1), (5, 1000)] {
            let block = Packed::new(handle, Stretch { start, len }).fold().unfold().block(&shape);
            assert_eq!(block.handle(), handle);
            assert_eq!(block.offset_bytes(), u64::from(start) << 8);
            assert_eq!(block.size_bytes(), len << 8);
        }
    }
}
