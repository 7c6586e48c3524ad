//! Everything that a pool can refuse, with what a person needs to act on it.
//!
//! Every error leaves the pool as it was, but for memory that was reclaimed on the way.

use core::fmt;

use thiserror::Error;

use super::movable::Movable;
use super::shortage::Shortage;
use super::stream::{GraphId, StreamId, Tag};
use crate::device::{Call, Failure};
use crate::range::{AllocError, ConfigError, HandleError};

/// A call of the device that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call}: {failure}")]
pub struct DeviceError<E> {
    /// Which.
    pub call: Call,
    /// How.
    pub failure: Failure<E>,
}

/// What a pool refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError<E> {
    /// The configuration is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Another pool has the [tenancy](super::PoolConfig::tenancy).
    #[error("another pool has the tenancy")]
    TenancyTaken,
    /// The request can never be served.
    #[error(transparent)]
    Request(AllocError),
    /// Nothing serves the request as things are.
    #[error("out of memory: {shortage}{cause}")]
    OutOfMemory {
        /// What is where.
        shortage: alloc::boxed::Box<Shortage>,
        /// The last call of the device that failed on the way.
        cause: Cause<E>,
    },
    /// The tag's quota is used up.
    #[error("{size_bytes} more bytes for {tag}: {live_bytes} of its {quota_bytes} are live")]
    Quota {
        /// The tag.
        tag: Tag,
        /// The size asked for, as it would be charged.
        size_bytes: u64,
        /// What the tag has.
        live_bytes: u64,
        /// What it may have.
        quota_bytes: u64,
    },
    /// The handle names no live block.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// There is no such buffer, or no more.
    #[error("{0} is not one of this pool")]
    UnknownMovable(Movable),
    /// The buffer is held by a guard, and so cannot be freed.
    #[error("{0} is held by a guard")]
    Guarded(Movable),
    /// The buffer is being moved or freed by a call that this one waits for in vain: it is made from
    /// within that one.
    #[error("{0} is being moved or freed by a call that this one is made from within")]
    InHand(Movable),
    /// The stream was retired, or is another pool's.
    #[error("{0} is not a stream of this pool")]
    UnknownStream(StreamId),
    /// The stream is known already.
    #[error("the stream is known already, as {0}")]
    KnownStream(StreamId),
    /// The stream is captured, so this cannot be done to it now.
    #[error("a stream of the capture of {0}: end the capture first")]
    Captured(GraphId),
    /// The stream is captured, and nobody announced it.
    #[error("the stream is in capture {capture_id}, which was not announced to the pool")]
    UnannouncedCapture {
        /// What the device calls it.
        capture_id: u64,
    },
    /// No capture on that stream was announced, or of that graph.
    #[error("no such capture or graph")]
    NoCapture,
    /// The pool [sleeps](super::Pool::sleep).
    #[error("the pool sleeps: wake it first")]
    Asleep,
    /// Another call has pages in hand, and did not let go of them for long: this one may have been made from
    /// within it.
    #[error("another call has pages in hand")]
    Busy,
    /// A limit, or a budget, does not allow it.
    #[error("the limit, or the budget, does not allow it")]
    Limit,
    /// The device has no such call.
    #[error("the device has no call {0}")]
    Unsupported(Call),
    /// A call of the device failed.
    #[error(transparent)]
    Device(DeviceError<E>),
    /// An earlier call failed in such a way that none succeeds any more, or the device
    /// [is no more](crate::device::Device::is_alive).
    #[error("the device failed for good in an earlier call, or is no more")]
    Poisoned,
    /// This process is a fork of the one that made the pool, and [leaves](crate::sync::leave_locks) it
    /// as it is.
    #[error("the pool is of the process that this one was forked from")]
    Forked,
    /// The host's heap refused memory for the pool's tables.
    #[error("the host heap refused memory for tables")]
    OutOfHostMemory,
}

impl<E> From<DeviceError<E>> for PoolError<E> {
    fn from(failed: DeviceError<E>) -> Self {
        match failed.failure {
            // That it was not made says less than why.
            Failure::Lost => Self::Poisoned,
            _ => Self::Device(failed),
        }
    }
}

/// The call of the device that stood in the way of a request, if one did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause<E>(pub Option<DeviceError<E>>);

impl<E: fmt::Display> fmt::Display for Cause<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(DeviceError { call, failure }) => write!(f, " (the device's {call}: {failure})"),
            None => Ok(()),
        }
    }
}
