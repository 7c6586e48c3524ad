//! The driver's result codes that the simulated one answers with.

use core::ffi::CStr;

/// The call did what it says.
pub const SUCCESS: i32 = 0;
/// An argument is null, zero or unknown.
pub const INVALID_VALUE: i32 = 1;
/// `cuInit` has not been called.
pub const NOT_INITIALIZED: i32 = 3;
/// There is no device at all.
pub const NO_DEVICE: i32 = 100;
/// The number is not a device's.
pub const INVALID_DEVICE: i32 = 101;
/// The context is no context, or none is current.
pub const INVALID_CONTEXT: i32 = 201;
/// The context is released.
pub const CONTEXT_IS_DESTROYED: i32 = 709;
/// The device cannot do this.
pub const NOT_SUPPORTED: i32 = 801;

/// A code in words; `None` for one that the simulated driver does not have.
pub(crate) fn words(code: i32) -> Option<&'static CStr> {
    Some(match code {
        SUCCESS => c"no error",
        INVALID_VALUE => c"invalid argument",
        NOT_INITIALIZED => c"initialization error",
        NO_DEVICE => c"no CUDA-capable device is detected",
        INVALID_DEVICE => c"invalid device ordinal",
        INVALID_CONTEXT => c"invalid device context",
        CONTEXT_IS_DESTROYED => c"context is destroyed",
        NOT_SUPPORTED => c"operation not supported",
        _ => return None,
    })
}
