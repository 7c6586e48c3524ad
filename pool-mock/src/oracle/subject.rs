//! What the oracle calls of a range, whatever storage the range has.

use pool_core::{
    AllocError, Block, Borrowed, Chunked, EndError, Handle, HandleError, Metadata, OffsetAllocator,
    Piece, RangeStats, Request, ResizeError, SpanExtent, VerifyError, Visits,
};

/// A range under test. The methods are those of [`OffsetAllocator`], with the iterators collected.
pub(crate) trait Subject {
    fn allocate(&mut self, request: Request) -> Result<Block, AllocError>;
    fn try_allocate(&mut self, request: Request) -> Result<Block, AllocError>;
    fn add_metadata(&mut self, step: Metadata) -> bool;
    fn free(&mut self, handle: Handle) -> Result<Block, HandleError>;
    fn block(&self, handle: Handle) -> Result<Block, HandleError>;
    fn resize(&mut self, handle: Handle, size_bytes: u64) -> Result<Block, ResizeError>;
    fn fits(&self, request: Request) -> bool;
    fn visits(&self, request: Request) -> Visits;
    fn largest_free_bytes(&self) -> u64;
    fn capacity_bytes(&self) -> u64;
    fn stats(&self) -> RangeStats;
    fn grow(&mut self, additional_bytes: u64) -> Result<u64, EndError>;
    fn shrink(&mut self, bytes: u64) -> Result<u64, EndError>;
    fn blocks(&self) -> Vec<Piece>;
    fn spans(&self) -> Vec<SpanExtent>;
    fn verify(&self) -> Result<(), VerifyError>;
}

macro_rules! subject {
    ($storage:ty) => {
        impl Subject for OffsetAllocator<$storage> {
            fn allocate(&mut self, request: Request) -> Result<Block, AllocError> {
                self.allocate(request)
            }
            fn try_allocate(&mut self, request: Request) -> Result<Block, AllocError> {
                self.try_allocate(request)
            }
            fn add_metadata(&mut self, step: Metadata) -> bool {
                self.add_metadata(step)
            }
            fn free(&mut self, handle: Handle) -> Result<Block, HandleError> {
                self.free(handle)
            }
            fn block(&self, handle: Handle) -> Result<Block, HandleError> {
                self.block(handle)
            }
            fn resize(&mut self, handle: Handle, size_bytes: u64) -> Result<Block, ResizeError> {
                self.resize(handle, size_bytes)
            }
            fn fits(&self, request: Request) -> bool {
                self.fits(request)
            }
            fn visits(&self, request: Request) -> Visits {
                self.visits(request)
            }
            fn largest_free_bytes(&self) -> u64 {
                self.largest_free_bytes()
            }
            fn capacity_bytes(&self) -> u64 {
                self.capacity_bytes()
            }
            fn stats(&self) -> RangeStats {
                self.stats()
            }
            fn grow(&mut self, additional_bytes: u64) -> Result<u64, EndError> {
                self.grow(additional_bytes)
            }
            fn shrink(&mut self, bytes: u64) -> Result<u64, EndError> {
                self.shrink(bytes)
            }
            fn blocks(&self) -> Vec<Piece> {
                self.blocks().collect()
            }
            fn spans(&self) -> Vec<SpanExtent> {
                self.spans().collect()
            }
            fn verify(&self) -> Result<(), VerifyError> {
                self.verify()
            }
        }
    };
}

subject!(Borrowed<'_>);
subject!(Chunked);
