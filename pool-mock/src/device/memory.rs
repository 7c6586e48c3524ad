//! Ranges of memory.

use core::ops::Range;
use std::collections::BTreeMap;

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

/// What the device knows of a range.
#[derive(Debug)]
pub(super) struct RangeState {
    pub(super) device: u32,
    pub(super) size_bytes: u64,
    /// How much of the device's memory is its own: without pages.
    pub(super) backed_bytes: u64,
    /// Whether it is only addresses, under which pages come and go.
    pub(super) reserved: bool,
    pub(super) committed: Intervals<()>,
    pub(super) resting: Intervals<()>,
    /// By where they begin, the page handles that are mapped here.
    pub(super) pages: BTreeMap<u64, u64>,
    pub(super) uses: Uses,
    /// Who wrote last, of what was run.
    pub(super) marks: Intervals<Owner>,
}

impl RangeState {
    /// A range with memory behind it from the start.
    pub(super) fn new(device: u32, size_bytes: u64) -> Self {
        let mut range = Self::reserved(device, size_bytes);
        range.committed.set(0..size_bytes, ());
        Self { backed_bytes: size_bytes, reserved: false, ..range }
    }

    /// Addresses alone.
    pub(super) fn reserved(device: u32, size_bytes: u64) -> Self {
        Self {
            device,
            size_bytes,
            backed_bytes: 0,
            reserved: true,
            committed: Intervals::default(),
            resting: Intervals::default(),
            pages: BTreeMap::new(),
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
