//! The shared allocator.

extern crate std;
use alloc::sync::Arc;
use std::sync::Mutex;
use crate::range::*;
use super::*;

/// A range that threads share.
#[derive(Clone, Debug)]
pub struct SharedAllocator { range: Arc<Mutex<OffsetAllocator<Chunked>>> }

/// A cache.
#[derive(Debug)]
pub struct Cache { shared: SharedAllocator }

#[allow(missing_docs, clippy::all, clippy::pedantic)]
impl SharedAllocator {
    pub fn new(config: impl Into<SharedConfig>) -> Result<Self, ConfigError> {
        Ok(Self { range: Arc::new(Mutex::new(OffsetAllocator::new(&config.into().range)?)) })
    }
    pub fn allocate(&self, request: impl Into<Request>) -> Result<Block, AllocError> { self.range.lock().unwrap().allocate(request) }
    pub fn allocate_for(&self, _owner: Owner, request: impl Into<Request>) -> Result<Block, AllocError> { self.allocate(request) }
    pub fn free(&self, handle: Handle) -> Result<Block, HandleError> { self.range.lock().unwrap().free(handle) }
    pub fn free_for(&self, _owner: Owner, handle: Handle) -> Result<Block, HandleError> { self.free(handle) }
    pub fn block(&self, handle: Handle) -> Result<Block, HandleError> { self.range.lock().unwrap().block(handle) }
    pub fn block_at(&self, offset_bytes: u64) -> Option<Handle> {
        self.range.lock().unwrap().blocks().find_map(|p| match p { Piece::Live(b) if b.offset_bytes() == offset_bytes => Some(b.handle()), _ => None })
    }
    pub fn cache(&self) -> Cache { Cache { shared: self.clone() } }
    pub fn flush(&self) {}
    pub fn stats(&self) -> SharedStats {
        let s = self.range.lock().unwrap().stats();
        SharedStats { capacity_bytes: s.capacity_bytes, live_bytes: s.live_bytes, peak_live_bytes: s.peak_live_bytes, free_bytes: s.free_bytes, live_blocks: s.live_blocks, ..Default::default() }
    }
    pub fn reset_peak(&self) {}
    pub fn verify(&self) -> Result<(), VerifyError> { self.range.lock().unwrap().verify() }
    pub fn capacity_bytes(&self) -> u64 { self.range.lock().unwrap().capacity_bytes() }
    pub fn granule_bytes(&self) -> u64 { self.range.lock().unwrap().granule_bytes() }
    pub fn largest_free_bytes(&self) -> u64 { self.range.lock().unwrap().largest_free_bytes() }
}

#[allow(missing_docs, clippy::all, clippy::pedantic)]
impl Cache {
    pub fn allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> { self.shared.allocate(request) }
    pub fn allocate_for(&mut self, owner: Owner, request: impl Into<Request>) -> Result<Block, AllocError> { self.shared.allocate_for(owner, request) }
    pub fn free(&mut self, handle: Handle) -> Result<Block, HandleError> { self.shared.free(handle) }
    pub fn free_for(&mut self, owner: Owner, handle: Handle) -> Result<Block, HandleError> { self.shared.free_for(owner, handle) }
    pub fn shard(&self) -> u32 { 0 }
    pub fn use_shard(&mut self, _shard: u32) {}
    pub fn flush(&mut self) {}
}
