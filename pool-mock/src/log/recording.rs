//! A trace with all that its file says of each operation.

use std::{
    fs::File,
    io::{self, Read, Write},
    path::Path,
};

use super::{
    builder::Source,
    details::{Details, LeftOut},
    entry::{Entry, Step},
    error::LogError,
    rmm, snapshot, source,
    trace::{Action, Trace},
};

/// What is kept of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// What a replay needs.
    Operations,
    /// Addresses and times as well.
    Details,
}

/// A log with the address and the time of each operation, which a [`Trace`] does without: 16
/// bytes an operation more.
///
/// ```
/// use pool_mock::log::{Recording, Step};
///
/// let log = "Thread,Time,Action,Pointer,Size,Stream\n\
///            7,10:00:00.000001,allocate,0x7f0000000000,1000,0x5\n";
/// let recording = Recording::read(log.as_bytes())?;
/// let entry = recording.entries().next().expect("one entry");
/// assert_eq!(entry.step, Step::Allocate { address: 0x7f00_0000_0000, size_bytes: 1000 });
/// assert_eq!((entry.thread, entry.stream, entry.time_us), (7, 5, Some(36_000_000_001)));
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recording {
    pub(super) trace: Trace,
    pub(super) details: Details,
    pub(super) left_out: LeftOut,
    pub(super) source: Source,
}

impl Recording {
    /// Reads the log at `path`, as [`Trace::open`] does.
    ///
    /// # Errors
    ///
    /// [`LogError`]: the file cannot be read, is no log, or is damaged.
    ///
    /// ```
    /// let missing = pool_mock::log::Recording::open("no such file".as_ref());
    /// assert!(matches!(missing, Err(pool_mock::LogError::Open { .. })));
    /// ```
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file =
            File::open(path).map_err(|source| LogError::Open { path: path.to_owned(), source })?;
        Self::read(file)
    }

    /// Reads a log, as [`Trace::read`] does.
    ///
    /// # Errors
    ///
    /// [`LogError`]: reading fails, the bytes are no log, or are damaged.
    ///
    /// ```
    /// use pool_mock::{LogError, log::Recording};
    ///
    /// assert!(matches!(Recording::read(&b""[..]), Err(LogError::Empty)));
    /// ```
    pub fn read(reader: impl Read) -> Result<Self, LogError> {
        source::read(reader, None, Keep::Details)
    }

    /// The operations.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\n";
    /// let recording = pool_mock::log::Recording::read(log.as_bytes())?;
    /// assert_eq!(recording.trace().peak_live_bytes(1), 1000);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The operations once more, one entry each, with what a file holds of them. Blocks that were
    /// live at the start are allocated first, at the time of the first event. Holds 16 bytes a
    /// block.
    ///
    /// ```
    /// use pool_mock::log::{Recording, Step};
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0\nfree,0xa0,1000,0\n";
    /// let recording = Recording::read(log.as_bytes())?;
    /// let last = recording.entries().last().expect("two entries");
    /// assert_eq!(last.step, Step::Free { address: 0xa0, size_bytes: 1000 });
    /// assert_eq!(last.time_us, None); // This log has no times.
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let Self { trace, details, .. } = self;
        let starts = trace.live_at_start() as usize;
        let mut blocks: Vec<(u64, u64)> = Vec::with_capacity(trace.blocks() as usize);
        let operations = trace.operations.iter().zip(details.entries()).enumerate();
        operations.map(move |(index, (operation, detail))| {
            let step = match operation.action {
                Action::Allocate { size_bytes, .. } => {
                    let address = detail.address;
                    // Blocks are numbered in the order of their allocations.
                    blocks.push((address, size_bytes));
                    Step::Allocate { address, size_bytes }
                }
                Action::Free { block } => {
                    let known = blocks.get(block.0 as usize).copied();
                    let (address, size_bytes) = known.unwrap_or((detail.address, 0));
                    Step::Free { address, size_bytes }
                }
                Action::Failure { size_bytes } => {
                    let known = self.source == Source::Snapshot;
                    Step::Failure { size_bytes, device_free_bytes: known.then_some(detail.address) }
                }
                Action::UnknownFree => {
                    let number = index.saturating_sub(starts);
                    let size_bytes = details.unknown_bytes(number);
                    Step::Free { address: detail.address, size_bytes }
                }
            };
            let raw = |list: &[u64], place: u32| list.get(place as usize).copied().unwrap_or(0);
            let label = trace.label(index);
            Entry {
                step,
                stream: raw(trace.streams(), operation.stream.0),
                thread: raw(trace.threads(), operation.thread.0),
                time_us: detail.time_us(),
                label: label.and_then(|label| trace.labels().get(label.0 as usize)).map(|l| &**l),
            }
        })
    }

    /// Writes a log of RMM's newest form. What has no time gets that of the entry before, or
    /// midnight.
    ///
    /// # Errors
    ///
    /// Those of `writer`, which gets small writes: give it a [`std::io::BufWriter`].
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,5\n";
    /// let recording = pool_mock::log::Recording::read(log.as_bytes())?;
    /// let mut written = Vec::new();
    /// recording.write_rmm(&mut written)?;
    /// assert!(written.ends_with(b"\n0,00:00:00.000000,allocate,0xa0,1000,0x5\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_rmm(&self, writer: impl Write) -> io::Result<()> {
        let mut writer = rmm::Writer::new(writer)?;
        let mut last_us = None;
        for entry in self.entries() {
            last_us = entry.time_us.or(last_us);
            writer.write(&rmm::Row::from(Entry { time_us: last_us, ..entry }))?;
        }
        writer.flush()
    }

    /// Writes a snapshot that PyTorch's viewers read.
    ///
    /// # Errors
    ///
    /// Those of `writer`, which gets small writes: give it a [`std::io::BufWriter`].
    ///
    /// ```
    /// use pool_mock::Trace;
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,5\n";
    /// let recording = pool_mock::log::Recording::read(log.as_bytes())?;
    /// let mut written = Vec::new();
    /// recording.write_snapshot(&mut written)?;
    /// assert_eq!(Trace::read(&written[..])?.operations, recording.trace().operations);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_snapshot(&self, writer: impl Write) -> io::Result<()> {
        let mut writer = snapshot::Writer::new(writer)?;
        for entry in self.entries() {
            writer.write(&entry)?;
        }
        writer.finish().map(drop)
    }
}
