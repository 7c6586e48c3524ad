//! Which free memory serves a request.

use crate::range::Placement;

/// Which free memory serves a request. It is fixed when the pool is made.
///
/// # Example
///
/// ```
/// use pool_core::{Placement, PoolConfig, policy::Reuse};
///
/// let low = Reuse { placement: Placement::FirstFit, ..Reuse::default() };
/// let config = PoolConfig::new().reuse(low);
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Reuse {
    /// Which free block serves a request: best fit by default.
    pub placement: Placement,
    /// How much longer than asked for a block may be, in hundredths of what was asked for, before
    /// the free run that it is cut from is split: a smaller rest is given with it. 0, the default:
    /// every run is split to the granule. At most 100. Small blocks (in spans) and those of buddy
    /// placement are rounded up as they are, whatever it is.
    pub tolerance_percent: u8,
    /// The most bytes of freed blocks that wait on shelves for requests with the same
    /// [affinity](crate::Affinity): 64 MiB by default, for the whole pool. 0: none do.
    pub shelf_bytes: u64,
    /// How much longer than asked for a block from a shelf may be, in hundredths of what was asked
    /// for; a longer one is passed over, and never split. 12 by default, about what a size class
    /// would waste; 0: exactly as long, to the granule; at most 100.
    pub shelf_tolerance_percent: u8,
}

impl Reuse {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            placement: Placement::BestFit,
            tolerance_percent: 0,
            shelf_bytes: 64 << 20,
            shelf_tolerance_percent: 12,
        }
    }
}

impl Default for Reuse {
    fn default() -> Self {
        Self::new()
    }
}
