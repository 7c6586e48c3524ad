//! A device's pool, and the streams that it knows.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pool_core::device::Device as _;
use pool_core::{Pool, PoolError, StreamId};
use pool_cuda::{CudaDevice, CudaError, CudaThreads, Driver};

use crate::code::{Code, Result};
use crate::conf::Conf;
use crate::handle::StreamHandle;
use crate::ledger::Ledger;
use crate::stats::poolStats;

/// By then a fence has passed that no work is queued before.
const PASSES: Duration = Duration::from_micros(50);

/// One device's.
pub(crate) struct DevicePool {
    pub(crate) core: Pool<CudaDevice, CudaThreads>,
    pub(crate) ledger: Ledger,
    driver: &'static Driver,
    /// The streams that were adopted. No call is made under this lock.
    streams: Mutex<HashMap<StreamHandle, Known>>,
    /// One thread at a time changes the limit.
    limit: Mutex<()>,
    trims: AtomicU64,
    /// Requests of PyTorch that were refused for want of memory.
    pub(crate) refusals: AtomicU64,
}

/// A stream that the pool knows.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) stream: StreamId,
    /// The driver's number for it, where the driver has them.
    pub(crate) number: Option<u64>,
}

impl DevicePool {
    pub(crate) fn open(driver: &'static Driver, ordinal: u32, conf: &Conf) -> Result<Self> {
        let device = CudaDevice::open_on(driver, ordinal)?;
        let core = Pool::on_platform(device.clone(), conf.pool()).map_err(|error| match error {
            PoolError::OutOfHostMemory | PoolError::Config(_) => Code::MEMORY,
            error => open_code(error),
        })?;
        Ok(Self {
            core,
            ledger: Ledger::default(),
            driver,
            streams: Mutex::default(),
            limit: Mutex::default(),
            trims: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
        })
    }

    pub(crate) fn device(&self) -> &CudaDevice {
        self.core.device()
    }

    /// What an error of the pool is to the program.
    pub(crate) fn code(&self, error: PoolError<CudaError>) -> Code {
        Code::of_pool(&self.core, error)
    }

    fn streams(&self) -> MutexGuard<'_, HashMap<StreamHandle, Known>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A stream of this device's primary context, as the pool knows it from the first time on. If its
    /// handle was another's, which was destroyed without a word, that one is forgotten.
    pub(crate) fn adopt(&self, handle: StreamHandle) -> Result<Known> {
        let mut raw = handle.stream();
        let number = self.number_of(handle)?;
        let known = self.streams().get(&handle).copied();
        if let Some(known) = known {
            match (known.number, number) {
                (Some(before), Some(now)) if before != now => {}
                // It was captured when it was first seen; its number counts from now on.
                (None, Some(_)) => {
                    let known = Known { number, ..known };
                    self.streams().insert(handle, known);
                    return Ok(known);
                }
                // Of a captured one nothing is known: it is what it was.
                _ => return Ok(known),
            }
            match self.core.forget_stream(known.stream) {
                // Another thread noticed it, too.
                Ok(()) | Err(PoolError::UnknownStream(_)) => {}
                Err(error) => return Err(self.code(error)),
            }
        }
        if let Some(number) = number {
            raw = raw.identified(number);
        }
        // SAFETY: the program has promised to say so before it ends. If it does not, a handle that is
        // another stream's by then is noticed by its number.
        let stream = match unsafe { self.core.adopt(raw) } {
            // Another thread was first.
            Err(PoolError::KnownStream(stream)) => stream,
            adopted => adopted.map_err(|error| self.code(error))?,
        };
        let known = Known { stream, number };
        self.streams().insert(handle, known);
        Ok(known)
    }

    /// The number of a stream, which is in no capture. The legacy default stream has no other that has
    /// its handle.
    fn number_of(&self, handle: StreamHandle) -> Result<Option<u64>> {
        if handle.is_default() {
            return Ok(None);
        }
        let _current = self.device().enter()?;
        // SAFETY: the program names it in a call, so it is there.
        Ok(unsafe { self.driver.stream_number(handle.raw()) }?)
    }

    /// Lets go of a stream that is about to be destroyed; false if the pool does not know it.
    pub(crate) fn retire(&self, handle: StreamHandle) -> Result<bool> {
        let known = self.streams().get(&handle).copied();
        let Some(known) = known else { return Ok(false) };
        match self.core.retire(known.stream) {
            Ok(()) | Err(PoolError::UnknownStream(_)) => {}
            Err(error) => return Err(self.code(error)),
        }
        let mut streams = self.streams();
        // Unless it was adopted anew meanwhile.
        if streams.get(&handle).is_some_and(|now| now.stream == known.stream) {
            streams.remove(&handle);
        }
        Ok(true)
    }

    /// Whether a handle still is of the stream that it was adopted as, and that is in no capture which
    /// nobody announced; in an announced one it is what it was. The driver may not answer where no context
    /// is current.
    pub(crate) fn is_still(&self, handle: StreamHandle, number: Option<u64>) -> Result<bool> {
        // SAFETY: the program names it in a call, so it is there.
        match unsafe { self.driver.stream_number(handle.raw()) }? {
            Some(now) => Ok(number == Some(now)),
            // It is captured, or streams have no numbers.
            None => self.check_capture(handle).map(|()| true),
        }
    }

    /// Whether a stream is in a capture.
    pub(crate) fn is_captured(&self, handle: StreamHandle) -> Result<bool> {
        Ok(self.device().capture_id(&handle.stream())?.is_some())
    }

    /// Refuses a stream in a capture that nobody announced. In an announced one the pool looks by itself.
    pub(crate) fn check_capture(&self, handle: StreamHandle) -> Result<()> {
        if self.core.is_capturing() || self.device().capture_id(&handle.stream())?.is_none() {
            Ok(())
        } else {
            Err(Code::CAPTURE)
        }
    }

    pub(crate) fn set_limit(&self, limit_bytes: Option<u64>) -> Result<()> {
        let _one = self.limit.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.core.stats().limit_bytes;
        self.core.set_limit(limit_bytes).map_err(|error| {
            // What was given back on the way is free memory less, nothing that anybody has.
            let _ = self.core.set_limit(before);
            self.code(error)
        })
    }

    pub(crate) fn trim(&self, keep_bytes: u64) -> Result<()> {
        let trim = || self.core.trim(keep_bytes).map_err(|error| self.code(error));
        if trim()?.pending_bytes > 0 {
            // Fences that were recorded just now pass a moment later, if nothing else is queued before
            // them: of an idle device all goes back at one call. Nothing that runs is waited for.
            std::thread::sleep(PASSES);
            trim()?;
        }
        self.trims.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn reset_peaks(&self) {
        self.core.reset_peak();
        self.ledger.reset_peak();
    }

    pub(crate) fn stats(&self) -> poolStats {
        let (pool, totals) = (self.core.stats(), self.ledger.totals());
        let live_bytes = totals.live_bytes();
        poolStats {
            liveBytes: bytes(live_bytes),
            peakLiveBytes: bytes(self.ledger.peak_bytes(live_bytes)),
            reservedBytes: bytes(pool.reserved_bytes),
            peakReservedBytes: bytes(pool.peak_reserved_bytes),
            deferredBytes: bytes(pool.deferred_bytes),
            limitBytes: bytes(pool.limit_bytes.unwrap_or(0)),
            allocations: totals.allocations,
            frees: totals.frees,
            hits: totals.hits,
            growths: pool.growths,
            trims: self.trims.load(Ordering::Relaxed),
        }
    }
}

/// Bytes as C counts them.
fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The code of what keeps a pool from being made.
fn open_code(error: PoolError<CudaError>) -> Code {
    match error {
        PoolError::Device(failed) => failed.failure.into(),
        _ => Code::UNKNOWN,
    }
}
