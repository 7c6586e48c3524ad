//! The crate offset-allocator: size bins in floating-point steps, constant time.

use core::fmt;

use offset_allocator::{Allocation, Allocator};
use pool_mock::replay::Placer;

use super::TooLarge;

/// Replays on offset-allocator, in granules.
///
/// ```
/// use peers::foreign::Offset;
/// use pool_mock::replay::Placer;
///
/// let mut range = Offset::new(100, 10)?;
/// let block = range.place(64).unwrap();
/// assert!(range.place(37).is_none());
/// range.release(block);
/// # Ok::<(), peers::foreign::TooLarge>(())
/// ```
pub struct Offset(Allocator);

impl Offset {
    /// A range with room for so many blocks, which are made up front.
    ///
    /// # Errors
    ///
    /// [`TooLarge`]: its sizes have 32 bits.
    pub fn new(capacity_granules: u64, blocks: u32) -> Result<Self, TooLarge> {
        let granules = capacity_granules;
        let capacity = u32::try_from(granules).map_err(|_| TooLarge { granules })?;
        Ok(Self(Allocator::with_max_allocs(capacity, blocks)))
    }
}

impl Placer for Offset {
    type Block = Allocation;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Allocation> {
        self.0.allocate(u32::try_from(granules).ok()?)
    }

    #[inline]
    fn release(&mut self, block: Allocation) {
        self.0.free(block);
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Offset").field(&self.0.storage_report()).finish()
    }
}
