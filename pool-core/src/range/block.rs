//! What a range says of its blocks.

use super::handle::Handle;

/// A live block: its handle, where it lies, and how many bytes it really has.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig};
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
/// let block = range.allocate(1000)?;
/// assert_eq!(block.size_bytes(), 1024);
/// assert_eq!(range.block(block.handle()), Ok(block));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    pub(crate) handle: Handle,
    pub(crate) offset_bytes: u64,
    pub(crate) size_bytes: u64,
}

impl Block {
    /// The name by which the block is freed and queried.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(1000)?;
    /// range.free(block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn handle(&self) -> Handle {
        self.handle
    }

    /// Bytes from the start of the range; a multiple of the granule and of the alignment.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// assert_eq!(range.allocate(1 << 20)?.offset_bytes(), 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// The usable size: the request rounded up to a granule, and in a span or under buddy
    /// placement to a power of two of granules.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// assert_eq!(range.allocate(1)?.size_bytes(), 256);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
}

/// One piece of a range, as [`OffsetAllocator::blocks`](crate::OffsetAllocator::blocks) lists
/// them in address order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Piece {
    /// A live block.
    Live(Block),
    /// A free block: outside spans a run of free granules, inside one a free buddy.
    Free {
        /// Bytes from the start of the range.
        offset_bytes: u64,
        /// Its length in bytes.
        size_bytes: u64,
    },
}

/// A span: a stretch of the range whose small blocks are cut by binary buddy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanExtent {
    /// Bytes from the start of the range.
    pub offset_bytes: u64,
    /// Its length in bytes.
    pub size_bytes: u64,
}

/// The books of a range. Every figure is kept as the state changes and recomputed by
/// [`OffsetAllocator::verify`](crate::OffsetAllocator::verify).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RangeStats {
    /// Bytes that the range manages.
    pub capacity_bytes: u64,
    /// Bytes of live blocks, each at its usable size.
    pub live_bytes: u64,
    /// The highest that `live_bytes` has been.
    pub peak_live_bytes: u64,
    /// Bytes in free blocks, in spans and outside.
    pub free_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Spans that are open, at most one of them empty.
    pub spans: u32,
    /// Nodes in use for blocks, free runs and spans.
    pub nodes: u32,
}

/// How many blocks a search looked at: what
/// [`OffsetAllocator::visits`](crate::OffsetAllocator::visits) finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Visits {
    /// Whether the request would be served.
    pub served: bool,
    /// Whether the first look sufficed.
    pub first_look: bool,
    /// Free blocks (in spans: words of 64 granules) that were looked at.
    pub blocks: u32,
}
