//! Calls of the device that failed.

use core::fmt;

use thiserror::Error;

/// A call of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Call {
    /// [`Device::allocate`](super::Device::allocate).
    Allocate,
    /// [`Device::free`](super::Device::free).
    Free,
    /// [`Device::extend`](super::Device::extend).
    Extend,
    /// [`Device::reserve`](super::Device::reserve).
    Reserve,
    /// [`Device::create_pages`](super::Device::create_pages).
    CreatePages,
    /// [`Device::destroy_pages`](super::Device::destroy_pages).
    DestroyPages,
    /// [`Device::commit`](super::Device::commit).
    Commit,
    /// [`Device::decommit`](super::Device::decommit).
    Decommit,
    /// [`Device::create_stream`](super::Device::create_stream).
    CreateStream,
    /// [`Device::destroy_stream`](super::Device::destroy_stream).
    DestroyStream,
    /// [`Device::stream_id`](super::Device::stream_id).
    StreamId,
    /// [`Device::record`](super::Device::record).
    Record,
    /// [`Device::record_all`](super::Device::record_all).
    RecordAll,
    /// [`Device::is_done`](super::Device::is_done).
    IsDone,
    /// [`Device::wait`](super::Device::wait).
    Wait,
    /// [`Device::wait_on_host`](super::Device::wait_on_host).
    WaitOnHost,
    /// [`Device::synchronize`](super::Device::synchronize).
    Synchronize,
    /// [`Device::capture_id`](super::Device::capture_id).
    CaptureId,
    /// [`Device::copy`](super::Device::copy).
    Copy,
    /// [`Device::memory`](super::Device::memory).
    Memory,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Allocate => "allocate",
            Self::Free => "free",
            Self::Extend => "extend",
            Self::Reserve => "reserve",
            Self::CreatePages => "create_pages",
            Self::DestroyPages => "destroy_pages",
            Self::Commit => "commit",
            Self::Decommit => "decommit",
            Self::CreateStream => "create_stream",
            Self::DestroyStream => "destroy_stream",
            Self::StreamId => "stream_id",
            Self::Record => "record",
            Self::RecordAll => "record_all",
            Self::IsDone => "is_done",
            Self::Wait => "wait",
            Self::WaitOnHost => "wait_on_host",
            Self::Synchronize => "synchronize",
            Self::CaptureId => "capture_id",
            Self::Copy => "copy",
            Self::Memory => "memory",
        };
        f.write_str(name)
    }
}

/// A call that did nothing.
///
/// Converts from the device's own error, so that a device returns that with `?`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure<E> {
    /// The device has no such call: its [capabilities](super::Capabilities) say so.
    #[error("the device has no call {0}")]
    Unsupported(Call),
    /// The device was lost in an earlier call, or is no more: it was not called.
    #[error("the device is lost")]
    Lost,
    /// The device refused.
    #[error("{0}")]
    Device(E),
}

impl<E> From<E> for Failure<E> {
    fn from(error: E) -> Self {
        Self::Device(error)
    }
}

/// What an error of a device means for what comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing: this call failed, and another may succeed.
    Call,
    /// The device has no memory for this; less may succeed.
    OutOfMemory,
    /// No call on this device succeeds any more, as after an illegal access on CUDA. A pool makes
    /// none from then on, not even to give back what it holds.
    Fatal,
}
