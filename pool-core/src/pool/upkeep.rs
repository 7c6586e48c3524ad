//! What keeps a pool tidy: done by itself under pressure, and here on request.

use core::time::Duration;

use super::Pool;
use super::error::PoolError;
use super::giveback::Trimmed;
use super::inner::{Failed, Inner};
use super::policy::{Growth, Reclaim};
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
    fn tick(&self) -> Result<Reclaimed, PoolError<D::Error>> {
        let mut failure = None;
        let reclaimed = self.take_back(&mut failure)?;
        self.keep_share(&mut failure);
        self.give_back_idle(self.counters.last_tick(), &mut failure);
        self.keep_floor(&mut failure);
        self.grow_ahead(false, &mut failure);
        check(failure, reclaimed)
    }

    fn reclaim(&self) -> Result<Reclaimed, PoolError<D::Error>> {
        let mut failure = None;
        let reclaimed = self.take_back(&mut failure)?;
        check(failure, reclaimed)
    }

    fn take_back(&self, failure: &mut Option<Failed<D>>) -> Result<Reclaimed, PoolError<D::Error>> {
        self.check_alive()?;
        let before = self.with_books(|books| books.deferred().1);
        self.take_due();
        self.drain(failure);
        let after = self.with_books(|books| books.deferred().1);
        Ok(Reclaimed { freed_bytes: before.saturating_sub(after), deferred_bytes: after })
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

    /// What is to be done now and then, off the way of requests: reads the device's clock, takes
    /// back what is done, gives others of its [budget](crate::budget::Budget) what it owes them,
    /// gives back what is idle as [`Reclaim`](crate::policy::Reclaim) says, the floor of free memory
    /// included, and grows [ahead of need](crate::policy::Ahead).
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
        self.inner().tick()
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
        self.inner().tick()
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

    /// Changes how the pool grows, from now on.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// use pool_core::policy::{Growth, Steps};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.set_growth(Growth { steps: Steps::Doubling, ..pool.growth() });
    /// assert_eq!(pool.growth().steps, Steps::Doubling);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn set_growth(&self, growth: Growth) {
        self.inner().with_books(|books| books.growth = growth);
    }

    /// How the pool grows.
    ///
    /// # Example
    ///
    /// See [`set_growth`](Self::set_growth).
    #[must_use]
    pub fn growth(&self) -> Growth {
        self.inner().with_books(|books| books.growth)
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
        let Some(limit_bytes) = limit_bytes.filter(|_| over) else { return Ok(()) };
        self.trim(limit_bytes)?;
        // What is left of the last arena above the limit, too.
        let mut failure = None;
        self.inner().release_above(limit_bytes, &mut failure);
        check(failure, ())
    }

    /// Sets when freed memory is free, and when free memory goes back to the device, from now on.
    /// What waits or [rests](super::policy::CoolDown) already goes on as it was freed, and nothing
    /// is looked after here: that is done when it is due the next time.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// use pool_core::policy::{CoolDown, Reclaim};
    ///
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let block = pool.allocate_on(stream, 4096)?;
    /// pool.set_reclaim(Reclaim { cool_down: CoolDown::UntilDone, ..pool.reclaim_policy() });
    /// pool.free_on(stream, block.handle())?;
    /// assert_eq!(pool.stats().resting_bytes, 4096);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn set_reclaim(&self, reclaim: Reclaim) {
        let inner = self.inner();
        inner.with_books(|books| {
            books.reclaim = reclaim;
            inner.set_cooling(reclaim.cool_down);
        });
    }

    /// When freed memory is free, and when free memory goes back to the device: as the pool was
    /// made with, or as was [set](Self::set_reclaim) last.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// use pool_core::policy::Reclaim;
    ///
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// assert_eq!(pool.reclaim_policy(), Reclaim::default());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reclaim_policy(&self) -> Reclaim {
        self.inner().with_books(|books| books.reclaim)
    }
}
