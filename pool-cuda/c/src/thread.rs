//! What a thread remembers, so that a hit asks nobody: which pool and stream a handle means.
//!
//! Nothing here has to be told of a stream's end. A stream of a pool has a number that no other
//! gets, so what is remembered of one that is gone is refused by the pool, and looked up anew.

use core::cell::{Cell, RefCell};
use core::ptr;
use std::sync::Arc;

use pool_core::StreamId;

use crate::device::{DevicePool, Known};
use crate::handle::StreamHandle;
use crate::ledger::Counts;

/// Handles that are remembered, and in how many places each may be.
const PLACES: usize = 64;
const WAYS: usize = 4;

/// A handle that was seen, and what it means.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    handle: StreamHandle,
    pub(crate) pool: &'static DevicePool,
    pub(crate) stream: StreamId,
    /// The driver's number of the stream, where it has one.
    pub(crate) number: Option<u64>,
    counts: *const Counts,
}

impl Seen {
    /// The thread's counts for the pool.
    #[inline]
    pub(crate) fn counts(&self) -> &Counts {
        // SAFETY: one of the seats has them, as long as the thread remembers this.
        unsafe { &*self.counts }
    }
}

/// One thread's.
struct Thread {
    /// Whether a context was current, or made so, when it named no stream for the first time.
    entered: Cell<bool>,
    seen: [Cell<Option<Seen>>; PLACES],
    seats: RefCell<Vec<(&'static DevicePool, Arc<Counts>)>>,
}

thread_local! {
    /// What `OWNED` has, or null. No destructor, so that to find it takes one load.
    static FOUND: Cell<*const Thread> = const { Cell::new(ptr::null()) };
    static OWNED: Owned = const { Owned(Cell::new(ptr::null_mut())) };
}

/// Ends with the thread.
struct Owned(Cell<*mut Thread>);

impl Drop for Owned {
    fn drop(&mut self) {
        FOUND.set(ptr::null());
        let thread = self.0.replace(ptr::null_mut());
        if thread.is_null() || pool_cuda::Driver::check_process().is_err() {
            // In a forked child another thread may have held the ledger's lock.
            return;
        }
        // SAFETY: it is a box's, which nobody else has.
        let thread = unsafe { Box::from_raw(thread) };
        for (pool, counts) in thread.seats.borrow().iter() {
            pool.ledger.leave(counts);
        }
    }
}

/// This thread's, made if there is none; none once its locals are gone.
#[inline]
fn this() -> Option<&'static Thread> {
    let found = FOUND.get();
    let found = if found.is_null() { make() } else { found };
    // SAFETY: it lasts until the thread's locals go, and no reference is kept for longer than a call.
    unsafe { found.as_ref() }
}

#[cold]
fn make() -> *const Thread {
    let made = OWNED.try_with(|owned| {
        let seen = [const { Cell::new(None) }; PLACES];
        let thread = Box::into_raw(Box::new(Thread {
            entered: Cell::new(false),
            seen,
            seats: RefCell::default(),
        }));
        owned.0.set(thread);
        FOUND.set(thread);
        thread.cast_const()
    });
    made.unwrap_or(ptr::null())
}

/// Where a handle may be.
#[inline]
fn places(handle: StreamHandle) -> impl Iterator<Item = usize> {
    let first = handle.scattered(PLACES.trailing_zeros());
    (0..WAYS).map(move |way| (first + way) % PLACES)
}

/// What a handle means, if this thread has seen it.
#[inline]
pub(crate) fn seen(handle: StreamHandle) -> Option<Seen> {
    // SAFETY: as in `this`.
    let thread = unsafe { FOUND.get().as_ref() }?;
    places(handle)
        .filter_map(|place| thread.seen.get(place)?.get())
        .find(|seen| seen.handle == handle)
}

/// Remembers what a handle means.
pub(crate) fn remember(handle: StreamHandle, pool: &'static DevicePool, known: Known) {
    let Some(thread) = this() else { return };
    let Some(counts) = thread.counts(pool) else { return };
    let counts = Arc::as_ptr(&counts);
    let Known { stream, number } = known;
    let is_free = |place: &usize| {
        let seen = thread.seen[*place].get();
        seen.is_none_or(|seen| seen.handle == handle)
    };
    // The last that came goes first.
    let place = places(handle).find(is_free).or_else(|| places(handle).next());
    if let Some(place) = place {
        thread.seen[place].set(Some(Seen { handle, pool, stream, number, counts }));
    }
}

/// Whether this thread has had a context when it named no stream.
#[inline]
pub(crate) fn has_entered() -> bool {
    // SAFETY: as in `this`.
    unsafe { FOUND.get().as_ref() }.is_some_and(|thread| thread.entered.get())
}

/// From here on it has.
pub(crate) fn set_entered() {
    if let Some(thread) = this() {
        thread.entered.set(true);
    }
}

/// Does something with this thread's counts for a pool; with those of nobody in particular where a
/// thread ends.
pub(crate) fn with_counts(pool: &'static DevicePool, work: impl FnOnce(&Counts)) {
    if let Some(counts) = this().and_then(|thread| thread.counts(pool)) {
        work(&counts);
    } else {
        let counts = pool.ledger.enter();
        work(&counts);
        pool.ledger.leave(&counts);
    }
}

/// Forgets all that this thread has seen.
///
/// # Safety
///
/// The pools are there.
pub(crate) unsafe fn forget() {
    if let Some(thread) = this() {
        thread.entered.set(false);
        thread.seen.iter().for_each(|seen| seen.set(None));
        for (pool, counts) in thread.seats.take() {
            pool.ledger.leave(&counts);
        }
    }
}

impl Thread {
    fn counts(&self, pool: &'static DevicePool) -> Option<Arc<Counts>> {
        let mut seats = self.seats.try_borrow_mut().ok()?;
        if let Some((_, counts)) = seats.iter().find(|(other, _)| ptr::eq(*other, pool)) {
            return Some(Arc::clone(counts));
        }
        let counts = pool.ledger.enter();
        seats.push((pool, Arc::clone(&counts)));
        Some(counts)
    }
}
