//! What is kept of the values of a pickle.

use super::word::Word;

/// A value on the stack: what of it can still matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A whole number from 0 to 2^64 - 1.
    Int(u64),
    /// A string.
    Word(Word),
    Dict(Kind),
    List(Role),
    /// A container that was named before. Its contents are gone.
    Shared,
    /// So many items of a list that were handed over.
    Done(u64),
    /// Anything else.
    Opaque,
}

/// What a dict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Snapshot,
    Segment,
    Block,
    /// An event of this device.
    Event(u32),
    Other,
}

/// What a list holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Segments,
    Blocks,
    /// The traces of all devices.
    Devices,
    /// The events of this device.
    Events(u32),
    Other,
}
