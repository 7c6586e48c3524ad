//! What a pool counted, policy by policy.

use core::time::Duration;

use pool_core::record::Figures;

use super::telling::nanoseconds;
use crate::figure::Policy::{Growth, Other, Preallocation, Reclaim, Reuse};
use crate::figure::{Figure, Unit};
use crate::history::History;

/// Adds the figures.
pub(super) fn add(figures: &Figures, history: &mut History) {
    let (stats, requests) = (&figures.stats, figures.requests());
    let mut add = |policy, name: &str, value: u64, unit| {
        history.figure(Figure::new(policy, name, to_look_at(value), unit));
    };
    add(Preallocation, "taken at the start", figures.preallocated_bytes, Unit::Bytes);
    add(Preallocation, "in use of it, at most", figures.preallocated_peak_bytes, Unit::Bytes);
    add(Reuse, "requests", requests.requests(), Unit::Count);
    add(Reuse, "refused", requests.refused, Unit::Count);
    add(Reuse, "from another stream", stats.steals, Unit::Count);
    add(Reuse, "fences recorded", stats.calls.records, Unit::Count);
    add(Reuse, "waits of a stream", stats.calls.device_waits, Unit::Count);
    add(Reuse, "waits of the host", stats.calls.host_waits, Unit::Count);
    add(Reuse, "used again in place", figures.reuse.count(), Unit::Count);
    let quantiles = [("half of it within", 500), ("99 % of it within", 990)];
    for (name, per_mille) in quantiles {
        if let Some(after) = figures.reuse.quantile(per_mille) {
            add(Reuse, name, nanoseconds(after), Unit::Nanoseconds);
        }
    }
    add(Reclaim, "arenas given back", stats.calls.frees, Unit::Count);
    add(Reclaim, "deferred now", stats.deferred_bytes, Unit::Bytes);
    if let Some(mean) = mean(stats.latency.total, stats.latency.parcels) {
        add(Reclaim, "wait of the freed, mean", mean, Unit::Nanoseconds);
        let longest = nanoseconds(stats.latency.longest);
        add(Reclaim, "wait, longest", longest, Unit::Nanoseconds);
    }
    add(Growth, "growths", stats.growths, Unit::Count);
    add(Growth, "ahead of need", stats.growths_ahead, Unit::Count);
    add(Growth, "grown by", stats.growth_bytes, Unit::Bytes);
    add(Growth, "time for it", nanoseconds(figures.growth_time), Unit::Nanoseconds);
    add(Growth, "pages moved", stats.moved_pages, Unit::Count);
    add(Growth, "peak reserved", stats.peak_reserved_bytes, Unit::Bytes);
    if let Some(limit_bytes) = stats.limit_bytes {
        add(Growth, "limit", limit_bytes, Unit::Bytes);
    }
    add(Other, "in caches now", stats.cached_bytes, Unit::Bytes);
    let hits = to_look_at(requests.hits_per_mille()) / 1000.0;
    history.figure(Figure::new(Reuse, "from own memory", hits, Unit::Share));
    let in_use = figures.preallocated_share();
    history.figure(Figure::new(Preallocation, "in use of it now", in_use, Unit::Share));
}

fn mean(total: Duration, count: u64) -> Option<u64> {
    nanoseconds(total).checked_div(count)
}

#[expect(clippy::cast_precision_loss, reason = "a figure is read to a few digits")]
fn to_look_at(value: u64) -> f64 {
    value as f64
}
