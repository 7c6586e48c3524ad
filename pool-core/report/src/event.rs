//! What can happen in a pool.

/// A name of a stream, as [`History::stream`](crate::History::stream) gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StreamId(pub(crate) u32);

/// A name of what memory is for, as [`History::label`](crate::History::label) gave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelId(pub(crate) u32);

/// The kind of an [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A block was handed out: live from here.
    Allocate = 0,
    /// The program gave a block back, and it serves again at once.
    Free = 1,
    /// The program gave a block back, and work may still use it: deferred from here.
    FreeAsked = 2,
    /// A deferred block serves again.
    FreeDone = 3,
    /// Memory that waited for the same stream serves again.
    Reuse = 4,
    /// Memory of another stream was taken, behind a fence.
    Steal = 5,
    /// Memory was taken from the device, and lies at these addresses.
    Growth = 6,
    /// Memory went back to the device.
    Trim = 7,
    /// Pages were put behind addresses.
    Commit = 8,
    /// Pages were taken away from behind addresses.
    Decommit = 9,
    /// Pages went from where they held no block to where they are needed; their decommit and
    /// commit are events of their own.
    PagesMoved = 10,
    /// A request was refused.
    Failure = 11,
}

/// One thing that happened.
///
/// # Example
///
/// ```
/// use pool_report::{Event, Kind};
///
/// let event = Event::new(17, Kind::Allocate).at(0x1000, 256);
/// assert_eq!((event.time, event.address, event.bytes), (17, 0x1000, 256));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// By the history's [`Clock`](crate::Clock). One before the last event's counts as that.
    pub time: u64,
    /// What happened.
    pub kind: Kind,
    /// The first byte: an address or an offset, as long as a history has one kind. A free names
    /// its block by it; a failure has none.
    pub address: u64,
    /// How much: of a block with what rounding added, of a failure what was asked. A free's is not
    /// looked at.
    pub bytes: u64,
    /// On which stream.
    pub stream: StreamId,
    /// Under which label.
    pub label: LabelId,
}

impl Event {
    /// An event with nothing but a time, which is also what it is: a builder of the rest.
    #[must_use]
    pub const fn new(time: u64, kind: Kind) -> Self {
        Self { time, kind, address: 0, bytes: 0, stream: StreamId(0), label: LabelId(0) }
    }

    /// Where, and how much.
    #[must_use]
    pub const fn at(mut self, address: u64, bytes: u64) -> Self {
        self.address = address;
        self.bytes = bytes;
        self
    }

    /// On which stream.
    #[must_use]
    pub const fn on(mut self, stream: StreamId) -> Self {
        self.stream = stream;
        self
    }

    /// Under which label.
    #[must_use]
    pub const fn under(mut self, label: LabelId) -> Self {
        self.label = label;
        self
    }
}
