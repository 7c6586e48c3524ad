//! What time it is, which the program says.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;

use super::event::nanoseconds;

/// A clock for the recorder: it is read once an allocation and once a free while the pool records, with
/// no lock held.
///
/// # Example
///
/// ```
/// use core::time::Duration;
/// use pool_core::record::Clock;
///
/// // Ticks of 40 ns since the program began, as some hardware counts them.
/// fn ticks() -> u64 { 25 }
/// let clock = Clock::new(|| Duration::from_nanos(ticks() * 40));
/// assert_eq!(clock.now(), Duration::from_micros(1));
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// A clock of the program's: the time since any moment before the first event. It must not run
    /// backwards, nor call the pool.
    #[must_use]
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// The system's, from now on (feature `std`).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::record::Clock;
    ///
    /// let clock = Clock::system();
    /// let before = clock.now();
    /// assert!(clock.now() >= before);
    /// ```
    #[cfg(feature = "std")]
    #[must_use]
    pub fn system() -> Self {
        let start = std::time::Instant::now();
        Self::new(move || start.elapsed())
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Duration {
        (self.0)()
    }

    /// The same in nanoseconds.
    #[inline]
    pub(super) fn nanoseconds(&self) -> u64 {
        nanoseconds(self.now())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}
