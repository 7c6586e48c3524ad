//! Who has how much of a budget, and who may have more: figures alone.
//!
//! # The rule
//!
//! An arena that leaves a tenant within its guarantee is *due*: it gets it if so much is free, but
//! for what others claimed before it. If not, it *claims* it: what is free, and what comes back,
//! is kept for it, and whoever has borrowed owes what is missing. What it gets then is its own;
//! since all guarantees together are within the budget, what is free and what is borrowed are
//! always enough for all claims.
//!
//! Any other arena is *borrowed*: it is given out of what is free and nobody claims, be it
//! guaranteed to somebody or not, up to the quota. So while anything is claimed that is not free,
//! nobody borrows, and of those who borrow each owes what is missing, as far as it has borrowed.
//!
//! A claim ends when its tenant gets an arena, when its pool ends, at the second tick of a pool
//! that has not asked again since the first, and when the others were refused
//! [`PATIENCE`] times for it: a tenant that asked once and went away keeps nothing from the others
//! for ever. It loses nothing by that but the place: it is due what it was due.

use alloc::sync::Weak;
use alloc::vec::Vec;

use super::account::Lender;
use super::share::{Share, ShareError};
use super::stats::{BudgetStats, TenantStats};

/// How often others ask in vain to borrow before a claim ends whose tenant does not ask again.
pub(crate) const PATIENCE: u32 = 256;

/// What an attempt to set bytes aside came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// So many are set aside.
    Bytes(u64),
    /// They are due, and others have them: now they are claimed.
    Due,
    /// They are not due, or over the quota.
    Refused,
}

/// What a tenant was refused of its guarantee.
#[derive(Clone, Copy, Debug)]
struct Claim {
    bytes: u64,
    /// Those with a lower one came before.
    turn: u64,
    /// How often others were refused since it was last asked for.
    refusals: u32,
    /// Whether it was asked for since the last tick.
    is_fresh: bool,
}

struct Tenant {
    number: u64,
    share: Share,
    reserved_bytes: u64,
    claim: Option<Claim>,
    has_pool: bool,
    pool: Option<Weak<dyn Lender>>,
}

impl Tenant {
    fn due(&self) -> u64 {
        self.share.guaranteed_bytes.saturating_sub(self.reserved_bytes)
    }

    fn borrowed(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.share.guaranteed_bytes)
    }

    /// What it claims now: the guarantee may be less than it was.
    fn claimed(&self) -> u64 {
        self.claim.map_or(0, |claim| claim.bytes.min(self.due()))
    }

    fn claimed_before(&self, turn: u64) -> u64 {
        if self.claim.is_some_and(|claim| claim.turn < turn) { self.claimed() } else { 0 }
    }
}

/// The figures of a budget.
pub(crate) struct Ledger {
    budget_bytes: u64,
    lost_bytes: u64,
    tenants: Vec<Tenant>,
    /// The last number of a tenant, and of a claim.
    drawn: u64,
}

impl Ledger {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self { budget_bytes, lost_bytes: 0, tenants: Vec::new(), drawn: 0 }
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn get(&self, number: u64) -> Option<&Tenant> {
        self.tenants.iter().find(|tenant| tenant.number == number)
    }

    fn get_mut(&mut self, number: u64) -> Option<&mut Tenant> {
        self.tenants.iter_mut().find(|tenant| tenant.number == number)
    }

    fn sum(&self, figure: impl Fn(&Tenant) -> u64) -> u64 {
        self.tenants.iter().map(figure).fold(0, u64::saturating_add)
    }

    fn sum_of_others(&self, number: u64, figure: impl Fn(&Tenant) -> u64) -> u64 {
        self.sum(|tenant| if tenant.number == number { 0 } else { figure(tenant) })
    }

    fn free(&self) -> u64 {
        self.stats().free_bytes()
    }

    /// Whether a share can be a tenant's, or a new one's.
    fn check(&self, number: u64, share: Share) -> Result<(), ShareError> {
        let Share { guaranteed_bytes, quota_bytes } = share;
        if guaranteed_bytes > quota_bytes {
            return Err(ShareError::GuaranteeOverQuota { guaranteed_bytes, quota_bytes });
        }
        let others_bytes = self.sum_of_others(number, |tenant| tenant.share.guaranteed_bytes);
        let budget_bytes = self.budget_bytes;
        if others_bytes.saturating_add(guaranteed_bytes) > budget_bytes {
            return Err(ShareError::GuaranteesOverBudget {
                guaranteed_bytes,
                others_bytes,
                budget_bytes,
            });
        }
        Ok(())
    }

    /// A new tenant's number.
    pub(crate) fn enter(&mut self, share: Share) -> Result<u64, ShareError> {
        let number = self.draw();
        self.check(number, share)?;
        let (reserved_bytes, claim, has_pool, pool) = (0, None, false, None);
        self.tenants.push(Tenant { number, share, reserved_bytes, claim, has_pool, pool });
        Ok(number)
    }

    /// A tenant is gone, and so is its pool.
    pub(crate) fn leave(&mut self, number: u64) {
        self.tenants.retain(|tenant| tenant.number != number);
    }

    pub(crate) fn set_share(&mut self, number: u64, share: Share) -> Result<(), ShareError> {
        self.check(number, share)?;
        if let Some(tenant) = self.get_mut(number) {
            tenant.share = share;
        }
        Ok(())
    }

    pub(crate) fn share(&self, number: u64) -> Share {
        self.get(number).map_or(Share::borrowing(0), |tenant| tenant.share)
    }

    pub(crate) fn sit(&mut self, number: u64) -> bool {
        let Some(tenant) = self.get_mut(number).filter(|tenant| !tenant.has_pool) else {
            return false;
        };
        tenant.has_pool = true;
        true
    }

    /// A pool's end; where it was found, to be dropped when the lock is open.
    pub(crate) fn rise(&mut self, number: u64) -> Option<Weak<dyn Lender>> {
        let tenant = self.get_mut(number)?;
        tenant.has_pool = false;
        tenant.claim = None;
        let lost_bytes = core::mem::take(&mut tenant.reserved_bytes);
        let pool = tenant.pool.take();
        self.lost_bytes = self.lost_bytes.saturating_add(lost_bytes);
        pool
    }

    /// Where a pool is found; where another was, to be dropped when the lock is open.
    pub(crate) fn host(&mut self, number: u64, pool: Weak<dyn Lender>) -> Option<Weak<dyn Lender>> {
        self.get_mut(number)?.pool.replace(pool)
    }

    pub(crate) fn pool(&self, number: u64) -> Option<Weak<dyn Lender>> {
        self.get(number)?.pool.clone()
    }

    /// Sets bytes aside, by the rule.
    pub(crate) fn take(&mut self, number: u64, wanted: u64, least: u64, is_last: bool) -> Taken {
        let Some(tenant) = self.get(number) else { return Taken::Refused };
        let room = tenant.share.quota_bytes.saturating_sub(tenant.reserved_bytes);
        let wanted = wanted.min(room);
        if wanted < least {
            return Taken::Refused;
        }
        let (due, own) = (tenant.due(), tenant.claim);
        let free = self.free();
        let claims = self.sum_of_others(number, Tenant::claimed);
        let unclaimed = wanted.min(free.saturating_sub(claims));
        if due < least {
            if unclaimed < least {
                self.note_refusal(number);
                return Taken::Refused;
            }
            return self.set_aside(number, unclaimed);
        }
        let turn = own.map_or(u64::MAX, |claim| claim.turn);
        let before = self.sum_of_others(number, |tenant| tenant.claimed_before(turn));
        let open = free.saturating_sub(before);
        let asked = wanted.min(due);
        if open >= asked {
            return self.set_aside(number, asked.max(unclaimed));
        }
        if is_last && open >= least {
            return self.set_aside(number, open);
        }
        let turn = own.map_or_else(|| self.draw(), |claim| claim.turn);
        if let Some(tenant) = self.get_mut(number) {
            tenant.claim = Some(Claim { bytes: asked, turn, refusals: 0, is_fresh: true });
        }
        Taken::Due
    }

    fn set_aside(&mut self, number: u64, bytes: u64) -> Taken {
        match self.get_mut(number) {
            Some(tenant) => {
                tenant.reserved_bytes += bytes;
                tenant.claim = None;
                Taken::Bytes(bytes)
            }
            None => Taken::Refused,
        }
    }

    /// A tenant asked to borrow, and others' claims are in the way.
    fn note_refusal(&mut self, number: u64) {
        for tenant in self.tenants.iter_mut().filter(|tenant| tenant.number != number) {
            if let Some(claim) = &mut tenant.claim {
                claim.refusals += 1;
                if claim.refusals >= PATIENCE {
                    tenant.claim = None;
                }
            }
        }
    }

    pub(crate) fn give(&mut self, number: u64, bytes: u64) {
        if let Some(tenant) = self.get_mut(number) {
            tenant.reserved_bytes = tenant.reserved_bytes.saturating_sub(bytes);
        }
    }

    /// The pools that have borrowed, but for this one, the largest borrower first.
    pub(crate) fn borrowers(&self, number: u64) -> Vec<Weak<dyn Lender>> {
        let others = self.tenants.iter().filter(|tenant| tenant.number != number);
        let mut borrowers: Vec<&Tenant> = others.filter(|tenant| tenant.borrowed() > 0).collect();
        borrowers.sort_by_key(|tenant| core::cmp::Reverse(tenant.borrowed()));
        borrowers.into_iter().filter_map(|tenant| tenant.pool.clone()).collect()
    }

    /// What a tenant has to give back, and what it has borrowed: what is over its quota, and what
    /// others claim that is not free.
    pub(crate) fn owed(&self, number: u64) -> (u64, u64) {
        let Some(tenant) = self.get(number) else { return (0, 0) };
        let over = tenant.reserved_bytes.saturating_sub(tenant.share.quota_bytes);
        let claims = self.sum_of_others(number, Tenant::claimed);
        let missing = claims.saturating_sub(self.free());
        (over.max(missing.min(tenant.borrowed())), tenant.borrowed())
    }

    pub(crate) fn tick(&mut self, number: u64) {
        let Some(tenant) = self.get_mut(number) else { return };
        if let Some(claim) = &mut tenant.claim
            && !core::mem::replace(&mut claim.is_fresh, false)
        {
            tenant.claim = None;
        }
    }

    pub(crate) fn stats(&self) -> BudgetStats {
        BudgetStats {
            budget_bytes: self.budget_bytes,
            reserved_bytes: self.sum(|tenant| tenant.reserved_bytes),
            lost_bytes: self.lost_bytes,
            guaranteed_bytes: self.sum(|tenant| tenant.share.guaranteed_bytes),
            claimed_bytes: self.sum(Tenant::claimed),
            tenants: self.tenants.len() as u64,
        }
    }

    pub(crate) fn tenant_stats(&self, number: u64) -> TenantStats {
        let Some(tenant) = self.get(number) else { return TenantStats::default() };
        TenantStats {
            guaranteed_bytes: tenant.share.guaranteed_bytes,
            quota_bytes: tenant.share.quota_bytes,
            reserved_bytes: tenant.reserved_bytes,
            claimed_bytes: tenant.claimed(),
            owed_bytes: self.owed(number).0,
            budget_free_bytes: self.free(),
            claimed_by_others_bytes: self.sum_of_others(number, Tenant::claimed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn ledger(shares: &[(u64, u64)]) -> (Ledger, Vec<u64>) {
        let mut ledger = Ledger::new(100);
        let numbers = shares.iter().map(|&(guaranteed_bytes, quota_bytes)| {
            let number = ledger.enter(Share { guaranteed_bytes, quota_bytes }).unwrap();
            assert!(ledger.sit(number));
            number
        });
        let numbers = numbers.collect();
        (ledger, numbers)
    }

    #[test]
    fn what_is_unused_is_lent_and_what_is_claimed_is_not() {
        let (mut ledger, of) = ledger(&[(40, 100), (30, 100), (0, 80)]);
        // The third has no guarantee, and borrows the others' up to its quota.
        assert_eq!(ledger.take(of[2], 200, 1, false), Taken::Bytes(80));
        assert_eq!(ledger.take(of[2], 1, 1, false), Taken::Refused);
        assert_eq!(ledger.owed(of[2]), (0, 80));
        // 20 are free: the first gets what is there at its last attempt, not before.
        assert_eq!(ledger.take(of[0], 40, 10, false), Taken::Due);
        assert_eq!(ledger.owed(of[2]), (20, 80));
        // The second comes later: what is free is kept for the first.
        assert_eq!(ledger.take(of[1], 10, 10, true), Taken::Due);
        assert_eq!(ledger.owed(of[2]), (30, 80));
        assert_eq!(ledger.take(of[0], 40, 10, true), Taken::Bytes(20));
        ledger.give(of[2], 30);
        assert_eq!(ledger.owed(of[2]), (0, 50));
        assert_eq!(ledger.take(of[2], 25, 25, true), Taken::Refused);
        assert_eq!(ledger.take(of[1], 10, 10, false), Taken::Bytes(10));
        assert_eq!(ledger.take(of[2], 25, 1, true), Taken::Bytes(20));
        assert_eq!(ledger.stats().free_bytes(), 0);
    }

    #[test]
    fn a_claim_ends_by_the_others_patience_and_by_ticks() {
        let (mut ledger, of) = ledger(&[(40, 40), (0, 100)]);
        for by_ticks in [false, true] {
            assert_eq!(ledger.take(of[1], 100, 100, false), Taken::Bytes(100));
            assert_eq!(ledger.take(of[0], 40, 40, true), Taken::Due);
            ledger.give(of[1], 50);
            if by_ticks {
                ledger.tick(of[0]);
                assert_eq!(ledger.take(of[0], 60, 60, true), Taken::Refused, "over the quota");
                assert_eq!(ledger.take(of[1], 50, 11, true), Taken::Refused);
                ledger.tick(of[0]);
            } else {
                for _ in 0..PATIENCE {
                    assert_eq!(ledger.take(of[1], 50, 11, true), Taken::Refused);
                }
            }
            assert_eq!(ledger.take(of[1], 50, 11, true), Taken::Bytes(50));
            ledger.give(of[1], 100);
        }
    }

    #[test]
    fn a_share_that_breaks_the_sum_is_refused() {
        let (mut ledger, of) = ledger(&[(40, 40), (60, 100)]);
        let refused = ledger.enter(Share::guaranteed(1));
        let over = |guaranteed_bytes, others_bytes| ShareError::GuaranteesOverBudget {
            guaranteed_bytes,
            others_bytes,
            budget_bytes: 100,
        };
        assert_eq!(refused, Err(over(1, 100)));
        assert_eq!(ledger.set_share(of[0], Share::guaranteed(u64::MAX)), Err(over(u64::MAX, 60)));
        let inverted = Share { guaranteed_bytes: 2, quota_bytes: 1 };
        assert!(matches!(
            ledger.set_share(of[0], inverted),
            Err(ShareError::GuaranteeOverQuota { .. })
        ));
        assert_eq!(ledger.share(of[0]), Share { guaranteed_bytes: 40, quota_bytes: 40 });
        ledger.set_share(of[0], Share::guaranteed(10)).unwrap();
        ledger.leave(of[1]);
        assert_eq!(ledger.enter(Share::guaranteed(90)).map(|_| ()), Ok(()));
    }

    #[test]
    fn no_sequence_breaks_the_sum_or_leaves_a_guarantee_out_of_reach() {
        let mut state = 11u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut ledger, of) = ledger(&[(40, 70), (30, 100), (20, 20), (0, 100)]);
        let mut reserved = vec![0; of.len()];
        for _ in 0..50_000 {
            let place = draw(of.len() as u64) as usize;
            if draw(2) == 0 {
                let least = 1 + draw(40);
                let taken = ledger.take(of[place], least + draw(40), least, draw(2) == 0);
                if let Taken::Bytes(bytes) = taken {
                    assert!(bytes >= least);
                    reserved[place] += bytes;
                }
            } else if reserved[place] > 0 {
                let bytes = 1 + draw(reserved[place]);
                ledger.give(of[place], bytes);
                reserved[place] -= bytes;
            }
            let sums = ledger.stats();
            assert_eq!(sums.reserved_bytes, reserved.iter().sum::<u64>());
            assert!(sums.reserved_bytes <= 100);
            let borrowed = ledger.sum(Tenant::borrowed);
            assert!(sums.free_bytes() + borrowed >= ledger.sum(Tenant::due));
            for (&number, &has) in of.iter().zip(&reserved) {
                let share = ledger.share(number);
                assert!(has <= share.quota_bytes);
            }
        }
    }
}
