//! What a pool takes at its start, and whether streams keep some of it to themselves.

use crate::pool::advice::evidence::Evidence;
use crate::pool::advice::reason::Reason;
use crate::pool::arenas::WINDOW_BYTES;
use crate::pool::policy::{Preallocation, Settings};

/// What a start has beyond the peak in use, in hundredths of it: for what lies free between
/// blocks. In one arena best fit needs up to a quarter on every program that was recorded; with
/// sizes at random, and blocks that wait, it needs a third.
const HEADROOM_PERCENT: u64 = 33;

/// What it has beyond what a pool lacked that had that headroom.
const SPARE_PERCENT: u64 = 5;

/// A start of which less than this was in use at the peak was never filled, in hundredths. It is
/// well below what a fitting start has in use, so that no start is lowered that was just raised.
const LEAST_USED_PERCENT: u64 = 60;

/// So many hundredths of a number of bytes, in whole windows.
pub(super) fn part(bytes: u64, percent: u64) -> u64 {
    let part = u128::from(bytes) * u128::from(percent) / 100;
    let part = u64::try_from(part).unwrap_or(u64::MAX);
    part.checked_next_multiple_of(WINDOW_BYTES).unwrap_or(u64::MAX)
}

/// The bytes that are advised as a start.
pub(super) fn advised_bytes(advised: &Settings) -> Option<u64> {
    match advised.preallocation {
        Preallocation::Bytes(bytes) | Preallocation::OnDemand { base_bytes: bytes } => {
            Some(bytes).filter(|&bytes| bytes > 0)
        }
        Preallocation::Nothing | Preallocation::AllBut { .. } => None,
    }
}

/// A start with headroom for the peak of a run.
fn fitting_bytes(evidence: &Evidence) -> u64 {
    part(evidence.peak_bytes, 100 + HEADROOM_PERCENT)
}

/// Raises a start that the run outgrew, and lowers one that it never filled. A limit stays.
pub(super) fn fit(had: &Settings, advised: &mut Settings, evidence: &Evidence) -> Option<Reason> {
    let start = evidence.start_bytes(had);
    let fitting = fitting_bytes(evidence);
    let most = had.limit_bytes.unwrap_or(u64::MAX);
    let from = had.preallocation;
    let of = |bytes| match from {
        Preallocation::OnDemand { .. } => Preallocation::OnDemand { base_bytes: bytes },
        _ => Preallocation::Bytes(bytes),
    };
    if evidence.grew(had) {
        // Where the headroom was not enough, what was lacking is known; unless it was there, and
        // other streams had it: then the next run keeps it together.
        let cured = evidence.is_scattered() && had.short_from_bytes.is_none();
        let lacking = if start < fitting || cured {
            0
        } else {
            part(evidence.most_needed_bytes, 100 + SPARE_PERCENT)
        };
        let bytes = fitting.max(lacking).min(most);
        return (bytes > start).then(|| {
            advised.preallocation = of(bytes);
            Reason::StartRaised {
                from,
                to: of(bytes),
                peak_bytes: evidence.peak_bytes,
                peak_reserved_bytes: evidence.peak_reserved_bytes,
                growths: evidence.growths,
                growth_time: evidence.growth_time,
            }
        });
    }
    let is_filled =
        u128::from(evidence.peak_bytes) * 100 >= u128::from(start) * u128::from(LEAST_USED_PERCENT);
    (!is_filled && fitting < start).then(|| {
        advised.preallocation = of(fitting);
        Reason::StartLowered { from, to: of(fitting), peak_bytes: evidence.peak_bytes }
    })
}

/// Has memory lie together from the start's bytes on, if the pool grew though there was enough,
/// which several streams had. It follows the start. Streams wait for each other more often then;
/// without it some programs need three times their peak, in the fitting arena as well.
pub(super) fn keep_together(
    had: &Settings,
    advised: &mut Settings,
    evidence: &Evidence,
) -> Option<Reason> {
    let start = advised_bytes(advised)?;
    // What goes beyond the start goes beyond the limit, which has the same effect.
    let at_limit =
        had.limit_bytes.is_some_and(|limit| start.saturating_add(had.growth.floor_bytes) > limit);
    let follows = had.short_from_bytes.is_some() && had.short_from_bytes == advised_bytes(had);
    let scattered = had.short_from_bytes.is_none() && evidence.is_scattered() && !at_limit;
    if !(follows || scattered) || had.short_from_bytes == Some(start) {
        return None;
    }
    advised.short_from_bytes = Some(start);
    Some(Reason::ShortFrom {
        from_bytes: had.short_from_bytes,
        to_bytes: start,
        scattered_growths: evidence.scattered_growths,
        steals: evidence.steals,
        streams: evidence.streams,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn grown(peak: u64, reserved: u64) -> Evidence {
        Evidence {
            peak_bytes: peak * MIB,
            peak_reserved_bytes: reserved * MIB,
            growths: 7,
            ..Evidence::default()
        }
    }

    fn started(start: u64, peak: u64) -> Evidence {
        Evidence { initial_bytes: start * MIB, ..grown(peak, start) }
    }

    fn with(preallocation: Preallocation) -> Settings {
        Settings { preallocation, ..Settings::default() }
    }

    fn fitted(had: Settings, evidence: &Evidence) -> (Preallocation, Option<Reason>) {
        let mut advised = had;
        let reason = fit(&had, &mut advised, evidence);
        assert_eq!(reason.is_some(), advised != had);
        (advised.preallocation, reason)
    }

    fn bytes(mib: u64) -> Preallocation {
        Preallocation::Bytes(mib * MIB)
    }

    #[test]
    fn a_pool_that_grew_starts_with_its_peak_and_headroom() {
        let (to, reason) = fitted(Settings::default(), &grown(1000, 1700));
        assert_eq!(to, bytes(1330));
        assert!(matches!(reason, Some(Reason::StartRaised { growths: 7, .. })));
        // In whole windows.
        assert_eq!(fitted(Settings::default(), &grown(1001, 1700)).0, bytes(1332));
        assert_eq!(part(u64::MAX, 130), u64::MAX);
    }

    #[test]
    fn a_start_that_had_headroom_and_was_outgrown_gets_what_was_lacking() {
        let evidence = Evidence {
            most_needed_bytes: 1500 * MIB,
            peak_reserved_bytes: 1600 * MIB,
            ..started(1330, 1000)
        };
        assert_eq!(fitted(with(bytes(1330)), &evidence).0, bytes(1576));
        // One with less than its headroom just gets that.
        let evidence = Evidence { initial_bytes: 1200 * MIB, ..evidence };
        assert_eq!(fitted(with(bytes(1200)), &evidence).0, bytes(1330));
        // Grown ahead of need, and nothing lacked.
        let evidence = Evidence {
            most_needed_bytes: 0,
            peak_reserved_bytes: 1400 * MIB,
            ..started(1330, 1000)
        };
        assert_eq!(fitted(with(bytes(1330)), &evidence).1, None);
    }

    #[test]
    fn a_start_that_was_scattered_is_kept_together_before_it_is_raised() {
        let evidence = Evidence {
            most_needed_bytes: 1500 * MIB,
            peak_reserved_bytes: 1600 * MIB,
            streams: 4,
            scattered_growths: 2,
            ..started(1330, 1000)
        };
        let had = with(bytes(1330));
        assert_eq!(fitted(had, &evidence).1, None);
        let mut advised = had;
        assert!(keep_together(&had, &mut advised, &evidence).is_some());
        assert_eq!(advised.short_from_bytes, Some(1330 * MIB));
        // And if that was not enough.
        let (to, _) = fitted(advised, &evidence);
        assert_eq!(to, bytes(1576));
        let mut again = Settings { preallocation: to, ..advised };
        assert!(keep_together(&advised, &mut again, &evidence).is_some());
        assert_eq!(again.short_from_bytes, Some(1576 * MIB));
    }

    #[test]
    fn memory_lies_together_only_for_several_streams_and_by_no_other_choice() {
        let scattered = Evidence { streams: 4, scattered_growths: 2, ..grown(1000, 1700) };
        let one = Evidence { streams: 1, ..scattered.clone() };
        let enough = Evidence { scattered_growths: 0, ..scattered.clone() };
        let had = Settings::default();
        let advised = with(bytes(1330));
        let together = |had: &Settings, evidence: &Evidence| {
            let mut advised = Settings { preallocation: advised.preallocation, ..*had };
            keep_together(had, &mut advised, evidence).is_some()
        };
        assert!(together(&had, &scattered));
        assert!(!together(&had, &one));
        assert!(!together(&had, &enough));
        // At the limit it does anyway.
        assert!(!together(&Settings { limit_bytes: Some(1340 * MIB), ..had }, &scattered));
        // The user's own choice.
        assert!(!together(&Settings { short_from_bytes: Some(7 * MIB), ..had }, &scattered));
    }

    #[test]
    fn a_start_that_was_never_filled_is_lowered() {
        let (to, reason) = fitted(with(bytes(4000)), &started(4000, 1000));
        assert_eq!(to, bytes(1330));
        assert!(matches!(reason, Some(Reason::StartLowered { .. })));
        let all_but = Preallocation::AllBut { margin_bytes: MIB };
        assert_eq!(fitted(with(all_but), &started(4000, 1000)).0, bytes(1330));
        // Filled well enough: it stays.
        assert_eq!(fitted(with(bytes(1600)), &started(1600, 1000)).1, None);
    }

    #[test]
    fn what_is_on_demand_stays_so_and_counts_as_far_as_it_came() {
        let on_demand = |mib: u64| Preallocation::OnDemand { base_bytes: mib * MIB };
        assert_eq!(fitted(with(on_demand(64)), &grown(1000, 1700)).0, on_demand(1330));
        assert_eq!(fitted(with(on_demand(4000)), &grown(1000, 4000)).0, on_demand(1330));
        assert_eq!(fitted(with(on_demand(1330)), &grown(1000, 1330)).1, None);
    }

    #[test]
    fn a_limit_is_never_passed() {
        let had = Settings { limit_bytes: Some(1100 * MIB), ..Settings::default() };
        assert_eq!(fitted(had, &grown(1000, 1100)).0, bytes(1100));
        let had = Settings { preallocation: bytes(1100), ..had };
        assert_eq!(fitted(had, &started(1100, 1000)).1, None);
    }
}
