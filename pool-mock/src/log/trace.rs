//! What both kinds of log become: operations in one total order.

use std::{fs::File, io::Read, path::Path, sync::Arc};

use super::{
    error::LogError,
    labels::{LabelId, Labels},
    locations::Locations,
    recording::Keep,
    report::{Location, Oddity, Report},
    source,
};

/// One allocation of a trace.
///
/// Numbers run from 0 to [`Trace::blocks`] in the order in which the blocks are
/// first allocated. A number is never used twice, whatever pointers the recorded
/// program was given, so a table of that length holds what a replay knows of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// A stream: an index into [`Trace::streams`], in order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// A host thread: an index into [`Trace::threads`], in order of first appearance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// One step of a recorded program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The host thread that called. Snapshots do not carry it: there it is always 0.
    pub thread: ThreadId,
    /// The stream that was named.
    pub stream: StreamId,
    /// What was done.
    pub action: Action,
}

/// What an [`Operation`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A block was handed out.
    Allocate {
        /// Its number.
        block: BlockId,
        /// The bytes asked for, unrounded; never 0.
        size_bytes: u64,
    },
    /// A block was given back. It was allocated earlier in the trace and is live here.
    Free {
        /// Its number.
        block: BlockId,
    },
    /// The recorded program was refused this many bytes.
    Failure {
        /// The bytes asked for (in a snapshot: rounded by its allocator).
        size_bytes: u64,
    },
    /// A pointer was given back that no line before it had handed out.
    UnknownFree,
}

/// A recorded program: its operations in one total order, the order of the file.
///
/// The rules that every trace keeps, whatever the file held:
///
/// - each block is allocated once, before it is freed, and is freed at most once;
/// - a pointer has at most one live block: where a file says otherwise, the trace
///   does not, and [`Trace::report`] counts it and names the first place.
///
/// ```
/// use pool_mock::{Action, Trace};
///
/// let log = "Thread,Time,Action,Pointer,Size,Stream\n\
///            7,10:00:00.000001,allocate,0x7f0000000000,1000,0\n\
///            7,10:00:00.000002,free,0x7f0000000000,1000,0\n\
///            7,10:00:00.000003,free,0x7f0000999000,8,0x1\n";
/// let trace = Trace::read(log.as_bytes())?;
/// assert_eq!(trace.blocks(), 1);
/// assert_eq!(trace.peak_live_bytes(256), 1024);
/// assert_eq!(trace.streams(), [0, 1]);
/// assert_eq!(trace.operations[2].action, Action::UnknownFree);
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trace {
    /// The operations, in order.
    pub operations: Vec<Operation>,
    pub(super) blocks: u32,
    pub(super) live_at_start: u32,
    pub(super) streams: Vec<u64>,
    pub(super) threads: Vec<u64>,
    pub(super) report: Report,
    pub(super) locations: Locations,
    pub(super) labels: Labels,
}

impl Trace {
    /// Reads the log at `path`: RMM's CSV or a PyTorch memory snapshot, either one
    /// plain or gzipped. The bytes decide which, never the name.
    ///
    /// # Errors
    ///
    /// [`LogError`]: the file cannot be read, is no log, or is damaged.
    ///
    /// ```
    /// let missing = pool_mock::Trace::open("no such file".as_ref());
    /// assert!(matches!(missing, Err(pool_mock::LogError::Open { .. })));
    /// ```
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file =
            File::open(path).map_err(|source| LogError::Open { path: path.to_owned(), source })?;
        Self::read(file)
    }

    /// Reads a log from `reader`, which needs no buffer of its own.
    ///
    /// Of a log of several devices it takes the first one with any event, and reports
    /// the rest as [`Oddity::OtherDevice`]; see [`read_device`](Self::read_device).
    ///
    /// # Errors
    ///
    /// [`LogError`]: reading fails, the bytes are no log, or are damaged.
    ///
    /// ```
    /// use pool_mock::{LogError, Trace};
    ///
    /// assert!(matches!(Trace::read(&b""[..]), Err(LogError::Empty)));
    /// ```
    pub fn read(reader: impl Read) -> Result<Self, LogError> {
        source::read(reader, None, Keep::Operations).map(|recording| recording.trace)
    }

    /// Reads the events of one device from a log of several: its place in a
    /// snapshot's list of devices, or its number in the column `Device ID` of the
    /// oldest CSV form. A log that names no device is of device 0.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`LogError::NoSuchDevice`].
    ///
    /// ```
    /// use pool_mock::{LogError, Trace};
    ///
    /// let log = "Thread,Time,Action,Pointer,Size,Stream\n";
    /// let trace = Trace::read_device(log.as_bytes(), 1);
    /// assert!(matches!(trace, Err(LogError::NoSuchDevice { device: 1 })));
    /// ```
    pub fn read_device(reader: impl Read, device: u32) -> Result<Self, LogError> {
        source::read(reader, Some(device), Keep::Operations).map(|recording| recording.trace)
    }

    /// How many blocks are allocated in all.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.blocks(), 1);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// How many blocks were live when the recording began. They are the first
    /// operations of the trace, one [`Action::Allocate`] each, and stand for no event
    /// of the file: a snapshot shows them only in its segments or by their free.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.live_at_start(), 0); // A CSV log does not tell.
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn live_at_start(&self) -> u32 {
        self.live_at_start
    }

    /// The raw handles of the streams; a [`StreamId`] is an index into it.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.streams(), [2, 0]);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn streams(&self) -> &[u64] {
        &self.streams
    }

    /// The raw numbers of the host threads; a [`ThreadId`] is an index into it.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.threads(), [0]); // This log has no threads.
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn threads(&self) -> &[u64] {
        &self.threads
    }

    /// The labels: what in the recorded program asked for memory. A [`LabelId`] is an index into
    /// it.
    ///
    /// A snapshot's label is the frame that says the most of an allocation's stack, `file:line
    /// function`: the innermost of Python outside of PyTorch and of the standard library. Behind
    /// it, or alone, is what the program noted itself (`user_metadata`). A CSV log has none.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert!(trace.labels().is_empty());
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn labels(&self) -> &[Arc<str>] {
        self.labels.texts()
    }

    /// The label of operation number `index`: of an allocation or a failure, if the log says whose
    /// it is.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.label(0), None);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn label(&self, index: usize) -> Option<LabelId> {
        self.labels.get(index)
    }

    /// How many frees named a pointer whose allocation the file does not hold.
    ///
    /// Each is an [`Action::UnknownFree`]; but in a snapshot, whose ring buffer loses
    /// its oldest events as a matter of course, the first free of an address never
    /// seen before shows that a block was [live at the start](Self::live_at_start),
    /// and is an [`Action::Free`] of it. It is counted here in both cases.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nfree,0xb0,8,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.unknown_frees(), 1);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn unknown_frees(&self) -> u64 {
        self.report.count(Oddity::UnknownFree)
    }

    /// How many requests the recorded program was refused ([`Action::Failure`]).
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate failure,(nil),8,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.recorded_failures(), 1);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn recorded_failures(&self) -> u64 {
        let failures =
            self.operations.iter().filter(|op| matches!(op.action, Action::Failure { .. }));
        failures.count() as u64
    }

    /// The most bytes live at once, each block rounded up to `granule_bytes` (0 counts
    /// as 1). A sum past `u64::MAX` is `u64::MAX`. Linear in the operations.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.peak_live_bytes(1), 1000);
    /// assert_eq!(trace.peak_live_bytes(256), 1024);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn peak_live_bytes(&self, granule_bytes: u64) -> u64 {
        let granule_bytes = u128::from(granule_bytes.max(1));
        let mut sizes_bytes = vec![0_u128; self.blocks as usize];
        let (mut live_bytes, mut peak_bytes) = (0_u128, 0_u128);
        for operation in &self.operations {
            match operation.action {
                Action::Allocate { block, size_bytes } => {
                    let rounded_bytes =
                        u128::from(size_bytes).div_ceil(granule_bytes) * granule_bytes;
                    // The operations are the caller's to change, so a number may be new.
                    if let Some(size) = sizes_bytes.get_mut(block.0 as usize) {
                        *size = rounded_bytes;
                        live_bytes += rounded_bytes;
                        peak_bytes = peak_bytes.max(live_bytes);
                    }
                }
                Action::Free { block } => {
                    if let Some(size) = sizes_bytes.get_mut(block.0 as usize) {
                        live_bytes -= core::mem::take(size);
                    }
                }
                Action::Failure { .. } | Action::UnknownFree => {}
            }
        }
        u64::try_from(peak_bytes).unwrap_or(u64::MAX)
    }

    /// The most blocks live at once. Linear in the operations.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert_eq!(trace.peak_live_blocks(), 1);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn peak_live_blocks(&self) -> u32 {
        let (mut live, mut peak) = (0_u32, 0_u32);
        for operation in &self.operations {
            match operation.action {
                Action::Allocate { .. } => live = live.saturating_add(1),
                Action::Free { .. } => live = live.saturating_sub(1),
                Action::Failure { .. } | Action::UnknownFree => {}
            }
            peak = peak.max(live);
        }
        peak
    }

    /// What in the file was odd: counted, and with the first place of each kind.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// assert!(trace.report().is_clean());
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The place in the file that operation number `index` came from, to name it in a
    /// message; `None` for a block [live at the start](Self::live_at_start) and past
    /// the end. Logarithmic in the irregularities of the file.
    ///
    /// ```
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1000,0x2\nfree,0xa0,1000,0\n";
    /// let trace = pool_mock::Trace::read(log.as_bytes())?;
    /// use pool_mock::log::Location;
    ///
    /// assert_eq!(trace.location(1), Some(Location::Line(3)));
    /// assert_eq!(trace.location(2), None);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn location(&self, index: usize) -> Option<Location> {
        let index = index.checked_sub(self.live_at_start as usize)?;
        self.locations.get(index)
    }
}
