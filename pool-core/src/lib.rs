//! Offsets of device memory, managed without touching it.
#![no_std]
#![deny(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod range;

pub use range::{
    AllocError, Block, Borrowed, ConfigError, EndError, Handle, HandleError, Metadata, Node,
    OffsetAllocator, Options, Piece, Placement, RangeConfig, RangeStats, Request, ResizeError,
    SpanExtent, Spans, VerifyError, Visits,
};
#[cfg(feature = "alloc")]
pub use range::Chunked;
