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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Reuse {
    /// Which free block serves a request: best fit by default.
    pub placement: Placement,
}

impl Reuse {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { placement: Placement::BestFit }
    }
}
