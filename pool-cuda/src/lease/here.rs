//! This thread's part of each tally.

use core::cell::{Cell, RefCell};
use std::sync::Arc;

use super::tally::{Slot, Tally};
use crate::fences::Fences;

thread_local! {
    /// The part that was used last, which [`PARTS`] keeps.
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
    static PARTS: RefCell<Parts> = const { RefCell::new(Parts(Vec::new())) };
}

/// A part, by the number of its tally.
#[derive(Clone, Copy)]
struct Last {
    number: u64,
    slot: *const Slot,
}

/// The parts of a thread. It uses few pools.
struct Parts(Vec<(Arc<Tally>, Arc<Slot>)>);

impl Drop for Parts {
    fn drop(&mut self) {
        LAST.set(None);
        if crate::process::is_usable() {
            for (tally, slot) in self.0.drain(..) {
                tally.leave(&slot);
            }
        }
    }
}

/// Counts a buffer that a pool gives out. The pool has a handle as long as this call lasts.
#[inline]
pub(crate) fn gave(tally: &Arc<Tally>) {
    match LAST.get() {
        Some(last) if last.number == tally.number() => {
            // SAFETY: `PARTS` keeps the slot as long as `LAST` names it.
            unsafe { &*last.slot }.give();
        }
        _ => gave_slowly(tally),
    }
}

#[cold]
fn gave_slowly(tally: &Arc<Tally>) {
    match find(tally) {
        Some(slot) => slot.give(),
        None => tally.give_apart(),
    }
}

/// What there is to know of a tally to count in it: a plain value, for the tally may be gone as soon
/// as the last buffer is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    number: u64,
    fences: Fences,
}

impl Ticket {
    #[inline]
    pub(crate) fn of(tally: &Tally) -> Self {
        Self { number: tally.number(), fences: tally.fences() }
    }
}

/// Counts a buffer that a pool has taken back, as the last thing that is done with the pool: true
/// if the caller has to end that. `None` if this thread has not used the tally last: nothing is
/// counted then, and [`took_slowly`] will.
#[inline]
#[must_use]
pub(crate) fn took(ticket: Ticket) -> Option<bool> {
    let last = LAST.get().filter(|last| last.number == ticket.number)?;
    // SAFETY: as in `gave`.
    let closed = unsafe { &*last.slot }.take(ticket.fences);
    Some(closed && is_over(ticket.number))
}

/// As [`took`], on a thread that has to look for its part.
#[cold]
#[must_use]
pub(crate) fn took_slowly(tally: &Arc<Tally>) -> bool {
    match find(tally) {
        Some(slot) => slot.take(tally.fences()) && tally.is_over(),
        None => tally.take_apart(),
    }
}

/// Whether all is back, of a tally that this thread has a part of.
#[cold]
fn is_over(number: u64) -> bool {
    let known = PARTS.try_with(|parts| {
        let parts = parts.borrow();
        let known = parts.0.iter().find(|(tally, _)| tally.number() == number);
        known.map(|(tally, _)| Arc::clone(tally))
    });
    known.ok().flatten().is_some_and(|tally| tally.is_over())
}

/// This thread's slot, made if there is none, and remembered; `None` once the thread's locals are
/// gone.
fn find(tally: &Arc<Tally>) -> Option<Arc<Slot>> {
    PARTS
        .try_with(|parts| {
            let parts = &mut parts.borrow_mut().0;
            let known = parts.iter().find(|(known, _)| Arc::ptr_eq(known, tally));
            let slot = if let Some((_, slot)) = known {
                Arc::clone(slot)
            } else {
                // What ended is kept by its parts alone.
                parts.retain(|(tally, _)| !tally.has_ended());
                let slot = tally.enter();
                parts.push((Arc::clone(tally), Arc::clone(&slot)));
                slot
            };
            LAST.set(Some(Last { number: tally.number(), slot: Arc::as_ptr(&slot) }));
            slot
        })
        .ok()
}
