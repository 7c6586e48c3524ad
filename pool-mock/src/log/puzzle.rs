//! Lines of a log that only a later line can explain.
//!
//! Several threads may write a log, and none of them stamps and appends in one step, so
//! two lines may be in the wrong order:
//!
//! - an allocation of a live pointer, whose free comes later in the file;
//! - a free of an unknown pointer, whose allocation comes later in the file.
//!
//! Both are taken for that only if the times say so (the later line is earlier, by at most
//! [`WINDOW_US`]) and at most [`WINDOW_EVENTS`] lines lie between; and in the second case,
//! if none of those hands out the pointer.

use std::collections::VecDeque;

/// How many events may lie between two that were written in the wrong order.
pub(super) const WINDOW_EVENTS: u64 = 1024;

/// How many microseconds their times may differ by.
pub(super) const WINDOW_US: u64 = 1_000_000;

/// What the clock of a log without dates comes to in a day.
pub(super) const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;

/// A line that a later one may explain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Puzzle {
    pub(super) kind: Kind,
    pub(super) pointer: u64,
    pub(super) time_us: Option<u64>,
    /// Its line.
    pub(super) place: u64,
}

/// What is puzzling about it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// An allocation freed the pointer's old block.
    Freed,
    /// This operation is a free of an unknown pointer.
    Unknown(u32),
}

/// The puzzles that may still be solved, oldest first.
#[derive(Debug, Default)]
pub(super) struct Puzzles {
    /// Each with the number of its event.
    open: VecDeque<(u64, Puzzle)>,
    events: u64,
}

impl Puzzles {
    /// Counts an event.
    pub(super) fn count_event(&mut self) {
        self.events += 1;
    }

    /// Adds one, of the current event.
    pub(super) fn add(&mut self, puzzle: Puzzle) {
        self.open.push_back((self.events, puzzle));
    }

    /// Takes away the oldest one, if it is too old to be solved.
    pub(super) fn expired(&mut self) -> Option<Puzzle> {
        let (event, _) = self.open.front()?;
        if self.events - event > WINDOW_EVENTS { self.take_oldest() } else { None }
    }

    /// Takes away the oldest one.
    pub(super) fn take_oldest(&mut self) -> Option<Puzzle> {
        self.open.pop_front().map(|(_, puzzle)| puzzle)
    }

    /// Takes away the oldest free of this unknown pointer.
    pub(super) fn take_unknown(&mut self, pointer: u64) -> Option<Puzzle> {
        self.take(|puzzle| puzzle.pointer == pointer && matches!(puzzle.kind, Kind::Unknown(_)))
    }

    /// Takes away the one that is explained by an event of this pointer and time: it is
    /// later by the clock, though earlier in the file.
    pub(super) fn solve(
        &mut self,
        pointer: u64,
        time_us: Option<u64>,
        wanted: fn(Kind) -> bool,
    ) -> Option<Puzzle> {
        let time_us = time_us?;
        self.take(|puzzle| {
            puzzle.pointer == pointer
                && wanted(puzzle.kind)
                && puzzle.time_us.is_some_and(|later_us| is_just_before(time_us, later_us))
        })
    }

    fn take(&mut self, wanted: impl Fn(&Puzzle) -> bool) -> Option<Puzzle> {
        let place = self.open.iter().position(|(_, puzzle)| wanted(puzzle))?;
        self.open.remove(place).map(|(_, puzzle)| puzzle)
    }
}

/// Whether `earlier_us` is before `later_us`, by little; the clock may pass midnight.
fn is_just_before(earlier_us: u64, later_us: u64) -> bool {
    let by_us = later_us.checked_sub(earlier_us).or_else(|| {
        later_us.checked_add(DAY_US).and_then(|later_us| later_us.checked_sub(earlier_us))
    });
    by_us.is_some_and(|by_us| (1..=WINDOW_US).contains(&by_us))
}
