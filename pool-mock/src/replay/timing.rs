//! The time of a replay, and nothing but the replay in it.

use core::time::Duration;
use std::time::Instant;

use super::{
    placer::Placer,
    script::{Script, Step},
};

/// One timed replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// From the first step to the last.
    pub elapsed: Duration,
    /// Requests that were refused.
    pub failures: u64,
}

/// Where replays of a script take place: holds the table of live blocks, so that a pass touches
/// no fresh memory but the allocator's.
#[derive(Debug)]
pub struct Stage<'a, B> {
    script: &'a Script,
    slots: Vec<Option<B>>,
}

impl<'a, B> Stage<'a, B> {
    /// A stage for a script.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::{Trace, reference::BestFit, replay::{Script, Stage}};
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,64,0\nallocate,0xb0,64,0\n";
    /// let script = Script::new(&Trace::read(log.as_bytes())?, 64);
    /// let mut stage = Stage::new(&script);
    /// assert_eq!(stage.pass(&mut BestFit::new(1)).failures, 1);
    /// assert!(stage.serves(&mut BestFit::new(2)));
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn new(script: &'a Script) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(script.peak_live_blocks() as usize, || None);
        Self { script, slots }
    }

    /// Replays the script on a fresh allocator, timed. What is live at its end is released after
    /// the clock has stopped.
    pub fn pass<P: Placer<Block = B>>(&mut self, placer: &mut P) -> Pass {
        let start = Instant::now();
        let failures = self.play(placer);
        let elapsed = start.elapsed();
        self.clear(placer);
        Pass { elapsed, failures }
    }

    /// All steps, and nothing else; how many requests were refused.
    #[inline]
    pub(super) fn play<P: Placer<Block = B>>(&mut self, placer: &mut P) -> u64 {
        let mut failures = 0;
        for step in self.script.steps() {
            match *step {
                Step::Allocate { slot, granules } => {
                    let block = placer.place(granules);
                    failures += u64::from(block.is_none());
                    self.slots[slot as usize] = block;
                }
                Step::Free { slot } => {
                    if let Some(block) = self.slots[slot as usize].take() {
                        placer.release(block);
                    }
                }
            }
        }
        failures
    }

    /// Releases what is live.
    pub(super) fn clear<P: Placer<Block = B>>(&mut self, placer: &mut P) {
        for block in self.slots.iter_mut().filter_map(Option::take) {
            placer.release(block);
        }
    }

    /// Whether the allocator serves every request. Stops at the first refusal.
    pub fn serves<P: Placer<Block = B>>(&mut self, placer: &mut P) -> bool {
        let served = self.script.steps().iter().all(|step| match *step {
            Step::Allocate { slot, granules } => {
                self.slots[slot as usize] = placer.place(granules);
                self.slots[slot as usize].is_some()
            }
            Step::Free { slot } => {
                if let Some(block) = self.slots[slot as usize].take() {
                    placer.release(block);
                }
                true
            }
        });
        self.slots.fill_with(|| None);
        served
    }
}

/// The best of several passes: the time that least else got into.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use pool_mock::replay::{Best, Pass};
///
/// let mut best = Best::default();
/// assert!(!best.is_settled());
/// for microseconds in [30, 20, 40] {
///     best.add(Pass { elapsed: Duration::from_micros(microseconds), failures: 0 });
/// }
/// assert_eq!(best.ns_per_operation(1000), Some(20.0));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Best {
    passes: u32,
    least: Option<Duration>,
    total: Duration,
}

impl Best {
    /// Takes note of a pass.
    pub fn add(&mut self, pass: Pass) {
        self.passes = self.passes.saturating_add(1);
        self.total = self.total.saturating_add(pass.elapsed);
        self.least = Some(self.least.map_or(pass.elapsed, |least| least.min(pass.elapsed)));
    }

    /// Whether more passes are hardly worth their time: five of them, and half a second in all
    /// or two hundred.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.passes >= 5 && (self.total >= Duration::from_millis(500) || self.passes >= 200)
    }

    /// Nanoseconds an operation in the best pass; `None` without a pass or an operation.
    #[must_use]
    pub fn ns_per_operation(&self, operations: usize) -> Option<f64> {
        let operations = u32::try_from(operations).ok().filter(|count| *count > 0)?;
        Some(self.least?.as_secs_f64() * 1e9 / f64::from(operations))
    }
}
