//! A thread that does a pool's upkeep.

use core::time::Duration;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use super::Pool;
use super::error::PoolError;
use super::inner::Inner;
use crate::device::Device;
use crate::sync::is_left;
use crate::threads::Threads;

/// A thread that [ticks](Pool::tick) for a pool, so that growth ahead of need, and what goes back
/// by itself, take no time of the program's threads. It ends when this is dropped, and soon after
/// the pool's last handle is.
///
/// # Example
///
/// See [`Pool::keep_up`].
#[derive(Debug)]
pub struct Keeper {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Starts a thread that [ticks](Pool::tick) each time that `period` has passed, until the returned value is
    /// dropped; other threads do not grow the pool ahead of need meanwhile. It keeps the pool alive only
    /// during a tick. A tick that fails is tried again at the
    /// next one, unless the device is lost.
    ///
    /// # Errors
    ///
    /// The operating system has no more threads.
    ///
    /// # Example
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use core::time::Duration;
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let keeper = pool.keep_up(Duration::from_millis(1))?;
    /// let block = pool.allocate(60 << 20)?; // most of the first 64 MiB
    /// while pool.stats().growths < 2 {
    ///     std::thread::yield_now(); // the keeper grows the pool, ahead of need
    /// }
    /// drop(keeper);
    /// # pool.free(block.handle())?;
    /// # }
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn keep_up(&self, period: Duration) -> io::Result<Keeper> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let (pool, seen) = (self.downgrade(), ended.clone());
        // From here on, not from its first tick on.
        self.inner().with_books(|books| books.keepers += 1);
        let thread = thread::Builder::new().name("pool-keeper".into()).spawn(move || {
            keep_up(&pool, period, &seen);
            if let Some(inner) = pool.upgrade() {
                inner.with_books(|books| books.keepers -= 1);
            }
        });
        let thread = thread.inspect_err(|_| {
            self.inner().with_books(|books| books.keepers -= 1);
        })?;
        Ok(Keeper { ended, thread: Some(thread) })
    }
}

fn keep_up<D: Device, T: Threads>(
    pool: &Weak<Inner<D, T>>,
    period: Duration,
    (ended, woken): &(Mutex<bool>, Condvar),
) {
    loop {
        let guard = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = woken.wait_timeout_while(guard, period, |ended| !*ended);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
        // For this tick only: the pool ends with its last handle.
        let Some(inner) = pool.upgrade() else { return };
        if let Err(PoolError::Poisoned) = Pool::of(inner).tick() {
            return;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if is_left() {
            // The thread is the parent's.
            core::mem::forget(self.thread.take());
            return;
        }
        let (ended, woken) = &*self.ended;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        woken.notify_all();
        if let Some(thread) = self.thread.take() {
            // A tick that panicked has said so.
            let _ = thread.join();
        }
    }
}
