//! What must not happen, and did.

use core::fmt;
use core::ops::Range;

use pool_core::device::Call;

/// A number that names an allocation: drawn anew for each, and declared with each use of it.
///
/// # Example
///
/// ```
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new());
/// assert_ne!(device.new_owner(), device.new_owner());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner(pub u64);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "owner {}", self.0)
    }
}

/// What a use does to its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Reads all of them.
    Read,
    /// Writes all of them.
    Write,
    /// Changes them atomically: in any order with other updates, but not with reads and writes.
    Update,
}

/// A stream in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamName {
    /// Its number, which no other stream has or had.
    pub id: u64,
    /// The value of its handle, which another may have had.
    pub key: u64,
    /// The device that it is of, counted from zero.
    pub device: u32,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} (key {:#x}", self.id, self.key)?;
        if self.device > 0 {
            write!(f, ", device {}", self.device)?;
        }
        f.write_str(")")
    }
}

/// A use of bytes by queued work.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Use {
    /// Its number among all uses of all devices of the world, in the order of submission.
    pub order: u64,
    /// Where it was queued; for a graph, the chain of it.
    pub stream: StreamName,
    /// Whose bytes they are by what the program declared. `None`: a copy that the pool made, or
    /// a [task](super::SimDevice::queue_task).
    pub owner: Option<Owner>,
    /// Whether it reads or writes.
    pub access: Access,
    /// The range's number.
    pub range: u64,
    /// Which of its bytes.
    pub bytes: Range<u64>,
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.access {
            Access::Read => "a read",
            Access::Write => "a write",
            Access::Update => "an update",
        };
        write!(
            f,
            "use {}, {what} of bytes {}..{} of range {} on {} by ",
            self.order, self.bytes.start, self.bytes.end, self.range, self.stream
        )?;
        match self.owner {
            Some(owner) => owner.fmt(f),
            None => f.write_str("a copy or a task"),
        }
    }
}

/// Who called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A call of the trait.
    Call(Call),
    /// A fence was taken back.
    Discard,
    /// The program itself, by the method of this name.
    Program(&'static str),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(call) => call.fmt(f),
            Self::Discard => f.write_str("discard"),
            Self::Program(name) => f.write_str(name),
        }
    }
}

/// Something that must not happen on a device, and did.
///
/// # Example
///
/// ```
/// use pool_core::device::Device;
/// use pool_mock::device::{Access, SimConfig, SimDevice, Violation};
///
/// let device = SimDevice::new(SimConfig::new());
/// let range = device.allocate(1 << 20)?;
/// let (first, second) = (device.create_stream()?, device.create_stream()?);
/// let (one, other) = (device.new_owner(), device.new_owner());
/// device.queue_use(first, &range, 0, 4096, one, Access::Write)?;
/// device.queue_use(second, &range, 0, 4096, other, Access::Write)?;
/// let violations = device.violations();
/// let Violation::Race { earlier, later } = &violations[0] else { panic!() };
/// assert_eq!((earlier.owner, later.owner), (Some(one), Some(other)));
/// println!("{}", violations[0]); // ends with "stream 1 ... should have waited for stream 0 ..."
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Violation {
    /// Nothing orders two uses of the same bytes, one of them a write.
    Race {
        /// The one that was submitted first.
        earlier: Use,
        /// The other.
        later: Use,
    },
    /// A read found bytes that are not its owner's last writes.
    Contents {
        /// The read.
        read: Use,
        /// The first bytes that are wrong.
        bytes: Range<u64>,
        /// Who wrote them last; `None`: nobody.
        found: Option<Owner>,
    },
    /// Memory was taken away from work that may still use it.
    TakenInUse {
        /// The call that took it.
        action: Action,
        /// The use that nothing orders before it.
        pending: Use,
    },
    /// A use of a range that was freed.
    Freed(Use),
    /// A use of bytes that the range does not have.
    Outside(Use),
    /// A use of bytes that rest.
    Resting {
        /// The use.
        queued: Use,
        /// The first bytes that rest.
        bytes: Range<u64>,
    },
    /// A use of bytes that no memory is behind.
    NotCommitted {
        /// The use.
        queued: Use,
        /// The first such bytes.
        bytes: Range<u64>,
    },
    /// A call with a stream's handle that no stream has; on a real device the end of the process.
    DeadStream {
        /// The call.
        action: Action,
        /// The handle's value.
        key: u64,
    },
    /// A call that is forbidden while a stream is captured; it broke the capture.
    InCapture {
        /// The call.
        action: Action,
        /// The capture's number.
        capture: u64,
    },
    /// A query of, or a wait for, a fence that was recorded in a capture.
    CapturedFence {
        /// The call.
        action: Action,
        /// The capture's number.
        capture: u64,
    },
    /// A call from inside a callback that a stream runs.
    InCallback(Action),
    /// A call after the device was shut down.
    AfterShutDown(Action),
    /// A call after one had said that no call succeeds any more.
    AfterFatal(Action),
    /// A call that the device does not have.
    Unsupported(Call),
    /// A call with something that does not exist (any more).
    Unknown {
        /// The call.
        action: Action,
        /// What it was.
        what: &'static str,
    },
    /// What a layer above the device [found](super::SimDevice::report), in its own words.
    Other(String),
}

impl Violation {
    /// The edge that a [race](Self::Race) lacks: the second stream should have waited for the
    /// first.
    #[must_use]
    pub fn missing_edge(&self) -> Option<(StreamName, StreamName)> {
        match self {
            Self::Race { earlier, later } => Some((earlier.stream, later.stream)),
            _ => None,
        }
    }

    /// Whether it is a [race](Self::Race).
    #[must_use]
    pub const fn is_race(&self) -> bool {
        matches!(self, Self::Race { .. })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Race { earlier, later } => write!(
                f,
                "race: nothing orders {later} after {earlier}; {} should have waited for {}",
                later.stream, earlier.stream
            ),
            Self::Contents { read, bytes, found } => {
                write!(f, "contents: {read} found bytes {}..{}", bytes.start, bytes.end)?;
                match found {
                    Some(owner) => write!(f, " written by {owner}"),
                    None => f.write_str(" written by nobody"),
                }
            }
            Self::TakenInUse { action, pending } => {
                write!(f, "{action} took memory that nothing orders after {pending}")
            }
            Self::Freed(queued) => write!(f, "the range was freed: {queued}"),
            Self::Outside(queued) => write!(f, "beyond the range's end: {queued}"),
            Self::Resting { queued, bytes } => {
                write!(f, "bytes {}..{} rest: {queued}", bytes.start, bytes.end)
            }
            Self::NotCommitted { queued, bytes } => {
                write!(f, "no memory behind bytes {}..{}: {queued}", bytes.start, bytes.end)
            }
            Self::DeadStream { action, key } => {
                write!(f, "{action} with the handle {key:#x}, which no stream has")
            }
            Self::InCapture { action, capture } => {
                write!(f, "{action} while capture {capture} was open, which it broke")
            }
            Self::CapturedFence { action, capture } => {
                write!(f, "{action} of a fence that was recorded in capture {capture}")
            }
            Self::InCallback(action) => write!(f, "{action} from inside a callback"),
            Self::AfterShutDown(action) => write!(f, "{action} after the device was shut down"),
            Self::AfterFatal(action) => write!(f, "{action} after a call had failed for good"),
            Self::Unsupported(call) => write!(f, "{call}, which the device does not have"),
            Self::Unknown { action, what } => write!(f, "{action}: no such {what}"),
            Self::Other(words) => f.write_str(words),
        }
    }
}
