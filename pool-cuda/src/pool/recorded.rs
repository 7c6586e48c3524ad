//! What the pool below has noted (feature `record`).

use pool_core::record::{
    Events, Figures, Fragmentation, Inventory, Label, LabelId, RecordConfig, Since,
};

use super::{CudaPool, Error};
use crate::device::CudaDevice;
use crate::process;
use crate::threads::CudaThreads;

/// Events, labels and figures: see [`pool_core::record`].
impl CudaPool {
    /// Has the pool record from now on.
    ///
    /// # Errors
    ///
    /// As [`pool_core::Pool::start_recording`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// # let pool = pool_cuda::CudaPool::new(device, Default::default())?;
    /// use pool_cuda::pool_core::record::{Clock, RecordConfig, Since};
    ///
    /// pool.start_recording(&RecordConfig::new(Clock::system()))?;
    /// let stream = pool.create_stream()?;
    /// {
    ///     let _forward = pool.label("forward");
    ///     drop(pool.alloc::<f32>(1 << 20, &stream)?);
    /// }
    /// assert_eq!(pool.figures().labels[0].peak_bytes, 4 << 20);
    /// assert!(pool.events(&mut Since::start()).all.len() >= 2);
    /// pool.stop_recording();
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub fn start_recording(&self, config: &RecordConfig) -> Result<(), Error> {
        process::check()?;
        Ok(self.parts.core.start_recording(config)?)
    }

    /// Has the pool record no more: see [`pool_core::Pool::stop_recording`].
    ///
    /// # Example
    ///
    /// See [`start_recording`](Self::start_recording).
    pub fn stop_recording(&self) {
        self.parts.core.stop_recording();
    }

    /// What was noted since a reader came last: see [`pool_core::Pool::events`].
    ///
    /// # Example
    ///
    /// See [`start_recording`](Self::start_recording).
    #[must_use]
    pub fn events(&self, since: &mut Since) -> Events {
        self.parts.core.events(since)
    }

    /// Has what the calling thread allocates be noted under a label, until the guard is dropped: see
    /// [`pool_core::Pool::label`].
    ///
    /// # Example
    ///
    /// See [`start_recording`](Self::start_recording).
    pub fn label(&self, name: &str) -> Label<'_, CudaDevice, CudaThreads> {
        self.parts.core.label(name)
    }

    /// What the pool's work comes to: see [`pool_core::Pool::figures`].
    ///
    /// # Example
    ///
    /// See [`start_recording`](Self::start_recording).
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.parts.core.figures()
    }

    /// The whole name of a label: see [`pool_core::Pool::label_path`].
    #[must_use]
    pub fn label_path(&self, label: LabelId) -> Option<String> {
        self.parts.core.label_path(label)
    }

    /// Where the pool's memory is, and the blocks that the program has: see
    /// [`pool_core::Pool::inventory`].
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        self.parts.core.inventory()
    }

    /// How much of what is free could not serve a size: see [`pool_core::Pool::fragmentation`].
    #[must_use]
    pub fn fragmentation(&self, size_bytes: u64) -> Fragmentation {
        self.parts.core.fragmentation(size_bytes)
    }
}
