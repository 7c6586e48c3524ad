//! A pool as one of several on a device: what it calls in from others, and what it owes them.

use alloc::sync::{Arc, Weak};

use super::books::Books;
use super::budget::{Lender, Taken, TenantStats};
use super::inner::{Failed, Inner};
use super::shortage::Remedy;
use crate::device::Device;
use crate::threads::Threads;

/// Under pressure all free memory is put together at the first call, and at each of so many after
/// it.
const CALLS_A_LOOK: u64 = 64;

/// From so many calls under pressure on an allocation waits on the host for work on an arena of
/// which nothing is live.
const CALLS_BEFORE_A_WAIT: u64 = 16;

impl<D: Device, T: Threads> Inner<D, T> {
    /// Lets others of the budget find the pool.
    pub(super) fn be_found(this: &Arc<Self>) {
        if let Some(seat) = &this.seat {
            let pool: Weak<Self> = Arc::downgrade(this);
            seat.host(pool);
        }
    }

    /// The most that the pool may ever have: the limit, or the quota.
    pub(super) fn most_bytes(&self, books: &Books<D>) -> Option<u64> {
        let quota = self.seat.as_ref().map(|seat| seat.share().quota_bytes);
        let quota = quota.filter(|&quota| quota < u64::MAX);
        books.limit_bytes.into_iter().chain(quota).min()
    }

    /// Has those that borrowed what is due to this pool give it back, until it has what it wants;
    /// or else as much as there is, if that is enough. Those that did not give enough are under
    /// pressure from then on.
    pub(super) fn call_in(&self, wanted_bytes: u64, least_bytes: u64) -> Option<u64> {
        let seat = self.seat.as_ref()?;
        // One who comes in the midst of a call of the device that others make for this pool does
        // not send them on again: that would have no end. Nor does one who may not call it.
        let may_call = !self.is_capturing() && self.with_books(|books| books.growers.len() <= 1);
        for borrower in seat.borrowers() {
            // If its last handle is dropped meanwhile, it ends here, with no lock held.
            let Some(borrower) = borrower.upgrade() else { continue };
            if may_call {
                borrower.give_way();
            } else {
                borrower.press();
            }
            drop(borrower);
            match self.set_aside(wanted_bytes, least_bytes, false) {
                Taken::Bytes(bytes) => return Some(bytes),
                Taken::Due => {}
                Taken::Refused => return None,
            }
        }
        match self.set_aside(wanted_bytes, least_bytes, true) {
            Taken::Bytes(bytes) => Some(bytes),
            Taken::Due | Taken::Refused => None,
        }
    }

    /// Gives back what is owed, as far as it can, if the pool is under pressure; an allocation
    /// may wait for it.
    pub(super) fn make_way(&self, may_wait: bool, failure: &mut Option<Failed<D>>) {
        if !self.is_pressed() {
            return;
        }
        let Some(seat) = &self.seat else { return };
        if self.is_capturing() || self.is_poisoned() {
            return;
        }
        if seat.owed().0 == 0 {
            self.end_pressure();
            return;
        }
        let calls = self.with_books(|books| {
            self.withhold(books);
            books.vacating.count_call()
        });
        if calls % CALLS_A_LOOK == 1 {
            self.give_way_fully(failure);
        } else {
            self.release_owed(failure);
            let is_whole = self.with_books(|books| books.vacating.is_any_whole());
            if seat.owed().0 > 0 && (is_whole || self.has_arena_in_hub()) {
                self.fence_hub(failure);
                self.poll(failure);
                if is_whole && may_wait && calls >= CALLS_BEFORE_A_WAIT {
                    self.wait_for_vacated(failure);
                }
                self.release_owed(failure);
            }
        }
        if seat.owed().0 == 0 {
            self.end_pressure();
        }
    }

    /// Gives all back that is owed and can be, before a request is refused: the host waits for work
    /// on arenas of which nothing is in use.
    pub(super) fn make_way_at_last(&self, failure: &mut Option<Failed<D>>) {
        let Some(seat) = &self.seat else { return };
        if self.is_capturing() {
            return;
        }
        self.give_way_fully(failure);
        while let before = seat.owed().0
            && before > 0
            && self.with_books(|books| books.vacating.is_any_whole())
        {
            self.wait_for_vacated(failure);
            self.release_owed(failure);
            if seat.owed().0 >= before {
                break;
            }
        }
        if seat.owed().0 == 0 {
            self.end_pressure();
        }
    }

    /// Gives vacated arenas back, and such as happen to be idle, as far as they wait for nothing.
    fn release_owed(&self, failure: &mut Option<Failed<D>>) {
        let Some(seat) = &self.seat else { return };
        self.release_leaving(failure);
        self.release_vacated(failure);
        self.release_bytes(seat.owed().0, failure);
    }

    /// Puts all free memory together, gives idle arenas back, and begins to vacate as many others
    /// as are still owed.
    fn give_way_fully(&self, failure: &mut Option<Failed<D>>) {
        let Some(seat) = &self.seat else { return };
        self.set_shared(true);
        self.bring_together(failure);
        self.release_owed(failure);
        if seat.owed().0 > 0 {
            self.vacate_more();
            self.release_vacated(failure);
        }
    }

    /// Nothing is owed any more.
    fn end_pressure(&self) {
        // First the mark: what is owed from now on sets it again.
        self.set_pressed(false);
        self.end_vacating();
        if self.seat.as_ref().is_some_and(|seat| seat.owed().0 > 0) {
            self.set_pressed(true);
        }
    }

    /// A tick's part in it.
    pub(super) fn keep_share(&self, failure: &mut Option<Failed<D>>) {
        if let Some(seat) = &self.seat {
            seat.tick();
            self.make_way(false, failure);
        }
    }
}

impl<D: Device, T: Threads> Lender for Inner<D, T> {
    fn give_way(&self) {
        let Some(seat) = &self.seat else { return };
        if seat.owed().0 == 0 {
            return;
        }
        self.press();
        if !self.is_capturing() && !self.is_poisoned() {
            // What fails here fails again at a call of its own, which reports it.
            self.give_way_fully(&mut None);
            if seat.owed().0 == 0 {
                self.end_pressure();
            }
        }
    }

    fn press(&self) {
        self.set_pressed(true);
    }
}

/// What of its share stands in a tenant's way; none if it is not the share.
pub(super) fn remedy_of(tenancy: &TenantStats, size_bytes: u64) -> Option<Remedy> {
    let reserved = tenancy.reserved_bytes.saturating_add(size_bytes);
    let unclaimed = tenancy.budget_free_bytes.saturating_sub(tenancy.claimed_by_others_bytes);
    if reserved > tenancy.quota_bytes {
        Some(Remedy::RaiseQuota)
    } else if reserved <= tenancy.guaranteed_bytes {
        (tenancy.budget_free_bytes < size_bytes).then_some(Remedy::AwaitBorrowers)
    } else {
        (unclaimed < size_bytes).then_some(Remedy::RaiseGuarantee)
    }
}
