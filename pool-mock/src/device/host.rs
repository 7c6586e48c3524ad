//! What a program's host asks and waits for.

use core::ops::Range;
use std::sync::Arc;

use super::clock::{Actor, Clock, Point};
use super::device::SimDevice;
use super::error::SimError;
use super::fence::SimFence;
use super::memory::SimRange;
use super::program::{Result, TaskUse, task_job};
use super::schedule::Holds;
use super::state::State;
use super::stream::{Origin, SimStream, Work};
use super::thread;
use super::violation::{Action, Owner};
use super::world::Locked;

/// What a program's host asks and waits for. A wait says whether there was anything to wait for.
impl SimDevice {
    /// The program waits for a fence; whether it had to.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use); or a capture forbids it, which this breaks.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{Pacing, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// let fence = device.queue_record(stream)?;
    /// assert!(!device.query_fence(&fence)?);
    /// assert!(device.host_wait(&fence)?);
    /// assert!(device.query_fence(&fence)?);
    /// device.discard_fence(fence);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn host_wait(&self, fence: &SimFence) -> Result<bool> {
        let action = Action::Program("host_wait");
        let mut state = self.lock();
        state.check_device(self.inner.number, action)?;
        let (at, clock) = state.real_place(fence.id, action)?;
        state.check_captures(action)?;
        Ok(self.wait_and_see(state, at, &clock))
    }

    /// The program waits for all that is queued on a stream; whether it had to.
    ///
    /// # Errors
    ///
    /// As [`host_wait`](Self::host_wait); or the stream is being captured, which this breaks.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{Pacing, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// device.queue_callback(stream, || println!("the stream came here"))?;
    /// assert!(!device.query_stream(stream)?);
    /// assert!(device.host_wait_stream(stream)?);
    /// assert!(!device.host_wait_stream(stream)?, "there is nothing left to wait for");
    /// # Ok::<(), pool_mock::device::SimError>(())
    /// ```
    pub fn host_wait_stream(&self, stream: SimStream) -> Result<bool> {
        let action = Action::Program("host_wait_stream");
        let mut state = self.lock();
        state.check_device(self.inner.number, action)?;
        let actor = state.resolve(stream, action)?;
        let (at, clock) = state.end_for_host(actor, action)?;
        Ok(self.wait_and_see(state, at, &clock))
    }

    /// The program waits for all that is queued on the device; whether it had to.
    ///
    /// # Errors
    ///
    /// As [`host_wait`](Self::host_wait).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{Pacing, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// device.queue_callback(stream, || ())?;
    /// assert!(device.host_wait_all()?);
    /// assert!(device.is_idle());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn host_wait_all(&self) -> Result<bool> {
        let (number, action) = (self.inner.number, Action::Program("host_wait_all"));
        let mut state = self.lock();
        state.check_device(number, action)?;
        state.check_captures(action)?;
        let waited = state.ends(number).iter().any(|&(end, _)| !state.is_done(end));
        drop(self.inner.world.synchronize(state, number));
        Ok(waited)
    }

    /// Whether a fence's work is done, for the program.
    ///
    /// # Errors
    ///
    /// As [`host_wait`](Self::host_wait).
    pub fn query_fence(&self, fence: &SimFence) -> Result<bool> {
        let action = Action::Program("query_fence");
        let mut state = self.lock();
        state.check_device(self.inner.number, action)?;
        let (at, clock) = state.real_place(fence.id, action)?;
        state.check_captures(action)?;
        Ok(self.inner.world.settle(state, None).look(at, &clock))
    }

    /// Whether all that is queued on a stream is done, for the program.
    ///
    /// # Errors
    ///
    /// As [`host_wait_stream`](Self::host_wait_stream).
    pub fn query_stream(&self, stream: SimStream) -> Result<bool> {
        let action = Action::Program("query_stream");
        let mut state = self.lock();
        state.check_device(self.inner.number, action)?;
        let actor = state.resolve(stream, action)?;
        let (at, clock) = state.end_for_host(actor, action)?;
        let mut state = self.inner.world.settle(state, Some(actor));
        Ok(state.look(at, &clock))
    }

    /// Queues a task and waits until it has run; whether the host had to wait for other work. No
    /// moment is between the two: a task that was queued has run when this returns.
    ///
    /// # Errors
    ///
    /// As [`queue_task`](Self::queue_task) and [`host_wait_stream`](Self::host_wait_stream); the
    /// task then does not run.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// use pool_mock::device::{Pacing, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// let ran = Arc::new(AtomicBool::new(false));
    /// let inside = Arc::clone(&ran);
    /// let task = move || inside.store(true, Ordering::SeqCst);
    /// assert!(!device.run_task(stream, &[], Arc::new(task))?, "nothing was before it");
    /// assert!(ran.load(Ordering::SeqCst));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn run_task(
        &self,
        stream: SimStream,
        uses: &[TaskUse],
        task: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<bool> {
        let action = Action::Program("run_task");
        let mut state = self.lock();
        state.check_device(self.inner.number, action)?;
        let actor = state.resolve(stream, action)?;
        state.check_queue(actor, action)?;
        state.check_host(actor, action)?;
        state.place(actor, task_job(uses, task), action)?;
        let is_next = state.stream(actor).queue.len() == 1;
        let waits = !is_next || state.ready().all(|ready| ready != actor);
        let (at, clock) = (state.stream(actor).end(actor), state.stream(actor).clock.clone());
        self.wait_and_see(state, at, &clock);
        Ok(waits)
    }

    /// What bytes of a range hold now, of the work that has run: who wrote them last. The
    /// host waits for nothing and counts as having seen nothing. Needs
    /// [marks](super::SimConfig::marks).
    ///
    /// # Errors
    ///
    /// No such range.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{Access, SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let (range, stream, owner) = (device.allocate(4096)?, device.create_stream()?, device.new_owner());
    /// device.queue_use(stream, &range, 256, 512, owner, Access::Write)?;
    /// assert_eq!(device.owners(&range, 0..4096)?, [(256..768, owner)]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn owners(&self, range: &SimRange, bytes: Range<u64>) -> Result<Vec<(Range<u64>, Owner)>> {
        let state = self.lock();
        let known = state.ranges.get(&range.id).ok_or(SimError::Unknown("range"))?;
        let found = known.marks.overlapping(bytes);
        Ok(found.map(|(place, &owner)| (place, owner)).collect())
    }

    /// Says that a call that waits, allocates or frees is about to be made.
    ///
    /// # Errors
    ///
    /// A capture forbids it, which this breaks.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// device.begin_capture(stream)?;
    /// assert!(device.check_call("allocate").is_err());
    /// assert!(device.end_capture(stream).is_err(), "it broke the capture");
    /// assert!(device.check_call("allocate").is_ok());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn check_call(&self, name: &'static str) -> Result<()> {
        self.lock().check_captures(Action::Program(name))
    }

    /// Says that something is about to be queued on a stream.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::Blocking);
    /// device.begin_capture(stream)?;
    /// assert!(device.check_queue(stream, "copy").is_ok());
    /// assert!(device.is_blocking_captured());
    /// assert!(device.check_queue(device.legacy_stream(), "copy").is_err());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn check_queue(&self, stream: SimStream, name: &'static str) -> Result<()> {
        let mut state = self.lock();
        let actor = state.resolve(stream, Action::Program(name))?;
        state.check_queue(actor, Action::Program(name))
    }

    /// Whether any stream that the legacy default stream waits for is being captured.
    #[must_use]
    pub fn is_blocking_captured(&self) -> bool {
        let state = self.lock();
        let mut own = state.streams.iter().filter(|stream| stream.name.device == self.inner.number);
        own.any(|stream| stream.origin.is_blocking() && stream.capture.is_some())
    }

    /// Whether the calling thread runs a callback or a task of a stream.
    #[must_use]
    pub fn is_in_callback() -> bool {
        thread::is_in_callback()
    }

    /// Runs what a point needs, and has the host see it; whether anything was left to run.
    fn wait_and_see<'a>(&'a self, state: Locked<'a>, at: Point, clock: &Clock) -> bool {
        let waited = !state.is_done(at);
        self.inner.world.reach(state, at, Holds::Run).see(at, clock);
        waited
    }
}

impl State {
    /// Whether the host may wait for a stream.
    fn check_host(&mut self, actor: Actor, action: Action) -> Result<()> {
        if let Some(capture) = self.stream(actor).capture {
            return Err(self.break_capture(capture, action));
        }
        self.check_captures(action)
    }

    /// Where a stream ends, for the host to wait for. Everything that the legacy default stream
    /// waits for belongs to it.
    fn end_for_host(&mut self, actor: Actor, action: Action) -> Result<(Point, Clock)> {
        self.check_host(actor, action)?;
        self.check_queue(actor, action)?;
        if self.stream(actor).origin == Origin::Legacy {
            self.submit(actor, Work::Nothing, Vec::new());
        }
        let stream = self.stream(actor);
        Ok((stream.end(actor), stream.clock.clone()))
    }

    /// Whether a point is done; if so, the host has seen it.
    fn look(&mut self, at: Point, clock: &Clock) -> bool {
        let is_done = self.is_done(at);
        if is_done {
            self.see(at, clock);
        }
        is_done
    }
}
