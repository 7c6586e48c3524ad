//! What was odd in a log, and where.

use std::fmt;

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A line of a CSV log; the header is usually line 1.
    Line(u64),
    /// An event of a snapshot: its number in its device's trace, from 0.
    Event(u64),
    /// A byte of a snapshot, counted from 0 after any gzip is undone.
    Offset(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Event(event) => write!(f, "event {event}"),
            Self::Offset(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// Something in a log that is readable but not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Oddity {
    /// A free of a pointer that no earlier line had handed out.
    UnknownFree,
}

/// How often each [`Oddity`] was met, and where first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    seen: Vec<(Oddity, u64, Location)>,
}

impl Report {
    /// How often it was met.
    #[must_use]
    pub fn count(&self, oddity: Oddity) -> u64 {
        self.seen.iter().find(|seen| seen.0 == oddity).map_or(0, |seen| seen.1)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Locations {}

impl Locations {
    pub(super) fn get(&self, _index: usize) -> Option<Location> {
        None
    }
}
