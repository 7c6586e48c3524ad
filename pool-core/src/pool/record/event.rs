//! What happened, and how an entry of a journal says it.

use core::fmt;
use core::time::Duration;

use crate::device::Call;
use crate::threads::WORDS;

/// Something that a pool did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Event {
    /// When, by the recorder's [`Clock`](super::Clock). A free has the time at which it was asked for, all
    /// else that at which it was done.
    pub time: Duration,
    /// What.
    pub what: What,
    /// Where it begins, in the pool's space of offsets; zero where that says nothing, [`NOWHERE`] of memory
    /// that has no place there. The arena is the one that was [grown](What::Grown) over it last.
    pub offset_bytes: u64,
    /// How much. Of a refusal, what was asked for; of all else, what it came to.
    pub size_bytes: u64,
    /// The number of the stream that the call named; zero: none that the pool knows.
    pub stream: u32,
    /// What the thread was at.
    pub label: LabelId,
    /// Which thread did it: a number that the recorder gave it; zero: one that has no cache.
    pub thread: u32,
}

/// Where memory begins that has no place in the pool's space of offsets: pages that are behind no addresses.
pub const NOWHERE: u64 = u64::MAX;

/// What a thread is at, by its number: see [`Pool::label`](crate::Pool::label). Zero is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LabelId(pub u32);

/// What an [`Event`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum What {
    /// A block was given out.
    Allocated {
        /// How far the pool had to look.
        served: Served,
        /// If a block that was freed had begun there, how long ago that was: then it is a reuse. Of as many
        /// places as the recorder remembers.
        reused_after: Option<Duration>,
    },
    /// The program freed a block.
    Freed {
        /// Whether it waits for work of the device, or for a graph; else it is free.
        waits: bool,
    },
    /// A block that waited is free. It is noted once the books are closed, so that a reuse on another
    /// thread may come before it in time.
    Reclaimed,
    /// Memory of one stream went to another, behind a fence.
    Stolen,
    /// The pool took memory from the device: an arena, or more of one; or handles of pages, which have no
    /// place before they are [committed](What::Committed).
    Grown {
        /// How long that took.
        cost: Duration,
    },
    /// Pages were mapped under addresses.
    Committed {
        /// How long that took.
        cost: Duration,
    },
    /// Pages were taken from under addresses.
    Decommitted {
        /// How long that took.
        cost: Duration,
    },
    /// Pages that held no block serve elsewhere.
    PagesMoved,
    /// Memory went back to the device: an arena; or pages, which have no place any more.
    Released {
        /// How long that took.
        cost: Duration,
    },
    /// A block was copied to where it is now, and the program goes on with it.
    Moved {
        /// Where it began before.
        from_bytes: u64,
    },
    /// A request was refused.
    Refused(Refused),
    /// A call of the device failed.
    CallFailed(Call),
}

/// How far a pool had to look for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Served {
    /// At the first look: the thread's cache, or what the stream's memory has at hand.
    AtOnce,
    /// In the stream's own memory, with a search.
    BySearch,
    /// It needed more: waits, other streams' memory, memory of the device; or the request names no known
    /// stream, or a tag.
    ByHelp,
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// [`PoolError::OutOfMemory`](crate::PoolError::OutOfMemory).
    OutOfMemory,
    /// [`PoolError::Quota`](crate::PoolError::Quota).
    Quota,
    /// Anything else.
    Other,
}

/// All calls, by their place.
const CALLS: [Call; 20] = [
    Call::Allocate,
    Call::Free,
    Call::Extend,
    Call::Reserve,
    Call::CreatePages,
    Call::DestroyPages,
    Call::Commit,
    Call::Decommit,
    Call::CreateStream,
    Call::DestroyStream,
    Call::StreamId,
    Call::Record,
    Call::RecordAll,
    Call::IsDone,
    Call::Wait,
    Call::WaitOnHost,
    Call::Synchronize,
    Call::CaptureId,
    Call::Copy,
    Call::Memory,
];

/// No time, where there may be one.
const NO_TIME: u64 = u64::MAX;

/// An event in numbers, as it is on its way into a journal: times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    pub(super) time: u64,
    pub(super) what: Words,
    pub(super) offset_bytes: u64,
    pub(super) size_bytes: u64,
    pub(super) stream: u32,
    pub(super) label: u32,
    pub(super) thread: u32,
}

/// A [`What`] in numbers: kind, detail, and a time or a place.
pub(super) type Words = (u8, u8, u64);

/// [`What::Allocated`].
pub(super) fn allocated(served: Served, reused_after: Option<u64>) -> Words {
    (0, served as u8, reused_after.unwrap_or(NO_TIME))
}

/// [`What::Freed`].
pub(super) fn freed(waits: bool) -> Words {
    (1, waits.into(), 0)
}

impl Draft {
    /// The words of an entry.
    #[inline]
    pub(super) fn entry(&self) -> [u64; WORDS] {
        let (kind, detail, extra) = self.what;
        [
            self.time,
            self.offset_bytes,
            self.size_bytes,
            u64::from(self.stream) << 32 | u64::from(self.label),
            u64::from(self.thread) << 32 | u64::from(detail) << 8 | u64::from(kind),
            extra,
        ]
    }
}

impl Event {
    /// What an entry says; none if it is of no event.
    pub(super) fn decode(words: [u64; WORDS]) -> Option<Self> {
        let [time, offset_bytes, size_bytes, whom, kind, extra] = words;
        Some(Self {
            time: Duration::from_nanos(time),
            what: What::decode(kind as u8, (kind >> 8) as u8, extra)?,
            offset_bytes,
            size_bytes,
            stream: (whom >> 32) as u32,
            label: LabelId(whom as u32),
            thread: (kind >> 32) as u32,
        })
    }
}

impl What {
    /// The same in numbers.
    pub(super) fn encode(self) -> Words {
        match self {
            Self::Allocated { served, reused_after } => {
                allocated(served, reused_after.map(nanoseconds))
            }
            Self::Freed { waits } => freed(waits),
            Self::Reclaimed => (2, 0, 0),
            Self::Stolen => (3, 0, 0),
            Self::Grown { cost } => (4, 0, nanoseconds(cost)),
            Self::Committed { cost } => (5, 0, nanoseconds(cost)),
            Self::Decommitted { cost } => (6, 0, nanoseconds(cost)),
            Self::PagesMoved => (7, 0, 0),
            Self::Released { cost } => (8, 0, nanoseconds(cost)),
            Self::Refused(why) => (9, why as u8, 0),
            Self::Moved { from_bytes } => (11, 0, from_bytes),
            Self::CallFailed(call) => {
                let place = CALLS.iter().position(|&known| known == call);
                (10, place.map_or(u8::MAX, |place| place as u8), 0)
            }
        }
    }

    fn decode(kind: u8, detail: u8, extra: u64) -> Option<Self> {
        let cost = Duration::from_nanos(extra);
        Some(match kind {
            0 => Self::Allocated {
                served: match detail {
                    0 => Served::AtOnce,
                    1 => Served::BySearch,
                    _ => Served::ByHelp,
                },
                reused_after: (extra != NO_TIME).then_some(cost),
            },
            1 => Self::Freed { waits: detail != 0 },
            2 => Self::Reclaimed,
            3 => Self::Stolen,
            4 => Self::Grown { cost },
            5 => Self::Committed { cost },
            6 => Self::Decommitted { cost },
            7 => Self::PagesMoved,
            8 => Self::Released { cost },
            9 => Self::Refused(match detail {
                0 => Refused::OutOfMemory,
                1 => Refused::Quota,
                _ => Refused::Other,
            }),
            10 => Self::CallFailed(*CALLS.get(usize::from(detail))?),
            11 => Self::Moved { from_bytes: extra },
            _ => return None,
        })
    }
}

/// A time in nanoseconds, for more than five hundred years.
#[inline]
pub(super) fn nanoseconds(time: Duration) -> u64 {
    time.as_secs().wrapping_mul(1_000_000_000).wrapping_add(time.subsec_nanos().into())
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocated { reused_after: None, .. } => f.write_str("allocated"),
            Self::Allocated { reused_after: Some(after), .. } => {
                write!(f, "reused after {after:?}")
            }
            Self::Freed { waits: false } => f.write_str("freed"),
            Self::Freed { waits: true } => f.write_str("freed, and waits"),
            Self::Reclaimed => f.write_str("reclaimed"),
            Self::Stolen => f.write_str("stolen"),
            Self::Grown { cost } => write!(f, "grown in {cost:?}"),
            Self::Committed { cost } => write!(f, "committed in {cost:?}"),
            Self::Decommitted { cost } => write!(f, "decommitted in {cost:?}"),
            Self::PagesMoved => f.write_str("pages moved"),
            Self::Released { cost } => write!(f, "released in {cost:?}"),
            Self::Moved { from_bytes } => write!(f, "moved from {from_bytes}"),
            Self::Refused(Refused::OutOfMemory) => f.write_str("refused for want of memory"),
            Self::Refused(Refused::Quota) => f.write_str("refused by a quota"),
            Self::Refused(Refused::Other) => f.write_str("refused"),
            Self::CallFailed(call) => write!(f, "the device's {call} failed"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {} bytes", self.time, self.size_bytes)?;
        if self.offset_bytes != NOWHERE {
            write!(f, " at {}", self.offset_bytes)?;
        }
        write!(f, " {}", self.what)?;
        if self.stream > 0 {
            write!(f, " on stream {}", self.stream)?;
        }
        write!(f, ", thread {}", self.thread)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn every_event_comes_back_from_its_words() {
        let cost = Duration::from_nanos(12_345);
        let mut all: Vec<What> = [Served::AtOnce, Served::BySearch, Served::ByHelp]
            .into_iter()
            .flat_map(|served| {
                [None, Some(cost)].map(|reused_after| What::Allocated { served, reused_after })
            })
            .collect();
        all.extend([true, false].map(|waits| What::Freed { waits }));
        all.extend([What::Reclaimed, What::Stolen, What::PagesMoved]);
        all.extend([
            What::Moved { from_bytes: 1 << 33 },
            What::Grown { cost },
            What::Committed { cost },
        ]);
        all.extend([What::Decommitted { cost }, What::Released { cost }]);
        let refusals = [Refused::OutOfMemory, Refused::Quota, Refused::Other];
        all.extend(refusals.map(What::Refused));
        all.extend(CALLS.map(What::CallFailed));
        for what in all {
            let event = Event {
                time: Duration::new(3_000_000, 17),
                what,
                offset_bytes: 1 << 40,
                size_bytes: u64::MAX,
                stream: u32::MAX,
                label: LabelId(u32::MAX - 1),
                thread: u32::MAX - 2,
            };
            let draft = Draft {
                time: nanoseconds(event.time),
                what: what.encode(),
                offset_bytes: event.offset_bytes,
                size_bytes: event.size_bytes,
                stream: event.stream,
                label: event.label.0,
                thread: event.thread,
            };
            assert_eq!(Event::decode(draft.entry()), Some(event));
        }
    }
}
