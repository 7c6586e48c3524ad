//! What keeps a pool tidy: done by itself under pressure, and here on request.

use core::time::Duration;

use super::Pool;
use super::error::PoolError;
use super::giveback::Trimmed;
use super::inner::{Failed, Inner};
use crate::device::Device;
use crate::threads::Threads;

/// What a [`reclaim`](Pool::reclaim) or [`tick`](Pool::tick) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Bytes that waited before and are free now.
    pub freed_bytes: u64,
    /// Bytes that still wait.
    pub deferred_bytes: u64,
}

impl<D: Device, T: Threads> Inner<D, T> {
    fn reclaim(&self) -> Result<Reclaimed, PoolError<D::Error>> {
        self.check_alive()?;
        let before = self.with_books(|books| books.deferred().1);
        let mut failure = None;
        self.take_due();
        self.drain(&mut failure);
        let after = self.with_books(|books| books.deferred().1);
        let reclaimed =
            Reclaimed { freed_bytes: before.saturating_sub(after), deferred_bytes: after };
        check(failure, reclaimed)
    }
}

/// A failure of the device on the way is an error, though the rest was done.
fn check<R, E>(
    failure: Option<super::error::DeviceError<E>>,
    result: R,
) -> Result<R, PoolError<E>> {
    match failure {
        Some(failure) => Err(failure.into()),
        None => Ok(result),
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Takes back what is done, without a wait: records the fences that are missing, and asks for
    /// those that are pending. During a capture it only records.
    ///
    /// # Errors
    ///
    /// [`PoolError::Device`] with a call that failed on the way; the rest was done.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.free(pool.allocate(1 << 20)?.handle())?;
    /// assert_eq!(pool.stats().deferred_bytes, 1 << 20);
    /// pool.device().run_all();
    /// assert_eq!(pool.reclaim()?.deferred_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn reclaim(&self) -> Result<Reclaimed, PoolError<D::Error>> {
        self.inner().reclaim()
    }

    /// What is to be done now and then, off the way of requests: reads the device's clock, and
    /// takes back what is done.
    ///
    /// # Errors
    ///
    /// As [`reclaim`](Self::reclaim).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// assert_eq!(pool.tick()?.freed_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn tick(&self) -> Result<Reclaimed, PoolError<D::Error>> {
        if let Some(now) = self.inner().device.now() {
            self.inner().counters.set_tick(now);
        }
        self.reclaim()
    }

    /// The same at a time that the caller knows, for devices without a clock. It never runs
    /// backwards.
    ///
    /// # Errors
    ///
    /// As [`reclaim`](Self::reclaim).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.tick_at(core::time::Duration::from_secs(1))?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn tick_at(&self, now: Duration) -> Result<Reclaimed, PoolError<D::Error>> {
        self.inner().counters.set_tick(now);
        self.reclaim()
    }

    /// Empties the caches of all threads, and shelves: their blocks go back to the spaces that they
    /// are of.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.flush();
    /// assert_eq!(pool.stats().cached_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn flush(&self) {
        self.inner().flush();
    }

    /// Gives arenas back to the device that have no live block, while more than `keep_bytes` stay
    /// reserved. The host waits for nothing (but on a device that cannot say which streams it has, for
    /// what was freed through no stream): arenas of which a part waits for work stay, and are counted.
    /// Free memory of all streams is put together on the way, and streams wait, on the device, for
    /// their deferred blocks. During a capture nothing is given back.
    ///
    /// # Errors
    ///
    /// [`PoolError::Device`] with a call that failed on the way.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new().initial_bytes(64 << 20))?;
    /// assert_eq!(pool.trim(0)?.released_bytes, 64 << 20);
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn trim(&self, keep_bytes: u64) -> Result<Trimmed, PoolError<D::Error>> {
        self.trim_with(keep_bytes, false)
    }

    /// The same, after the host has waited for what is pending.
    ///
    /// # Errors
    ///
    /// As [`trim`](Self::trim).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.free(pool.allocate(1 << 20)?.handle())?;
    /// pool.trim_waiting(0)?;
    /// assert_eq!(pool.stats().reserved_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn trim_waiting(&self, keep_bytes: u64) -> Result<Trimmed, PoolError<D::Error>> {
        self.trim_with(keep_bytes, true)
    }

    fn trim_with(&self, keep_bytes: u64, wait: bool) -> Result<Trimmed, PoolError<D::Error>> {
        self.inner().check_alive()?;
        let mut failure: Option<Failed<D>> = None;
        let trimmed = self.inner().trim(keep_bytes, wait, &mut failure);
        check(failure, trimmed)
    }

    /// Sets the most bytes that the pool may reserve, from now on. If it has more, idle arenas are
    /// given back as far as that needs no wait.
    ///
    /// # Errors
    ///
    /// As [`trim`](Self::trim); the limit holds nevertheless.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.set_limit(Some(1 << 20))?;
    /// assert!(pool.allocate(2 << 20).is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn set_limit(&self, limit_bytes: Option<u64>) -> Result<(), PoolError<D::Error>> {
        let over = self.inner().with_books(|books| {
            books.limit_bytes = limit_bytes;
            limit_bytes.is_some_and(|limit| limit < books.reserved_bytes)
        });
        if over {
            self.trim(limit_bytes.unwrap_or(0))?;
        }
        Ok(())
    }
}
