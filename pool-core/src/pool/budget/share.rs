//! What a tenant of a budget may have.

use thiserror::Error;

/// What a tenant may have of a budget, in bytes of the device's memory that its pool reserves.
///
/// Choose both as multiples of the size of an arena
/// ([`Growth::floor_bytes`](crate::policy::Growth::floor_bytes)): memory comes and goes by whole
/// arenas.
///
/// # Example
///
/// ```
/// use pool_core::budget::Share;
///
/// let inference = Share::guaranteed(8 << 30);
/// let capped = Share { guaranteed_bytes: 2 << 30, quota_bytes: 4 << 30 };
/// assert!(capped.quota_bytes < inference.quota_bytes);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Share {
    /// So much it gets whenever it asks. Others may borrow it while it does not, and give it back
    /// then. The sum over all tenants is at most the budget.
    pub guaranteed_bytes: u64,
    /// More than this it never gets. What is beyond the guarantee is borrowed.
    pub quota_bytes: u64,
}

impl Share {
    /// A guarantee, and no quota but the budget.
    #[must_use]
    pub const fn guaranteed(bytes: u64) -> Self {
        Self { guaranteed_bytes: bytes, quota_bytes: u64::MAX }
    }

    /// No guarantee: a tenant that only borrows.
    #[must_use]
    pub const fn borrowing(quota_bytes: u64) -> Self {
        Self { guaranteed_bytes: 0, quota_bytes }
    }
}

/// Why a share was refused. Nothing is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum ShareError {
    /// It guarantees more than it allows.
    #[error("{guaranteed_bytes} bytes guaranteed, over the quota of {quota_bytes}")]
    GuaranteeOverQuota {
        /// What was to be guaranteed.
        guaranteed_bytes: u64,
        /// What was to be the most.
        quota_bytes: u64,
    },
    /// The guarantees of all tenants would be more than there is.
    #[error(
        "{guaranteed_bytes} bytes guaranteed, and {others_bytes} to others, of a budget of \
         {budget_bytes}"
    )]
    GuaranteesOverBudget {
        /// What was to be guaranteed.
        guaranteed_bytes: u64,
        /// What the other tenants are guaranteed.
        others_bytes: u64,
        /// What there is.
        budget_bytes: u64,
    },
}
