//! Times of many runs.

use core::time::Duration;
use std::time::Instant;

use crate::Result;

/// Keeps the processor at work for a while.
pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        core::hint::black_box(&start);
    }
}

/// Runs of a batch, where one run is shorter than reading the clock is exact.
const BATCH: u32 = 100;

/// The most that are timed of a figure, batches or runs.
const MOST: usize = 2_000;

/// The fewest, whatever the budget.
const FEWEST: usize = 10;

/// How long a figure is worked on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    budget: Duration,
}

impl Effort {
    /// Until so much time has passed, or there are enough runs.
    pub(crate) fn new(budget: Duration) -> Self {
        Self { budget }
    }

    /// Times runs in batches of 100: for what takes nanoseconds.
    pub(crate) fn batches(self, mut run: impl FnMut() -> Result<()>) -> Result<Samples> {
        self.samples(BATCH, || {
            let start = Instant::now();
            for _ in 0..BATCH {
                run()?;
            }
            Ok(start.elapsed())
        })
    }

    /// Times each run: for what takes microseconds.
    pub(crate) fn each(self, mut run: impl FnMut() -> Result<()>) -> Result<Samples> {
        self.samples(1, || {
            let start = Instant::now();
            run()?;
            Ok(start.elapsed())
        })
    }

    /// Takes times as the runs measure them by themselves, of so many operations each. What is run
    /// in the first tenth of the budget does not count.
    pub(crate) fn samples(
        self,
        batch: u32,
        mut run: impl FnMut() -> Result<Duration>,
    ) -> Result<Samples> {
        let start = Instant::now();
        for warm in 0..MOST {
            if warm > 0 && start.elapsed() >= self.budget / 10 {
                break;
            }
            run()?;
        }
        let start = Instant::now();
        let mut times = Vec::with_capacity(MOST);
        for taken in 0..MOST {
            if taken >= FEWEST && start.elapsed() >= self.budget {
                break;
            }
            times.push(run()?);
        }
        Ok(Samples::new(&times, batch))
    }
}

/// Nanoseconds of an operation, in ascending order; each is a mean over a batch.
#[derive(Debug)]
pub(crate) struct Samples {
    each_ns: Vec<f64>,
    batch: u32,
}

impl Samples {
    /// From the times of so many operations each.
    pub(crate) fn new(times: &[Duration], batch: u32) -> Self {
        let each = |time: &Duration| time.as_secs_f64() * 1e9 / f64::from(batch);
        let mut each_ns: Vec<f64> = times.iter().map(each).collect();
        each_ns.sort_by(f64::total_cmp);
        Self { each_ns, batch }
    }

    /// Half of them are at most this.
    pub(crate) fn median_ns(&self) -> f64 {
        self.at(50)
    }

    /// 99 of 100 are at most this.
    pub(crate) fn p99_ns(&self) -> f64 {
        self.at(99)
    }

    /// All operations that count.
    pub(crate) fn operations(&self) -> u64 {
        self.each_ns.len() as u64 * u64::from(self.batch)
    }

    /// Operations that were timed together.
    pub(crate) fn batch(&self) -> u32 {
        self.batch
    }

    fn at(&self, percent: usize) -> f64 {
        let index = (self.each_ns.len() * percent / 100).min(self.each_ns.len().saturating_sub(1));
        self.each_ns.get(index).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle_and_the_rest_above() {
        let mut times = (0..).map(Duration::from_micros);
        let effort = Effort::new(Duration::ZERO);
        // One that does not count, then ten: 1 to 10 microseconds for four operations each.
        let samples = effort.samples(4, || Ok(times.next().unwrap_or_default())).unwrap();
        assert_eq!(samples.operations(), 40);
        for (time_ns, expected_ns) in
            [(samples.median_ns(), 6_000.0 / 4.0), (samples.p99_ns(), 10_000.0 / 4.0)]
        {
            assert!((time_ns - expected_ns).abs() < 1e-6, "{time_ns} is not {expected_ns}");
        }
    }
}
