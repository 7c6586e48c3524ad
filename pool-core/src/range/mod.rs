//! One range: an allocator of offsets. (Skeleton: the engine is being written.)

mod block;
mod config;
mod error;
mod handle;
mod request;

pub use block::{Block, Piece, RangeStats, SpanExtent, Visits};
pub use config::{Placement, RangeConfig, Spans};
pub use error::{
    AllocError, ConfigError, EndError, HandleError, Metadata, ResizeError, VerifyError,
};
pub use handle::Handle;
pub use request::{Options, Request};

/// A node of the node table, 32 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Node([u32; 8]);
impl Node {
    /// A node that is in no use.
    pub const UNUSED: Self = Self([0; 8]);
}
/// Storage lent by the caller.
#[derive(Debug)]
pub struct Borrowed<'a>(&'a mut [Node], &'a mut [u64]);
/// Storage in chunks from the heap.
#[derive(Debug)]
pub struct Chunked(());

/// One range.
#[derive(Debug)]
pub struct OffsetAllocator<S>(S);

#[allow(missing_docs, clippy::all, clippy::pedantic, unused)]
mod skeleton {
    use super::*;
    impl OffsetAllocator<Chunked> {
        pub fn new(config: &RangeConfig) -> Result<Self, ConfigError> { unimplemented!() }
    }
    impl<'a> OffsetAllocator<Borrowed<'a>> {
        pub fn in_storage(config: &RangeConfig, nodes: &'a mut [Node], span_words: &'a mut [u64]) -> Result<Self, ConfigError> { unimplemented!() }
    }
    impl<S> OffsetAllocator<S> {
        /// Allocates; with `Chunked` storage grows the metadata as needed.
        pub fn allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> { unimplemented!() }
        /// The same without growing metadata: `AllocError::OutOfMetadata(step)` instead.
        pub fn try_allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> { unimplemented!() }
        /// Returns the block as it was.
        pub fn free(&mut self, handle: Handle) -> Result<Block, HandleError> { unimplemented!() }
        pub fn block(&self, handle: Handle) -> Result<Block, HandleError> { unimplemented!() }
        /// Same handle, same offset; shrink always succeeds (keeps the size if no metadata).
        pub fn resize(&mut self, handle: Handle, size_bytes: u64) -> Result<Block, ResizeError> { unimplemented!() }
        pub fn fits(&self, request: impl Into<Request>) -> bool { unimplemented!() }
        pub fn visits(&self, request: impl Into<Request>) -> Visits { unimplemented!() }
        pub fn largest_free_bytes(&self) -> u64 { unimplemented!() }
        pub fn capacity_bytes(&self) -> u64 { unimplemented!() }
        pub fn granule_bytes(&self) -> u64 { unimplemented!() }
        pub fn placement(&self) -> Placement { unimplemented!() }
        pub fn stats(&self) -> RangeStats { unimplemented!() }
        /// New capacity.
        pub fn grow(&mut self, additional_bytes: u64) -> Result<u64, EndError> { unimplemented!() }
        /// New capacity.
        pub fn shrink(&mut self, bytes: u64) -> Result<u64, EndError> { unimplemented!() }
        /// Address order.
        pub fn blocks(&self) -> impl Iterator<Item = Piece> + '_ { core::iter::empty() }
        /// Address order.
        pub fn spans(&self) -> impl Iterator<Item = SpanExtent> + '_ { core::iter::empty() }
        pub fn verify(&self) -> Result<(), VerifyError> { unimplemented!() }
        pub fn free_all(&mut self) { unimplemented!() }
    }
    impl RangeConfig {
        /// Nodes for `blocks` live blocks in any layout.
        pub const fn nodes_for(&self, blocks: u32) -> usize { 0 }
        /// `u64` words for `spans` spans in caller's storage.
        pub const fn span_words_for(&self, spans: u32) -> usize { 0 }
    }
}
