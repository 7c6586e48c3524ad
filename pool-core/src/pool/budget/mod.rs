//! Several pools on one device: a budget of its memory, and tenants with shares of it.
//!
//! | module | its one job |
//! | --- | --- |
//! | `share` | [`Share`]: what a tenant may have |
//! | `ledger` | who has how much, and the rule of who may have more |
//! | `account` | what a pool and its tenancy are to each other |
//! | `stats` | the books, for people to read |
//!
//! # Locks
//!
//! The ledger's lock is the last of all: under it nothing else is locked, called or dropped, so it
//! may be taken with a pool's own books locked, and a pool's reserved bytes change in both at once.
//! A pool that needs what others borrowed asks them with no lock held, and they do not ask anybody:
//! to give back takes nothing. So two that ask each other at the same time do not wait for each
//! other; and one that is asked while its last handle is dropped is either there, until the answer
//! is given, or not found.

mod account;
mod ledger;
mod share;
mod stats;

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;

pub(crate) use account::{Account, Lender, Seat};
pub(crate) use ledger::Taken;
pub use share::{Share, ShareError};
pub use stats::{BudgetStats, TenantStats};

use crate::range::VerifyError;
use crate::sync::{Lock, is_left};
use crate::threads::{DefaultThreads, Threads};
use ledger::Ledger;

/// Memory of a device that several pools share.
///
/// Each pool is a [tenant](Self::tenant) with a [`Share`]: what it is guaranteed, and the most it
/// may have. What of the budget is not in use may be borrowed by whoever needs it, others'
/// guarantees too, and comes back when they ask for it:
///
/// - at once, as far as the borrowers have idle arenas that wait for no work;
/// - else the borrowers are under pressure. They borrow no more, and vacate arenas: what becomes
///   free in them serves no request any more, and the arena goes back once all of it is. They do so
///   at their calls, no thread is needed for it. Meanwhile none of their calls is a hit, and an
///   allocation may wait on the host for work on an arena that is free.
///
/// So a tenant gets what it is guaranteed once the borrowers' blocks in so many arenas are freed,
/// within 64 calls of the borrower after the last of those frees. Live memory is not taken from
/// anybody. (Small blocks lie in spans, which serve small requests as long as a block in them is
/// live: arenas with spans are vacated last. And an arena is vacated only if all of it was
/// borrowed: guarantees should be multiples of the size of arenas.)
///
/// What a tenant was refused of its guarantee it claims until it gets an arena. If it does not ask
/// again, that ends at its pool's second tick, or when others have tried to borrow it 256 times: so
/// that a request of theirs may be served then that was refused just before.
///
/// It counts what pools reserve: not what others take of the device, nor its own overhead. Cheap
/// to clone: all clones are the same budget.
///
/// # Example
///
/// ```
/// use pool_core::budget::{Budget, Share};
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new().memory_bytes(1 << 30));
/// let budget = Budget::new(1 << 30);
/// let training = budget.tenant(Share::guaranteed(768 << 20))?;
/// let serving = budget.tenant(Share { guaranteed_bytes: 256 << 20, quota_bytes: 512 << 20 })?;
/// let pool = |tenancy| Pool::new(device.clone(), PoolConfig::new().tenancy(tenancy));
/// let (training_pool, serving_pool) = (pool(&training)?, pool(&serving)?);
///
/// // Nobody else needs it yet.
/// let borrowed = serving_pool.allocate(512 << 20)?;
/// assert_eq!(serving.stats().borrowed_bytes(), 256 << 20);
/// // It is live, so the other one does not get all that it is guaranteed …
/// assert!(training_pool.allocate(768 << 20).is_err());
/// // … until it is free.
/// serving_pool.free(borrowed.handle())?;
/// serving_pool.tick()?;
/// training_pool.allocate(768 << 20)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Budget<T: Threads = DefaultThreads> {
    book: Arc<Book<T>>,
}

impl<T: Threads> Clone for Budget<T> {
    fn clone(&self) -> Self {
        Self { book: self.book.clone() }
    }
}

/// The ledger under its lock.
struct Book<T: Threads> {
    ledger: T::Lock<Ledger>,
}

impl Budget {
    /// So many bytes of a device, on the [default platform](DefaultThreads).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::budget::Budget;
    ///
    /// let budget = Budget::new(8 << 30);
    /// assert_eq!(budget.stats().free_bytes(), 8 << 30);
    /// ```
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self::on_platform(bytes)
    }
}

impl<T: Threads> Budget<T> {
    /// The same on a platform of the program's choice. Its pools may be on others.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::budget::Budget;
    /// use pool_core::threads::BareThreads;
    ///
    /// let budget = Budget::<BareThreads>::on_platform(8 << 30);
    /// # let _ = budget;
    /// ```
    #[must_use]
    pub fn on_platform(bytes: u64) -> Self {
        Self { book: Arc::new(Book { ledger: Lock::new(Ledger::new(bytes)) }) }
    }

    /// A new tenant. Its share is its own as long as its tenancy or its pool exists.
    ///
    /// # Errors
    ///
    /// [`ShareError`] if it guarantees more than its quota, or than others' guarantees leave.
    ///
    /// # Complexity
    ///
    /// Linear in the number of tenants, as every call that changes what is reserved.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::budget::{Budget, Share, ShareError};
    ///
    /// let budget = Budget::new(8 << 30);
    /// let first = budget.tenant(Share::guaranteed(6 << 30))?;
    /// let second = budget.tenant(Share::guaranteed(3 << 30));
    /// assert!(matches!(second, Err(ShareError::GuaranteesOverBudget { .. })));
    /// # drop(first);
    /// # Ok::<(), ShareError>(())
    /// ```
    pub fn tenant(&self, share: Share) -> Result<Tenancy<T>, ShareError> {
        let number = self.book.ledger.lock().enter(share)?;
        Ok(Tenancy { member: Arc::new(Member { book: self.book.clone(), number }) })
    }

    /// The books.
    ///
    /// # Example
    ///
    /// See [`new`](Budget::new).
    #[must_use]
    pub fn stats(&self) -> BudgetStats {
        self.book.ledger.lock().stats()
    }

    /// Checks that no more is reserved than there is, nor guaranteed. Each pool's
    /// [`verify`](crate::Pool::verify) checks that its part is what it has.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] names what does not hold: a fault of this crate.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::budget::Budget;
    /// Budget::new(8 << 30).verify()?;
    /// # Ok::<(), pool_core::VerifyError>(())
    /// ```
    pub fn verify(&self) -> Result<(), VerifyError> {
        let stats = self.stats();
        let used = stats.reserved_bytes.saturating_add(stats.lost_bytes);
        for (what, at) in [
            ("more reserved than the budget has", used),
            ("more guaranteed than the budget has", stats.guaranteed_bytes),
        ] {
            if at > stats.budget_bytes {
                return Err(VerifyError { what, at });
            }
        }
        Ok(())
    }
}

impl<T: Threads> fmt::Debug for Budget<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Budget").field(&self.stats()).finish()
    }
}

/// A tenant's share of a [`Budget`]: what [`PoolConfig::tenancy`](crate::PoolConfig::tenancy)
/// takes. One pool at a time has it. Cheap to clone: all clones are the same tenant.
pub struct Tenancy<T: Threads = DefaultThreads> {
    member: Arc<Member<T>>,
}

impl<T: Threads> Clone for Tenancy<T> {
    fn clone(&self) -> Self {
        Self { member: self.member.clone() }
    }
}

impl<T: Threads> Tenancy<T> {
    pub(crate) fn account(&self) -> Arc<dyn Account> {
        self.member.clone()
    }

    /// Changes the share from now on. If the pool has more than the new quota, or others wait for
    /// what it has beyond the new guarantee, it gives back what it can at once, and the rest under
    /// pressure.
    ///
    /// # Errors
    ///
    /// [`ShareError`]: the share is as before.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig, budget::{Budget, Share}};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let tenancy = Budget::new(1 << 30).tenant(Share::borrowing(512 << 20))?;
    /// let config = PoolConfig::new().tenancy(&tenancy).initial_bytes(512 << 20);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// tenancy.set_share(Share::borrowing(256 << 20))?;
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn set_share(&self, share: Share) -> Result<(), ShareError> {
        let pool = {
            let mut ledger = self.member.book.ledger.lock();
            ledger.set_share(self.member.number, share)?;
            let owes = ledger.owed(self.member.number).0 > 0;
            if owes { ledger.pool(self.member.number) } else { None }
        };
        if let Some(pool) = pool.and_then(|pool| pool.upgrade()) {
            pool.give_way();
        }
        Ok(())
    }

    /// The share.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::budget::{Budget, Share};
    ///
    /// let tenancy = Budget::new(8 << 30).tenant(Share::guaranteed(1 << 30))?;
    /// assert_eq!(tenancy.share().guaranteed_bytes, 1 << 30);
    /// # Ok::<(), pool_core::budget::ShareError>(())
    /// ```
    #[must_use]
    pub fn share(&self) -> Share {
        self.member.share()
    }

    /// How the tenant stands.
    ///
    /// # Example
    ///
    /// See [`Budget`].
    #[must_use]
    pub fn stats(&self) -> TenantStats {
        self.member.stats()
    }
}

impl<T: Threads> fmt::Debug for Tenancy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tenancy").field(&self.stats()).finish()
    }
}

/// A tenant, as long as somebody holds it.
struct Member<T: Threads> {
    book: Arc<Book<T>>,
    number: u64,
}

impl<T: Threads> Account for Member<T> {
    fn sit(&self) -> bool {
        self.book.ledger.lock().sit(self.number)
    }

    fn rise(&self) {
        let pool = self.book.ledger.lock().rise(self.number);
        drop(pool);
    }

    fn host(&self, pool: Weak<dyn Lender>) {
        let before = self.book.ledger.lock().host(self.number, pool);
        drop(before);
    }

    fn take(&self, wanted: u64, least: u64, is_last: bool) -> Taken {
        self.book.ledger.lock().take(self.number, wanted, least, is_last)
    }

    fn give(&self, bytes: u64) {
        self.book.ledger.lock().give(self.number, bytes);
    }

    fn borrowers(&self) -> Vec<Weak<dyn Lender>> {
        self.book.ledger.lock().borrowers(self.number)
    }

    fn owed(&self) -> (u64, u64) {
        self.book.ledger.lock().owed(self.number)
    }

    fn share(&self) -> Share {
        self.book.ledger.lock().share(self.number)
    }

    fn tick(&self) {
        self.book.ledger.lock().tick(self.number);
    }

    fn stats(&self) -> TenantStats {
        self.book.ledger.lock().tenant_stats(self.number)
    }
}

impl<T: Threads> Drop for Member<T> {
    fn drop(&mut self) {
        if is_left() {
            return;
        }
        self.book.ledger.lock().leave(self.number);
    }
}
