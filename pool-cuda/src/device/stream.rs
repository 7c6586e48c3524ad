//! Streams, as the driver names them.

use core::ffi::c_void;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use super::CudaDevice;
use crate::sys::RawStream;

/// A stream of a device by the driver's handle: what a [`Pool`](pool_core::Pool) over a
/// [`CudaDevice`] calls a stream. A plain value, which keeps nothing alive.
///
/// # Example
///
/// ```
/// use pool_cuda::CudaStream;
///
/// // The runtime's `cudaStream_t` is the same pointer.
/// let stream = CudaStream::from_raw(core::ptr::null_mut());
/// assert_eq!(stream, CudaStream::LEGACY);
/// ```
#[derive(Clone)]
pub struct CudaStream {
    raw: RawStream,
    /// The device whose stream it is, if not that which is asked to work with it.
    of: Option<CudaDevice>,
}

impl CudaStream {
    /// The legacy default stream: it waits for all blocking streams, and they for it. Null is its
    /// other name.
    pub const LEGACY: Self = Self::special(1);

    /// The default stream of whichever thread names it.
    pub const PER_THREAD: Self = Self::special(2);

    const fn special(value: usize) -> Self {
        Self { raw: RawStream(core::ptr::without_provenance_mut(value)), of: None }
    }

    /// A stream by the driver's or the runtime's handle.
    ///
    /// # Example
    ///
    /// See [`CudaStream`].
    #[must_use]
    pub fn from_raw(handle: *mut c_void) -> Self {
        if handle.is_null() { Self::LEGACY } else { Self { raw: RawStream(handle), of: None } }
    }

    /// The same stream, to be named to other devices than its own.
    pub(crate) fn of(&self, device: &CudaDevice) -> Self {
        Self { raw: self.raw, of: Some(device.clone()) }
    }

    /// The driver's handle. That of the legacy default stream is 1.
    ///
    /// # Example
    ///
    /// ```
    /// assert_eq!(pool_cuda::CudaStream::LEGACY.as_raw().addr(), 1);
    /// ```
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.raw.0
    }

    pub(crate) fn raw(&self) -> RawStream {
        self.raw
    }

    /// Whether its name means another stream in each context, so that one must be current.
    pub(crate) fn is_special(&self) -> bool {
        self.raw.0.addr() <= 2
    }

    /// The device that it belongs to, as that which is asked sees it.
    pub(crate) fn device<'a>(&'a self, asked: &'a CudaDevice) -> &'a CudaDevice {
        self.of.as_ref().unwrap_or(asked)
    }

    /// The identity of a default stream: the legacy one is itself, and a thread's is that thread's.
    /// Only such streams are called by their names, so that it is told from the driver's numbers.
    pub(super) fn special_id(&self) -> Option<u64> {
        thread_local! {
            static OF_THREAD: u64 = next_id();
        }
        match self.raw.0.addr() {
            1 => Some(1),
            // While the thread's locals go, it is one that nobody knows.
            2 => Some(OF_THREAD.try_with(|id| *id).unwrap_or_else(|_| next_id())),
            _ => None,
        }
    }

    /// A value that no other stream of the process has at the same time.
    pub(crate) fn key(&self) -> u64 {
        let value = self.raw.0.addr() as u64;
        match &self.of {
            // In each context another. A context's address has room for it, and is no stream's.
            Some(device) if self.is_special() => value | device.context_address(),
            _ => value,
        }
    }
}

impl PartialEq for CudaStream {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for CudaStream {}

impl fmt::Debug for CudaStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.raw.0.addr() {
            1 => f.write_str("CudaStream(legacy)"),
            2 => f.write_str("CudaStream(per thread)"),
            value => write!(f, "CudaStream({value:#x})"),
        }
    }
}

/// An identity that no other stream has that is not the driver's.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(2);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
