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
/// // SAFETY: null is the legacy default stream, which is always there.
/// let stream = unsafe { CudaStream::from_raw(core::ptr::null_mut()) };
/// assert_eq!(stream, CudaStream::LEGACY);
/// ```
#[derive(Clone)]
pub struct CudaStream {
    raw: RawStream,
    /// The device whose stream it is, if not that which is asked to work with it.
    of: Option<CudaDevice>,
    /// The number that it has, where somebody made sure of it.
    id: Option<u64>,
}

impl CudaStream {
    /// The legacy default stream: it waits for all blocking streams, and they for it. Null is its
    /// other name.
    pub const LEGACY: Self = Self::special(1);

    /// The default stream of whichever thread names it.
    pub const PER_THREAD: Self = Self::special(2);

    const fn special(value: usize) -> Self {
        Self { raw: RawStream(core::ptr::without_provenance_mut(value)), of: None, id: None }
    }

    /// A stream by the driver's or the runtime's handle.
    ///
    /// # Safety
    ///
    /// The handle is of a stream that is there whenever this, or a clone of it, is named to a pool or a
    /// device: the driver does not look whether it is.
    ///
    /// # Example
    ///
    /// See [`CudaStream`].
    #[must_use]
    pub unsafe fn from_raw(handle: *mut c_void) -> Self {
        Self::of_handle(handle)
    }

    pub(crate) fn of_handle(handle: *mut c_void) -> Self {
        if handle.is_null() {
            return Self::LEGACY;
        }
        Self { raw: RawStream(handle), of: None, id: None }
    }

    /// The same stream, to be named to other devices than its own: it is of this one.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, CudaStream, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let (one, other) = (CudaDevice::open_on(driver, 0)?, CudaDevice::open_on(driver, 1)?);
    /// let pool = pool_core::Pool::new(one, pool_core::PoolConfig::new())?;
    /// let block = pool.allocate(4096)?;
    /// pool.free_on(&CudaStream::LEGACY.of(&other), block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of(&self, device: &CudaDevice) -> Self {
        Self { of: Some(device.clone()), ..self.clone() }
    }

    /// The same stream, which has this number by `cuStreamGetId`. If its handle is another stream's
    /// when something is to be recorded in it, since it was destroyed meanwhile, a fence for all work of
    /// the context takes the place of its own. That costs a call of the driver at each record, and
    /// notices nothing before the handle is given out again.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, CudaStream, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// use pool_core::device::Device as _;
    ///
    /// let stream = device.create_stream()?;
    /// let stream = stream.identified(device.stream_id(&stream)?);
    /// device.discard(device.record(&stream)?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn identified(&self, id: u64) -> Self {
        Self { id: Some(id), ..self.clone() }
    }

    /// The number that it is to have.
    pub(super) fn id(&self) -> Option<u64> {
        self.id
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
