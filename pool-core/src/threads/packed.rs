//! A block outside spans in two registers.

use crate::range::{Block, Handle, Shape, Stretch};

/// A block outside spans in two words, which a call returns in registers (of three parts, also if they
/// are as short, it would not); `None` by its handle. A whole [`Block`] would pass through memory, and,
/// through the hands of a platform, be copied there before it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    handle: Handle,
    /// The first granule, and above it how many there are less one.
    place: u64,
}

impl Packed {
    /// Packs a block, by the program's handle.
    #[inline(always)]
    pub(crate) fn new(handle: Handle, stretch: Stretch) -> Self {
        Self { handle, place: u64::from(stretch.start) | stretch.len.wrapping_sub(1) << u32::BITS }
    }

    /// Its bytes.
    #[inline(always)]
    pub(crate) fn size_bytes(self, shape: &Shape) -> u64 {
        shape.bytes((self.place >> u32::BITS) + 1)
    }

    /// The block.
    #[inline(always)]
    pub(crate) fn block(self, shape: &Shape) -> Block {
        Block {
            handle: self.handle,
            offset_bytes: shape.bytes((self.place as u32).into()),
            size_bytes: self.size_bytes(shape),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{RangeConfig, Slot};

    #[test]
    fn blocks_of_all_lengths_survive() {
        assert_eq!(size_of::<Option<Packed>>(), 16);
        let shape = Shape::of(&RangeConfig::new(1 << 40)).unwrap();
        let handle = Handle::with_bits(Slot::Node(7), 3);
        for (start, len) in [(0, 1), (0, 1 << 32), (u32::MAX, 1), (5, 1000)] {
            let block = Packed::new(handle, Stretch { start, len }).block(&shape);
            assert_eq!(block.handle(), handle);
            assert_eq!(block.offset_bytes(), u64::from(start) << 8);
            assert_eq!(block.size_bytes(), len << 8);
        }
    }
}
