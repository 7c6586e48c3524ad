//! What is asked of a range and what it answers, in C's types.

use core::ffi::c_char;

use pool_core::{Options, Piece, RangeStats};

use crate::error::{Error, Result};

/// Take the high end of a free block instead of its low end. First fit also takes the highest
/// block that fits, buddy the upper half at each split.
pub const POOL_RANGE_HIGH_END: u32 = 1;
/// Leave free blocks whole that are longer than the request's `split_limit_bytes`, unless they are
/// used up.
pub const POOL_RANGE_LIMIT_SPLIT: u32 = 2;
/// Serve from outside spans, whatever the size.
pub const POOL_RANGE_OUTSIDE_SPANS: u32 = 4;
/// Open no span for this request.
pub const POOL_RANGE_NO_NEW_SPAN: u32 = 8;

const _: () = {
    assert!(POOL_RANGE_HIGH_END == Options::HIGH_END.bits());
    assert!(POOL_RANGE_LIMIT_SPLIT == Options::LIMIT_SPLIT.bits());
    assert!(POOL_RANGE_OUTSIDE_SPANS == Options::OUTSIDE_SPANS.bits());
    assert!(POOL_RANGE_NO_NEW_SPAN == Options::NO_NEW_SPAN.bits());
};

/// A request for memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Request {
    /// How many bytes, rounded up to granules.
    pub size_bytes: u64,
    /// The offset is a multiple of it: a power of two, or 0 for the granule's.
    pub align_bytes: u64,
    /// With `POOL_RANGE_LIMIT_SPLIT`: the longest free block that may be split.
    pub split_limit_bytes: u64,
    /// `POOL_RANGE_HIGH_END` and others, or 0.
    pub options: u32,
    /// Zero.
    pub reserved: u32,
}

impl Request {
    /// As pool-core has it.
    pub(crate) fn range(&self) -> Result<pool_core::Request> {
        let options = Options::from_bits(self.options).ok_or(Error::Options)?;
        if self.reserved != 0 {
            return Err(Error::Options);
        }
        let request = pool_core::Request::new(self.size_bytes)
            .align_bytes(if self.align_bytes == 0 { 1 } else { self.align_bytes });
        Ok(if options.contains(Options::LIMIT_SPLIT) {
            request.never_split_above(self.split_limit_bytes).options(options)
        } else {
            request.options(options)
        })
    }
}

/// A block: live, or free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Block {
    /// The name of a live block. 0: it is free.
    pub handle: u64,
    /// Where it lies: bytes from the start of the memory that is managed.
    pub offset_bytes: u64,
    /// How many bytes it has: what was asked for, rounded up.
    pub size_bytes: u64,
}

impl From<pool_core::Block> for Block {
    #[inline]
    fn from(block: pool_core::Block) -> Self {
        Self {
            handle: block.handle().to_raw(),
            offset_bytes: block.offset_bytes(),
            size_bytes: block.size_bytes(),
        }
    }
}

impl Block {
    pub(crate) fn of(piece: Piece) -> Option<Self> {
        match piece {
            Piece::Live(block) => Some(block.into()),
            Piece::Free { offset_bytes, size_bytes } => {
                Some(Self { handle: 0, offset_bytes, size_bytes })
            }
            _ => None,
        }
    }
}

/// Where a walk over a range's blocks is. All zero: at the start.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Cursor {
    /// Where it goes on.
    pub offset_bytes: u64,
    /// The library's: where it finds that faster.
    pub hint: u64,
}

/// What a range has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stats {
    /// Bytes that it manages.
    pub capacity_bytes: u64,
    /// Bytes of live blocks.
    pub live_bytes: u64,
    /// The most of them at once.
    pub peak_live_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// The largest request that would be served now, at the granule's alignment.
    pub largest_free_bytes: u64,
    /// Live blocks.
    pub live_blocks: u64,
    /// Of the storage, 32 bytes each: entries in use for blocks, free blocks and spans.
    pub entries: u64,
    /// How many there are.
    pub all_entries: u64,
    /// Spans that are open.
    pub spans: u64,
}

impl Stats {
    pub(crate) fn of(stats: &RangeStats, largest_free_bytes: u64, all_entries: u64) -> Self {
        Self {
            capacity_bytes: stats.capacity_bytes,
            live_bytes: stats.live_bytes,
            peak_live_bytes: stats.peak_live_bytes,
            free_bytes: stats.free_bytes,
            largest_free_bytes,
            live_blocks: stats.live_blocks,
            entries: stats.nodes.into(),
            all_entries,
            spans: stats.spans.into(),
        }
    }
}

/// What is wrong with a range.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Damage {
    /// What does not hold, in words: static, and not ended by a zero.
    pub what: *const c_char,
    /// How many bytes of them.
    pub what_bytes: usize,
    /// The entry, granule or count that it was found at.
    pub at: u64,
}
