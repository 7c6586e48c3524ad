//! pool-core's shared allocator, as threads may use it, and one for each thread.

use pool_core::{Cache, ConfigError, Handle, Owner, SharedAllocator};
use pool_mock::replay::Placer;

use super::{Crowd, Room};
use crate::ours::{GRANULE_BYTES, shared};

/// A shared allocator on which each thread has an explicit cache.
#[derive(Debug)]
pub struct Caches {
    shared: SharedAllocator,
    owners: bool,
}

/// A shared allocator on which each thread has a cache by itself.
#[derive(Debug)]
pub struct Locals {
    shared: SharedAllocator,
    owners: bool,
}

/// An allocator and a cache for each thread: nothing is shared.
#[derive(Debug)]
pub struct Private {
    each: Vec<SharedAllocator>,
    owners: bool,
}

impl Caches {
    /// An allocator with room for all threads.
    ///
    /// # Errors
    ///
    /// The capacity is past 2^32 granules.
    pub fn new(room: &Room) -> Result<Self, ConfigError> {
        Ok(Self {
            shared: SharedAllocator::new(shared(room.granules(), room.blocks()))?,
            owners: room.owners,
        })
    }

    /// The allocator.
    #[must_use]
    pub fn shared(&self) -> &SharedAllocator {
        &self.shared
    }
}

impl Locals {
    /// An allocator with room for all threads.
    ///
    /// # Errors
    ///
    /// The capacity is past 2^32 granules.
    pub fn new(room: &Room) -> Result<Self, ConfigError> {
        Ok(Self {
            shared: SharedAllocator::new(shared(room.granules(), room.blocks()))?,
            owners: room.owners,
        })
    }

    /// The allocator.
    #[must_use]
    pub fn shared(&self) -> &SharedAllocator {
        &self.shared
    }
}

impl Private {
    /// An allocator for each thread, with room for it.
    ///
    /// # Errors
    ///
    /// The capacity of one is past 2^32 granules.
    pub fn new(room: &Room) -> Result<Self, ConfigError> {
        let one = |_| SharedAllocator::new(shared(room.granules_each, room.blocks_each));
        let each = (0..room.threads).map(one).collect::<Result<_, _>>()?;
        Ok(Self { each, owners: room.owners })
    }

    /// The allocators.
    #[must_use]
    pub fn each(&self) -> &[SharedAllocator] {
        &self.each
    }
}

/// The owner that a thread works for.
fn owner(owners: bool, thread: u32) -> Owner {
    if owners { Owner(thread + 1) } else { Owner::CLEAN }
}

/// A cache, and the owner that its thread works for.
#[derive(Debug)]
pub struct CacheHand {
    cache: Cache,
    owner: Owner,
}

impl Placer for CacheHand {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        let size_bytes = granules.checked_mul(GRANULE_BYTES)?;
        self.cache.allocate_for(self.owner, size_bytes).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        // A free that fails leaves its block live: the books show it at the end.
        let _ = self.cache.free_for(self.owner, block);
    }
}

/// The allocator, and the owner that a thread works for.
#[derive(Debug)]
pub struct LocalHand<'a> {
    shared: &'a SharedAllocator,
    owner: Owner,
}

impl Placer for LocalHand<'_> {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        let size_bytes = granules.checked_mul(GRANULE_BYTES)?;
        self.shared.allocate_for(self.owner, size_bytes).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        // A free that fails leaves its block live: the books show it at the end.
        let _ = self.shared.free_for(self.owner, block);
    }
}

impl Crowd for Caches {
    type Block = Handle;
    type Hand<'a> = CacheHand;

    fn hand(&self, thread: u32) -> CacheHand {
        CacheHand { cache: self.shared.cache(), owner: owner(self.owners, thread) }
    }
}

impl Crowd for Locals {
    type Block = Handle;
    type Hand<'a> = LocalHand<'a>;

    fn hand(&self, thread: u32) -> LocalHand<'_> {
        LocalHand { shared: &self.shared, owner: owner(self.owners, thread) }
    }
}

impl Crowd for Private {
    type Block = Handle;
    type Hand<'a> = CacheHand;

    /// # Panics
    ///
    /// There are fewer threads.
    fn hand(&self, thread: u32) -> CacheHand {
        let shared = &self.each[thread as usize];
        CacheHand { cache: shared.cache(), owner: owner(self.owners, thread) }
    }
}
