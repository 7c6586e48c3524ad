//! A budget's books, for people to read.

use core::fmt;

/// The books of a budget, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BudgetStats {
    /// What there is to share.
    pub budget_bytes: u64,
    /// What the pools of all tenants have reserved.
    pub reserved_bytes: u64,
    /// What a device did not take back at the end of a pool: nobody gets it any more.
    pub lost_bytes: u64,
    /// What all tenants together are guaranteed.
    pub guaranteed_bytes: u64,
    /// What tenants were refused of their guarantees, and get before anyone borrows.
    pub claimed_bytes: u64,
    /// Tenants.
    pub tenants: u64,
}

impl BudgetStats {
    /// What nobody has.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        let used = self.reserved_bytes.saturating_add(self.lost_bytes);
        self.budget_bytes.saturating_sub(used)
    }
}

/// How a tenant stands, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TenantStats {
    /// What it is guaranteed.
    pub guaranteed_bytes: u64,
    /// The most it may have.
    pub quota_bytes: u64,
    /// What its pool has reserved.
    pub reserved_bytes: u64,
    /// What it was refused of its guarantee, and gets before anyone borrows.
    pub claimed_bytes: u64,
    /// What it is to give back: it is under pressure unless this is zero.
    pub owed_bytes: u64,
    /// What nobody has of the budget.
    pub budget_free_bytes: u64,
    /// What the others claim of that.
    pub claimed_by_others_bytes: u64,
}

impl TenantStats {
    /// What it has beyond its guarantee.
    #[must_use]
    pub fn borrowed_bytes(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.guaranteed_bytes)
    }
}

impl fmt::Display for TenantStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of its budget reserved, {} guaranteed",
            self.reserved_bytes, self.guaranteed_bytes
        )?;
        if self.quota_bytes < u64::MAX {
            write!(f, ", at most {}", self.quota_bytes)?;
        }
        write!(
            f,
            "; of the budget {} free, {} of that claimed by others",
            self.budget_free_bytes, self.claimed_by_others_bytes
        )?;
        if self.owed_bytes > 0 {
            write!(f, "; {} to be given back", self.owed_bytes)?;
        }
        Ok(())
    }
}
