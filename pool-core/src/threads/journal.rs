//! What one thread notes and others read: a bounded ring of entries, the oldest of which are
//! overwritten, and counters. What an entry's words and the counters mean the layer above knows.
//!
//! # Protocol
//!
//! One thread writes, without a lock and without a wait. Each cell has a turn: odd while an entry is
//! written into it, even once it is whole, and of which entry it is. A reader looks at the turn, takes the
//! words, and looks again: if the turn has changed the words may be of two entries, and the older
//! one is lost. A reader looks for entries that the count of those written speaks of, and so sees at
//! least their words; and who sees a word of a later entry sees also that its turn had begun. Both as
//! these stores are published and received, words and count, for which turns need no order of their
//! own: a reader never takes a mixture for an entry. (A sequence lock, as in Linux; with the orders of
//! Boehm's "Can seqlocks get along with programming language memory models?".)

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::sabotage::{JOURNAL_END, JOURNAL_WORD, UNCHECKED_TURN};
use super::tables::{NoTable, filled};
use crate::sync::{AtomicU32, AtomicU64, Counter, Ordering};

/// Words of an entry: with its turn they fill a cache line but for one word.
pub(crate) const WORDS: usize = 6;

/// Entries that one thread writes, and counters that it keeps.
pub(crate) struct Journal<const N: usize = WORDS> {
    cells: Box<[Cell<N>]>,
    /// How many entries were written, from the start.
    written: AtomicU64,
    pub(crate) counters: Box<[Counter]>,
    /// Whether a thread has it.
    taken: AtomicU32,
}

/// A place for an entry, on a cache line of its own.
#[repr(align(64))]
struct Cell<const N: usize> {
    /// Twice the number of its entry, and two more; one less while that is written.
    turn: AtomicU64,
    words: [AtomicU64; N],
}

/// The turn of a cell while an entry is written into it.
fn begun(entry: u64) -> u64 {
    2 * entry + 1
}

/// The turn of a cell that an entry is whole in.
fn whole(entry: u64) -> u64 {
    2 * entry + 2
}

impl<const N: usize> Journal<N> {
    /// A journal for so many entries at least, taken by its maker.
    pub(crate) fn new(entries: u32, counters: u32) -> Result<Self, NoTable> {
        let cell = || Cell { turn: AtomicU64::new(0), words: [0; N].map(AtomicU64::new) };
        Ok(Self {
            cells: filled(u64::from(entries.max(1)).next_power_of_two(), cell)?,
            written: AtomicU64::new(0),
            counters: filled(counters.into(), Counter::default)?,
            taken: AtomicU32::new(1),
        })
    }

    /// How many entries it keeps.
    pub(crate) fn capacity(&self) -> u64 {
        self.cells.len() as u64
    }

    fn cell(&self, entry: u64) -> Option<&Cell<N>> {
        let place = entry & (self.capacity() - 1);
        self.cells.get(place as usize)
    }

    /// Writes an entry. One thread at a time does.
    #[inline]
    pub(crate) fn write(&self, entry: [u64; N]) {
        let number = self.written.load(Ordering::Relaxed);
        let Some(cell) = self.cell(number) else { return };
        cell.turn.store(begun(number), Ordering::Relaxed);
        for (word, value) in cell.words.iter().zip(entry) {
            // Who sees it sees the turn before it.
            word.store(value, JOURNAL_WORD.or_relaxed(Ordering::Release));
        }
        cell.turn.store(whole(number), Ordering::Relaxed);
        self.written.store(number + 1, JOURNAL_END.or_relaxed(Ordering::Release));
    }

    /// The entries from one on that there are still, in order, with how many of them are lost, and the
    /// number of the next.
    pub(crate) fn read(&self, from: u64, mut each: impl FnMut([u64; N])) -> (u64, u64) {
        let end = self.written.load(Ordering::Acquire);
        let first = from.max(end.saturating_sub(self.capacity()));
        let mut lost = first.saturating_sub(from);
        for number in first..end {
            match self.entry(number) {
                Some(entry) => each(entry),
                None => lost += 1,
            }
        }
        (lost, end.max(from))
    }

    /// An entry, if no later one is in its cell.
    fn entry(&self, number: u64) -> Option<[u64; N]> {
        let cell = self.cell(number)?;
        let is_there = || cell.turn.load(Ordering::Relaxed) == whole(number);
        if !is_there() {
            return None;
        }
        let entry = cell.words.each_ref().map(|word| word.load(Ordering::Acquire));
        (UNCHECKED_TURN.is_out() || is_there()).then_some(entry)
    }

    /// Takes it for a thread, if none has it: what the last one did is seen.
    pub(crate) fn take(&self) -> bool {
        self.taken.swap(1, Ordering::AcqRel) == 0
    }
}

/// A thread's hold on its journal, kept with its cache. Dropped, another thread may have it.
pub(crate) struct Writer {
    pub(crate) journal: Arc<Journal>,
    /// The thread's number, for people.
    pub(crate) thread: u32,
    /// What the thread is at, as the layer above numbers it; zero: nothing.
    pub(crate) label: u32,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.journal.taken.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn entries(journal: &Journal<2>, from: u64) -> (Vec<u64>, u64, u64) {
        let mut all = Vec::new();
        let (lost, next) = journal.read(from, |[one, other]| {
            assert_eq!(one, other);
            all.push(one);
        });
        (all, lost, next)
    }

    #[test]
    fn the_oldest_entries_are_overwritten_and_counted() {
        let journal = Journal::new(3, 0).unwrap();
        assert_eq!(entries(&journal, 0), (Vec::new(), 0, 0));
        (0..6).for_each(|entry| journal.write([entry; 2]));
        assert_eq!(entries(&journal, 0), ([2, 3, 4, 5].to_vec(), 2, 6));
        assert_eq!(entries(&journal, 5), ([5].to_vec(), 0, 6));
        assert_eq!(entries(&journal, 6), (Vec::new(), 0, 6));
    }

    #[test]
    fn one_thread_at_a_time_has_a_journal() {
        let journal = Arc::new(Journal::<WORDS>::new(1, 0).unwrap());
        assert!(!journal.take());
        drop(Writer { journal: journal.clone(), thread: 1, label: 0 });
        assert!(journal.take() && !journal.take());
    }
}
