//! Allocators of others, as threads share them.

use std::sync::{Mutex, PoisonError};

use offset_allocator::Allocation;
use pool_mock::replay::Placer;

use super::{Crowd, Room};
use crate::foreign::{MiMallocInGranules, Object, Offset, TooLarge};

/// The crate offset-allocator behind a mutex, as a program shares an allocator that has but one
/// owner.
#[derive(Debug)]
pub struct Locked(Mutex<Offset>);

impl Locked {
    /// An allocator with room for all threads, and for twice the most live blocks.
    ///
    /// # Errors
    ///
    /// [`TooLarge`]: its sizes have 32 bits.
    pub fn new(room: &Room) -> Result<Self, TooLarge> {
        let blocks = room.blocks().saturating_mul(2);
        Ok(Self(Mutex::new(Offset::new(room.granules(), blocks)?)))
    }
}

/// A thread's way to a [`Locked`].
#[derive(Debug)]
pub struct LockedHand<'a>(&'a Mutex<Offset>);

impl Placer for LockedHand<'_> {
    type Block = Allocation;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Allocation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).place(granules)
    }

    #[inline]
    fn release(&mut self, block: Allocation) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).release(block);
    }
}

impl Crowd for Locked {
    type Block = Allocation;
    type Hand<'a> = LockedHand<'a>;

    fn hand(&self, _thread: u32) -> LockedHand<'_> {
        LockedHand(&self.0)
    }
}

/// mimalloc, which gives each thread a heap by itself. Objects of the host, as a limit of speed:
/// requests of more than 16 KiB ask for that.
#[derive(Clone, Copy, Debug)]
pub struct Hosted;

impl Crowd for Hosted {
    type Block = Object;
    type Hand<'a> = MiMallocInGranules;

    fn hand(&self, _thread: u32) -> MiMallocInGranules {
        MiMallocInGranules
    }
}
