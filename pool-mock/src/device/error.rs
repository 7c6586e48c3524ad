//! What the simulated device says when it refuses.

use pool_core::device::Call;

/// A call that the simulated device refused.
///
/// # Example
///
/// ```
/// use pool_core::device::{Device, Failure};
/// use pool_mock::device::{SimConfig, SimDevice, SimError};
///
/// let device = SimDevice::new(SimConfig::new().memory_bytes(1 << 20));
/// let refused = device.allocate(2 << 20);
/// assert!(matches!(refused, Err(Failure::Device(SimError::OutOfMemory { .. }))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each message names its fields")]
pub enum SimError {
    #[error("out of memory: {asked_bytes} bytes asked, {free_bytes} free")]
    OutOfMemory { asked_bytes: u64, free_bytes: u64 },
    #[error("{call}, the device's call number {number}, failed on demand")]
    Injected { call: Call, number: u64 },
    #[error("{call}, the device's call number {number}, failed on demand: out of memory")]
    InjectedOutOfMemory { call: Call, number: u64 },
    #[error("the device is in a state from which it does not recover")]
    Fatal,
    #[error("the device is shutting down")]
    ShuttingDown,
    #[error("not allowed while capture {capture} is open, which this call has broken")]
    ForbiddenInCapture { capture: u64 },
    #[error(
        "work of the default stream that capture {capture} would have to have, and is broken by"
    )]
    ImplicitInCapture { capture: u64 },
    #[error("the fence was recorded in a capture")]
    CapturedFence,
    #[error("a captured stream cannot wait for what is outside of its capture")]
    OutsideCapture,
    #[error("the capture was broken by an earlier call")]
    CaptureInvalidated,
    #[error("the stream is not being captured")]
    NotCapturing,
    #[error("the stream is being captured")]
    Capturing,
    #[error("the capture began on another stream")]
    NotOrigin,
    #[error("a stream that joined the capture did not come back to where it began")]
    Unjoined,
    #[error("no calls from a callback")]
    ForbiddenInCallback,
    #[error("no stream has the key {key:#x}")]
    DeadStream { key: u64 },
    #[error("no such {0} on this device")]
    Unknown(&'static str),
    #[error("{0}")]
    Invalid(&'static str),
}
