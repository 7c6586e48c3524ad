//! Which column of a log holds what, found by the header's names.

use csv::ByteRecord;

use super::field;
use crate::log::LogError;

/// A column: where it is and what the header calls it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) index: usize,
    pub(super) name: &'static str,
}

/// The columns of one log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Columns {
    pub(super) thread: Option<Column>,
    pub(super) time: Option<Column>,
    pub(super) action: Column,
    pub(super) pointer: Column,
    pub(super) size: Column,
    pub(super) stream: Column,
    pub(super) device: Option<Column>,
    /// How many columns the header has.
    pub(super) count: usize,
    /// Whether the last column is one of ours. If not, it is free text (the location in
    /// the source, in the oldest form), which may hold commas of its own.
    pub(super) last_is_ours: bool,
}

// The newest name of each comes first.
const THREAD: &[&str] = &["Thread"];
const TIME: &[&str] = &["Time", "Start"];
const ACTION: &[&str] = &["Action", "Event Type"];
const POINTER: &[&str] = &["Pointer", "Address"];
const SIZE: &[&str] = &["Size", "Size (bytes)"];
const STREAM: &[&str] = &["Stream"];
const DEVICE: &[&str] = &["Device ID"];

const NEEDED: [&[&str]; 4] = [ACTION, POINTER, SIZE, STREAM];

impl Columns {
    /// Finds the columns by the header on line `line`.
    pub(super) fn find(header: &ByteRecord, line: u64) -> Result<Self, LogError> {
        if NEEDED.iter().all(|names| !header.iter().any(|text| is_one_of(text, names))) {
            let fields: Vec<_> = header.iter().collect();
            return Err(LogError::Foreign { start: field::excerpt(&fields.join(&b","[..])) });
        }
        let need = |names: &[&'static str]| {
            find(header, names, line)?.ok_or(LogError::MissingColumn { line, column: names[0] })
        };
        let (action, pointer) = (need(ACTION)?, need(POINTER)?);
        let (size, stream) = (need(SIZE)?, need(STREAM)?);
        let thread = find(header, THREAD, line)?;
        let time = find(header, TIME, line)?;
        let device = find(header, DEVICE, line)?;
        let count = header.len();
        let ours = [Some(action), Some(pointer), Some(size), Some(stream), thread, time, device];
        let last_is_ours = ours.iter().flatten().any(|column| column.index + 1 == count);
        Ok(Self { thread, time, action, pointer, size, stream, device, count, last_is_ours })
    }

    /// How many columns there are that RMM no longer writes.
    pub(super) fn others(&self) -> usize {
        let known = 4 + usize::from(self.thread.is_some()) + usize::from(self.time.is_some());
        self.count.saturating_sub(known)
    }
}

/// The one column that has one of `names`, which are names of the same thing.
fn find(
    header: &ByteRecord,
    names: &[&'static str],
    line: u64,
) -> Result<Option<Column>, LogError> {
    let mut found: Option<Column> = None;
    for (index, text) in header.iter().enumerate() {
        let Some(name) = names.iter().find(|name| is(text, name)) else { continue };
        if let Some(first) = found {
            return Err(LogError::DuplicateColumn { line, column: first.name });
        }
        found = Some(Column { index, name });
    }
    Ok(found)
}

fn is_one_of(text: &[u8], names: &[&str]) -> bool {
    names.iter().any(|name| is(text, name))
}

fn is(text: &[u8], name: &str) -> bool {
    text.trim_ascii().eq_ignore_ascii_case(name.as_bytes())
}
