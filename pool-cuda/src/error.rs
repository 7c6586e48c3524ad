//! What can go wrong on the way to a device, with the driver's own words for it.

use pool_core::device::Severity;
use thiserror::Error;

/// A driver that is not there, or a call of it that failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library could not be loaded.
    #[error("no CUDA driver on this machine: {reason}")]
    NoDriver {
        /// What the system's loader said.
        reason: String,
    },
    /// The driver lacks a function that this crate needs.
    #[error("the CUDA driver has no function {call}: this crate needs CUDA 11.3 or newer")]
    MissingFunction {
        /// The name of the function.
        call: &'static str,
    },
    /// The machine has fewer devices.
    #[error("there is no CUDA device {ordinal}: the driver sees {devices}, counted from 0")]
    NoSuchDevice {
        /// The number asked for.
        ordinal: u32,
        /// How many devices there are.
        devices: u32,
    },
    /// The device, or its driver, has no such thing.
    #[error("the device has no {what}")]
    Unsupported {
        /// What it has not.
        what: &'static str,
    },
    /// Bytes that no process has shared, or that are not in pages.
    #[error("these bytes are not shared: {reason}")]
    NotShared {
        /// Why not.
        reason: &'static str,
    },
    /// This process is a fork of the one that uses CUDA.
    #[error("CUDA does not work in a forked child: start it anew (exec), or use CUDA only there")]
    Forked,
    /// The process ends, and the driver with it.
    #[error("the process ends: the driver is not called any more")]
    Exiting,
    /// A call of the driver failed.
    #[error("{call} failed with CUDA error {code}: {}", meaning(*code))]
    Call {
        /// The name of the function.
        call: &'static str,
        /// The driver's code, which may be one that only newer drivers know.
        code: i32,
    },
    /// A call that concerned another device failed, which is lost: nothing follows for the one that
    /// was asked.
    #[error("{call} failed with CUDA error {code} on another device: {}", meaning(*code))]
    Elsewhere {
        /// The name of the function.
        call: &'static str,
        /// The driver's code.
        code: i32,
    },
}

impl CudaError {
    /// The driver's code, where a call failed.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_cuda::CudaError;
    ///
    /// let error = CudaError::Call { call: "cuInit", code: 100 };
    /// assert_eq!(error.code(), Some(100));
    /// assert_eq!(error.to_string(), "cuInit failed with CUDA error 100: no device");
    /// ```
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Call { code, .. } | Self::Elsewhere { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl CudaError {
    /// What it means for what comes after it.
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::Call { code: 2, .. } => Severity::OutOfMemory,
            // The driver or the context is gone, or work that ran earlier broke it for good.
            Self::Call {
                code: 4 | 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719, ..
            }
            | Self::Forked
            | Self::Exiting => Severity::Fatal,
            _ => Severity::Call,
        }
    }
}

/// Turns a driver's code into a result that names the call.
pub(crate) fn check(call: &'static str, code: i32) -> Result<(), CudaError> {
    if code == 0 { Ok(()) } else { Err(CudaError::Call { call, code }) }
}

/// Bytes as a call of the driver takes them.
pub(crate) fn host_size(call: &'static str, bytes: u64) -> Result<usize, CudaError> {
    // No memory is so large; the driver would say the same.
    usize::try_from(bytes).map_err(|_| CudaError::Call { call, code: 2 })
}

/// The codes that a person meets when a device does not open, in words.
fn meaning(code: i32) -> &'static str {
    match code {
        1 => "invalid value",
        2 => "out of memory",
        3 => "not initialized",
        4 => "the driver is shutting down",
        34 => "a stub library, not the driver",
        46 => "device busy or unavailable",
        100 => "no device",
        101 => "invalid device",
        201 => "invalid context",
        214 => "uncorrectable memory error; the context is lost",
        217 => "no peer access between these devices",
        304 => "the operating system refused",
        400 => "invalid handle: of another context, or gone",
        700 | 702 | 714..=719 => "earlier device work failed; the context is lost",
        704 => "peer access is open already",
        709 => "the context is destroyed",
        800 => "not permitted",
        801 => "not supported",
        802 => "the system is not ready",
        803 => "driver and kernel module have different versions",
        804 => "forward compatibility is not supported on this device",
        900 => "not permitted while a stream is being captured",
        901 => "the capture is invalidated",
        905 => "the capture would depend on work outside of it",
        906 => "the legacy default stream depends on a capture",
        907 => "an event of a capture",
        999 => "unknown error",
        _ => "see CUresult in the driver's documentation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_newer_driver_stays_itself() {
        let error = check("cuInit", 123_456).unwrap_err();
        assert_eq!(error, CudaError::Call { call: "cuInit", code: 123_456 });
        assert!(error.to_string().starts_with("cuInit failed with CUDA error 123456: "));
    }
}
