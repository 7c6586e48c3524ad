//! A journal: a reader takes whole entries, in order, and counts those that it has missed.

use super::explore::{Bound, Order, Seen, explore};
use super::std::sync::Arc;
use super::std::vec::Vec;
use crate::threads::journal::Journal;

/// A journal of one cell, in which the entry is `first`.
fn world(first: u64) -> Arc<Journal<2>> {
    let journal = Journal::new(1, 0).unwrap();
    journal.write([first; 2]);
    Arc::new(journal)
}

/// What a reader finds from the start on, and that none of it is a mixture.
fn read(journal: &Journal<2>) -> (Vec<u64>, u64, u64) {
    let mut found = Vec::new();
    let (lost, next) = journal.read(0, |[one, other]| {
        assert_eq!(one, other, "a mixture of two entries");
        found.push(one);
    });
    (found, lost, next)
}

/// The writer overwrites the cell that a reader looks at: it finds the old entry, the new one, or
/// none. Every order.
#[test]
fn a_look_against_the_next_entry() {
    static OLD: Seen = Seen::new("the old entry");
    static NEW: Seen = Seen::new("the new one");
    static NEITHER: Seen = Seen::new("neither");
    explore(
        "a_look_against_the_next_entry",
        Bound::None,
        &[&OLD, &NEW, &NEITHER],
        |order: Order| {
            let journal = world(1);
            let ((), (found, lost, next)) =
                order.race(&journal, |journal| journal.write([2; 2]), |journal| read(journal));
            assert_eq!(found.len() as u64 + lost, next);
            OLD.note_if(found == [1]);
            NEW.note_if(found == [2]);
            NEITHER.note_if(found.is_empty());
            assert_eq!(read(&journal), ([2].to_vec(), 1, 2));
        },
    );
}

/// The same while two entries are written: the cell's turn may have gone by twice. Every order.
#[test]
fn a_look_against_two_entries() {
    static WHOLE: Seen = Seen::new("an entry");
    static NONE: Seen = Seen::new("none");
    explore("a_look_against_two_entries", Bound::None, &[&WHOLE, &NONE], |order: Order| {
        let journal = world(1);
        let write = |journal: &Arc<Journal<2>>| (2..4).for_each(|entry| journal.write([entry; 2]));
        let ((), (found, lost, next)) = order.race(&journal, write, |journal| read(journal));
        assert_eq!(found.len() as u64 + lost, next);
        WHOLE.note_if(!found.is_empty());
        NONE.note_if(found.is_empty());
    });
}

/// A journal that one thread leaves and another takes: what the first wrote comes before. Every
/// order.
#[test]
fn a_journal_that_another_thread_takes() {
    use crate::threads::journal::{WORDS, Writer};
    static TAKEN: Seen = Seen::new("taken");
    static BUSY: Seen = Seen::new("still the other's");
    explore(
        "a_journal_that_another_thread_takes",
        Bound::None,
        &[&TAKEN, &BUSY],
        |order: Order| {
            let journal = Arc::new(Journal::<WORDS>::new(2, 0).unwrap());
            let writer = |journal: &Arc<Journal<WORDS>>| {
                let writer = Writer { journal: journal.clone(), thread: 1, label: 0 };
                writer.journal.write([1; WORDS]);
            };
            let ((), taken) = order.race(&journal, writer, |journal| {
                let taken = journal.take();
                if taken {
                    journal.write([2; WORDS]);
                }
                taken
            });
            TAKEN.note_if(taken);
            BUSY.note_if(!taken);
            let mut found = Vec::new();
            journal.read(0, |entry| found.push(entry[0]));
            assert_eq!(found, if taken { [1, 2].to_vec() } else { [1].to_vec() });
        },
    );
}
