//! What was odd in a log, and where.

use std::fmt;

/// A place in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Location {
    /// A line of a CSV log, counted from 1.
    Line(u64),
    /// An event of a snapshot: its number in its device's trace, from 0.
    Event(u64),
    /// A byte of a snapshot, counted from 0 after any gzip is undone.
    Offset(u64),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Event(event) => write!(f, "event {event}"),
            Self::Offset(offset) => write!(f, "byte {offset}"),
        }
    }
}

/// Something in a log that can be read but should not be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Oddity {
    /// A free whose allocation the file does not hold.
    UnknownFree,
    /// A block that was live before the recording began.
    LiveAtStart,
    /// An allocation of a pointer that is live: its old block is freed there.
    ImplicitFree,
    /// A free that came after the line that hands its pointer out again, with an
    /// earlier time than that line: put in its place.
    LateFree,
    /// An allocation that came after the line that frees it, with an earlier time than
    /// that line: put in its place.
    LateAllocation,
    /// A free whose size is not its allocation's; the block's own size counts.
    SizeMismatch,
    /// An allocation of zero bytes: it holds no memory and makes no operation.
    ZeroSize,
    /// An allocation of some bytes that gave the null pointer: taken as a failure. A block there
    /// that a snapshot's segments show is passed over.
    NullAllocation,
    /// A reallocation (the oldest CSV form): taken as a free and an allocation.
    Reallocation,
    /// A time before that of the line above. The order of the file holds.
    ClockBack,
    /// A time more than twelve hours before that of the line above: a new day.
    MidnightWrap,
    /// A time that is no time. Nothing but the repairs of this list needs it.
    UnreadableTime,
    /// A snapshot's `free_completed` with no `free_requested` before it.
    UnrequestedCompletion,
    /// A snapshot's event of an unknown kind: passed over.
    UnknownEvent,
    /// A block that a snapshot's events free and its segments call allocated.
    Contradiction,
    /// An event of another device than the trace's: passed over.
    OtherDevice,
    /// Bytes other than zero after the end of a snapshot: passed over.
    TrailingBytes,
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownFree => "free of a pointer whose allocation was not recorded",
            Self::LiveAtStart => "block live before the recording began",
            Self::ImplicitFree => "allocation of a live pointer, taken as its free too",
            Self::LateFree => "free recorded too late, put in place",
            Self::LateAllocation => "allocation recorded after its free, put in place",
            Self::SizeMismatch => "free of another size than was allocated",
            Self::ZeroSize => "allocation of zero bytes, passed over",
            Self::NullAllocation => "allocation that gave null, taken as a failure",
            Self::Reallocation => "reallocation, taken as a free and an allocation",
            Self::ClockBack => "clock going back",
            Self::MidnightWrap => "clock passing midnight",
            Self::UnreadableTime => "unreadable time",
            Self::UnrequestedCompletion => "completed free that was not requested",
            Self::UnknownEvent => "event of an unknown kind, passed over",
            Self::Contradiction => "freed block that the segments call allocated",
            Self::OtherDevice => "event of another device, passed over",
            Self::TrailingBytes => "bytes after the end, passed over",
        })
    }
}

/// How often each [`Oddity`] was met, and where first.
///
/// ```
/// use pool_mock::{Trace, log::{Location, Oddity}};
///
/// let log = "Action,Pointer,Size,Stream\n\
///            allocate,0xa0,64,0\n\
///            allocate,0xa0,64,0\n";
/// let trace = Trace::read(log.as_bytes())?;
/// assert_eq!(trace.report().count(Oddity::ImplicitFree), 1);
/// assert_eq!(trace.report().first(Oddity::ImplicitFree), Some(Location::Line(3)));
/// assert_eq!(
///     trace.report().to_string(),
///     "1 allocation of a live pointer, taken as its free too (first at line 3)"
/// );
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    seen: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    oddity: Oddity,
    count: u64,
    first: Location,
}

impl Report {
    /// How often `oddity` was met.
    ///
    /// ```
    /// use pool_mock::log::{Oddity, Report};
    ///
    /// assert_eq!(Report::default().count(Oddity::ClockBack), 0);
    /// ```
    #[must_use]
    pub fn count(&self, oddity: Oddity) -> u64 {
        self.entry(oddity).map_or(0, |entry| entry.count)
    }

    /// Where `oddity` was met first.
    ///
    /// ```
    /// use pool_mock::log::{Oddity, Report};
    ///
    /// assert_eq!(Report::default().first(Oddity::ClockBack), None);
    /// ```
    #[must_use]
    pub fn first(&self, oddity: Oddity) -> Option<Location> {
        self.entry(oddity).map(|entry| entry.first)
    }

    /// Whether there was nothing odd.
    ///
    /// ```
    /// assert!(pool_mock::log::Report::default().is_clean());
    /// ```
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.seen.is_empty()
    }

    /// Every oddity that was met, how often, and where first.
    ///
    /// ```
    /// assert_eq!(pool_mock::log::Report::default().iter().count(), 0);
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, u64, Location)> + '_ {
        self.seen.iter().map(|entry| (entry.oddity, entry.count, entry.first))
    }

    pub(super) fn add(&mut self, oddity: Oddity, location: Location) {
        // Few kinds are ever met, so a scan beats a table.
        match self.seen.iter_mut().find(|entry| entry.oddity == oddity) {
            Some(entry) => {
                entry.count = entry.count.saturating_add(1);
                entry.first = entry.first.min(location);
            }
            None => self.seen.push(Entry { oddity, count: 1, first: location }),
        }
    }

    fn entry(&self, oddity: Oddity) -> Option<&Entry> {
        self.seen.iter().find(|entry| entry.oddity == oddity)
    }
}

/// One line an oddity, with no line feed after the last.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.seen.iter().enumerate() {
            let feed = if index == 0 { "" } else { "\n" };
            write!(f, "{feed}{} {} (first at {})", entry.count, entry.oddity, entry.first)?;
        }
        Ok(())
    }
}
