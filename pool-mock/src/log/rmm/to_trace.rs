//! Rows to a trace.

use std::io::Read;

use super::{Action, Reader, Row};
use crate::log::{
    builder::{Builder, Event, Source},
    error::LogError,
    recording::{Keep, Recording},
    report::{Location, Oddity},
    source::Bytes,
};

/// Reads a log into a trace of one device: `device`, or else that of the first row.
pub(in crate::log) fn read(
    bytes: Bytes<impl Read>,
    device: Option<u32>,
    keep: Keep,
) -> Result<Recording, LogError> {
    let mut rows = Reader::from_bytes(bytes)?;
    let mut builder = Builder::new(Source::Rows, keep);
    let mut wanted = device;
    let mut found = false;
    let mut unreadable_times = 0;
    while let Some(row) = rows.next().transpose()? {
        if rows.unreadable_times() != unreadable_times {
            unreadable_times = rows.unreadable_times();
            builder.note(Oddity::UnreadableTime, Location::Line(row.line));
        }
        let device = row.device.unwrap_or(0);
        if *wanted.get_or_insert(device) != device {
            builder.note(Oddity::OtherDevice, Location::Line(row.line));
            continue;
        }
        found = true;
        add(&mut builder, &row)?;
    }
    match device {
        Some(device) if device != 0 && !found => Err(LogError::NoSuchDevice { device }),
        _ => Ok(builder.finish()),
    }
}

fn add(builder: &mut Builder, row: &Row) -> Result<(), LogError> {
    let event = Event {
        label: None,
        place: row.line,
        time_us: row.time_us,
        thread: row.thread,
        stream: row.stream,
        pointer: row.pointer,
        size_bytes: row.size_bytes,
    };
    match row.action {
        Action::Allocate => builder.allocate(&event),
        Action::Free => builder.free(&event),
        Action::Failure => builder.fail(&event),
        Action::Reallocate => builder.reallocate(&event),
    }
}
