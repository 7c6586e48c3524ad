//! The crate range-alloc: a list of free ranges, searched from its start for the best fit.

use pool_mock::replay::Placer;
use range_alloc::RangeAllocator;

/// Replays on range-alloc, in granules.
///
/// ```
/// use peers::foreign::Range;
/// use pool_mock::replay::Placer;
///
/// let mut range = Range::new(100);
/// assert_eq!(range.place(100), Some(0..100));
/// assert_eq!(range.place(1), None);
/// ```
#[derive(Debug)]
pub struct Range(RangeAllocator<u64>);

impl Range {
    /// A range of so many granules. It grows its list as it goes; no room can be asked for.
    #[must_use]
    pub fn new(capacity_granules: u64) -> Self {
        Self(RangeAllocator::new(0..capacity_granules))
    }
}

impl Placer for Range {
    type Block = core::ops::Range<u64>;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Self::Block> {
        self.0.allocate_range(granules).ok()
    }

    #[inline]
    fn release(&mut self, block: Self::Block) {
        self.0.free_range(block);
    }
}
