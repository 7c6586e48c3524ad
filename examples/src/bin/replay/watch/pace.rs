//! When each call of a replay is due.

use core::{num::NonZeroU64, str::FromStr, time::Duration};
use std::path::Path;

use pool_mock::log::{Action, LogError, Recording};

/// What `--speed` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speed {
    /// So many operations a second.
    Rate(NonZeroU64),
    /// As the program was when it was recorded.
    Recorded,
}

impl FromStr for Speed {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "recorded" {
            return Ok(Self::Recorded);
        }
        let rate = text.parse().map_err(|_| "operations a second, from 1, or \"recorded\"")?;
        Ok(Self::Rate(rate))
    }
}

/// When calls are due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// At once.
    Unbound,
    /// So many a second.
    Rate(NonZeroU64),
    /// Of each operation of the trace, which so many copies do one after another, microseconds after
    /// the first.
    Recorded { times: Vec<u64>, copies: usize },
}

/// Why there is no pace.
#[derive(Debug, thiserror::Error)]
pub(super) enum PaceError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the log has no times: give --speed operations a second")]
    NoTimes,
}

impl Pace {
    /// Of a speed, if one was asked for; a generated program has no trace.
    pub(super) fn new(
        speed: Option<Speed>,
        trace: Option<&Path>,
        copies: u32,
    ) -> Result<Self, PaceError> {
        match speed {
            None => Ok(Self::Unbound),
            Some(Speed::Rate(rate)) => Ok(Self::Rate(rate)),
            Some(Speed::Recorded) => {
                let recording = Recording::open(trace.ok_or(PaceError::NoTimes)?)?;
                Ok(Self::Recorded { times: times(&recording)?, copies: copies as usize })
            }
        }
    }

    /// How long after the start a call is due; past the last, when that is.
    pub(super) fn due(&self, call: usize) -> Duration {
        match self {
            Self::Unbound => Duration::ZERO,
            Self::Rate(rate) => {
                let nanoseconds = call as u128 * 1_000_000_000 / u128::from(rate.get());
                Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
            }
            Self::Recorded { times, copies } => {
                let time = times.get(call / (*copies).max(1)).or(times.last());
                Duration::from_micros(time.copied().unwrap_or(0))
            }
        }
    }
}

/// When each operation that a replay makes was made; clocks that step back stand still.
fn times(recording: &Recording) -> Result<Vec<u64>, PaceError> {
    let actions = recording.trace().operations.iter().map(|operation| operation.action);
    let made = actions
        .zip(recording.entries())
        .filter(|(action, _)| matches!(action, Action::Allocate { .. } | Action::Free { .. }));
    let mut times = Vec::new();
    let (mut first, mut latest) = (None, 0);
    for (_, entry) in made {
        let time = entry.time_us.ok_or(PaceError::NoTimes)?;
        latest = time.saturating_sub(*first.get_or_insert(time)).max(latest);
        times.push(latest);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_kept_whatever_it_is() {
        let pace = |rate| Pace::Rate(NonZeroU64::new(rate).unwrap());
        assert_eq!(pace(1000).due(0), Duration::ZERO);
        assert_eq!(pace(1000).due(1500), Duration::from_millis(1500));
        assert_eq!(pace(u64::MAX).due(usize::MAX), Duration::from_secs(1));
        assert_eq!(pace(1).due(usize::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(Pace::Unbound.due(usize::MAX), Duration::ZERO);
    }

    #[test]
    fn recorded_times_count_from_the_first_and_never_go_back() {
        let log = "Thread,Time,Action,Pointer,Size,Stream\n\
                   1,10:00:00.000100,allocate,0xa0,10,0\n\
                   1,10:00:00.000300,free,0xb0,10,0\n\
                   1,10:00:00.000500,allocate,0xc0,10,0\n\
                   1,10:00:00.000400,free,0xa0,10,0\n";
        let times = times(&Recording::read(log.as_bytes()).unwrap()).unwrap();
        assert_eq!(times, [0, 400, 400]);
        let pace = Pace::Recorded { times, copies: 2 };
        let due = |call| pace.due(call).as_micros();
        assert_eq!([due(0), due(1), due(2), due(3), due(9)], [0, 0, 400, 400, 400]);
    }

    #[test]
    fn a_log_without_times_has_no_pace() {
        let log = "Action,Pointer,Size,Stream\nallocate,0xa0,10,0\n";
        let times = times(&Recording::read(log.as_bytes()).unwrap());
        assert!(matches!(times, Err(PaceError::NoTimes)));
        assert!(matches!(Pace::new(Some(Speed::Recorded), None, 1), Err(PaceError::NoTimes)));
    }

    #[test]
    fn a_speed_is_a_number_from_1_or_recorded() {
        assert_eq!("recorded".parse(), Ok(Speed::Recorded));
        assert_eq!("7".parse(), Ok(Speed::Rate(NonZeroU64::new(7).unwrap())));
        for wrong in ["0", "-1", "1.5", "", "fast"] {
            assert!(wrong.parse::<Speed>().is_err(), "{wrong}");
        }
    }
}
