//! A bounded queue without locks, of cells that stay where they are: the one way in which
//! magazines pass between threads.
//!
//! It is Vyukov's queue: each cell has a sequence number that says whether it waits to be filled
//! or to be emptied, and for which round. Who fills only writes the tail and who empties only the
//! head, so that a thread that fills and one that empties meet at cells alone. Positions have 64
//! bits and never come again, so that no step can be taken for an older one (ABA).
//!
//! A thread that stops between claiming a cell and publishing it keeps those behind it from that
//! cell: the queue then looks full, or empty, and its user does without.

use alloc::boxed::Box;

use super::sabotage::{PUBLISH, RECEIVE, TORN_CLAIM, UNCHECKED_ROUND};
use super::tables::{NoTable, filled};
use crate::sync::{AtomicU64, Counter, Ordering, Padded};

/// A queue of cells whose content is written and read in place.
pub(crate) struct Ring<C> {
    /// The next position to fill.
    tail: Padded<AtomicU64>,
    /// The next position to empty.
    head: Padded<AtomicU64>,
    cells: Box<[Padded<Cell<C>>]>,
}

struct Cell<C> {
    /// The position that it is to be filled for; one more, and it is full of it.
    sequence: AtomicU64,
    content: C,
}

impl<C> Ring<C> {
    /// A queue of so many cells, at least two: with one, a cell that is full would look like one
    /// to be filled for the next position.
    pub(crate) fn new(cells: u64, content: impl Fn() -> C) -> Result<Self, NoTable> {
        let mut position = 0;
        let cells = filled(cells.max(2), || {
            let sequence = AtomicU64::new(position);
            position += 1;
            Padded(Cell { sequence, content: content() })
        })?;
        Ok(Self { tail: Padded(AtomicU64::new(0)), head: Padded(AtomicU64::new(0)), cells })
    }

    /// How many cells there are.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Has a cell filled and puts it at the end; false if there is none.
    pub(crate) fn push(&self, fill: impl FnOnce(&C), retries: &Counter) -> bool {
        let Some((cell, position)) = self.claim(&self.tail, 0, |_| true, retries) else {
            return false;
        };
        fill(&cell.content);
        cell.sequence.store(position + 1, PUBLISH.or_relaxed(Ordering::Release));
        true
    }

    /// Takes the first cell out, if `wanted` says so of it, and has it emptied; false if there is
    /// none. What `wanted` sees may be about to change hands: then it is asked again, or the cell
    /// is not taken.
    pub(crate) fn pop(
        &self,
        wanted: impl Fn(&C) -> bool,
        empty: impl FnOnce(&C),
        retries: &Counter,
    ) -> bool {
        let Some((cell, position)) = self.claim(&self.head, 1, wanted, retries) else {
            return false;
        };
        empty(&cell.content);
        cell.sequence
            .store(position + self.cells.len() as u64, PUBLISH.or_relaxed(Ordering::Release));
        true
    }

    /// Claims the cell at the next position of an end, once it is that position's turn: its
    /// sequence number is `ahead` of it.
    fn claim(
        &self,
        end: &AtomicU64,
        ahead: u64,
        wanted: impl Fn(&C) -> bool,
        retries: &Counter,
    ) -> Option<(&Cell<C>, u64)> {
        let mut position = end.load(Ordering::Relaxed);
        loop {
            let cell = &self.cells[(position % self.cells.len() as u64) as usize].0;
            let sequence = cell.sequence.load(RECEIVE.or_relaxed(Ordering::Acquire));
            if sequence == position + ahead || UNCHECKED_ROUND.is_out() {
                if !wanted(&cell.content) {
                    return None;
                }
                if TORN_CLAIM.is_out() {
                    end.store(position + 1, Ordering::Relaxed);
                    return Some((cell, position));
                }
                let next = position + 1;
                match end.compare_exchange(position, next, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some((cell, position)),
                    Err(moved) => position = moved,
                }
                retries.add_shared(1);
            } else if sequence < position + ahead {
                // Of an earlier round: full, or empty, or somebody is at it.
                return None;
            } else {
                // Another thread had this position since it was read.
                position = end.load(Ordering::Relaxed);
            }
        }
    }
}
