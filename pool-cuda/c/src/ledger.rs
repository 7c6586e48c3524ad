//! What a device's pool gave out and got back, counted by each thread for itself.
//!
//! A hit is some twenty nanoseconds, and to look at a line that other threads write takes more than
//! that. So each thread has [`Counts`] that it alone writes, and the peak of what is live is kept
//! from a sum, which a thread adds to when it has gathered much, and looks at else only while it is
//! alone: then it knows each new peak.

use core::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What each of several threads keeps to itself at most, times as many as there are, up to
/// [`MOST_TIMES`]: the more there are, the longer each waits for the sum. A thread that takes and frees
/// blocks of up to 1 MiB, 64 at a time, goes up and down by about 3 MiB.
const SLACK: i64 = 1 << 20;
const MOST_TIMES: u64 = 4;

/// What one thread did. On lines of its own: 128 bytes, since processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counts {
    allocations: AtomicU64,
    frees: AtomicU64,
    hits: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
    /// Bytes that became live less those that were freed, and that the ledger's sum does not have.
    unsettled: AtomicI64,
}

/// The sums over all threads, the present and the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) allocations: u64,
    pub(crate) frees: u64,
    pub(crate) hits: u64,
    pub(crate) allocated_bytes: u64,
    pub(crate) freed_bytes: u64,
}

/// The books of a device.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// How many threads count.
    threads: AtomicUsize,
    /// What each of several keeps to itself.
    slack_bytes: AtomicI64,
    live: Live,
    seats: Mutex<Seats>,
}

/// What all threads write, on lines of its own as well.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Live {
    /// Live bytes, but for what is unsettled.
    settled: AtomicI64,
    peak: AtomicI64,
}

#[derive(Debug, Default)]
struct Seats {
    present: Vec<Arc<Counts>>,
    past: Totals,
}

/// Counts up what one thread at a time writes.
#[inline]
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed).wrapping_add(more), Relaxed);
}

fn signed(bytes: u64) -> i64 {
    // No device has so much.
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Ledger {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts of a thread, which counts from now on.
    pub(crate) fn enter(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        let mut seats = self.seats();
        seats.present.push(Arc::clone(&counts));
        self.note_threads(&seats);
        counts
    }

    /// The end of a thread.
    pub(crate) fn leave(&self, counts: &Arc<Counts>) {
        let mut seats = self.seats();
        let place = seats.present.iter().position(|present| Arc::ptr_eq(present, counts));
        if let Some(place) = place {
            seats.present.swap_remove(place);
            seats.past.add(counts);
            self.settle(counts, counts.unsettled.load(Relaxed));
            self.note_threads(&seats);
        }
    }

    fn note_threads(&self, seats: &Seats) {
        let threads = seats.present.len();
        let times = (threads as u64).min(MOST_TIMES);
        self.slack_bytes.store(SLACK.saturating_mul(signed(times)), Relaxed);
        self.threads.store(threads, Relaxed);
    }

    /// Counts a block that was given out.
    #[inline]
    pub(crate) fn gave(&self, counts: &Counts, bytes: u64, is_hit: bool) {
        add(&counts.allocations, 1);
        add(&counts.hits, is_hit.into());
        add(&counts.allocated_bytes, bytes);
        let unsettled = counts.unsettled.load(Relaxed).wrapping_add(signed(bytes));
        let is_peak = || {
            let live = self.live.settled.load(Relaxed).wrapping_add(unsettled);
            live > self.live.peak.load(Relaxed)
        };
        let is_alone = self.threads.load(Relaxed) == 1;
        if unsettled > self.slack_bytes.load(Relaxed) || (is_alone && is_peak()) {
            self.settle(counts, unsettled);
        } else {
            counts.unsettled.store(unsettled, Relaxed);
        }
    }

    /// Counts a block that was freed.
    #[inline]
    pub(crate) fn took(&self, counts: &Counts, bytes: u64) {
        add(&counts.frees, 1);
        add(&counts.freed_bytes, bytes);
        let unsettled = counts.unsettled.load(Relaxed).wrapping_sub(signed(bytes));
        if unsettled < -self.slack_bytes.load(Relaxed) {
            self.settle(counts, unsettled);
        } else {
            counts.unsettled.store(unsettled, Relaxed);
        }
    }

    #[inline(never)]
    fn settle(&self, counts: &Counts, unsettled: i64) {
        counts.unsettled.store(0, Relaxed);
        let live = self.live.settled.fetch_add(unsettled, Relaxed).wrapping_add(unsettled);
        if live > self.live.peak.load(Relaxed) {
            self.live.peak.fetch_max(live, Relaxed);
        }
    }

    /// All that was counted.
    pub(crate) fn totals(&self) -> Totals {
        let seats = self.seats();
        let mut totals = seats.past;
        seats.present.iter().for_each(|counts| totals.add(counts));
        totals
    }

    /// The most that was live, given what is.
    pub(crate) fn peak_bytes(&self, live_bytes: u64) -> u64 {
        u64::try_from(self.live.peak.load(Relaxed)).unwrap_or(0).max(live_bytes)
    }

    /// Starts the peak anew.
    pub(crate) fn reset_peak(&self) {
        let live_bytes = self.totals().live_bytes();
        self.live.peak.store(signed(live_bytes), Relaxed);
    }
}

impl Totals {
    fn add(&mut self, counts: &Counts) {
        // Frees first: of a block that is freed between the looks, the other half is counted too.
        self.frees += counts.frees.load(Relaxed);
        self.freed_bytes += counts.freed_bytes.load(Relaxed);
        self.hits += counts.hits.load(Relaxed);
        self.allocations += counts.allocations.load(Relaxed);
        self.allocated_bytes += counts.allocated_bytes.load(Relaxed);
    }

    /// Given out and not freed.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.allocated_bytes.saturating_sub(self.freed_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: u64 = 10_000;

    /// Sizes up to 4 MiB, in an order that looks random.
    fn sizes() -> impl Iterator<Item = u64> {
        let mut random = fastrand::Rng::with_seed(7);
        core::iter::repeat_with(move || random.u64(1..4 << 20))
    }

    #[test]
    fn one_thread_alone_has_an_exact_peak() {
        let ledger = Ledger::default();
        let counts = ledger.enter();
        let (mut live, mut peak, mut held) = (0, 0, Vec::new());
        for (step, size) in sizes().take(10_000).enumerate() {
            if step % 3 == 2 || held.len() > 40 {
                let bytes: u64 = held.swap_remove(step % held.len());
                ledger.took(&counts, bytes);
                live -= bytes;
            } else {
                ledger.gave(&counts, size, step % 2 == 0);
                held.push(size);
                live += size;
                peak = u64::max(peak, live);
            }
            assert_eq!(ledger.totals().live_bytes(), live);
            assert_eq!(ledger.peak_bytes(live), peak);
            if step % 1000 == 999 {
                ledger.reset_peak();
                peak = live;
            }
        }
        let totals = ledger.totals();
        assert_eq!(totals.allocations, totals.frees + held.len() as u64);
    }

    #[test]
    fn of_several_threads_the_peak_is_off_by_the_slack_of_each_at_most() {
        const THREADS: u64 = 4;
        let ledger = Ledger::default();
        // All hold as much as they ever do at once: the peak is known.
        let barrier = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    let counts = ledger.enter();
                    for _ in 0..STEPS {
                        ledger.gave(&counts, 5000, true);
                    }
                    barrier.wait();
                    for _ in 0..STEPS {
                        ledger.took(&counts, 5000);
                    }
                    barrier.wait();
                    ledger.leave(&counts);
                });
            }
        });
        let truth = THREADS * STEPS * 5000;
        let slack = THREADS * SLACK.unsigned_abs() * THREADS.min(MOST_TIMES);
        let peak = ledger.peak_bytes(0);
        assert!(peak <= truth && peak + slack >= truth, "{peak} of {truth}");
        let totals = ledger.totals();
        assert_eq!((totals.allocations, totals.frees), (THREADS * STEPS, THREADS * STEPS));
        assert_eq!(totals.live_bytes(), 0);
        ledger.reset_peak();
        assert_eq!(ledger.peak_bytes(0), 0);
    }

    #[test]
    fn what_one_thread_frees_for_another_evens_out() {
        let ledger = Ledger::default();
        let (giver, taker) = (ledger.enter(), ledger.enter());
        for _ in 0..STEPS {
            ledger.gave(&giver, 1 << 20, false);
            ledger.took(&taker, 1 << 20);
        }
        assert_eq!(ledger.totals().live_bytes(), 0);
        assert!(ledger.peak_bytes(0) <= 4 << 20, "{}", ledger.peak_bytes(0));
        ledger.leave(&taker);
        ledger.leave(&giver);
        assert_eq!(ledger.totals().frees, STEPS);
        assert_eq!(ledger.live.settled.load(Relaxed), 0);
    }
}
