//! What can go wrong, with the runtime's own words for it.

use cl3::error_codes::{
    CL_DEVICE_NOT_AVAILABLE, CL_INVALID_BUFFER_SIZE, CL_INVALID_CONTEXT,
    CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY, CL_OUT_OF_RESOURCES, error_text,
};
use pool_core::HandleError;
use pool_core::device::Severity;
use thiserror::Error;

/// A runtime that is not there, or a call of it that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ClError {
    /// There is no OpenCL, or nothing that it runs on.
    #[error("no OpenCL on this machine: {reason}")]
    NoPlatform {
        /// What is missing.
        reason: String,
    },
    /// The machine has fewer devices.
    #[error("there is no OpenCL device {ordinal}: there are {devices}, counted from 0")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: usize,
        /// How many devices there are.
        devices: usize,
    },
    /// A call failed.
    #[error("{call} failed with OpenCL error {code}: {}", error_text(*code))]
    Call {
        /// The name of the function.
        call: &'static str,
        /// The runtime's code.
        code: i32,
    },
    /// Work that was queued came to a bad end, as its event says. What that leaves of its queue and of
    /// others of the context, OpenCL does not say.
    #[error("queued work ended with OpenCL error {code}: {}", error_text(*code))]
    Work {
        /// The event's status.
        code: i32,
    },
    /// The compiler refused the kernels.
    #[error("the kernels do not build: {log}")]
    Build {
        /// What it said.
        log: String,
    },
    /// No part of a range begins there, or it has no bytes, or it ends behind the range.
    #[error(
        "no part of {size_bytes} bytes from {offset_bytes} on: the range has {range_bytes}, and parts \
         begin at multiples of {granule_bytes}"
    )]
    NoPart {
        /// Where it was to begin.
        offset_bytes: u64,
        /// How long it was to be.
        size_bytes: u64,
        /// How long the range is.
        range_bytes: u64,
        /// What parts begin at.
        granule_bytes: u64,
    },
    /// The range was given back.
    #[error("the range was given back to the device")]
    Freed,
    /// The handle names no live block.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// This process is a fork of the one that uses OpenCL.
    #[error("OpenCL does not work in a forked child: start it anew, or use OpenCL only there")]
    Forked,
}

impl ClError {
    /// The error of a call, of the runtime's code.
    pub(crate) fn of(call: &'static str) -> impl FnOnce(i32) -> Self {
        move |code| Self::Call { call, code }
    }

    /// What it means for what comes after it.
    pub(crate) fn severity(&self) -> Severity {
        match *self {
            // Of a device whose memory is the host's.
            Self::Call { call: "clCreateBuffer", code: CL_OUT_OF_HOST_MEMORY } => {
                Severity::OutOfMemory
            }
            // A size that no buffer has is one that less memory may do for.
            Self::Call {
                code:
                    CL_MEM_OBJECT_ALLOCATION_FAILURE | CL_OUT_OF_RESOURCES | CL_INVALID_BUFFER_SIZE,
                ..
            } => Severity::OutOfMemory,
            Self::Call { code: CL_DEVICE_NOT_AVAILABLE | CL_INVALID_CONTEXT, .. }
            | Self::Work { .. }
            | Self::Forked => Severity::Fatal,
            _ => Severity::Call,
        }
    }
}
