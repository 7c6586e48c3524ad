//! Everything that a range can refuse, with what a person needs to act on it.
//!
//! Every error leaves the range exactly as it was.

use thiserror::Error;

/// A configuration that no range can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The granule is not a power of two of at least 16 bytes.
    #[error("a granule of {granule_bytes} bytes: it must be a power of two from 16 bytes")]
    Granule {
        /// The granule asked for.
        granule_bytes: u64,
    },
    /// The capacity holds not even one granule.
    #[error("a capacity of {capacity_bytes} bytes is below one granule of {granule_bytes} bytes")]
    CapacityBelowGranule {
        /// The capacity asked for.
        capacity_bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// The capacity is over 2^32 granules.
    #[error(
        "a capacity of {capacity_bytes} bytes is over 2^32 granules of {granule_bytes} bytes; \
         use a larger granule or several ranges"
    )]
    CapacityTooLarge {
        /// The capacity asked for.
        capacity_bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// Spans must be a power of two, from 64 to 4,096 granules.
    #[error(
        "spans of {span_bytes} bytes: they must be a power of two from 64 to 4096 granules of \
         {granule_bytes} bytes"
    )]
    SpanSize {
        /// The span size asked for.
        span_bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// The largest size served from spans must be from one granule to half a span.
    #[error(
        "small requests up to {small_bytes} bytes: from one granule to half a span of {span_bytes} bytes"
    )]
    SmallLimit {
        /// The limit asked for.
        small_bytes: u64,
        /// The span size.
        span_bytes: u64,
    },
    /// A block may be at most twice as long as asked for.
    #[error("a tolerance of {percent} %: it must be at most 100 %")]
    Tolerance {
        /// The tolerance asked for.
        percent: u8,
    },
    /// The storage holds not even the nodes of an empty range.
    #[error("storage of {nodes} nodes: this range needs {needed} before its first block")]
    TooFewNodes {
        /// The nodes given.
        nodes: usize,
        /// The fewest that work.
        needed: usize,
    },
    /// The host's heap could not hold the first chunk of metadata.
    #[error("the host heap refused {bytes} bytes of metadata")]
    OutOfHostMemory {
        /// What was asked of the heap.
        bytes: usize,
    },
}

/// Metadata that an operation lacks: the step to take before it is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Metadata {
    /// At least this many more nodes.
    Nodes(u32),
    /// The tables of one more span.
    Span {
        /// Where it would lie: how many spans would fit before it.
        place: u32,
    },
    /// The atomic words of the blocks in one more part of the range, which the host's heap
    /// refused (shared allocators only).
    Words,
}

/// A request that was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AllocError {
    /// A size of zero: it has no bytes, so it needs no block.
    #[error("a request of zero bytes")]
    ZeroSize,
    /// The alignment is not a power of two.
    #[error("an alignment of {align_bytes} bytes is not a power of two")]
    Alignment {
        /// The alignment asked for.
        align_bytes: u64,
    },
    /// The size (or the size at that alignment) is larger than the whole range.
    #[error("{size_bytes} bytes can never fit: the whole range has {capacity_bytes} bytes")]
    TooLarge {
        /// The size asked for.
        size_bytes: u64,
        /// The range's capacity.
        capacity_bytes: u64,
    },
    /// No free block serves the request as things are.
    #[error(
        "no free block holds {size_bytes} bytes aligned to {align_bytes}: {free_bytes} bytes are \
         free, the largest block has {largest_free_bytes}"
    )]
    OutOfMemory {
        /// The size asked for.
        size_bytes: u64,
        /// The alignment asked for.
        align_bytes: u64,
        /// All free bytes of the range.
        free_bytes: u64,
        /// The largest request that would be served now, at the granule's alignment.
        largest_free_bytes: u64,
    },
    /// A block fits, but there is no spare metadata to describe the pieces.
    #[error("a block fits, but there is no metadata for it: {0:?} needed")]
    OutOfMetadata(Metadata),
}

/// A handle that names no live block of this range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandleError {
    /// No block of this range ever had this slot: the handle is another range's, or forged.
    #[error("the handle names no slot of this range")]
    Foreign,
    /// The block was freed already (or the handle is another range's).
    #[error("the handle is stale: its block was freed")]
    Stale,
}

/// A block that keeps its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// The handle names no live block.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// A size of zero; free the block instead.
    #[error("a resize to zero bytes")]
    ZeroSize,
    /// The neighbour is not free, or not large enough.
    #[error("no room to grow to {size_bytes} bytes in place: at most {most_bytes}")]
    NoRoom {
        /// The size asked for.
        size_bytes: u64,
        /// The largest size that this block can have where it lies.
        most_bytes: u64,
    },
}

/// A range whose end stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndError {
    /// Less than one granule.
    #[error("{bytes} bytes are less than one granule of {granule_bytes} bytes")]
    BelowGranule {
        /// The change asked for.
        bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// Growth past 2^32 granules.
    #[error("{bytes} more bytes take the range over 2^32 granules: at most {most_bytes} more")]
    TooLarge {
        /// The growth asked for.
        bytes: u64,
        /// The most that the range can grow by.
        most_bytes: u64,
    },
    /// The end of the range is not free, or would be the whole range.
    #[error("the range can give back {free_bytes} bytes at its end, not {bytes}")]
    InUse {
        /// The shrink asked for.
        bytes: u64,
        /// The most that can be given back now.
        free_bytes: u64,
    },
    /// No spare metadata to describe the new end.
    #[error("no metadata for the new end: {0:?} needed")]
    OutOfMetadata(Metadata),
}

/// A structure that is not what its invariants say: a fault of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} (at {at})")]
#[non_exhaustive]
pub struct VerifyError {
    /// The invariant that does not hold.
    pub what: &'static str,
    /// The node, granule or count it was found at.
    pub at: u64,
}
