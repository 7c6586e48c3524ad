//! What a test does with a device: when work runs, what fails, what was found.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use pool_core::device::Call;

use super::calls::{CallCounts, CallRecord};
use super::clock::Point;
use super::config::Pacing;
use super::device::{Hooks, SimDevice};
use super::error::SimError;
use super::faults::Fault;
use super::schedule::Holds;
use super::state::Fatal;
use super::stream::{Origin, SimStream};
use super::violation::{Action, Violation};

/// What exists on a device.
///
/// # Example
///
/// ```
/// use pool_core::device::Device;
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new());
/// let range = device.allocate(4096)?;
/// assert_eq!((device.balance().ranges, device.balance().bytes), (1, 4096));
/// device.free(&range)?;
/// assert!(device.balance().is_zero());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Balance {
    /// Ranges.
    pub ranges: usize,
    /// Bytes of memory, behind ranges and in pages.
    pub bytes: u64,
    /// Streams that [`create_stream`](pool_core::device::Device::create_stream) made.
    pub streams: usize,
    /// Fences that were not discarded, the program's included.
    pub fences: usize,
    /// Handles of pages, mapped or not.
    pub pages: usize,
    /// Graphs.
    pub graphs: usize,
    /// Streams that the program opened. They are not the pool's to give back.
    pub opened_streams: usize,
}

impl Balance {
    /// Whether nothing is left but [`opened_streams`](Self::opened_streams).
    #[must_use]
    pub fn is_zero(&self) -> bool {
        Self { opened_streams: 0, ..*self } == Self::default()
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ranges with {} bytes, {} streams, {} fences, {} pages, {} graphs",
            self.ranges, self.bytes, self.streams, self.fences, self.pages, self.graphs
        )
    }
}

/// When work runs.
impl SimDevice {
    /// Changes when work runs, from now on, on all devices of the world.
    pub fn set_pacing(&self, pacing: Pacing) {
        let mut state = self.lock();
        state.pacing = pacing;
        if let Pacing::Random(seed) = pacing {
            state.random.seed(seed);
        }
        drop(self.inner.world.settle(state, None));
    }

    /// Stalls a stream: nothing on it runs but what the host waits for.
    ///
    /// # Errors
    ///
    /// No such stream.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.create_stream()?;
    /// device.hold(stream)?;
    /// let fence = device.record(&stream)?;
    /// assert!(!device.is_done(&fence)?);
    /// device.go(stream)?;
    /// assert!(device.is_done(&fence)?);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn hold(&self, stream: SimStream) -> Result<(), SimError> {
        let mut state = self.lock();
        let actor = state.resolve(stream, Action::Program("hold"))?;
        state.stream_mut(actor).held = true;
        Ok(())
    }

    /// Ends a stall, and has the stream run all that is queued on it, with what that waits for
    /// on streams that are not stalled.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn go(&self, stream: SimStream) -> Result<(), SimError> {
        let mut state = self.lock();
        let actor = state.resolve(stream, Action::Program("go"))?;
        state.stream_mut(actor).held = false;
        let end = state.stream(actor).end(actor);
        let state = self.inner.world.reach(state, end, Holds::Stay);
        drop(self.inner.world.settle(state, Some(actor)));
        Ok(())
    }

    /// Has a stream run its next `items` items, even if it is stalled, with what they wait for on
    /// streams that are not.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn advance(&self, stream: SimStream, items: u64) -> Result<(), SimError> {
        let mut state = self.lock();
        let actor = state.resolve(stream, Action::Program("advance"))?;
        let known = state.stream(actor);
        let position = known.done.saturating_add(items).min(known.submitted);
        drop(self.inner.world.reach(state, Point { actor, position }, Holds::StayBut(actor)));
        Ok(())
    }

    /// Ends every stall and runs everything that is queued on all devices of the world. The host
    /// sees none of it: that is what a [wait](pool_core::device::Device::wait_on_host) is for.
    pub fn run_all(&self) {
        let mut state = self.lock();
        for stream in &mut state.streams {
            stream.held = false;
        }
        let ends: Vec<Point> =
            state.streams.iter().zip(0..).map(|(stream, actor)| stream.end(actor)).collect();
        for end in ends {
            state = self.inner.world.reach(state, end, Holds::Run);
        }
    }

    /// Runs one of the items that may run now, chosen by a number; whether there was one.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{Pacing, SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// let stream = device.create_stream()?;
    /// let fence = device.record(&stream)?;
    /// assert!(device.step(7));
    /// assert!(device.is_done(&fence)?);
    /// assert!(!device.step(7));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "it is for what it does")]
    pub fn step(&self, choice: u32) -> bool {
        let (state, ran) = self.inner.world.step(self.lock(), u64::from(choice));
        drop(state);
        ran
    }

    /// Lets time pass.
    pub fn pass(&self, time: Duration) {
        let mut state = self.lock();
        state.now = state.now.saturating_add(time);
    }

    /// Has others use so much of the device's memory.
    pub fn set_foreign_bytes(&self, bytes: u64) {
        self.lock().device(self.inner.number).foreign_bytes = bytes;
    }
}

/// What fails.
impl SimDevice {
    /// How calls fail on demand from now on: a [plain](Fault::Plain) error, unless this says
    /// otherwise.
    pub fn fail_with(&self, fault: Fault) {
        self.lock().device(self.inner.number).faults.fail_with(fault);
    }

    /// Has the `nth` call of the trait from now on fail, whatever it is: 1 is the next one. The
    /// call then does nothing, except that
    /// [`destroy_stream`](pool_core::device::Device::destroy_stream) loses the stream.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// device.fail_nth(2);
    /// assert!(device.allocate(4096).is_ok());
    /// assert!(device.allocate(4096).is_err());
    /// assert!(device.allocate(4096).is_ok());
    /// ```
    pub fn fail_nth(&self, nth: u64) {
        let mut state = self.lock();
        let device = state.device(self.inner.number);
        device.faults.fail_at(device.calls.counts.total().saturating_add(nth));
    }

    /// Has every call of a kind fail.
    pub fn fail_each(&self, call: Call) {
        self.lock().device(self.inner.number).faults.fail_kind(call, None);
    }

    /// Has the next calls of a kind fail, so many of them.
    pub fn fail_next(&self, call: Call, times: u64) {
        self.lock().device(self.inner.number).faults.fail_kind(call, Some(times));
    }

    /// Has no call fail any more.
    pub fn clear_faults(&self) {
        self.lock().device(self.inner.number).faults.clear();
    }

    /// How many calls have failed on demand.
    #[must_use]
    pub fn injected(&self) -> u64 {
        self.lock().device(self.inner.number).faults.injected()
    }

    /// Has no call succeed any more. The first says so; to call after that is a violation.
    pub fn make_fatal(&self) {
        self.lock().device(self.inner.number).fatal = Fatal::Unsaid;
    }

    /// Shuts the device down, as at the end of a process: any call is a violation, and
    /// [`is_alive`](pool_core::device::Device::is_alive) is false.
    pub fn shut_down(&self) {
        self.lock().device(self.inner.number).alive = false;
    }

    /// Whether it is shut down. It is no question: see [`shut_down_after`](Self::shut_down_after).
    #[must_use]
    pub fn is_shut_down(&self) -> bool {
        !self.lock().device(self.inner.number).alive
    }

    /// Shuts the device down once [`is_alive`](pool_core::device::Device::is_alive) was true so many times
    /// more, when it is asked next: in the midst of what asks, as a thread does that ends the process.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// device.shut_down_after(1);
    /// assert!(device.is_alive() && !device.is_shut_down());
    /// assert!(!device.is_alive() && device.is_shut_down());
    /// ```
    pub fn shut_down_after(&self, answers: u64) {
        self.lock().device(self.inner.number).alive_for = Some(answers);
    }

    /// Runs `hook` before each call of the trait, on the thread that makes it, with no lock of the
    /// device held: it may use the device and whatever called it. Its own calls run it, too, so it
    /// has to see to an end. It replaces the hook before.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use pool_core::device::{Call, Device};
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let seen = Arc::new(Mutex::new(Vec::new()));
    /// let calls = Arc::clone(&seen);
    /// device.on_call(move |call| calls.lock().unwrap().push(call));
    /// device.allocate(4096)?;
    /// assert_eq!(*seen.lock().unwrap(), [Call::Allocate]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn on_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        let mut hooks = self.inner.hooks.lock();
        hooks.before = Some(Arc::new(hook));
    }

    /// As [`on_call`](Self::on_call), after each call: its effect is there, and whoever made it
    /// does not know yet.
    pub fn after_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        let mut hooks = self.inner.hooks.lock();
        hooks.after = Some(Arc::new(hook));
    }

    /// Takes both hooks away.
    pub fn clear_hooks(&self) {
        *self.inner.hooks.lock() = Hooks::default();
    }
}

/// What was found.
impl SimDevice {
    /// What must not have happened, on any device of the world, oldest first; the first thousand.
    #[must_use]
    pub fn violations(&self) -> Vec<Violation> {
        self.lock().violations.clone()
    }

    /// Takes the violations away.
    #[must_use]
    pub fn take_violations(&self) -> Vec<Violation> {
        core::mem::take(&mut self.lock().violations)
    }

    /// Checks that there are no violations.
    ///
    /// # Panics
    ///
    /// If there are: with what they are, and the last calls.
    #[track_caller]
    pub fn assert_clean(&self) {
        let violations = self.violations();
        let lines: Vec<String> = violations.iter().map(|one| format!("\n  {one}")).collect();
        let calls = self.last_calls().into_iter();
        let calls: Vec<String> =
            calls.map(|record| format!("\n  {}: {}", record.number, record.call)).collect();
        assert!(
            violations.is_empty(),
            "{} violations:{}\nlast calls:{}",
            lines.len(),
            lines.concat(),
            calls.concat()
        );
    }

    /// How many calls of the trait were made on this device.
    #[must_use]
    pub fn calls(&self) -> CallCounts {
        self.lock().device(self.inner.number).calls.counts.clone()
    }

    /// The last calls of the trait on this device, oldest first; at most 64.
    #[must_use]
    pub fn last_calls(&self) -> Vec<CallRecord> {
        self.lock().device(self.inner.number).calls.last()
    }

    /// How many bytes of this device rest.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let range = device.allocate(1 << 20)?;
    /// device.quarantine(&range, 4096, 512);
    /// assert_eq!(device.resting_bytes(), 512);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn resting_bytes(&self) -> u64 {
        let state = self.lock();
        let own = state.ranges.values().filter(|range| range.device == self.inner.number);
        let resting = own.flat_map(|range| range.resting.overlapping(0..u64::MAX));
        resting.map(|(bytes, ())| bytes.end - bytes.start).sum()
    }

    /// What exists on this device.
    #[must_use]
    pub fn balance(&self) -> Balance {
        let number = self.inner.number;
        let mut state = self.lock();
        let bytes = state.device(number).used_bytes;
        let ranges = || state.ranges.values().filter(|range| range.device == number);
        let streams =
            || state.streams.iter().filter(|stream| stream.alive && stream.name.device == number);
        let opened = |origin| matches!(origin, Origin::Opened(_));
        Balance {
            ranges: ranges().count(),
            bytes,
            streams: streams().filter(|stream| stream.origin == Origin::Created).count(),
            fences: state.fences.values().filter(|fence| fence.device == number).count(),
            pages: state.pages.values().filter(|pages| pages.device == number).count(),
            graphs: state.graphs.values().filter(|graph| graph.device == number).count(),
            opened_streams: streams().filter(|stream| opened(stream.origin)).count(),
        }
    }
}
