//! The operations that a range is driven with.

use pool_core::Options;

use super::shape::Shape;

/// A range and what is done to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The range.
    pub shape: Shape,
    /// The operations, in order. Afterwards everything is freed and the range must be whole.
    pub operations: Vec<Operation>,
}

/// A size, possibly relative to the state of the range when the operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// So many bytes.
    Bytes(u64),
    /// So many granules.
    Granules(u32),
    /// So many granules less some bytes, which rounding brings back.
    JustBelow {
        /// Granules.
        granules: u32,
        /// Bytes taken off, reduced modulo the granule.
        less_bytes: u32,
    },
    /// The size of one of the latest requests.
    Earlier(u8),
    /// Exactly one of the free blocks, plus or minus some granules.
    Hole {
        /// Which free block, modulo their number.
        pick: u16,
        /// Granules more or less.
        plus: i8,
    },
    /// The largest free block, plus or minus some granules.
    LargestHole {
        /// Granules more or less.
        plus: i8,
    },
    /// The whole range, plus or minus some granules.
    Capacity {
        /// Granules more or less.
        plus: i8,
    },
}

/// A handle that names no live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgery {
    /// The handle of a block that was freed.
    Stale(u8),
    /// The handle of another range's block.
    Foreign(u8),
    /// These bits.
    Bits(u64),
    /// A live block's handle with some bits turned over.
    Damaged {
        /// Which live block, modulo their number.
        pick: u16,
        /// The bits to turn.
        flip: u64,
    },
}

/// One call. Indices are taken modulo the number of things that they choose from; an operation that
/// has nothing to choose from does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the arguments of the call")]
pub enum Operation {
    /// Allocate.
    Allocate {
        size: Size,
        align_bytes: u64,
        options: Options,
        /// The split limit, given only with [`Options::LIMIT_SPLIT`].
        split_limit: Size,
        /// Use `try_allocate`.
        no_new_metadata: bool,
    },
    /// Free a live block.
    Free(u16),
    /// Free every `step`-th live block in address order, from the `first` on.
    FreeStride { first: u8, step: u8 },
    /// Free everything.
    FreeAll,
    /// Free, query and resize by a handle that names no live block.
    Misuse(Forgery),
    /// Resize a live block.
    Resize { pick: u16, size: Size },
    /// Resize a live block by granules, up or down.
    ResizeBy { pick: u16, by: i8 },
    /// Ask for a live block.
    Query(u16),
    /// Ask whether a request fits, without making it.
    Fits { size: Size, align_bytes: u64, options: Options, split_limit: Size },
    /// Grow the range's end.
    Grow { bytes: u64 },
    /// Cut the range's end.
    Shrink { bytes: u64 },
    /// Cut the range's end by exactly what is free there, plus or minus some granules.
    ShrinkTail { plus: i8 },
}

impl Operation {
    /// A plain request.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::{Operation, Size};
    ///
    /// assert_eq!(
    ///     Operation::allocate(Size::Granules(1)),
    ///     Operation::allocate_aligned(Size::Granules(1), 1),
    /// );
    /// ```
    #[must_use]
    pub const fn allocate(size: Size) -> Self {
        Self::allocate_aligned(size, 1)
    }

    /// A request at an alignment.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::oracle::{Operation, Size};
    ///
    /// let page = Operation::allocate_aligned(Size::Bytes(8 << 10), 64 << 10);
    /// assert_ne!(page, Operation::allocate(Size::Bytes(8 << 10)));
    /// ```
    #[must_use]
    pub const fn allocate_aligned(size: Size, align_bytes: u64) -> Self {
        Self::Allocate {
            size,
            align_bytes,
            options: Options::empty(),
            split_limit: Size::Bytes(0),
            no_new_metadata: false,
        }
    }

    /// A request with options (and no split limit).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::Options;
    /// use pool_mock::oracle::{Operation, Size};
    ///
    /// let high = Operation::allocate_with(Size::Granules(1), Options::HIGH_END);
    /// assert_ne!(high, Operation::allocate(Size::Granules(1)));
    /// ```
    #[must_use]
    pub const fn allocate_with(size: Size, options: Options) -> Self {
        Self::Allocate {
            size,
            align_bytes: 1,
            options,
            split_limit: Size::Bytes(0),
            no_new_metadata: false,
        }
    }
}
