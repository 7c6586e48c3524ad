//! What a log says of each operation beside what a trace needs.

use super::{builder::Event, puzzle::DAY_US, recording::Keep, trace::Action};

/// Marks an operation whose time is not known.
const NO_TIME: u64 = u64::MAX;

/// Time and address of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    time_us: u64,
    /// Of an allocation or an unknown free its address, of a failure how much of the device was
    /// free.
    pub(super) address: u64,
}

impl Detail {
    pub(super) fn time_us(self) -> Option<u64> {
        (self.time_us != NO_TIME).then_some(self.time_us)
    }
}

/// The details of operations 0, 1, 2, ..., if they are kept: 16 bytes each.
#[derive(Clone, Debug)]
pub(super) struct Details {
    keep: Keep,
    entries: Vec<Detail>,
    /// The sizes of unknown frees, by the number of their operation among those of the file.
    unknown_bytes: Vec<(usize, u64)>,
    /// While reading, the addresses of the blocks live at the start.
    start: Vec<u64>,
    /// How often the clock of a log without dates passed midnight.
    days: u64,
}

impl Details {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, entries: Vec::new(), unknown_bytes: Vec::new(), start: Vec::new(), days: 0 }
    }

    pub(super) fn pass_midnight(&mut self) {
        self.days += 1;
    }

    /// Notes the details of the next operation.
    pub(super) fn push(&mut self, event: &Event, action: Action) {
        if self.keep == Keep::Operations {
            return;
        }
        let day_us = self.days.saturating_mul(DAY_US);
        let time_us = event.time_us.map_or(NO_TIME, |time_us| time_us.saturating_add(day_us));
        if action == Action::UnknownFree {
            self.unknown_bytes.push((self.entries.len(), event.size_bytes));
        }
        self.entries.push(Detail { time_us, address: event.pointer });
    }

    /// Exchanges the details of two operations.
    pub(super) fn exchange(&mut self, one: usize, other: usize) {
        if one < self.entries.len() && other < self.entries.len() {
            self.entries.swap(one, other);
        }
    }

    /// Notes the address of the next block that was live at the start.
    pub(super) fn push_first(&mut self, address: u64) {
        if self.keep == Keep::Details {
            self.start.push(address);
        }
    }

    /// Puts the blocks live at the start before all others, at the time of the first of them.
    pub(super) fn put_in_order(&mut self) {
        let time_us = self.entries.first().map_or(NO_TIME, |first| first.time_us);
        let start = core::mem::take(&mut self.start);
        self.entries.reserve_exact(start.len());
        self.entries.splice(0..0, start.into_iter().map(|address| Detail { time_us, address }));
    }

    /// The size of an unknown free, by its number among the operations of the file.
    pub(super) fn unknown_bytes(&self, number: usize) -> u64 {
        let place = self.unknown_bytes.binary_search_by_key(&number, |(number, _)| *number);
        place.ok().and_then(|place| self.unknown_bytes.get(place)).map_or(0, |(_, bytes)| *bytes)
    }

    pub(super) fn entries(&self) -> &[Detail] {
        &self.entries
    }
}

/// How much of a snapshot has no place in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The moments at which freed memory could serve again.
    pub(super) completions: u64,
    /// Segments made, given back, mapped and unmapped.
    pub(super) segment_events: u64,
    /// Segments with their blocks.
    pub(super) segments: u64,
}
