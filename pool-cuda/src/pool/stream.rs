//! Streams of a pool.

use core::any::Any;
use core::ffi::c_void;
use core::fmt;
use core::mem::ManuallyDrop;
use std::sync::Arc;

use pool_core::device::Device as _;
use pool_core::{On, StreamId};

use super::error::Error;
use super::parts::{Owner, Parts};
use crate::device::{CudaDevice, CudaStream};
use crate::process;

/// A stream that buffers are allocated and used on. A clone is the same stream.
///
/// It lasts as long as a clone of it, or a buffer that was allocated or used on it. Then the pool
/// lets go of it, and it is destroyed if it is the pool's own. Work that is queued still runs.
///
/// With the feature `cust`, `cust::launch!` takes it by its name.
#[derive(Clone)]
pub struct PoolStream {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Arc<Owner>,
    name: Name,
    raw: CudaStream,
    /// What keeps the stream alive, if that is not the pool.
    owner: ManuallyDrop<Option<Box<dyn Any + Send + Sync>>>,
}

/// How a pool knows a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// By a number of its own, until this is dropped.
    Known(StreamId),
    /// By a number of its own, as long as the pool lasts.
    Lasting(StreamId),
    /// Not: it is the default stream of whichever thread names it.
    PerThread,
}

impl Name {
    /// The pool's number, if it has one.
    #[inline]
    pub(super) fn id(self) -> Option<StreamId> {
        match self {
            Self::Known(id) | Self::Lasting(id) => Some(id),
            Self::PerThread => None,
        }
    }
}

/// How a call of a pool names a stream.
pub(super) enum Named {
    Known(StreamId),
    Raw(CudaStream),
    /// By nothing: it stands for all work of the device.
    All,
}

impl Named {
    pub(super) fn on(&self) -> On<'_, CudaStream> {
        match self {
            Self::Known(id) => On::Stream(*id),
            Self::Raw(raw) => On::Raw(raw),
            Self::All => On::Nothing,
        }
    }
}

impl PoolStream {
    pub(super) fn new(
        pool: Arc<Owner>,
        name: Name,
        raw: CudaStream,
        owner: Option<Box<dyn Any + Send + Sync>>,
    ) -> Self {
        let owner = ManuallyDrop::new(owner);
        Self { inner: Arc::new(Inner { pool, name, raw, owner }) }
    }

    #[inline]
    pub(super) fn pool(&self) -> &Arc<Owner> {
        &self.inner.pool
    }

    #[inline]
    pub(super) fn parts(&self) -> &Parts {
        &self.inner.pool
    }

    #[inline]
    pub(super) fn name(&self) -> Name {
        self.inner.name
    }

    /// The stream as its own pool's device names it.
    pub(crate) fn cuda(&self) -> &CudaStream {
        &self.inner.raw
    }

    pub(crate) fn device(&self) -> &CudaDevice {
        self.parts().core.device()
    }

    /// Whether both are the same stream, whoever asks.
    #[inline]
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner) || self.is_otherwise(other)
    }

    fn is_otherwise(&self, other: &Self) -> bool {
        match (self.name(), other.name()) {
            (
                Name::Known(one) | Name::Lasting(one),
                Name::Known(another) | Name::Lasting(another),
            ) => one == another,
            (Name::PerThread, Name::PerThread) => self.device().is_same(other.device()),
            _ => false,
        }
    }

    /// How a pool's call names it. A thread's default stream of another context is refused: nothing
    /// that a pool records is behind its work on other threads.
    pub(super) fn named_to(&self, parts: &Parts) -> Result<Named, Error> {
        let is_own = core::ptr::eq(parts, self.parts());
        match self.name() {
            Name::Known(id) | Name::Lasting(id) if is_own => Ok(Named::Known(id)),
            _ if self.device().is_same(parts.core.device()) => Ok(Named::Raw(self.cuda().clone())),
            Name::PerThread => Err(Error::OtherPool),
            _ => Ok(Named::Raw(self.cuda().of(self.device()))),
        }
    }

    /// Whether its name means another stream on each thread.
    pub(super) fn is_per_thread(&self) -> bool {
        self.name() == Name::PerThread
    }

    /// Which of the streams that its name may mean it is, on this thread.
    pub(super) fn thread_identity(&self) -> Result<u64, Error> {
        match self.name() {
            Name::PerThread => {
                let id = self.device().stream_id(self.cuda());
                id.map_err(super::parts::driver_error)
            }
            _ => Ok(0),
        }
    }

    /// The driver's handle. It is valid as long as this, or a clone of it; work that uses buffers
    /// of the pool is to be queued on it only as their guards say.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// assert_eq!(pool.legacy_stream()?.as_raw().addr(), 1);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.cuda().as_raw()
    }

    /// Has the host wait for all that is queued on it.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`]: also for work that failed, or if the stream is being captured.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// pool.create_stream()?.synchronize()?;
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn synchronize(&self) -> Result<(), Error> {
        self.device().synchronize_stream(self.cuda())?;
        Ok(())
    }
}

impl fmt::Debug for PoolStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolStream").field("name", &self.name()).field("raw", self.cuda()).finish()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !process::is_usable() {
            return;
        }
        let retired = match self.name {
            Name::Known(id) => self.pool.core.retire(id),
            Name::Lasting(_) | Name::PerThread => Ok(()),
        };
        match retired {
            Ok(()) => {
                // What destroys a stream may need its context; if it is lost, so is the stream.
                let _current = self.pool.core.device().enter();
                // SAFETY: it is not used any more.
                unsafe { ManuallyDrop::drop(&mut self.owner) };
            }
            // The pool still records in it, so whoever owns it must not destroy it.
            Err(error) => self.pool.note(error.into()),
        }
    }
}
