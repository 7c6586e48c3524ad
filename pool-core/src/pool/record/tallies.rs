//! What each thread counts for itself: requests by stream, and the times from free to reuse.

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::event::Served;
use crate::sync::Counter;

/// Buckets of a histogram.
const BUCKETS: usize = 64;

/// Places for streams, by their number; and one for those that lost theirs to another.
const STREAMS: usize = 64;

/// Number, requests, those that were served at once, by a search, with help, and refused.
const COLUMNS: usize = 6;

/// Counters of a thread.
pub(super) const COUNTERS: u32 = (BUCKETS + COLUMNS * (STREAMS + 1)) as u32;

/// Requests on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct StreamUse {
    /// The stream's number; zero: requests that named none that the pool knows.
    pub stream: u32,
    /// Requests served [at the first look](Served::AtOnce).
    pub at_once: u64,
    /// Requests served from the stream's own memory [by a search](Served::BySearch).
    pub by_search: u64,
    /// Requests that needed [more](Served::ByHelp).
    pub by_help: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl StreamUse {
    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.at_once + self.by_search + self.by_help + self.refused
    }

    /// Requests that the stream's own memory served, in thousandths; 1,000 if there were none.
    #[must_use]
    pub fn hits_per_mille(&self) -> u64 {
        let hits = u128::from(self.at_once) + u128::from(self.by_search);
        let hits = (hits * 1000).checked_div(self.requests().into());
        hits.and_then(|hits| u64::try_from(hits).ok()).unwrap_or(1000)
    }
}

/// How many times were how long, by powers of two of nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS] }
    }
}

impl Histogram {
    /// How many times there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The buckets that have any: what all times in it are shorter than, and how many there are.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let all = self.buckets.iter().enumerate().filter(|&(_, &count)| count > 0);
        all.map(|(bucket, &count)| (bound(bucket), count))
    }

    /// What so many thousandths of all times are shorter than, within a factor of two; none if there are
    /// no times.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::record::Histogram;
    ///
    /// assert_eq!(Histogram::default().quantile(500), None);
    /// ```
    #[must_use]
    pub fn quantile(&self, per_mille: u32) -> Option<Duration> {
        let rank = (u128::from(self.count()) * u128::from(per_mille)).div_ceil(1000).max(1);
        let mut seen = 0;
        let mut buckets = self.buckets();
        let found = buckets.find(|&(_, count)| {
            seen += u128::from(count);
            seen >= rank
        });
        found.map(|(bound, _)| bound)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.buckets()).finish()
    }
}

/// What the times in a bucket are shorter than.
fn bound(bucket: usize) -> Duration {
    Duration::from_nanos(1_u64.checked_shl(bucket as u32).unwrap_or(u64::MAX))
}

/// The bucket of a time.
fn bucket_of(nanoseconds: u64) -> usize {
    ((u64::BITS - nanoseconds.leading_zeros()) as usize).min(BUCKETS - 1)
}

/// A thread counts a reuse.
#[inline]
pub(super) fn count_reuse(counters: &[Counter], nanoseconds: u64) {
    if let Some(counter) = counters.get(bucket_of(nanoseconds)) {
        counter.add(1);
    }
}

fn columns(counters: &[Counter], place: usize) -> Option<&[Counter; COLUMNS]> {
    let start = BUCKETS + COLUMNS * place;
    counters.get(start..start + COLUMNS)?.try_into().ok()
}

/// A thread counts a request: how it was served, or that it was refused.
#[inline]
pub(super) fn count_request(counters: &[Counter], stream: u32, served: Option<Served>) {
    let Some(columns) = columns(counters, stream as usize % STREAMS) else { return };
    // One more than its number: zero is an empty place.
    let name = u64::from(stream) + 1;
    if columns[0].get() != name {
        make_place(counters, columns, name);
    }
    columns[2 + served.map_or(3, |served| served as usize)].add(1);
}

/// Has a place be a stream's; what was counted there before belongs to the rest.
#[cold]
fn make_place(counters: &[Counter], place: &[Counter; COLUMNS], name: u64) {
    let Some(rest) = columns(counters, STREAMS) else { return };
    for (of_place, of_rest) in place.iter().zip(rest).skip(1) {
        of_rest.add(of_place.get());
        of_place.set(0);
    }
    place[0].set(name);
}

/// What all threads counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) reuse: Histogram,
    /// By number.
    pub(super) streams: Vec<StreamUse>,
    /// Of those that lost their places.
    pub(super) other_streams: StreamUse,
}

impl Sums {
    /// Adds what a thread counted.
    pub(super) fn add(&mut self, counters: &[Counter]) {
        for (sum, counter) in self.reuse.buckets.iter_mut().zip(counters) {
            *sum += counter.get();
        }
        for place in 0..=STREAMS {
            let Some(columns) = columns(counters, place) else { return };
            let [name, _, at_once, by_search, by_help, refused] =
                columns.each_ref().map(Counter::get);
            let stream = u32::try_from(name.saturating_sub(1)).unwrap_or(0);
            let more = StreamUse { stream, at_once, by_search, by_help, refused };
            if more.requests() == 0 {
                continue;
            }
            let sum = if place == STREAMS {
                &mut self.other_streams
            } else {
                match self.streams.binary_search_by_key(&stream, |known| known.stream) {
                    Ok(found) => &mut self.streams[found],
                    Err(gap) => {
                        self.streams.insert(gap, StreamUse { stream, ..StreamUse::default() });
                        &mut self.streams[gap]
                    }
                }
            };
            sum.at_once += at_once;
            sum.by_search += by_search;
            sum.by_help += by_help;
            sum.refused += refused;
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn counters() -> Vec<Counter> {
        (0..COUNTERS).map(|_| Counter::default()).collect()
    }

    #[test]
    fn times_are_in_buckets_of_powers_of_two() {
        let counters = counters();
        for nanoseconds in [0, 1, 1000, 1023, 1024, u64::MAX] {
            count_reuse(&counters, nanoseconds);
        }
        let mut sums = Sums::default();
        sums.add(&counters);
        let found: Vec<_> =
            sums.reuse.buckets().map(|(bound, count)| (bound.as_nanos(), count)).collect();
        assert_eq!(found, [(1, 1), (2, 1), (1024, 2), (2048, 1), (1 << 63, 1)]);
        assert_eq!(sums.reuse.quantile(500), Some(Duration::from_nanos(1024)));
        assert_eq!(sums.reuse.quantile(0), Some(Duration::from_nanos(1)));
        assert_eq!(sums.reuse.quantile(1000), Some(Duration::from_nanos(1 << 63)));
    }

    #[test]
    fn a_stream_that_loses_its_place_is_one_of_the_others() {
        let counters = counters();
        count_request(&counters, 3, Some(Served::AtOnce));
        count_request(&counters, 0, Some(Served::ByHelp));
        count_request(&counters, 3 + STREAMS as u32, Some(Served::BySearch));
        count_request(&counters, 3 + STREAMS as u32, None);
        let mut sums = Sums::default();
        sums.add(&counters);
        sums.add(&counters);
        let nobody = StreamUse { by_help: 2, ..StreamUse::default() };
        let late = StreamUse { stream: 67, by_search: 2, refused: 2, ..StreamUse::default() };
        assert_eq!(sums.streams, [nobody, late]);
        assert_eq!(sums.other_streams, StreamUse { at_once: 2, ..StreamUse::default() });
        assert_eq!([nobody, late].map(|stream| stream.hits_per_mille()), [0, 500]);
    }
}
