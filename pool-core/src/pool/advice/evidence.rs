//! What a run has shown.

use alloc::vec::Vec;
use core::time::Duration;

use crate::pool::policy::{Preallocation, Settings};
use crate::pool::stats::Latency;
use crate::pool::stream::Tag;
use crate::threads::ClassUse;

/// What a run of a pool has shown, as far as advice rests on it: plain data, so that it can be
/// kept, and looked at elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
pub struct Evidence {
    /// Taken from the device before anyone asked.
    pub initial_bytes: u64,
    /// The most that was in use at once, caches included, without what waited for work of the
    /// device: that is waited for before a pool grows. With one stream exact; with several, as
    /// far as it was looked at, off the way of hits.
    pub peak_bytes: u64,
    /// The most that was taken from the device at once.
    pub peak_reserved_bytes: u64,
    /// The most that the pool had when a request needed more, and what that needed; zero if none
    /// did.
    pub most_needed_bytes: u64,
    /// The most streams that the pool knew at once.
    pub streams: u64,
    /// How often it grew.
    pub growths: u64,
    /// By how many bytes in all.
    pub growth_bytes: u64,
    /// How long the device took for them; zero on one without a clock.
    pub growth_time: Duration,
    /// How often it grew for a request though as many bytes were free.
    pub scattered_growths: u64,
    /// Stretches that went from one stream to another behind a fence.
    pub steals: u64,
    /// Blocks that had to wait when they were freed.
    pub deferred_blocks: u64,
    /// How often the queue of those was drained because it was full.
    pub drains: u64,
    /// How long they waited.
    pub latency: Latency,
    /// What caches did, by size class.
    pub classes: Vec<ClassUse>,
    /// The tags with the highest peaks, the highest first.
    pub tags: Vec<TagPeak>,
}

/// The most that was charged to a tag at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TagPeak {
    /// Whom it was charged to.
    pub tag: Tag,
    /// Bytes of live blocks.
    pub peak_bytes: u64,
}

impl Evidence {
    /// The part of what was preallocated that was in use at the peak, in hundredths: more than
    /// 100 if that was not enough. `None` if nothing was.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::Evidence;
    ///
    /// let evidence = Evidence { initial_bytes: 4 << 30, peak_bytes: 1 << 30, ..Evidence::default() };
    /// assert_eq!(evidence.start_in_use_percent(), Some(25));
    /// ```
    #[must_use]
    pub fn start_in_use_percent(&self) -> Option<u64> {
        percent(self.peak_bytes, self.initial_bytes)
    }

    /// What the run started with. An arena that was only to be made at the first request counts,
    /// as far as it was.
    pub(super) fn start_bytes(&self, settings: &Settings) -> u64 {
        match settings.preallocation {
            Preallocation::OnDemand { base_bytes } => {
                self.initial_bytes.max(base_bytes.min(self.peak_reserved_bytes))
            }
            _ => self.initial_bytes,
        }
    }

    /// Whether the run had more than it started with.
    pub(super) fn grew(&self, settings: &Settings) -> bool {
        self.peak_reserved_bytes > self.start_bytes(settings)
    }

    /// Whether the pool grew though there was enough, but several streams had it.
    pub(super) fn is_scattered(&self) -> bool {
        self.streams > 1 && self.scattered_growths > 0
    }
}

/// A part in hundredths of a whole, rounded up; none of nothing.
pub(super) fn percent(part: u64, whole: u64) -> Option<u64> {
    if whole == 0 {
        return None;
    }
    let percent = (u128::from(part) * 100).div_ceil(u128::from(whole));
    Some(u64::try_from(percent).unwrap_or(u64::MAX))
}
