//! Where blocks outside spans begin: a look by offset, without a lock, finds the block that
//! begins there or none, never another.

use super::explore::{Bound, Seen, explore};
use super::std::sync::Arc;
use crate::range::{Handle, Shape, Slot, Stretch};
use crate::threads::starts::Starts;

/// Two blocks that are noted in one entry, one after the other: each fills a region and begins
/// within the same one.
const OLD: Stretch = Stretch { start: 16, len: 16 };
const NEW: Stretch = Stretch { start: 20, len: 16 };

fn handle(generation: u32) -> Handle {
    Handle::with_bits(Slot::Node(5), generation)
}

fn starts() -> Arc<Starts> {
    let shape = Shape { granule_shift: 8, capacity: 64, span_granules: 0, small_granules: 0 };
    let starts = Starts::new(&shape).unwrap();
    starts.note(OLD, handle(1)).unwrap();
    Arc::new(starts)
}

/// A look for either block while the one goes and the other comes. Every order.
#[test]
fn a_look_against_the_next_block_in_the_region() {
    static OLD_FOUND: Seen = Seen::new("the old one found");
    static NEW_FOUND: Seen = Seen::new("the new one found");
    static NONE: Seen = Seen::new("none found");
    for (granule, right) in [(OLD.start, 1), (NEW.start, 2)] {
        let seen: &[&Seen] = if right == 1 { &[&OLD_FOUND, &NONE] } else { &[&NEW_FOUND, &NONE] };
        explore("a_look_against_the_next_block_in_the_region", Bound::None, seen, move |order| {
            let starts = starts();
            let change = |starts: &Arc<Starts>| {
                starts.strike(OLD);
                starts.note(NEW, handle(2)).unwrap();
            };
            let ((), found) = order.race(&starts, change, move |starts| starts.live_at(granule));
            assert!(found.is_none_or(|found| found == handle(right)), "another block's handle");
            match found {
                None => NONE.note(),
                Some(_) if right == 1 => OLD_FOUND.note(),
                Some(_) => NEW_FOUND.note(),
            }
            assert_eq!(starts.live_at(OLD.start), None);
            assert_eq!(starts.live_at(NEW.start), Some(handle(2)));
        });
    }
}

/// A look while a block goes, another comes in its region, goes too, and the first place is taken
/// again. Every order.
#[test]
fn a_look_against_a_place_taken_again() {
    static FIRST: Seen = Seen::new("the first found");
    static THIRD: Seen = Seen::new("the third found");
    let bound = Bound::None;
    explore("a_look_against_a_place_taken_again", bound, &[&FIRST, &THIRD], |order| {
        let starts = starts();
        let change = |starts: &Arc<Starts>| {
            starts.strike(OLD);
            starts.note(NEW, handle(2)).unwrap();
            starts.strike(NEW);
            starts.note(OLD, handle(3)).unwrap();
        };
        let ((), found) = order.race(&starts, change, |starts| starts.live_at(OLD.start));
        assert!(found.is_none_or(|found| [handle(1), handle(3)].contains(&found)), "{found:?}");
        FIRST.note_if(found == Some(handle(1)));
        THIRD.note_if(found == Some(handle(3)));
    });
}
