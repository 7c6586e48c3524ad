//! Everything that a pool can refuse, with what a person needs to act on it.
//!
//! Every error leaves the pool as it was, but for memory that was reclaimed on the way.

use alloc::vec::Vec;
use core::fmt;

use thiserror::Error;

use super::budget::TenantStats;
use super::movable::Movable;
use super::stream::{GraphId, StreamId, Tag};
use crate::device::{Call, Failure};
use crate::range::{AllocError, ConfigError, HandleError};

/// What is where when a request is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The size asked for.
    pub size_bytes: u64,
    /// The alignment asked for.
    pub align_bytes: u64,
    /// Held by the program.
    pub live_bytes: u64,
    /// In caches of threads.
    pub cached_bytes: u64,
    /// Free in arenas, for whichever stream.
    pub free_bytes: u64,
    /// Freed by the program, and waiting for work of the device or for a graph.
    pub deferred_bytes: u64,
    /// Free bytes that other streams' work is queued before, and those deferred for them.
    pub by_stream: Vec<(StreamId, u64)>,
    /// The largest request that would be served now, for whichever stream.
    pub largest_free_bytes: u64,
    /// Taken from the device.
    pub reserved_bytes: u64,
    /// The most that may be taken.
    pub limit_bytes: Option<u64>,
    /// How the pool stands in its [budget](crate::budget::Budget), if it shares one.
    pub tenancy: Option<TenantStats>,
    /// Captures that are under way: while they last nothing is waited for or given back.
    pub captures: Vec<GraphId>,
    /// What would have helped.
    pub remedy: Remedy,
}

/// What would have served a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// To free some of what is live.
    #[default]
    FreeMemory,
    /// To end the capture first: memory waits that could then be waited for.
    EndCapture,
    /// A higher limit.
    RaiseLimit,
    /// A larger space of offsets ([`PoolConfig::address_bytes`](super::PoolConfig::address_bytes)).
    MoreAddresses,
    /// Less fragmentation: there are enough free bytes, but not in one piece.
    Defragment,
    /// A higher [quota](crate::budget::Share::quota_bytes) of the budget.
    RaiseQuota,
    /// A higher [guarantee](crate::budget::Share::guaranteed_bytes), or a larger budget: what there is
    /// of it others have, or claim.
    RaiseGuarantee,
    /// To ask again: the pool is guaranteed so much, and others have borrowed it. They give it back
    /// when their blocks in it are freed, and are kept from borrowing until then.
    AwaitBorrowers,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size_bytes)?;
        if self.align_bytes > 1 {
            write!(f, " aligned to {}", self.align_bytes)?;
        }
        write!(
            f,
            ": {} reserved, of which {} live, {} free (the largest block has {}), {} in caches, {} \
             deferred",
            self.reserved_bytes,
            self.live_bytes,
            self.free_bytes,
            self.largest_free_bytes,
            self.cached_bytes,
            self.deferred_bytes,
        )?;
        for (stream, bytes) in &self.by_stream {
            write!(f, "; {bytes} on {stream}")?;
        }
        for graph in &self.captures {
            write!(f, "; capture of {graph} is under way")?;
        }
        if let Some(tenancy) = &self.tenancy {
            write!(f, "; {tenancy}")?;
        }
        match (self.remedy, self.limit_bytes) {
            (Remedy::FreeMemory, _) => f.write_str("; free some of what is live"),
            (Remedy::EndCapture, _) => f.write_str("; end the capture first"),
            (Remedy::RaiseLimit, Some(limit)) => write!(f, "; raise the limit of {limit}"),
            (Remedy::RaiseLimit, None) => f.write_str("; raise the limit"),
            (Remedy::MoreAddresses, _) => {
                f.write_str("; set a larger space of offsets (address_bytes)")
            }
            (Remedy::Defragment, _) => f.write_str("; enough is free, but not in one piece"),
            (Remedy::RaiseQuota, _) => f.write_str("; raise the quota of the budget"),
            (Remedy::RaiseGuarantee, _) => {
                f.write_str("; raise what is guaranteed, or the budget: others have the rest")
            }
            (Remedy::AwaitBorrowers, _) => f.write_str(
                "; it is guaranteed, and others that borrowed it have live blocks there: ask again",
            ),
        }
    }
}

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
    /// The device has no such call.
    #[error("the device has no call {0}")]
    Unsupported(Call),
    /// A call of the device failed.
    #[error(transparent)]
    Device(DeviceError<E>),
    /// An earlier call failed in such a way that none succeeds any more.
    #[error("the device failed for good in an earlier call")]
    Poisoned,
    /// This process is a fork of the one that made the pool, and [leaves](crate::sync::leave_locks) it
    /// as it is.
    #[error("the pool is of the process that this one was forked from")]
    Forked,
    /// The pool [sleeps](crate::Pool::sleep): its memory is the device's until it wakes.
    #[error("the pool sleeps: its memory is the device's until it wakes")]
    Asleep,
    /// The pool's memory is not in [pages](super::policy::Pages).
    #[error("the pool's memory is not in pages")]
    NoPages,
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
