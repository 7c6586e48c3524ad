//! What is kept of the values of a pickle.

use super::{frames::FrameId, word::Word};

/// A value on the stack: what of it can still matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// A whole number from 0 to 2^64 - 1.
    Int(u64),
    /// A string.
    Word(Word),
    /// A string that is kept, by its number: a file, a function, a note of the program.
    Text(u32),
    /// A stack frame, as far as it was read.
    Frame(FrameId),
    /// A list of stack frames, by the one that says the most of those that were read.
    Frames(FrameId),
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
    Frame,
    Other,
}

impl Value {
    /// What it is, if it is a dict.
    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Self::Dict(kind) => Some(kind),
            Self::Frame(_) => Some(Kind::Frame),
            _ => None,
        }
    }

    /// What it holds, if it is a list.
    pub(super) fn role(self) -> Option<Role> {
        match self {
            Self::List(role) => Some(role),
            Self::Frames(_) => Some(Role::Frames),
            _ => None,
        }
    }
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
    Frames,
    Other,
}
