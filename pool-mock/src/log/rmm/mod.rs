//! RMM's CSV log, in all its published forms.
//!
//! | written by | header |
//! | --- | --- |
//! | 0.9 to 0.13 | `Event Type,Device ID,Address,Stream,Size (bytes),...,Location` |
//! | 0.14 | `Time,Action,Pointer,Size,Stream` |
//! | 0.15 and later | `Thread,Time,Action,Pointer,Size,Stream` |
//!
//! Columns are found by name, in any order; others are passed over. [`Reader`] gives
//! typed rows in constant memory, [`Writer`] writes the newest form in the way that the
//! most programs can read. Line ends may be LF or CRLF, mixed; a byte order mark, blank
//! lines and a missing last line end do no harm.

mod columns;
mod field;
mod lines;
mod reader;
mod to_trace;
mod writer;

pub use field::{NumberError, RowError};
pub use reader::Reader;
pub(super) use to_trace::read;
pub use writer::Writer;

use super::{Entry, Step};

/// One row of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its line in the file, counted from 1. A writer counts for itself.
    pub line: u64,
    /// The host thread; 0 where the log does not say.
    pub thread: u64,
    /// Microseconds since midnight, local time with no date; in the oldest form since
    /// the recording began. `None` where the log has no (readable) time.
    pub time_us: Option<u64>,
    /// What was done.
    pub action: Action,
    /// The address; 0 where there is none.
    pub pointer: u64,
    /// The bytes asked for, unrounded. The oldest form writes 0 for every free.
    pub size_bytes: u64,
    /// The raw handle of the stream.
    pub stream: u64,
    /// The device; only the oldest form says.
    pub device: Option<u32>,
}

/// What a [`Row`] records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `allocate` (oldest form: `Alloc`): it succeeded.
    Allocate,
    /// `free` (oldest form: `Free`): it is about to begin.
    Free,
    /// `allocate failure`.
    Failure,
    /// `Realloc`, in the oldest form only; the old pointer is not recorded.
    Reallocate,
}

/// The row of an entry, as far as a row can hold it.
///
/// ```
/// use pool_mock::log::{Entry, Step, rmm::{Action, Row}};
///
/// let step = Step::Free { address: 0xa0, size_bytes: 8 };
/// let row = Row::from(Entry { step, stream: 0, thread: 7, time_us: None, label: None });
/// assert_eq!((row.action, row.pointer, row.thread), (Action::Free, 0xa0, 7));
/// ```
impl From<Entry<'_>> for Row {
    fn from(entry: Entry<'_>) -> Self {
        let (action, pointer, size_bytes) = match entry.step {
            Step::Allocate { address, size_bytes } => (Action::Allocate, address, size_bytes),
            Step::Free { address, size_bytes } => (Action::Free, address, size_bytes),
            Step::Failure { size_bytes, .. } => (Action::Failure, 0, size_bytes),
        };
        Self {
            line: 0,
            thread: entry.thread,
            time_us: entry.time_us,
            action,
            pointer,
            size_bytes,
            stream: entry.stream,
            device: None,
        }
    }
}
