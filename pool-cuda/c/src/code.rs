//! What the functions answer: the runtime's codes.

use core::ffi::c_int;

use pool_core::device::{Device as _, Failure, Severity};
use pool_core::{DeviceError, Pool, PoolError};
use pool_cuda::{CudaDevice, CudaError, CudaThreads};

use crate::last;

/// A `cudaError_t` that is no success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(c_int);

/// What a call gives.
pub(crate) type Result<T> = core::result::Result<T, Code>;

impl Code {
    /// `cudaErrorInvalidValue`: a null pointer, one that is no live block's, a graph that nobody knows.
    pub(crate) const INVALID_VALUE: Self = Self(1);
    /// `cudaErrorMemoryAllocation`.
    pub(crate) const MEMORY: Self = Self(2);
    /// `cudaErrorInitializationError`: in a forked child of a process that used CUDA.
    pub(crate) const INITIALIZATION: Self = Self(3);
    /// `cudaErrorCudartUnloading`: the process ends.
    pub(crate) const UNLOADING: Self = Self(4);
    /// `cudaErrorInsufficientDriver`: no driver, or one that is too old.
    pub(crate) const INSUFFICIENT_DRIVER: Self = Self(35);
    /// `cudaErrorNoDevice`.
    pub(crate) const NO_DEVICE: Self = Self(100);
    /// `cudaErrorInvalidDevice`.
    pub(crate) const INVALID_DEVICE: Self = Self(101);
    /// `cudaErrorDeviceUninitialized`: the current context is not its device's primary one.
    pub(crate) const INVALID_CONTEXT: Self = Self(201);
    /// `cudaErrorInvalidResourceHandle`: a stream of such a context.
    pub(crate) const INVALID_HANDLE: Self = Self(400);
    /// `cudaErrorNotSupported`.
    pub(crate) const NOT_SUPPORTED: Self = Self(801);
    /// `cudaErrorStreamCaptureUnsupported`: a capture that was not announced, or is not over.
    pub(crate) const CAPTURE: Self = Self(900);
    /// `cudaErrorUnknown`.
    pub(crate) const UNKNOWN: Self = Self(999);

    /// What the runtime answered.
    pub(crate) fn of_runtime(code: c_int) -> Self {
        Self(code)
    }

    pub(crate) fn number(self) -> c_int {
        self.0
    }

    /// What an error of a pool is. One whose device is lost answers what the driver says of it by now.
    pub(crate) fn of_pool(
        pool: &Pool<CudaDevice, CudaThreads>,
        error: PoolError<CudaError>,
    ) -> Self {
        last::note(&error);
        match error {
            PoolError::Poisoned => {
                pool.device().memory().map_or_else(Self::from, |_| Self::UNKNOWN)
            }
            PoolError::OutOfMemory { cause, .. } => match cause.0 {
                // Not for want of memory.
                Some(DeviceError { failure: Failure::Device(error), .. })
                    if pool.device().severity(&error) == Severity::Fatal =>
                {
                    error.into()
                }
                _ => Self::MEMORY,
            },
            PoolError::Device(DeviceError { failure: Failure::Device(error), .. }) => error.into(),
            PoolError::Request(_) | PoolError::OutOfHostMemory => Self::MEMORY,
            PoolError::Handle(_) | PoolError::NoCapture => Self::INVALID_VALUE,
            PoolError::UnknownStream(_) => Self::INVALID_HANDLE,
            PoolError::Captured(_) | PoolError::UnannouncedCapture { .. } => Self::CAPTURE,
            PoolError::Unsupported(_) => Self::NOT_SUPPORTED,
            PoolError::Forked => Self::INITIALIZATION,
            _ => Self::UNKNOWN,
        }
    }
}

impl From<CudaError> for Code {
    fn from(error: CudaError) -> Self {
        last::note(&error);
        match error {
            CudaError::NoDriver { .. } | CudaError::MissingFunction { .. } => {
                Self::INSUFFICIENT_DRIVER
            }
            CudaError::NoSuchDevice { .. } => Self::INVALID_DEVICE,
            CudaError::Forked => Self::INITIALIZATION,
            CudaError::Exiting => Self::UNLOADING,
            // The runtime has the driver's codes, by other names.
            CudaError::Call { code, .. } | CudaError::Elsewhere { code, .. } => Self(code),
            _ => Self::UNKNOWN,
        }
    }
}

impl From<Failure<CudaError>> for Code {
    fn from(failure: Failure<CudaError>) -> Self {
        match failure {
            Failure::Device(error) => error.into(),
            Failure::Unsupported(_) => Self::NOT_SUPPORTED,
            _ => Self::UNKNOWN,
        }
    }
}
