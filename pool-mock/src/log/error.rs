//! Why a log cannot be read.

use core::fmt;
use std::{io, path::PathBuf};

use super::{rmm::RowError, snapshot::PickleError};

/// Why a log cannot be read: what is wrong, and the line or byte where.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be opened.
    #[error("{} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The failure.
        source: io::Error,
    },
    /// The reader failed.
    #[error("the log cannot be read on, after {read}: {source}")]
    Io {
        /// How far reading came.
        read: Progress,
        /// The failure.
        source: io::Error,
    },
    /// The gzip stream around the log is damaged or cut short.
    #[error("the gzip stream is damaged or cut short, after {read}: {source}")]
    Gzip {
        /// How far reading came.
        read: Progress,
        /// What the decompressor says.
        source: io::Error,
    },
    /// There are no bytes at all (after any gzip is undone).
    #[error("the log is empty")]
    Empty,
    /// The bytes are no log of a known form.
    #[error(
        "neither an RMM log nor a memory snapshot (pickle protocol 2 to 5): \
         it begins with {start:?}"
    )]
    Foreign {
        /// How it begins.
        start: String,
    },
    /// The header of a CSV log lacks a column that is needed.
    #[error("line {line}: the header has no column {column:?}")]
    MissingColumn {
        /// The line of the header.
        line: u64,
        /// The column, by its newest name.
        column: &'static str,
    },
    /// The header of a CSV log names a column twice.
    #[error("line {line}: the header has the column {column:?} twice")]
    DuplicateColumn {
        /// The line of the header.
        line: u64,
        /// The column.
        column: &'static str,
    },
    /// A row of a CSV log is damaged.
    #[error("line {line} (after {rows} good rows): {source}")]
    Row {
        /// The line, counted from 1.
        line: u64,
        /// How many rows before it were read.
        rows: u64,
        /// What is wrong with it.
        source: RowError,
    },
    /// A snapshot is damaged, cut short, or no snapshot.
    #[error("byte {offset} of the pickle (after {events} events): {source}")]
    Pickle {
        /// The byte, counted from 0 after any gzip is undone.
        offset: u64,
        /// How many events before it were read.
        events: u64,
        /// What is wrong there.
        source: PickleError,
    },
    /// The log holds no events of the device asked for.
    #[error("the log holds no events of device {device}")]
    NoSuchDevice {
        /// The device asked for.
        device: u32,
    },
    /// The log has more operations than a trace can number.
    #[error("more than {limit} operations or blocks, at {at}")]
    TooManyOperations {
        /// The most that a trace can hold.
        limit: u32,
        /// Where there was one more.
        at: super::Location,
    },
}

/// How much of a log was read before an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many rows of a CSV log.
    Rows(u64),
    /// So many events of a snapshot.
    Events(u64),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "{rows} rows"),
            Self::Events(events) => write!(f, "{events} events"),
        }
    }
}
