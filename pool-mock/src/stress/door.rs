//! The way by which a thread comes to the allocator.

use pool_core::{AllocError, Block, Cache, Handle, HandleError, Owner, Request, SharedAllocator};

use super::plan::Caches;

/// The allocator itself, or a cache on it.
#[derive(Debug)]
pub(crate) enum Door<'a> {
    ByItself(&'a SharedAllocator),
    Explicit(Box<Cache>),
}

impl<'a> Door<'a> {
    pub(crate) fn new(shared: &'a SharedAllocator, caches: Caches) -> Self {
        match caches {
            Caches::ByItself => Self::ByItself(shared),
            Caches::Explicit => Self::Explicit(Box::new(shared.cache())),
        }
    }

    pub(crate) fn allocate(&mut self, owner: Owner, request: Request) -> Result<Block, AllocError> {
        match self {
            Self::ByItself(shared) => shared.allocate_for(owner, request),
            Self::Explicit(cache) => cache.allocate_for(owner, request),
        }
    }

    pub(crate) fn free(&mut self, owner: Owner, handle: Handle) -> Result<Block, HandleError> {
        match self {
            Self::ByItself(shared) => shared.free_for(owner, handle),
            Self::Explicit(cache) => cache.free_for(owner, handle),
        }
    }
}
