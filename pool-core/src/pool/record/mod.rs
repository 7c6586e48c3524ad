//! What a pool did, seen from outside (feature `record`): events, labels, figures.
//!
//! A pool [records](Pool::start_recording) when it is told to. As long as it does not, its hits have the
//! same instructions as without the feature. While it does, each thread writes into a journal of its
//! own, of a bounded number of events of which the oldest are overwritten; [`Pool::events`] reads them all,
//! merged. Labels say what a thread is at. Figures are what events come to, and are kept whether or not
//! the events are still there.
//!
//! | module | its one job |
//! | --- | --- |
//! | `clock` | what time it is, which the program says |
//! | `event` | what happened, and how an entry of a journal says it |
//! | `labels` | what threads are at, and what is live for that |
//! | `reuse` | when memory was freed last |
//! | `tallies` | what each thread counts for itself |
//! | `recorder` | all of these |
//! | `paths` | hits while the pool records |
//! | `figures` | what it comes to, for people and for exporters |
//! | `inventory` | what there is at a moment |
//!
//! # Example
//!
//! ```
//! use pool_core::record::{Clock, RecordConfig, Since, What};
//! use pool_core::{Pool, PoolConfig};
//! use pool_mock::device::{SimConfig, SimDevice};
//!
//! let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
//! # fn clock() -> Clock { Clock::new(|| core::time::Duration::ZERO) }
//! pool.start_recording(&RecordConfig::new(clock()))?;
//! let stream = pool.create_stream()?;
//! {
//!     let _forward = pool.label("forward");
//!     let block = pool.allocate_on(stream, 1 << 20)?;
//!     pool.free_on(stream, block.handle())?;
//! }
//! let events = pool.events(&mut Since::start());
//! let kinds: Vec<What> = events.all.iter().map(|event| event.what).collect();
//! assert!(matches!(kinds[..], [What::Grown { .. }, What::Allocated { .. }, What::Freed { .. }]));
//! assert_eq!(pool.figures().labels[0].peak_bytes, 1 << 20);
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod clock;
mod event;
mod figures;
mod inventory;
mod labels;
mod paths;
#[cfg(feature = "metrics")]
mod publish;
mod recorder;
mod reuse;
mod tallies;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

pub use clock::Clock;
pub use event::{Event, LabelId, NOWHERE, Refused, Served, What};
pub use figures::{Figures, Fragmentation};
pub use inventory::{Inventory, LiveBlock};
pub use labels::LabelUse;
#[cfg(feature = "metrics")]
pub use publish::describe_metrics;
pub(super) use recorder::Recorder;
pub use tallies::{Histogram, StreamUse};

use super::Pool;
use super::error::PoolError;
use super::inner::Inner;
use crate::device::Device;
use crate::threads::Threads;

/// How a pool records.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RecordConfig {
    /// What time it is.
    pub clock: Clock,
    /// Events that are kept of each thread, 64 bytes each: rounded up to a power of two. By default 4,096.
    pub events: u32,
    /// Labels that are told apart, about 100 bytes each; what comes after them counts as one. By default
    /// 1,024.
    pub labels: u32,
}

impl RecordConfig {
    /// The defaults, by a clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, events: 4096, labels: 1024 }
    }

    /// So many events are kept of each thread.
    #[must_use]
    pub fn events(mut self, events: u32) -> Self {
        self.events = events;
        self
    }

    /// So many labels are told apart.
    #[must_use]
    pub fn labels(mut self, labels: u32) -> Self {
        self.labels = labels;
        self
    }
}

/// Up to where events were read, for a reader that comes again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since(Vec<u64>);

impl Since {
    /// From the first on.
    #[must_use]
    pub fn start() -> Self {
        Self::default()
    }
}

/// What [`Pool::events`] read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Events {
    /// In order of their times, and those of one thread in its order.
    pub all: Vec<Event>,
    /// How many were overwritten before they were read.
    pub lost: u64,
}

/// Has allocations of a thread be noted under a label, until it is dropped: see [`Pool::label`]. It stays
/// on its thread.
#[must_use = "a label ends when this is dropped"]
pub struct Label<'p, D: Device, T: Threads> {
    /// What the thread was at before, and whether the thread has that for itself; none if the pool does
    /// not record.
    before: Option<(u32, bool)>,
    pool: &'p Pool<D, T>,
    on_this_thread: PhantomData<*const ()>,
}

impl<D: Device, T: Threads> Drop for Label<'_, D, T> {
    fn drop(&mut self) {
        if let (Some((before, own)), Some(recorder)) = (self.before, self.pool.inner().recorder()) {
            recorder.set_label(&self.pool.inner().shared, before, own);
        }
    }
}

impl<D: Device, T: Threads> fmt::Debug for Label<'_, D, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Label").finish_non_exhaustive()
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// The recorder, once there is one. In a forked child there is none: its locks may be held.
    pub(super) fn recorder(&self) -> Option<&Recorder<T>> {
        if crate::sync::is_left() { None } else { self.recorder.get() }
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Has the pool record from now on. The first call's configuration holds for as long as the pool is
    /// there; later ones only go on. What was allocated before has no label.
    ///
    /// # Errors
    ///
    /// [`PoolError::OutOfHostMemory`]; [`PoolError::Forked`].
    ///
    /// # Example
    ///
    /// See [the module](self).
    pub fn start_recording(&self, config: &RecordConfig) -> Result<(), PoolError<D::Error>> {
        super::inner::check_not_left()?;
        let inner = self.inner();
        let made = inner.recorder.try_call_once(|| Recorder::new(config));
        made.map_err(|_| PoolError::OutOfHostMemory)?;
        inner.set_recording(true);
        Ok(())
    }

    /// Has the pool record no more. The events that there are stay, and so do figures; but labels hold
    /// nothing any more, since frees are not seen.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::record::{Clock, RecordConfig, Since};
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.start_recording(&RecordConfig::new(Clock::new(|| core::time::Duration::ZERO)))?;
    /// pool.stop_recording();
    /// pool.allocate(4096)?;
    /// assert!(!pool.is_recording() && pool.events(&mut Since::start()).all.is_empty());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn stop_recording(&self) {
        if let Some(recorder) = self.inner().recorder() {
            self.inner().set_recording(false);
            recorder.pause();
        }
    }

    /// Whether the pool records.
    ///
    /// # Example
    ///
    /// See [`stop_recording`](Self::stop_recording).
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.inner().is_recording()
    }

    /// The events that were noted since a reader came last, of all threads, in order of their times. An
    /// event that is being written is read the next time; one of another thread may then come after
    /// later ones.
    ///
    /// # Complexity
    ///
    /// That of sorting them.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::record::{Clock, RecordConfig, Since};
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let clock = Clock::new(|| core::time::Duration::ZERO);
    /// pool.start_recording(&RecordConfig::new(clock).events(2))?;
    /// let mut since = Since::start();
    /// for _ in 0..4 {
    ///     pool.allocate(1 << 20)?;
    /// }
    /// // The memory that the pool took, and four blocks of it.
    /// let events = pool.events(&mut since);
    /// assert_eq!((events.all.len(), events.lost), (2, 3));
    /// assert!(pool.events(&mut since).all.is_empty());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn events(&self, since: &mut Since) -> Events {
        self.inner().recorder().map_or(Events::default(), |recorder| recorder.events(since))
    }

    /// Has what the calling thread allocates be noted under a label, until the guard is dropped: a phase, a
    /// layer, a request. Labels nest: within another, `layer 3` is `forward/layer 3`. While the pool does
    /// not record it does nothing. Guards are dropped in the reverse order of their making.
    ///
    /// On a platform whose threads have no caches of their own, all threads share one label.
    ///
    /// # Complexity
    ///
    /// A look at a table under a lock; that of allocations and frees is some tens of nanoseconds more
    /// each.
    ///
    /// # Example
    ///
    /// See [the module](self).
    pub fn label(&self, name: &str) -> Label<'_, D, T> {
        let before = self.inner().recorder().filter(|_| self.is_recording()).map(|recorder| {
            let shared = &self.inner().shared;
            let (before, own) = recorder.label(shared);
            recorder.set_label(shared, recorder.labels.intern(before, name), own);
            (before, own)
        });
        Label { before, pool: self, on_this_thread: PhantomData }
    }

    /// The whole name of a label: `forward/layer 3`. None of zero, or of one that is not there.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::record::{Clock, LabelId, RecordConfig};
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// pool.start_recording(&RecordConfig::new(Clock::new(|| core::time::Duration::ZERO)))?;
    /// let outer = pool.label("forward");
    /// let inner = pool.label("layer 3");
    /// assert_eq!(pool.label_path(LabelId(2)).as_deref(), Some("forward/layer 3"));
    /// # drop((inner, outer));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn label_path(&self, label: LabelId) -> Option<String> {
        self.inner().recorder()?.labels.path(label)
    }
}
