//! Why a value differs.

use core::fmt;
use core::time::Duration;

use super::bytes::Human;
use crate::pool::policy::Preallocation;

/// Why a value of the recommended configuration differs from what the run had, with the figures
/// that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Reason {
    /// The pool grew: more at the start.
    StartRaised {
        /// What the run had.
        from: Preallocation,
        /// What the next one is to have.
        to: Preallocation,
        /// The most that was in use at once.
        peak_bytes: u64,
        /// The most that was taken from the device at once.
        peak_reserved_bytes: u64,
        /// How often the pool grew.
        growths: u64,
        /// How long the device took for that; zero on one without a clock.
        growth_time: Duration,
    },
    /// The start was never filled: less.
    StartLowered {
        /// What the run had.
        from: Preallocation,
        /// What the next one is to have.
        to: Preallocation,
        /// The most that was in use at once.
        peak_bytes: u64,
    },
    /// The pool grew though there was enough, which several streams kept to themselves: memory is
    /// short from the start's bytes on, so that it lies together.
    ShortFrom {
        /// What the run had.
        from_bytes: Option<u64>,
        /// What the next one is to have.
        to_bytes: u64,
        /// How often the pool grew though as many bytes were free.
        scattered_growths: u64,
        /// How often a stream took memory of another.
        steals: u64,
        /// The most streams at once.
        streams: u64,
    },
    /// The steps of growth did not go with the size of the pool.
    Steps {
        /// The least at a time that the run had.
        from_bytes: u64,
        /// What the next one is to have.
        to_bytes: u64,
        /// The start of the next run.
        start_bytes: u64,
        /// How often the pool grew.
        growths: u64,
    },
    /// The start is what is needed, so growth ahead of need begins later.
    AheadLater {
        /// From which part of the memory on the run grew ahead, in hundredths.
        from_percent: u8,
        /// From which the next one is to.
        to_percent: u8,
        /// The part of the start that is expected to be in use, in hundredths.
        expected_percent: u8,
    },
    /// What was given back was taken again: less is given back.
    Watermark {
        /// What the run kept.
        from_bytes: u64,
        /// What the next one is to keep.
        to_bytes: u64,
        /// Bytes that were taken again after as many had been given back.
        again_bytes: u64,
    },
    /// The queue of blocks that wait was drained too often for what it held.
    Queue {
        /// The most bytes that the run had in it.
        from_bytes: u64,
        /// What the next one is to have.
        to_bytes: u64,
        /// How often it was drained because it was full.
        drains: u64,
        /// How many blocks waited.
        blocks: u64,
    },
    /// Caches missed too often in a class for which they have few places.
    CacheRaised {
        /// Bytes of a cache that the run had.
        from_bytes: u64,
        /// What the next one is to have.
        to_bytes: u64,
        /// Bytes of a block of the class.
        class_bytes: u64,
        /// Operations that a cache did alone, in thousandths.
        hits_per_mille: u64,
        /// Of how many.
        operations: u64,
    },
    /// Caches had more bytes than the classes that were used can fill.
    CacheLowered {
        /// Bytes of a cache that the run had.
        from_bytes: u64,
        /// What the next one is to have.
        to_bytes: u64,
        /// Bytes of a block of the largest class that was used.
        class_bytes: u64,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::StartRaised {
                from,
                to,
                peak_bytes,
                peak_reserved_bytes,
                growths,
                growth_time,
            } => {
                write!(
                    f,
                    "preallocation: {} instead of {}, since the pool grew {growths} times, up to \
                     {}, for a peak of {} in use",
                    Start(to),
                    Start(from),
                    Human(peak_reserved_bytes),
                    Human(peak_bytes),
                )?;
                if growth_time.is_zero() { Ok(()) } else { write!(f, "; it took {growth_time:?}") }
            }
            Self::StartLowered { from, to, peak_bytes } => write!(
                f,
                "preallocation: {} instead of {}, of which no more than {} was in use",
                Start(to),
                Start(from),
                Human(peak_bytes),
            ),
            Self::ShortFrom { from_bytes, to_bytes, scattered_growths, steals, streams } => {
                write!(f, "short_from_bytes: {} instead of ", Human(to_bytes))?;
                match from_bytes {
                    Some(bytes) => write!(f, "{}", Human(bytes))?,
                    None => f.write_str("none")?,
                }
                write!(
                    f,
                    ", since the pool grew {scattered_growths} times though as much was free, and \
                     {streams} streams took memory of each other {steals} times"
                )
            }
            Self::Steps { from_bytes, to_bytes, start_bytes, growths } => write!(
                f,
                "growth.floor_bytes: {} instead of {}, since the pool grew {growths} times and \
                 starts with {} now",
                Human(to_bytes),
                Human(from_bytes),
                Human(start_bytes),
            ),
            Self::AheadLater { from_percent, to_percent, expected_percent } => write!(
                f,
                "growth.ahead.from_percent: {to_percent} instead of {from_percent}, since \
                 {expected_percent} % of the start is expected to be in use"
            ),
            Self::Watermark { from_bytes, to_bytes, again_bytes } => write!(
                f,
                "reclaim.watermark_bytes: {} instead of {}, since {} were given back and taken \
                 again",
                Human(to_bytes),
                Human(from_bytes),
                Human(again_bytes),
            ),
            Self::Queue { from_bytes, to_bytes, drains, blocks } => write!(
                f,
                "reclaim.deferred: a queue of {} instead of {}, since it was full {drains} times \
                 for {blocks} blocks",
                Human(to_bytes),
                Human(from_bytes),
            ),
            Self::CacheRaised { from_bytes, to_bytes, class_bytes, hits_per_mille, operations } => {
                write!(
                    f,
                    "cache_bytes: {} instead of {}, since caches did {}.{} % of {operations} \
                     operations on blocks of {} alone",
                    Human(to_bytes),
                    Human(from_bytes),
                    hits_per_mille / 10,
                    hits_per_mille % 10,
                    Human(class_bytes),
                )
            }
            Self::CacheLowered { from_bytes, to_bytes, class_bytes } => write!(
                f,
                "cache_bytes: {} instead of {}, since no cached block is larger than {}",
                Human(to_bytes),
                Human(from_bytes),
                Human(class_bytes),
            ),
        }
    }
}

/// A preallocation, for people.
struct Start(Preallocation);

impl fmt::Display for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Preallocation::Nothing => f.write_str("nothing"),
            Preallocation::Bytes(bytes) => write!(f, "{}", Human(bytes)),
            Preallocation::AllBut { margin_bytes } => {
                write!(f, "all but {}", Human(margin_bytes))
            }
            Preallocation::OnDemand { base_bytes } => {
                write!(f, "{} on demand", Human(base_bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn every_reason_says_what_and_from_what_to_what() {
        let (from, to) = (Preallocation::Nothing, Preallocation::Bytes(13 << 27));
        let raised = Reason::StartRaised {
            from,
            to,
            peak_bytes: 5 << 28,
            peak_reserved_bytes: 2 << 30,
            growths: 17,
            growth_time: Duration::from_millis(3),
        };
        assert_eq!(
            raised.to_string(),
            "preallocation: 1.6 GiB instead of nothing, since the pool grew 17 times, up to 2 GiB, \
             for a peak of 1.2 GiB in use; it took 3ms"
        );
        let all_but = Preallocation::AllBut { margin_bytes: 1 << 30 };
        let lowered = Reason::StartLowered { from: all_but, to, peak_bytes: 1 << 30 };
        assert_eq!(
            lowered.to_string(),
            "preallocation: 1.6 GiB instead of all but 1 GiB, of which no more than 1 GiB was in use"
        );
        for (reason, text) in [
            (
                Reason::ShortFrom {
                    from_bytes: None,
                    to_bytes: 1 << 20,
                    scattered_growths: 3,
                    steals: 9,
                    streams: 4,
                },
                "short_from_bytes: 1 MiB instead of none, since the pool grew 3 times though as \
                 much was free, and 4 streams took memory of each other 9 times",
            ),
            (
                Reason::Steps {
                    from_bytes: 64 << 20,
                    to_bytes: 16 << 20,
                    start_bytes: 300 << 20,
                    growths: 5,
                },
                "growth.floor_bytes: 16 MiB instead of 64 MiB, since the pool grew 5 times and \
                 starts with 300 MiB now",
            ),
            (
                Reason::AheadLater { from_percent: 80, to_percent: 90, expected_percent: 77 },
                "growth.ahead.from_percent: 90 instead of 80, since 77 % of the start is expected \
                 to be in use",
            ),
            (
                Reason::Watermark { from_bytes: 1, to_bytes: 2, again_bytes: 3 },
                "reclaim.watermark_bytes: 2 B instead of 1 B, since 3 B were given back and taken \
                 again",
            ),
            (
                Reason::Queue { from_bytes: 1, to_bytes: 2, drains: 3, blocks: 4 },
                "reclaim.deferred: a queue of 2 B instead of 1 B, since it was full 3 times for 4 \
                 blocks",
            ),
            (
                Reason::CacheRaised {
                    from_bytes: 1,
                    to_bytes: 2,
                    class_bytes: 3,
                    hits_per_mille: 807,
                    operations: 9000,
                },
                "cache_bytes: 2 B instead of 1 B, since caches did 80.7 % of 9000 operations on \
                 blocks of 3 B alone",
            ),
            (
                Reason::CacheLowered { from_bytes: 2, to_bytes: 1, class_bytes: 3 },
                "cache_bytes: 1 B instead of 2 B, since no cached block is larger than 3 B",
            ),
        ] {
            assert_eq!(reason.to_string(), text);
        }
    }
}
