//! What it comes to: figures as plain data, and for people.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::labels::LabelUse;
use super::tallies::{Histogram, StreamUse, Sums};
use crate::device::Device;
use crate::pool::advice::bytes::Human;
use crate::pool::inner::Inner;
use crate::pool::{Pool, PoolStats};
use crate::threads::{ClassUse, Threads};

/// Lines of a kind that are shown to people.
const SHOWN: usize = 8;

/// What a pool's work comes to. What is counted by the recorder alone (streams, reuse, labels,
/// `growth_time`) is of the time in which the pool [recorded](Pool::start_recording).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Figures {
    /// The books: bytes by state, growths, calls of the device.
    pub stats: PoolStats,
    /// Bytes taken from the device before anyone asked: preallocated.
    pub preallocated_bytes: u64,
    /// As many of them as there are live bytes.
    pub preallocated_in_use_bytes: u64,
    /// As many of them as were in use at once, caches and what was deferred included.
    pub preallocated_peak_bytes: u64,
    /// Operations and misses of the threads' caches, by size class.
    pub classes: Vec<ClassUse>,
    /// Requests by stream, in the order of their numbers.
    pub streams: Vec<StreamUse>,
    /// Requests of streams beyond the first 64, as far as they had to make place for others.
    pub other_streams: StreamUse,
    /// From a block's free to the next one that begins there. Of places that are remembered: 16,384.
    pub reuse: Histogram,
    /// How long growth took, of arenas and of pages, by the recorder's clock.
    pub growth_time: Duration,
    /// What each label held, the highest peak first.
    pub labels: Vec<LabelUse>,
}

/// How free memory is cut up, for requests of a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Fragmentation {
    /// The size.
    pub size_bytes: u64,
    /// Bytes that are free, for whichever stream. What is in caches and on shelves is not among them.
    pub free_bytes: u64,
    /// Those of them that lie in pieces which are too small.
    pub unusable_bytes: u64,
    /// Free pieces. Such as lie side by side in the memory of two streams are two.
    pub pieces: u64,
    /// The largest one.
    pub largest_bytes: u64,
}

impl Fragmentation {
    /// The share of free bytes that cannot serve the size, from 0 to 1; zero if nothing is free.
    #[must_use]
    pub fn share(&self) -> f64 {
        ratio(self.unusable_bytes, self.free_bytes)
    }
}

impl Figures {
    /// The share of the preallocated bytes that is in use now, from 0 to 1; zero if there are none.
    #[must_use]
    pub fn preallocated_share(&self) -> f64 {
        ratio(self.preallocated_in_use_bytes, self.preallocated_bytes)
    }

    /// All requests that were noted, by stream or not.
    #[must_use]
    pub fn requests(&self) -> StreamUse {
        let mut sum = self.other_streams;
        for stream in &self.streams {
            sum.at_once += stream.at_once;
            sum.by_search += stream.by_search;
            sum.by_help += stream.by_help;
            sum.refused += stream.refused;
        }
        sum
    }
}

/// A part of a whole, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "shares of bytes are for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl<D: Device, T: Threads> Inner<D, T> {
    fn figures(&self) -> Figures {
        let stats = self.stats();
        let (sums, labels, growth_time) = self.recorder().map_or_else(
            || (Sums::default(), Vec::new(), Duration::ZERO),
            |recorder| (recorder.sums(), recorder.labels.all(), recorder.growth_time()),
        );
        Figures {
            preallocated_bytes: stats.initial_bytes,
            preallocated_in_use_bytes: stats.live_bytes.min(stats.initial_bytes),
            preallocated_peak_bytes: stats.peak_bytes.min(stats.initial_bytes),
            classes: self.shared.classes(),
            streams: sums.streams,
            other_streams: sums.other_streams,
            reuse: sums.reuse,
            growth_time,
            labels,
            stats,
        }
    }

    fn fragmentation(&self, size_bytes: u64) -> Fragmentation {
        let mut found = Fragmentation { size_bytes, ..Fragmentation::default() };
        self.shared.each_free_piece(|bytes| {
            found.pieces += 1;
            found.free_bytes += bytes;
            found.largest_bytes = found.largest_bytes.max(bytes);
            if bytes < size_bytes {
                found.unusable_bytes += bytes;
            }
        });
        found
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// What the pool's work comes to. Exact when no other thread works; else off by what is in
    /// flight. [`reset_peak`](Self::reset_peak) starts the peaks anew from what is live, those of labels
    /// too.
    ///
    /// # Complexity
    ///
    /// Linear in caches, spaces, and labels.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::record::{Clock, RecordConfig};
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let config = PoolConfig::new().initial_bytes(4 << 20);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// pool.start_recording(&RecordConfig::new(Clock::new(|| core::time::Duration::ZERO)))?;
    /// let block = pool.allocate(1 << 20)?;
    /// let figures = pool.figures();
    /// assert_eq!(figures.preallocated_share(), 0.25);
    /// assert_eq!(figures.requests().requests(), 1);
    /// println!("{figures}");
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.inner().figures()
    }

    /// How much of what is free could not serve requests of a size, as it lies now. Nothing is put
    /// together for that.
    ///
    /// # Complexity
    ///
    /// Linear in blocks; each space is locked for as long as its own are looked at.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// let config = PoolConfig::new().initial_bytes(4 << 20);
    /// let pool = Pool::new(SimDevice::new(SimConfig::new()), config)?;
    /// assert_eq!(pool.fragmentation(3 << 20).share(), 0.0);
    /// assert_eq!(pool.fragmentation(5 << 20).share(), 1.0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fragmentation(&self, size_bytes: u64) -> Fragmentation {
        self.inner().fragmentation(size_bytes)
    }
}

/// Thousandths as hundredths with a decimal.
struct PerMille(u64);

impl fmt::Display for PerMille {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} %", self.0 / 10, self.0 % 10)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = &self.stats;
        writeln!(
            f,
            "reserved {} (peak {}): live {}, free {}, in caches {}, deferred {}",
            Human(stats.reserved_bytes),
            Human(stats.peak_reserved_bytes),
            Human(stats.live_bytes),
            Human(stats.free_bytes),
            Human(stats.cached_bytes),
            Human(stats.deferred_bytes),
        )?;
        writeln!(
            f,
            "preallocated {}: {} in use, at most {}",
            Human(self.preallocated_bytes),
            Human(self.preallocated_in_use_bytes),
            Human(self.preallocated_peak_bytes),
        )?;
        write!(f, "grown {} times by {}", stats.growths, Human(stats.growth_bytes))?;
        writeln!(f, " in {:?}; {} steals", self.growth_time, stats.steals)?;
        let used = self.classes.iter().filter(|class| class.operations > 0);
        for class in used {
            let hits = PerMille(class.hits_per_mille());
            let size = Human(class.size_bytes);
            writeln!(f, "class {size}: {} operations, {hits} in a cache", class.operations)?;
        }
        for stream in self.streams.iter().take(SHOWN) {
            match stream.stream {
                0 => f.write_str("no stream: ")?,
                number => write!(f, "stream {number}: ")?,
            }
            let hits = PerMille(stream.hits_per_mille());
            writeln!(
                f,
                "{} requests, {hits} from its own memory, {} refused",
                stream.requests(),
                stream.refused
            )?;
        }
        if let (Some(half), Some(most)) = (self.reuse.quantile(500), self.reuse.quantile(990)) {
            let count = self.reuse.count();
            writeln!(f, "reuse: {count} times, half of them within {half:?}, 99 % {most:?}")?;
        }
        for label in self.labels.iter().take(SHOWN) {
            let (peak, live) = (Human(label.peak_bytes), Human(label.live_bytes));
            writeln!(f, "label {}: peak {peak}, live {live}", label.path)?;
        }
        Ok(())
    }
}
