//! The ranges of pool-core that take part.

use pool_core::{Chunked, ConfigError, Handle, OffsetAllocator, Placement, RangeConfig};
use pool_mock::replay::Placer;

/// The granule of every measurement.
pub const GRANULE_BYTES: u64 = 256;

/// The placements, with the names that the output gives them; the default first.
pub const PLACEMENTS: [(Placement, &str); 3] = [
    (Placement::BestFit, "pool-core best-fit"),
    (Placement::FirstFit, "pool-core first-fit"),
    (Placement::Buddy, "pool-core buddy"),
];

/// A range as anyone would make it: a capacity, a placement, and room for so many blocks.
///
/// # Errors
///
/// The capacity is past 2^32 granules.
///
/// # Example
///
/// ```
/// use pool_core::Placement;
///
/// let range = peers::ours::range(1000, Placement::Buddy, 10)?;
/// assert_eq!(range.capacity_bytes(), 256_000);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
pub fn range(
    capacity_granules: u64,
    placement: Placement,
    blocks: u32,
) -> Result<OffsetAllocator<Chunked>, ConfigError> {
    let capacity_bytes = capacity_granules.saturating_mul(GRANULE_BYTES);
    OffsetAllocator::new(
        &RangeConfig::new(capacity_bytes).placement(placement).expect_blocks(blocks),
    )
}

/// A [`range`] that is asked in bytes, as programs ask: the foreign allocators take granules, and
/// a factor that is known when this is compiled costs the same as none.
///
/// # Example
///
/// ```
/// use peers::ours::{InBytes, range};
/// use pool_core::Placement;
/// use pool_mock::replay::Placer;
///
/// let mut range = InBytes(range(100, Placement::BestFit, 10)?);
/// let block = range.place(64).unwrap();
/// assert!(range.place(37).is_none());
/// range.release(block);
/// # Ok::<(), pool_core::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct InBytes(pub OffsetAllocator<Chunked>);

impl Placer for InBytes {
    type Block = Handle;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<Handle> {
        self.0.allocate(granules.checked_mul(GRANULE_BYTES)?).ok().map(|block| block.handle())
    }

    #[inline]
    fn release(&mut self, block: Handle) {
        self.0.release(block);
    }
}
