//! What a pool and its tenancy are to each other.
//!
//! Both are named by traits: a configuration is the same whatever platform the budget's lock is
//! of, and a budget the same whatever devices its pools are over.

use alloc::sync::{Arc, Weak};
use core::fmt;
use core::ops::Deref;

use super::ledger::Taken;
use super::share::Share;
use super::stats::TenantStats;

/// A pool, as others see it that need what it borrowed. Called with no lock held.
pub(crate) trait Lender: Send + Sync {
    /// Gives back what it owes as far as nothing has to be waited for, and is under pressure if
    /// that is not all.
    fn give_way(&self);

    /// Puts it under pressure, without a call of the device.
    fn press(&self);
}

/// A tenant's account, as its pool sees it. Each call locks the budget's ledger and nothing else,
/// so each may be made with any lock held.
pub(crate) trait Account: Send + Sync {
    /// Takes the one place that there is for a pool; false if there is one.
    fn sit(&self) -> bool;

    /// Leaves it. What is still reserved was lost on the way back to the device: nobody gets it.
    fn rise(&self);

    /// Where others find the pool.
    fn host(&self, pool: Weak<dyn Lender>);

    /// Sets bytes aside: as many as wanted, at least so many. Only as many as are there if it is
    /// the last attempt.
    fn take(&self, wanted: u64, least: u64, is_last: bool) -> Taken;

    /// Gives bytes back.
    fn give(&self, bytes: u64);

    /// The pools that have borrowed, those that borrowed most before others.
    fn borrowers(&self) -> alloc::vec::Vec<Weak<dyn Lender>>;

    /// Bytes that the pool has to give back, and what it has beyond its guarantee.
    fn owed(&self) -> (u64, u64);

    fn share(&self) -> Share;

    /// A tick of the pool: what it wanted before the last one and not since, it wants no more.
    fn tick(&self);

    fn stats(&self) -> TenantStats;
}

/// A pool's place at an account, which it leaves at its end.
pub(crate) struct Seat(Arc<dyn Account>);

impl Seat {
    /// None if another pool has it.
    pub(crate) fn take(account: Arc<dyn Account>) -> Option<Self> {
        account.sit().then_some(Self(account))
    }
}

impl Deref for Seat {
    type Target = dyn Account;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.rise();
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Seat").field(&self.0.stats()).finish()
    }
}
