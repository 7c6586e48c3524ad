//! The words of blocks in spans: of all who free a block one gets it, and a look by offset finds
//! no block that the program does not have.

use super::explore::{Bound, Seen, explore};
use super::std::sync::Arc;
use crate::range::{Handle, HandleError, Shape};
use crate::threads::word::{Cut, Giver};
use crate::threads::words::Words;

/// The granule at which the one block begins.
const HERE: u32 = 2;

/// The words of a range of one small span, with one block that the program has.
fn words_and_block() -> (Arc<Words>, Handle) {
    let shape = Shape { granule_shift: 8, capacity: 4, span_granules: 4, small_granules: 2 };
    let words = Words::new(&shape, 0).unwrap();
    let handle = words.admit(HERE, Cut::new(0, 0)).unwrap();
    words.give(handle, Giver::NO_CACHE);
    (Arc::new(words), handle)
}

/// Frees the block: the handle that it will have.
fn free(words: &Words, handle: Handle) -> Result<Handle, HandleError> {
    words.find(handle, HERE)?.free(HERE)
}

fn found(words: &Words) -> Option<Handle> {
    words.live_at(HERE).map(|word| word.handle(HERE))
}

/// Two threads free one block: one wins, the other is told that the handle is stale. Every order.
#[test]
fn two_threads_free_one_block() {
    static ONE: Seen = Seen::new("one wins");
    static OTHER: Seen = Seen::new("the other wins");
    explore("two_threads_free_one_block", Bound::None, &[&ONE, &OTHER], |order| {
        let (words, handle) = words_and_block();
        let free = move |words: &Arc<Words>| free(words, handle);
        let (mine, others) = order.race(&words, free, free);
        match (mine, others) {
            (Ok(_), Err(HandleError::Stale)) => ONE.note(),
            (Err(HandleError::Stale), Ok(_)) => OTHER.note(),
            both => panic!("one wins and the other is told: {both:?}"),
        }
        assert_eq!(found(&words), None, "nobody has it");
    });
}

/// A handle is freed twice, on two threads, while the one who wins gives the block to the program
/// again: the new owner keeps it, whenever the second free comes. Every order.
#[test]
fn a_second_free_against_the_next_owner() {
    static FIRST: Seen = Seen::new("the first free wins");
    static SECOND: Seen = Seen::new("the second free wins");
    explore("a_second_free_against_the_next_owner", Bound::None, &[&FIRST, &SECOND], |order| {
        let (words, handle) = words_and_block();
        let first = move |words: &Arc<Words>| {
            let next = free(words, handle).ok()?;
            words.give(next, Giver::NO_CACHE);
            Some(next)
        };
        let second = move |words: &Arc<Words>| free(words, handle).is_ok();
        let (next, second) = order.race(&words, first, second);
        assert!(next.is_some() != second, "freed once: {next:?}, {second}");
        assert_eq!(found(&words), next, "who got it last has it");
        if let Some(next) = next {
            assert!(free(&words, next).is_ok(), "the next owner cannot free it");
        }
        FIRST.note_if(!second);
        SECOND.note_if(second);
    });
}

/// A look by offset while the block is freed and stays free: the block that was, or none. Every
/// order.
#[test]
fn a_look_by_offset_against_a_free() {
    static FOUND: Seen = Seen::new("found");
    static GONE: Seen = Seen::new("gone");
    explore("a_look_by_offset_against_a_free", Bound::None, &[&FOUND, &GONE], |order| {
        let (words, handle) = words_and_block();
        let free = move |words: &Arc<Words>| free(words, handle).unwrap();
        let (_, seen) = order.race(&words, free, |words| found(words));
        assert!(seen.is_none_or(|seen| seen == handle), "a block that nobody has");
        FOUND.note_if(seen.is_some());
        GONE.note_if(seen.is_none());
        assert_eq!(found(&words), None, "a free block is found");
    });
}

/// A free by offset while the block is freed by its handle and given to the program again: each
/// block is freed once. Every order.
#[test]
fn a_free_by_offset_against_free_and_gift() {
    static OLD: Seen = Seen::new("the old block");
    static NEW: Seen = Seen::new("the new block");
    static NONE: Seen = Seen::new("none");
    let (name, seen) = ("a_free_by_offset_against_free_and_gift", [&OLD, &NEW, &NONE]);
    explore(name, Bound::None, &seen, |order| {
        let (words, handle) = words_and_block();
        let one = move |words: &Arc<Words>| {
            let next = free(words, handle)?;
            words.give(next, Giver::NO_CACHE);
            Ok::<_, HandleError>(next)
        };
        let (mine, others) = order.race(&words, one, |words| {
            let handle = found(words)?;
            free(words, handle).ok().map(|_| handle)
        });
        assert!(mine.is_ok() != (others == Some(handle)), "freed once: {mine:?}, {others:?}");
        let live = mine.ok().filter(|&next| others != Some(next));
        assert_eq!(found(&words), live, "what the program has is found, and nothing else");
        OLD.note_if(others == Some(handle));
        NEW.note_if(others.is_some_and(|others| others != handle));
        NONE.note_if(others.is_none());
    });
}

/// The centre gives a block out in a place that was cut otherwise before, while another thread
/// looks there: it finds none, or the block as it is cut now. Every order.
#[test]
fn a_look_by_offset_against_a_block_cut_anew() {
    static FOUND: Seen = Seen::new("found");
    static NOT_YET: Seen = Seen::new("not yet there");
    let seen = [&FOUND, &NOT_YET];
    explore("a_look_by_offset_against_a_block_cut_anew", Bound::None, &seen, |order| {
        let (words, handle) = words_and_block();
        let old = free(&words, handle).unwrap();
        let admit = |words: &Arc<Words>| {
            let new = words.admit(HERE, Cut::new(3, 1)).unwrap();
            words.give(new, Giver::NO_CACHE);
        };
        let ((), seen) = order.race(&words, admit, |words| words.live_at(HERE));
        match seen {
            Some(word) => {
                assert_eq!(word.handle(HERE), old);
                FOUND.note();
            }
            None => NOT_YET.note(),
        }
        assert_eq!(words.live_at(HERE).unwrap().cut(), Cut::new(3, 1));
    });
}
