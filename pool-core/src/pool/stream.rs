//! How programs name streams, graphs and tags.

use core::fmt;

use crate::threads::Owner;

/// A stream that the pool knows: its own, or adopted. No other stream of this or another pool
/// ever has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    pub(crate) number: u32,
    /// The stream's space; zero if it has none of its own.
    pub(crate) space: u32,
}

impl StreamId {
    /// The name of a stream that has a space, or none.
    pub(super) fn new(number: u32, space: Option<Owner>) -> Self {
        Self { number, space: space.map_or(0, |space| space.0) }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {}", self.number)
    }
}

/// The stream that a call is about.
///
/// # Example
///
/// ```
/// use pool_core::On;
///
/// let raw_handle = 7_u64;
/// assert_eq!(On::from(&raw_handle), On::Raw(&7));
/// assert_eq!(On::<u64>::default(), On::Nothing);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum On<'a, S> {
    /// One that the pool knows.
    Stream(StreamId),
    /// A handle of the device. It need not be known; then it must stay what it is for this call
    /// only, and memory that is freed on it waits for a fence that is recorded in the call.
    Raw(&'a S),
    /// None: the call is ordered with no stream.
    #[default]
    Nothing,
}

impl<S> From<StreamId> for On<'_, S> {
    fn from(stream: StreamId) -> Self {
        Self::Stream(stream)
    }
}

impl<'a, S> From<&'a S> for On<'a, S> {
    fn from(handle: &'a S) -> Self {
        Self::Raw(handle)
    }
}

/// A graph that work is captured into: a number of the program's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphId(pub u64);

impl fmt::Display for GraphId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph {}", self.0)
    }
}

/// Whom memory is charged to: a number of the program's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Tag(pub u32);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tag {}", self.0)
    }
}
