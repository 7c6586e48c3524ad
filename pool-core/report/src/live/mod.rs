//! The report of a pool at work (feature `live`): from what [`pool_core::record`] notes.
//!
//! A pool that records keeps the latest events of each thread. [`Source::report`] writes the page of
//! those; a [`Collector`] that takes them now and then has as many as it is told to keep. Either way
//! the page begins with what the pool had before the first of them: it is what the pool has now, with
//! what happened since undone.
//!
//! | module | its one job |
//! | --- | --- |
//! | `opening` | what a pool had before an event |
//! | `telling` | events as a history has them |
//! | `figures` | what the pool counted, policy by policy |
//!
//! # Example
//!
//! ```
//! use pool_core::record::{Clock, RecordConfig};
//! use pool_core::{Pool, PoolConfig};
//! use pool_mock::device::{SimConfig, SimDevice};
//! use pool_report::live::Source;
//!
//! # fn clock() -> Clock { Clock::new(|| core::time::Duration::ZERO) }
//! let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
//! pool.start_recording(&RecordConfig::new(clock()))?; // Clock::system() where there is one
//! {
//!     let _forward = pool.label("forward");
//!     pool.allocate(1 << 20)?;
//! }
//! let mut page = Vec::new(); // or std::fs::File::create("report.html")?
//! pool.report("training", &mut page)?;
//! assert!(page.starts_with(b"<!DOCTYPE html>"));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # When memory is short
//!
//! A page of the moment at which a request is refused, before the program ends for it, is written
//! where the pool asks for help, [`PoolConfig::on_shortage`](pool_core::PoolConfig::on_shortage): no
//! lock is held there.
//!
//! ```
//! use std::sync::{Arc, OnceLock, Weak};
//!
//! use pool_core::record::{Clock, RecordConfig};
//! use pool_core::{Pool, PoolConfig};
//! use pool_mock::device::{SimConfig, SimDevice};
//! use pool_report::live::Source;
//!
//! # fn clock() -> Clock { Clock::new(|| core::time::Duration::ZERO) }
//! # fn file() -> std::io::Result<std::io::Sink> { Ok(std::io::sink()) }
//! let cell: Arc<OnceLock<Weak<Pool<SimDevice>>>> = Arc::default();
//! let of_callback = cell.clone();
//! let config = PoolConfig::new().limit_bytes(8 << 20).on_shortage(move |shortage| {
//!     if let Some(pool) = of_callback.get().and_then(Weak::upgrade) {
//!         // A page that cannot be written is no reason to fail otherwise.
//!         let written = file().and_then(|out| pool.report_shortage("training", shortage, out));
//!         # written.as_ref().unwrap();
//!         written.unwrap_or_else(|error| eprintln!("no report: {error}"));
//!     }
//!     false // nothing was freed
//! });
//! let pool = Arc::new(Pool::new(SimDevice::new(SimConfig::new()), config)?);
//! cell.set(Arc::downgrade(&pool)).ok();
//! pool.start_recording(&RecordConfig::new(clock()))?;
//! assert!(pool.allocate(16 << 20).is_err());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! It is called up to once a request that fails: a program that goes on after refusals writes to a
//! name of its own for each, or for the first only. Where the error arrives, [`Source::report`] does
//! the same a moment later: the refusal is among the events then.

mod figures;
mod opening;
mod telling;

use std::collections::VecDeque;
use std::io::{self, Write};

use pool_core::record::{Event, Events, Figures, Inventory, LabelId, Since};
use pool_core::{Device, Pool, Shortage, threads::Threads};

use self::opening::Opening;
use self::telling::Teller;
use super::history::{Clock, History};

/// Events that are kept unless more are asked for: about 20 MiB.
const MOST_EVENTS: usize = 1 << 18;

/// A pool whose report can be written: one of `pool-core`, or what is built over one.
pub trait Source {
    /// What was noted since a reader came last: [`Pool::events`].
    fn events(&self, since: &mut Since) -> Events;

    /// What the pool has now: [`Pool::inventory`].
    fn inventory(&self) -> Inventory;

    /// What its work comes to: [`Pool::figures`].
    fn figures(&self) -> Figures;

    /// The whole name of a label: [`Pool::label_path`].
    fn label_path(&self, label: LabelId) -> Option<String>;

    /// Writes the page of what the pool has and of the events that it still keeps. `out` needs no
    /// buffer.
    ///
    /// # Errors
    ///
    /// Whatever `out` refuses.
    ///
    /// # Complexity
    ///
    /// Linear in the events and in the blocks of the pool.
    ///
    /// # Example
    ///
    /// See [the module](self).
    fn report(&self, title: &str, out: impl Write) -> io::Result<()>
    where
        Self: Sized,
    {
        Collector::new(self).write(self, title, out)
    }

    /// As [`report`](Self::report), of a request that is about to be refused, whose event is not there
    /// yet: it is marked at the end, with what would help.
    ///
    /// # Errors
    ///
    /// Whatever `out` refuses.
    ///
    /// # Example
    ///
    /// See [the module](self#when-memory-is-short).
    fn report_shortage(&self, title: &str, shortage: &Shortage, out: impl Write) -> io::Result<()>
    where
        Self: Sized,
    {
        Collector::new(self).write_shortage(self, title, shortage, out)
    }
}

impl<D: Device, T: Threads> Source for Pool<D, T> {
    fn events(&self, since: &mut Since) -> Events {
        self.events(since)
    }

    fn inventory(&self) -> Inventory {
        self.inventory()
    }

    fn figures(&self) -> Figures {
        self.figures()
    }

    fn label_path(&self, label: LabelId) -> Option<String> {
        self.label_path(label)
    }
}

/// The latest events of a pool, for its report.
///
/// It is exact as long as it comes before events are overwritten, and the pool records all the time:
/// a program whose threads keep 4,096 events each collects before one of them has made as many calls.
/// If it comes late it begins anew, with what there is then. Other threads may work meanwhile; what
/// they do at the very moment at which it begins may be told twice, and is mended.
///
/// # Example
///
/// ```
/// use pool_core::record::{Clock, RecordConfig};
/// use pool_core::{Pool, PoolConfig};
/// use pool_mock::device::{SimConfig, SimDevice};
/// use pool_report::live::Collector;
///
/// # fn clock() -> Clock { Clock::new(|| core::time::Duration::ZERO) }
/// let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
/// pool.start_recording(&RecordConfig::new(clock()))?;
/// let mut collector = Collector::new(&pool).most_events(1_000_000);
/// for _step in 0..10 {
///     for _ in 0..1000 {
///         pool.free(pool.allocate(1 << 20)?.handle())?;
///     }
///     collector.collect(&pool);
/// }
/// assert!(collector.events() >= 20_000);
/// collector.write(&pool, "ten steps", std::io::sink())?; // whenever somebody asks
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Collector {
    since: Since,
    /// What there was before the first of the events.
    opening: Opening,
    events: VecDeque<Event>,
    most_events: usize,
    /// Those that were kept, and are no more.
    passed: u64,
    /// Those that were never seen.
    lost: u64,
}

impl Collector {
    /// Takes what a pool still has. From now on the same pool is to be named.
    #[must_use]
    pub fn new(pool: &impl Source) -> Self {
        let mut since = Since::start();
        let events = pool.events(&mut since);
        Self {
            since,
            opening: Opening::before(&events.all, &pool.inventory()),
            events: events.all.into(),
            most_events: MOST_EVENTS,
            passed: 0,
            lost: events.lost,
        }
    }

    /// So many events are kept, the latest, some 80 bytes each; 262,144 unless this is called. What
    /// was before them is kept as what it came to: an entry for each block that is not free.
    #[must_use]
    pub fn most_events(mut self, events: usize) -> Self {
        self.most_events = events;
        self.shorten();
        self
    }

    /// Takes what happened since.
    ///
    /// # Complexity
    ///
    /// Linear in the new events; if some were overwritten also in the blocks of the pool.
    pub fn collect(&mut self, pool: &impl Source) {
        let events = pool.events(&mut self.since);
        if events.lost > 0 {
            self.lost = self.lost.saturating_add(events.lost);
            self.passed = self.passed.saturating_add(self.events.len() as u64);
            self.opening = Opening::before(&events.all, &pool.inventory());
            self.events.clear();
        }
        self.events.extend(events.all);
        self.shorten();
    }

    fn shorten(&mut self) {
        while self.events.len() > self.most_events {
            let Some(event) = self.events.pop_front() else { return };
            self.opening.pass(&event);
            self.passed = self.passed.saturating_add(1);
        }
    }

    /// How many events there are.
    #[must_use]
    pub fn events(&self) -> usize {
        self.events.len()
    }

    /// What happened, up to now, with what the pool has counted: for whoever has more to add before it
    /// is [written](crate::write()).
    ///
    /// # Complexity
    ///
    /// As [`collect`](Self::collect), and linear in all that is kept.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::record::{Clock, RecordConfig};
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// use pool_report::live::Collector;
    ///
    /// let block = pool.allocate(1 << 20)?;
    /// pool.start_recording(&RecordConfig::new(Clock::new(|| core::time::Duration::ZERO)))?;
    /// let mut collector = Collector::new(&pool);
    /// pool.allocate(2 << 20)?;
    /// // Also what was there before anything was recorded.
    /// let history = collector.history(&pool, "training");
    /// assert_eq!(history.live_bytes(), 3 << 20);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn history(&mut self, pool: &impl Source, title: &str) -> History {
        self.collect(pool);
        let mut history =
            History::new(title).source(self.says_of_itself()).clock(Clock::Nanoseconds);
        let mut teller = Teller::new(pool);
        // When what it begins with came about is not known: it is there with the first event.
        let time = self.events.front().map_or(0, |event| telling::nanoseconds(event.time));
        self.opening.tell(time, &mut teller, &mut history);
        self.events.iter().for_each(|event| teller.tell(event, &mut history));
        figures::add(&pool.figures(), &mut history);
        history
    }

    /// Writes the page of what happened, up to now. `out` needs no buffer.
    ///
    /// # Errors
    ///
    /// Whatever `out` refuses.
    pub fn write(&mut self, pool: &impl Source, title: &str, out: impl Write) -> io::Result<()> {
        crate::write(&self.history(pool, title), out)
    }

    /// As [`write`](Self::write), of a request that is about to be refused: see
    /// [`Source::report_shortage`].
    ///
    /// # Errors
    ///
    /// Whatever `out` refuses.
    pub fn write_shortage(
        &mut self,
        pool: &impl Source,
        title: &str,
        shortage: &Shortage,
        out: impl Write,
    ) -> io::Result<()> {
        let mut history = self.history(pool, title);
        telling::tell_shortage(shortage, &mut history);
        crate::write(&history, out)
    }

    /// A line for the page: what is not on it.
    fn says_of_itself(&self) -> String {
        let part = |count: u64, what| match count {
            0 => String::new(),
            _ => format!("; {count} earlier events {what}"),
        };
        let passed = part(self.passed, "are not kept");
        let lost = part(self.lost, "were overwritten before they were read");
        format!("of a pool at work, with what it had before the first event{passed}{lost}")
    }
}
