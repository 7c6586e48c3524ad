//! Ranges of memory and pages under them.

use core::ops::Range;
use std::collections::HashMap;

use super::detector::Uses;
use super::intervals::Intervals;
use super::violation::Owner;

/// Memory of a simulated device: a handle, as a driver's pointer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SimRange {
    pub(super) id: u64,
    pub(super) device: u32,
    pub(super) address: u64,
}

impl SimRange {
    /// Its number, by which reports name it.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }
}

/// Physical memory behind a part of a range.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SimPages {
    pub(super) id: u64,
}

/// What the device knows of a range.
#[derive(Debug)]
pub(super) struct RangeState {
    pub(super) device: u32,
    pub(super) size_bytes: u64,
    /// How much of the device's memory it has.
    pub(super) backed_bytes: u64,
    pub(super) committed: Intervals<()>,
    pub(super) resting: Intervals<()>,
    /// Page handles, each with its bytes.
    pub(super) pages: HashMap<u64, Range<u64>>,
    pub(super) uses: Uses,
    /// Who wrote last, of what was run.
    pub(super) marks: Intervals<Owner>,
}

impl RangeState {
    /// A range; `backed` if there is memory behind it from the start.
    pub(super) fn new(device: u32, size_bytes: u64, backed: bool) -> Self {
        let mut committed = Intervals::default();
        if backed {
            committed.set(0..size_bytes, ());
        }
        Self {
            device,
            size_bytes,
            backed_bytes: if backed { size_bytes } else { 0 },
            committed,
            resting: Intervals::default(),
            pages: HashMap::new(),
            uses: Uses::default(),
            marks: Intervals::default(),
        }
    }

    /// The first of these bytes that do not bear an owner's mark, and whose they do.
    pub(super) fn wrong_mark(
        &self,
        bytes: &Range<u64>,
        owner: Owner,
    ) -> Option<(Range<u64>, Option<Owner>)> {
        self.marks
            .overlapping(bytes.clone())
            .find(|(_, mark)| **mark != owner)
            .map(|(bytes, &mark)| (bytes, Some(mark)))
            .or_else(|| self.marks.first_gap(bytes.clone()).map(|gap| (gap, None)))
    }
}
