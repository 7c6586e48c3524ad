//! The driver's result codes that the simulated one answers with.

use core::ffi::CStr;

use pool_mock::device::SimError;

/// Declares the codes, and what each is called.
macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $cuda:literal, $words:literal;)*) => {
        $($(#[$doc])* pub const $name: i32 = $code;)*

        /// A code's name and what it means in words; `None` for one that the simulated driver
        /// does not have.
        pub(crate) const fn text(code: i32) -> Option<(&'static CStr, &'static CStr)> {
            Some(match code {
                $($code => ($cuda, $words),)*
                _ => return None,
            })
        }
    };
}

codes! {
    /// The call did what it says.
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    /// An argument is null, zero or unknown.
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    /// There is not so much memory.
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    /// `cuInit` has not been called.
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    /// The process is about to end.
    DEINITIALIZED = 4, c"CUDA_ERROR_DEINITIALIZED", c"driver shutting down";
    /// There is no device at all.
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    /// The number is not a device's.
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    /// The module is of a kind that the simulated driver cannot read.
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    /// The context is no context, or none is current.
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    /// The text is no PTX.
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    /// The system said no.
    OPERATING_SYSTEM = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"OS call failed or operation not supported on this OS";
    /// The handle means nothing, or something of another context.
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    /// Nothing that it is in allows this.
    ILLEGAL_STATE = 401, c"CUDA_ERROR_ILLEGAL_STATE", c"the operation cannot be performed in the present state";
    /// There is nothing of this name.
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    /// The work is not done. No error.
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    /// A kernel used an address that it may not. The context does nothing any more.
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    /// The peer's memory can be used already.
    PEER_ACCESS_ALREADY_ENABLED = 704, c"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", c"peer access is already enabled";
    /// The peer's memory could not be used anyway.
    PEER_ACCESS_NOT_ENABLED = 705, c"CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", c"peer access has not been enabled";
    /// The context is released.
    CONTEXT_IS_DESTROYED = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"context is destroyed";
    /// A part of the host's memory is registered already.
    HOST_MEMORY_ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", c"part or all of the requested memory range is already mapped";
    /// The host's memory is not registered.
    HOST_MEMORY_NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", c"pointer does not correspond to a registered memory region";
    /// Not from here: a host function called.
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"operation not permitted";
    /// The device cannot do this.
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    /// A capture does not allow this.
    STREAM_CAPTURE_UNSUPPORTED = 900, c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", c"operation not permitted when stream is capturing";
    /// An earlier call broke the capture.
    STREAM_CAPTURE_INVALIDATED = 901, c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", c"operation failed due to a previous error during capture";
    /// The capture did not begin on this stream.
    STREAM_CAPTURE_UNMATCHED = 903, c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", c"capture was not initiated in this stream";
    /// A stream that joined the capture did not come back.
    STREAM_CAPTURE_UNJOINED = 904, c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED", c"capturing stream has unjoined work";
    /// The capture would depend on something outside of it.
    STREAM_CAPTURE_ISOLATION = 905, c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", c"dependency created on uncaptured work in another stream";
    /// The default stream would have to be captured, too.
    STREAM_CAPTURE_IMPLICIT = 906, c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", c"operation would make the legacy stream depend on a capturing blocking stream";
    /// The event was recorded in a capture.
    CAPTURED_EVENT = 907, c"CUDA_ERROR_CAPTURED_EVENT", c"operation not permitted on an event last recorded in a capturing stream";
    /// Another thread began the capture.
    STREAM_CAPTURE_WRONG_THREAD = 908, c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", c"attempt to terminate a thread-local capture sequence from another thread";
    /// None of the others.
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

/// The code for what a simulated device said.
#[expect(clippy::needless_pass_by_value, reason = "it is what `map_err` hands on")]
pub(crate) fn of(error: SimError) -> i32 {
    match error {
        SimError::OutOfMemory { .. } => OUT_OF_MEMORY,
        SimError::ForbiddenInCapture { .. } | SimError::Capturing => STREAM_CAPTURE_UNSUPPORTED,
        SimError::ImplicitInCapture { .. } => STREAM_CAPTURE_IMPLICIT,
        SimError::CapturedFence => CAPTURED_EVENT,
        SimError::OutsideCapture => STREAM_CAPTURE_ISOLATION,
        SimError::CaptureInvalidated => STREAM_CAPTURE_INVALIDATED,
        SimError::NotCapturing => ILLEGAL_STATE,
        SimError::NotOrigin => STREAM_CAPTURE_UNMATCHED,
        SimError::Unjoined => STREAM_CAPTURE_UNJOINED,
        SimError::ForbiddenInCallback => NOT_PERMITTED,
        SimError::DeadStream { .. } | SimError::Unknown(_) => INVALID_HANDLE,
        SimError::Invalid(_) => INVALID_VALUE,
        _ => UNKNOWN,
    }
}
