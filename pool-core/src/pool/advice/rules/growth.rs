//! How a pool grows beyond its start.

use super::start::advised_bytes;
use crate::pool::advice::evidence::{Evidence, percent};
use crate::pool::advice::reason::Reason;
use crate::pool::arenas::WINDOW_BYTES;
use crate::pool::policy::{Ahead, Settings, Steps};

/// A step is at most this part of the start: what is taken in vain is little of it, and twice the
/// start is reached in so many steps.
const STEPS_IN_START: u64 = 16;

/// Growth ahead of need begins no nearer than this to what is expected to be in use, in
/// hundredths of the start.
const LEAST_DISTANCE_PERCENT: u64 = 10;

/// Where it begins is a multiple of this.
const STEP_PERCENT: u64 = 5;

/// And no nearer to the end than this.
const MOST_PERCENT: u64 = 95;

/// Sizes the steps of a pool that grew by its next start: a power of two, so that a start that
/// changes a little changes no step.
pub(super) fn fit_steps(
    had: &Settings,
    advised: &mut Settings,
    evidence: &Evidence,
) -> Option<Reason> {
    let start_bytes = advised_bytes(advised)?;
    if !evidence.grew(had) || had.growth.steps == Steps::Doubling {
        return None;
    }
    let largest = start_bytes / STEPS_IN_START;
    let step = largest.checked_ilog2().map_or(0, |order| 1 << order);
    let to_bytes = step.max(WINDOW_BYTES).min(had.growth.ceiling_bytes);
    let from_bytes = had.growth.floor_bytes;
    let is_alike = to_bytes / 2 < from_bytes && from_bytes / 2 < to_bytes;
    (!is_alike).then(|| {
        advised.growth.floor_bytes = to_bytes;
        Reason::Steps { from_bytes, to_bytes, start_bytes, growths: evidence.growths }
    })
}

/// Growth ahead of need begins halfway between what is expected to be in use and the end, if it
/// would begin about there or before.
pub(super) fn begin_later(
    _: &Settings,
    advised: &mut Settings,
    evidence: &Evidence,
) -> Option<Reason> {
    let ahead = advised.growth.ahead?;
    let expected = percent(evidence.peak_bytes, advised_bytes(advised)?)?.min(100);
    let from = u64::from(ahead.from_percent);
    if from >= expected + LEAST_DISTANCE_PERCENT || from >= MOST_PERCENT {
        return None;
    }
    let halfway = u64::midpoint(expected, 100).next_multiple_of(STEP_PERCENT);
    // All are 100 at most.
    let to_percent = halfway.min(MOST_PERCENT) as u8;
    advised.growth.ahead = Some(Ahead { from_percent: to_percent, ..ahead });
    Some(Reason::AheadLater {
        from_percent: ahead.from_percent,
        to_percent,
        expected_percent: expected as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::policy::{Growth, Preallocation};

    const MIB: u64 = 1 << 20;

    fn starting_with(mib: u64) -> Settings {
        Settings { preallocation: Preallocation::Bytes(mib * MIB), ..Settings::default() }
    }

    fn grown() -> Evidence {
        Evidence { peak_bytes: MIB, peak_reserved_bytes: MIB, growths: 9, ..Evidence::default() }
    }

    #[test]
    fn a_step_is_a_sixteenth_of_the_start_and_within_bounds() {
        let had = Settings::default();
        for (start, step) in [(20, 2), (300, 16), (322, 16), (2048, 128), (1 << 20, 1024)] {
            let mut advised = starting_with(start);
            assert!(fit_steps(&had, &mut advised, &grown()).is_some(), "{start}");
            assert_eq!(advised.growth.floor_bytes, step * MIB, "{start}");
            // The same start again asks for no other step.
            let stepped = Settings { growth: advised.growth, ..had };
            assert_eq!(fit_steps(&stepped, &mut advised, &grown()), None);
        }
    }

    #[test]
    fn steps_that_are_about_right_or_that_nobody_took_stay() {
        let odd = Growth { floor_bytes: 100 * MIB, ..Growth::default() };
        let had = Settings { growth: odd, ..Settings::default() };
        let mut advised = Settings { growth: odd, ..starting_with(2048) };
        assert_eq!(fit_steps(&had, &mut advised, &grown()), None);
        let mut advised = starting_with(300);
        let content = Evidence { initial_bytes: MIB, ..grown() };
        assert_eq!(fit_steps(&Settings::default(), &mut advised, &content), None);
        let doubling = Growth { steps: Steps::Doubling, ..Growth::default() };
        let had = Settings { growth: doubling, ..Settings::default() };
        assert_eq!(fit_steps(&had, &mut advised, &grown()), None);
    }

    #[test]
    fn growth_ahead_begins_beyond_what_is_expected() {
        let had = Settings::default();
        for (peak, to) in [(700, 80), (769, 90), (800, 90), (900, 95), (5000, 95)] {
            let mut advised = starting_with(1000);
            let evidence = Evidence { peak_bytes: peak * MIB, ..grown() };
            let reason = begin_later(&had, &mut advised, &evidence);
            let from = advised.growth.ahead.map(|ahead| ahead.from_percent);
            assert_eq!(from, Some(to), "{peak}");
            assert_eq!(reason.is_some(), to != 80);
            let again = begin_later(&had, &mut advised, &evidence);
            assert_eq!(again, None, "{peak}");
        }
        let mut none = starting_with(1000);
        none.growth.ahead = None;
        assert_eq!(begin_later(&had, &mut none, &grown()), None);
    }
}
