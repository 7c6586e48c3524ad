//! Streams: their handles, and their queues.

use std::collections::VecDeque;
use std::sync::Arc;

use super::clock::{Actor, Clock, Point};
use super::violation::{StreamName, Use};

/// A handle of a stream: a value, as a driver's is. The value of a stream that is gone is given
/// to the very next one that is made.
///
/// # Example
///
/// ```
/// use pool_mock::device::{SimConfig, SimDevice, StreamKind};
///
/// let device = SimDevice::new(SimConfig::new());
/// let first = device.open_stream(StreamKind::NonBlocking);
/// device.close_stream(first)?;
/// assert_eq!(device.open_stream(StreamKind::NonBlocking), first);
/// # Ok::<(), pool_mock::device::SimError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SimStream {
    pub(super) key: u64,
    /// Which device's default stream a special value means.
    pub(super) device: u32,
}

impl SimStream {
    /// The handle's value.
    #[must_use]
    pub const fn key(self) -> u64 {
        self.key
    }
}

/// Whether a stream of the program is ordered with the legacy default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// Its work waits for all earlier work of the legacy default stream, and that for its.
    #[default]
    Blocking,
    /// It is not.
    NonBlocking,
}

/// Whose a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// [`create_stream`](pool_core::device::Device::create_stream) made it.
    Created,
    /// The program opened it.
    Opened(StreamKind),
    Legacy,
    PerThread,
    /// A chain of a graph: no stream, but it runs like one.
    Chain,
}

impl Origin {
    /// Whether it is ordered with the legacy default stream.
    pub(super) const fn is_blocking(self) -> bool {
        matches!(self, Self::Opened(StreamKind::Blocking) | Self::PerThread)
    }
}

/// What a program has a stream call.
pub(super) type Callback = Box<dyn FnOnce() + Send>;

/// What a program has a stream do, as often as a graph with it is launched.
pub(super) type Task = Arc<dyn Fn() + Send + Sync>;

/// What an item does when it runs.
pub(super) enum Work {
    /// Nothing but being in order.
    Nothing,
    /// A use that leaves its mark or looks for it.
    Use(Box<Use>),
    /// Bytes go from one place to another.
    Copy(Box<(Use, Use)>),
    Callback(Callback),
    Task(Task),
}

/// One thing in a queue.
pub(super) struct Item {
    /// What must be done before, beyond what is before it in its queue.
    pub(super) waits: Vec<Point>,
    pub(super) work: Work,
}

/// A stream, or a chain of a graph.
pub(super) struct StreamState {
    pub(super) name: StreamName,
    pub(super) origin: Origin,
    /// Whether a handle means it still.
    pub(super) alive: bool,
    pub(super) held: bool,
    /// Whether its first item is a callback that runs now.
    pub(super) busy: bool,
    /// What is before the next item.
    pub(super) clock: Clock,
    pub(super) submitted: u64,
    pub(super) done: u64,
    pub(super) queue: VecDeque<Item>,
    /// The capture that it is in.
    pub(super) capture: Option<u64>,
}

impl StreamState {
    pub(super) fn new(name: StreamName, origin: Origin) -> Self {
        Self {
            name,
            origin,
            alive: true,
            held: false,
            busy: false,
            clock: Clock::default(),
            submitted: 0,
            done: 0,
            queue: VecDeque::new(),
            capture: None,
        }
    }

    /// Everything that was submitted to it.
    pub(super) const fn end(&self, actor: Actor) -> Point {
        Point { actor, position: self.submitted }
    }
}
