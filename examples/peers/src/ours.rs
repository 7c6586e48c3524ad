//! The ranges of pool-core that take part.

use pool_core::{Chunked, ConfigError, OffsetAllocator, Placement, RangeConfig};

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
