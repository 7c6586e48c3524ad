//! A pool that sleeps, and where its contents are meanwhile.

use core::ffi::c_void;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::PoisonError;

use pool_core::device::{Device as _, Failure};

use super::CudaPool;
#[cfg(doc)]
use super::PoolBuffer;
use super::error::Error;
use crate::device::{CudaDevice, CudaStream};
use crate::error::CudaError;
use crate::process;
use crate::sys::HOST_PORTABLE;

/// What becomes of the bytes of a pool that sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Contents {
    /// They are gone: what is read after the pool has woken is whatever the device gives.
    #[default]
    Discarded,
    /// They are kept in pinned memory of the host, as much as is live.
    Kept,
}

/// The contents of a pool that sleeps, by where they were in its range.
pub(super) struct Kept {
    device: CudaDevice,
    rows: BTreeMap<u64, Row>,
}

/// Pinned memory of the host.
struct Row {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: it is memory, and whoever has the row has it alone.
unsafe impl Send for Row {}

impl Kept {
    fn new(device: &CudaDevice) -> Self {
        Self { device: device.clone(), rows: BTreeMap::new() }
    }

    /// Copies bytes of the device into memory that is made for them.
    ///
    /// # Safety
    ///
    /// The address has so many bytes, which no work uses meanwhile, and the stream is alive.
    unsafe fn save(
        &mut self,
        stream: &CudaStream,
        address: u64,
        offset_bytes: u64,
        bytes: usize,
    ) -> Result<(), CudaError> {
        let mut start = core::ptr::null_mut();
        let driver = self.device.driver();
        let allocate = || {
            // SAFETY: the pointer is to a local.
            unsafe { driver.functions.allocate_host(&raw mut start, bytes, HOST_PORTABLE) }
        };
        self.device.within(|| driver.relaxed(allocate))?;
        let missing = CudaError::Call { call: "cuMemHostAlloc", code: 2 };
        let start = NonNull::new(start).ok_or(missing)?;
        self.rows.insert(offset_bytes, Row { start, bytes });
        // SAFETY: both places have so many bytes, by the caller's promise and by that of the driver, until
        // the wait below.
        unsafe { self.device.copy_to_host(stream, address, start.as_ptr(), bytes) }?;
        self.device.synchronize_stream(stream)
    }

    /// Copies them back.
    ///
    /// # Safety
    ///
    /// As [`save`](Self::save).
    unsafe fn restore(
        &self,
        stream: &CudaStream,
        address: u64,
        offset_bytes: u64,
        bytes: usize,
    ) -> Result<(), CudaError> {
        let Some(row) = self.rows.get(&offset_bytes).filter(|row| row.bytes == bytes) else {
            return Ok(());
        };
        // SAFETY: as above.
        unsafe { self.device.copy_from_host(stream, row.start.as_ptr(), address, row.bytes) }?;
        self.device.synchronize_stream(stream)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !process::is_usable() {
            return;
        }
        for row in self.rows.values() {
            let driver = self.device.driver();
            // SAFETY: it was allocated so, and nothing uses it any more.
            let free = || unsafe { driver.functions.free_host(row.start.as_ptr()) };
            // Nobody is left to tell of a failure.
            let _ = self.device.within(|| driver.relaxed(free));
        }
    }
}

impl CudaPool {
    /// Puts the pool to sleep: once all work of the device is done, for which the host waits, all its
    /// memory goes back to the device, and other programs may have it. Addresses, buffers and streams stay;
    /// buffers may be dropped. Nothing is given out before the pool [wakes](Self::wake). As
    /// [`Pool::sleep`](pool_core::Pool::sleep); gives the bytes that went back.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] if no stream can be made for the copies; [`Error::Pool`]: the pool is not in pages, a stream is captured, the host has no memory for the
    /// contents, or the driver refuses. The pool is awake then, unless some of the memory has gone:
    /// [`wake`](Self::wake) brings it back.
    ///
    /// # Safety
    ///
    /// From the call until the pool has woken nothing uses its memory: no work is queued that does, also
    /// through guards that were made before, no graph that does is launched, and no buffer is being
    /// [shared](PoolBuffer::share). What another process has of a buffer that was shared is not of it any
    /// more once the pool has woken, and its memory is not the device's before that process lets go.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// # let device = CudaDevice::open_on(driver, 0)?;
    /// use pool_cuda::{Contents, CudaPool};
    ///
    /// let pool = CudaPool::new(device, Default::default())?;
    /// let stream = pool.create_stream()?;
    /// let weights = pool.alloc_from(&[1.0_f32, 2.0, 3.0], &stream)?;
    /// // SAFETY: nothing uses the buffer before the pool wakes.
    /// unsafe { pool.sleep(Contents::Kept) }?;
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// pool.wake()?;
    /// assert_eq!(weights.on(&stream)?.to_vec()?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    pub unsafe fn sleep(&self, contents: Contents) -> Result<u64, Error> {
        process::check()?;
        let core = &self.parts.core;
        let device = core.device();
        let mut kept = self.parts.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let copies = (contents == Contents::Kept).then(|| Copies::new(device)).transpose()?;
        let mut saved = Kept::new(device);
        let slept = core.sleep(|range, offset_bytes, size_bytes| {
            let Some(copies) = &copies else { return Ok(()) };
            let too_large = CudaError::Call { call: "cuMemHostAlloc", code: 2 };
            let bytes = usize::try_from(size_bytes).map_err(|_| too_large)?;
            let address = range.address() + offset_bytes;
            // SAFETY: the pool shows what it has, of which all work is done.
            unsafe { saved.save(&copies.stream, address, offset_bytes, bytes) }?;
            Ok(())
        });
        if core.is_asleep() && !saved.rows.is_empty() {
            *kept = Some(saved);
        }
        Ok(slept?)
    }

    /// Wakes the pool: it has as much memory as before, at the same addresses, and what was kept is there.
    /// Gives the bytes that came from the device; none if the pool is awake.
    ///
    /// # Errors
    ///
    /// [`Error::Driver`] as above; [`Error::Pool`]: the driver has not enough memory, a limit does not allow it, a stream is captured,
    /// or a copy failed. The pool sleeps on with what it has got, and keeps the contents; the next call
    /// goes on.
    ///
    /// # Example
    ///
    /// See [`sleep`](Self::sleep).
    pub fn wake(&self) -> Result<u64, Error> {
        process::check()?;
        let core = &self.parts.core;
        let mut kept = self.parts.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if !core.is_asleep() {
            return Ok(0);
        }
        let copies = kept.as_ref().map(|_| Copies::new(core.device())).transpose()?;
        let woken = core.wake(|range, offset_bytes, size_bytes| {
            let (Some(kept), Some(copies)) = (&*kept, &copies) else { return Ok(()) };
            let bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
            let address = range.address() + offset_bytes;
            // SAFETY: the pool shows what it has again, which nothing uses yet.
            unsafe { kept.restore(&copies.stream, address, offset_bytes, bytes) }?;
            Ok(())
        });
        if !core.is_asleep() {
            *kept = None;
        }
        Ok(woken?)
    }

    /// Whether the pool sleeps.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_cuda::{CudaDevice, Driver};
    /// # // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    /// # let driver = Box::leak(Box::new(unsafe { Driver::from_symbols(pool_mock_driver::symbol) }?));
    /// let pool = pool_cuda::CudaPool::new(CudaDevice::open_on(driver, 0)?, Default::default())?;
    /// assert!(!pool.is_asleep());
    /// # Ok::<(), pool_cuda::Error>(())
    /// ```
    #[must_use]
    pub fn is_asleep(&self) -> bool {
        self.parts.core.is_asleep()
    }
}

/// A stream for copies, until this is dropped.
struct Copies<'d> {
    device: &'d CudaDevice,
    stream: CudaStream,
}

impl<'d> Copies<'d> {
    fn new(device: &'d CudaDevice) -> Result<Self, Error> {
        let stream = device.create_stream().map_err(super::parts::driver_error)?;
        Ok(Self { device, stream })
    }
}

impl Drop for Copies<'_> {
    fn drop(&mut self) {
        // What it had queued was waited for; nobody is left to tell of a failure.
        let _: Result<(), Failure<CudaError>> = self.device.destroy_stream(&self.stream);
    }
}
