//! Events of a pool as a history has them.

use core::fmt;
use core::time::Duration;
use std::collections::HashMap;

use pool_core::Shortage;
use pool_core::record::{self, NOWHERE, What};

use super::Source;
use crate::event::{Event, Kind, LabelId, StreamId};
use crate::history::History;

/// Moments that are marked for a failed call of the device: a page with more of them tells no more.
const MOST_MARKS: u32 = 100;

/// Names as a history has them, by their numbers in events.
pub(super) struct Teller<'a> {
    pool: &'a dyn Names,
    labels: HashMap<u32, LabelId>,
    streams: HashMap<u32, StreamId>,
    marks: u32,
}

/// Whoever knows what labels are called.
trait Names {
    fn path(&self, label: record::LabelId) -> Option<String>;
}

impl<S: Source> Names for S {
    fn path(&self, label: record::LabelId) -> Option<String> {
        self.label_path(label)
    }
}

impl fmt::Debug for Teller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teller").finish_non_exhaustive()
    }
}

impl<'a> Teller<'a> {
    pub(super) fn new(pool: &'a impl Source) -> Self {
        Self { pool, labels: HashMap::new(), streams: HashMap::new(), marks: 0 }
    }

    fn label(&mut self, label: record::LabelId, history: &mut History) -> LabelId {
        let pool = self.pool;
        let path = || pool.path(label).map_or(LabelId::default(), |path| history.label(&path));
        *self.labels.entry(label.0).or_insert_with(path)
    }

    /// Zero is none that the pool knows.
    fn stream(&mut self, stream: u32, history: &mut History) -> StreamId {
        if stream == 0 {
            return StreamId::default();
        }
        let name = || history.stream(&format!("stream {stream}"));
        *self.streams.entry(stream).or_insert_with(name)
    }

    /// Adds what is of no stream.
    pub(super) fn push(
        &mut self,
        time: u64,
        kind: Kind,
        (address, bytes): (u64, u64),
        label: record::LabelId,
        history: &mut History,
    ) {
        let label = self.label(label, history);
        history.push(Event::new(time, kind).at(address, bytes).under(label));
    }

    /// Adds what happened.
    pub(super) fn tell(&mut self, event: &record::Event, history: &mut History) {
        let &record::Event { what, offset_bytes, size_bytes, .. } = event;
        let (stream, label) =
            (self.stream(event.stream, history), self.label(event.label, history));
        let base = Event::new(nanoseconds(event.time), Kind::Allocate).on(stream).under(label);
        let mut push = |kind, address, bytes| {
            history.push(Event { kind, ..base }.at(address, bytes));
        };
        match what {
            What::Allocated { .. } => push(Kind::Allocate, offset_bytes, size_bytes),
            What::Freed { waits } => {
                // One that was never given out, of a request that was refused after all: it may wait.
                let is_live = history.is_live(offset_bytes);
                let kinds: &[Kind] = match (is_live, waits) {
                    (true, true) => &[Kind::FreeAsked],
                    (true, false) => &[Kind::Free],
                    (false, true) => &[Kind::Allocate, Kind::FreeAsked],
                    (false, false) => &[],
                };
                for &kind in kinds {
                    history.push(Event { kind, ..base }.at(offset_bytes, size_bytes));
                }
            }
            What::Reclaimed => push(Kind::FreeDone, offset_bytes, size_bytes),
            What::Moved { from_bytes } => {
                push(Kind::Free, from_bytes, size_bytes);
                push(Kind::Allocate, offset_bytes, size_bytes);
            }
            What::Stolen => push(Kind::Steal, offset_bytes, size_bytes),
            // What has no place yet is shown once it is committed.
            What::Grown { .. } if offset_bytes != NOWHERE => {
                push(Kind::Growth, offset_bytes, size_bytes);
            }
            What::Released { .. } if offset_bytes != NOWHERE => {
                push(Kind::Trim, offset_bytes, size_bytes);
            }
            What::Committed { .. } => push(Kind::Commit, offset_bytes, size_bytes),
            What::Decommitted { .. } => push(Kind::Decommit, offset_bytes, size_bytes),
            What::PagesMoved => push(Kind::PagesMoved, offset_bytes, size_bytes),
            What::Refused(_) => push(Kind::Failure, 0, size_bytes),
            What::CallFailed(_) if self.marks < MOST_MARKS => {
                self.marks += 1;
                history.mark(what.to_string());
            }
            _ => {}
        }
    }
}

/// Adds a refusal that no event tells of yet, with what would help.
pub(super) fn tell_shortage(shortage: &Shortage, history: &mut History) {
    // Not before the last event: the history sees to that.
    history.push(Event::new(0, Kind::Failure).at(0, shortage.size_bytes));
    let text = shortage.to_string();
    history.mark(text.lines().last().unwrap_or_default().trim());
}

/// A time in nanoseconds, for more than five hundred years.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
