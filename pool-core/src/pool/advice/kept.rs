//! What a pool keeps for its advice, all of it off the way of a hit.

use core::time::Duration;

use super::evidence::Evidence;
use crate::device::Device;
use crate::pool::books::Books;
use crate::pool::inner::Inner;
use crate::pool::policy::Settings;
use crate::pool::stats::nanoseconds;
use crate::sync::Counter;
use crate::threads::Threads;

/// The most tags that evidence names.
const MOST_TAGS: usize = 16;

/// What is counted for advice, beside what [`PoolStats`](crate::PoolStats) has anyway.
#[derive(Debug, Default)]
pub(in crate::pool) struct Kept {
    /// Taken before anyone asked.
    pub(in crate::pool) initial_bytes: Counter,
    pub(in crate::pool) growth_bytes: Counter,
    pub(in crate::pool) growth_nanoseconds: Counter,
    /// The most that was reserved when a request needed more, and what that needed.
    most_needed_bytes: Counter,
    scattered_growths: Counter,
    /// The most that was in use and did not wait, as far as it was looked at.
    peak_held_bytes: Counter,
    peak_deferred_bytes: Counter,
    pub(in crate::pool) deferred_blocks: Counter,
    /// Times that the queue was drained because it was full.
    pub(in crate::pool) drains: Counter,
    pub(in crate::pool) streams: Counter,
}

impl Kept {
    /// Starts the peaks anew.
    pub(in crate::pool) fn reset_peaks(&self) {
        self.peak_held_bytes.set(0);
        self.peak_deferred_bytes.set(0);
        self.most_needed_bytes.set(0);
    }
}

/// What there was when a request needed more than the pool has.
#[derive(Clone, Copy, Debug)]
pub(in crate::pool) struct BeforeGrowth {
    reserved_bytes: u64,
    used_bytes: u64,
    since: Option<Duration>,
}

impl BeforeGrowth {
    /// What the pool had of the device.
    pub(in crate::pool) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// What there is before a growth.
    pub(in crate::pool) fn before_growth(&self) -> BeforeGrowth {
        BeforeGrowth {
            reserved_bytes: self.with_books(|books| books.reserved_bytes),
            used_bytes: self.shared.used_bytes(),
            since: self.device.now(),
        }
    }

    /// The pool grew; because a request needed some bytes, or ahead of need (none).
    pub(in crate::pool) fn note_growth(&self, before: &BeforeGrowth, need: Option<u64>) {
        self.counters.growths.add_shared(1);
        let kept = &self.counters.kept;
        let reserved_bytes = self.with_books(|books| books.reserved_bytes);
        kept.growth_bytes.add_shared(reserved_bytes.saturating_sub(before.reserved_bytes));
        if let (Some(since), Some(now)) = (before.since, self.device.now()) {
            kept.growth_nanoseconds.add_shared(nanoseconds(now.saturating_sub(since)));
        }
        let Some(need) = need else { return };
        kept.most_needed_bytes.raise_to(before.reserved_bytes.saturating_add(need));
        if before.reserved_bytes.saturating_sub(before.used_bytes) >= need {
            kept.scattered_growths.add_shared(1);
        }
    }

    /// A block was given out off the way of a hit: looks how much is in use.
    pub(in crate::pool) fn note_need(&self) {
        let used = self.shared.used_bytes();
        let kept = &self.counters.kept;
        if used > kept.peak_held_bytes.get() {
            let deferred = self.with_books(|books| books.deferred().1);
            kept.peak_held_bytes.raise_to(used.saturating_sub(deferred));
        }
    }

    /// A block was put among those that wait.
    pub(in crate::pool) fn note_deferred(&self, books: &Books<D>) {
        let parcels = books.open.iter().chain(&books.closed);
        let waiting: u64 = parcels.map(|parcel| parcel.size_bytes).sum();
        self.counters.kept.deferred_blocks.add_shared(1);
        self.counters.kept.peak_deferred_bytes.raise_to(waiting);
    }

    /// The settings as they are now: some can be changed while the pool runs.
    pub(in crate::pool) fn current_settings(&self) -> Settings {
        self.with_books(|books| Settings {
            limit_bytes: books.limit_bytes,
            short_from_bytes: books.short_from_bytes,
            growth: books.growth,
            reclaim: books.reclaim,
            ..self.settings
        })
    }

    pub(in crate::pool) fn evidence(&self) -> Evidence {
        let stats = self.stats();
        let kept = &self.counters.kept;
        // What waited was in the peak, but no need: it is waited for before the pool grows.
        let at_least = stats.peak_bytes.saturating_sub(kept.peak_deferred_bytes.get());
        let peak_bytes = at_least.max(kept.peak_held_bytes.get());
        Evidence {
            initial_bytes: stats.initial_bytes,
            peak_bytes,
            peak_reserved_bytes: stats.peak_reserved_bytes,
            most_needed_bytes: kept.most_needed_bytes.get(),
            streams: kept.streams.get(),
            growths: stats.growths,
            growth_bytes: stats.growth_bytes,
            growth_time: stats.growth_time,
            scattered_growths: kept.scattered_growths.get(),
            steals: stats.steals,
            deferred_blocks: kept.deferred_blocks.get(),
            drains: kept.drains.get(),
            latency: stats.latency,
            classes: self.shared.classes(),
            tags: self.tags.peaks(MOST_TAGS),
        }
    }
}
