//! From one kind of log to the other.

use core::fmt;
use std::io::{self, Read, Write};

use super::{
    builder::Source,
    error::LogError,
    recording::{Keep, Recording},
    report::{Oddity, Report},
    rmm, snapshot,
    source::Bytes,
    trace::Action,
};

/// A kind of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RMM's CSV, in its newest form.
    Rmm,
    /// PyTorch's memory snapshot, as its viewers read it.
    Snapshot,
}

/// Why a log is not converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The new one cannot be written.
    #[error("the new log cannot be written: {0}")]
    Write(#[from] io::Error),
}

/// What became of a log that was converted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversion {
    /// How many entries were read: rows, or operations.
    pub entries: u64,
    /// What the new log lacks, and the old one had.
    pub lost: Vec<Loss>,
    /// What was odd in the old log.
    pub report: Report,
}

/// Something of a log that a new one has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// To a snapshot: which of so many threads called.
    Threads(usize),
    /// To a CSV log: the dates; times of day stay, in UTC.
    Dates,
    /// To a CSV log: the stacks and notes of so many operations.
    Labels(u64),
    /// To a CSV log: when freed memory could serve again, so often.
    Completions(u64),
    /// To a CSV log: so many segments, with their blocks and the settings of the allocator.
    Segments(u64),
    /// To a CSV log: when segments came and went, so often.
    SegmentEvents(u64),
    /// To a CSV log: that so many blocks were live before; they are allocated at the start.
    LiveAtStart(u64),
    /// To a CSV log: how much of the device was free when a request failed, so often.
    DeviceFree(u64),
    /// To a snapshot: so many frees of pointers that the log never hands out. There they are
    /// blocks that were live before.
    UnknownFrees(u64),
    /// The events of other devices, so many.
    OtherDevices(u64),
    /// From the oldest CSV form: so many reallocations, which are allocations now.
    Reallocations(u64),
    /// From CSV: columns other than the six that RMM writes today, so many.
    Columns(usize),
    /// From CSV: so many times that are no time.
    UnreadableTimes(u64),
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Threads(count) => write!(f, "which of {count} threads called"),
            Self::Dates => f.write_str("dates (times of day are kept, in UTC)"),
            Self::Labels(count) => write!(f, "the stacks or notes of {count} operations"),
            Self::Completions(count) => {
                write!(f, "when freed memory could serve again, {count} times")
            }
            Self::Segments(count) => {
                write!(f, "{count} segments with their blocks, and the allocator's settings")
            }
            Self::SegmentEvents(count) => {
                write!(f, "when segments came and went, {count} times")
            }
            Self::LiveAtStart(count) => write!(
                f,
                "that {count} blocks were live before (they are allocated at the start now)"
            ),
            Self::DeviceFree(count) => {
                write!(f, "how much of the device was free, of {count} failures")
            }
            Self::UnknownFrees(count) => write!(
                f,
                "that the blocks of {count} frees are not in the log (they are live before it now)"
            ),
            Self::OtherDevices(count) => write!(f, "{count} events of other devices"),
            Self::Reallocations(count) => {
                write!(f, "that {count} allocations were reallocations")
            }
            Self::Columns(count) => write!(f, "{count} columns that RMM no longer writes"),
            Self::UnreadableTimes(count) => write!(f, "{count} times that are no time"),
        }
    }
}

/// Reads a log of either kind, plain or gzipped, and writes it as `to`.
///
/// From a kind to itself nothing is interpreted: rows are copied one by one, and of a snapshot
/// every value is kept, in opcodes that PyTorch's viewers know. From one kind to the other the log
/// goes through a [`Recording`], which puts in order what the old file has wrong; the times of a
/// CSV log, which have no date, become those of 1 January 1970. Of several devices it takes the
/// first with any event, as [`Trace::read`] does.
///
/// Memory: constant from CSV to CSV, else some hundred bytes an event at most.
///
/// # Errors
///
/// [`ConvertError`]; what was written by then is not a whole log.
///
/// ```
/// use pool_mock::{Trace, log::{Format, Loss, convert}};
///
/// let log = "Thread,Time,Action,Pointer,Size,Stream\n\
///            7,10:00:00.000001,allocate,0x7f0000000000,1000,0\n\
///            8,10:00:00.000002,free,0x7f0000000000,1000,0\n";
/// let mut snapshot = Vec::new();
/// let conversion = convert(log.as_bytes(), &mut snapshot, Format::Snapshot)?;
/// assert_eq!((conversion.entries, conversion.lost), (2, vec![Loss::Threads(2)]));
/// assert_eq!(Trace::read(&snapshot[..])?.blocks(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Trace::read`]: super::Trace::read
pub fn convert(
    from: impl Read,
    to: impl Write,
    format: Format,
) -> Result<Conversion, ConvertError> {
    let bytes = Bytes::new(from)?;
    match (bytes.is_snapshot(), format) {
        (false, Format::Rmm) => copy_rows(bytes, to),
        (true, Format::Snapshot) => {
            let recording = snapshot::copy(bytes, to)?;
            let entries = recording.trace.operations.len() as u64;
            Ok(Conversion { entries, lost: Vec::new(), report: recording.trace.report().clone() })
        }
        (true, Format::Rmm) => {
            let recording = snapshot::read(bytes, None, Keep::Details)?;
            recording.write_rmm(to)?;
            Ok(recording.conversion(format))
        }
        (false, Format::Snapshot) => {
            let recording = rmm::read(bytes, None, Keep::Details)?;
            recording.write_snapshot(to)?;
            Ok(recording.conversion(format))
        }
    }
}

/// Copies a CSV log row by row, in its newest form.
fn copy_rows(bytes: Bytes<impl Read>, to: impl Write) -> Result<Conversion, ConvertError> {
    let mut rows = rmm::Reader::from_bytes(bytes)?;
    let mut writer = rmm::Writer::new(to)?;
    let (mut device, mut other_devices, mut reallocations) = (None, 0, 0);
    while let Some(mut row) = rows.next().transpose()? {
        let of = row.device.unwrap_or(0);
        if *device.get_or_insert(of) != of {
            other_devices += 1;
            continue;
        }
        if row.action == rmm::Action::Reallocate {
            row.action = rmm::Action::Allocate;
            reallocations += 1;
        }
        writer.write(&row)?;
    }
    writer.flush()?;
    let mut lost = Vec::new();
    let mut add = |count: u64, loss: fn(u64) -> Loss| {
        if count > 0 {
            lost.push(loss(count));
        }
    };
    add(other_devices, Loss::OtherDevices);
    add(reallocations, Loss::Reallocations);
    add(rows.unreadable_times(), Loss::UnreadableTimes);
    if rows.other_columns() > 0 {
        lost.push(Loss::Columns(rows.other_columns()));
    }
    Ok(Conversion { entries: rows.rows(), lost, report: Report::default() })
}

impl Recording {
    /// What writing it in a format loses: of a log that is in the other.
    fn conversion(&self, format: Format) -> Conversion {
        let Self { trace, left_out, .. } = self;
        let mut lost = Vec::new();
        let mut add = |count: u64, loss: fn(u64) -> Loss| {
            if count > 0 {
                lost.push(loss(count));
            }
        };
        let report = trace.report();
        add(report.count(Oddity::OtherDevice), Loss::OtherDevices);
        match format {
            Format::Rmm => {
                let indices = 0..trace.operations.len();
                let labels = indices.filter(|index| trace.label(*index).is_some());
                add(labels.count() as u64, Loss::Labels);
                add(left_out.completions, Loss::Completions);
                add(left_out.segments, Loss::Segments);
                add(left_out.segment_events, Loss::SegmentEvents);
                add(trace.live_at_start().into(), Loss::LiveAtStart);
                add(trace.recorded_failures(), Loss::DeviceFree);
                if self.entries().any(|entry| entry.time_us.is_some()) {
                    lost.push(Loss::Dates);
                }
            }
            Format::Snapshot => {
                let unknown = trace.operations.iter();
                let unknown = unknown.filter(|operation| operation.action == Action::UnknownFree);
                add(unknown.count() as u64, Loss::UnknownFrees);
                add(report.count(Oddity::UnreadableTime), Loss::UnreadableTimes);
                if self.source == Source::Rows && trace.threads().iter().any(|thread| *thread != 0)
                {
                    lost.push(Loss::Threads(trace.threads().len()));
                }
            }
        }
        Conversion { entries: trace.operations.len() as u64, lost, report: report.clone() }
    }
}
