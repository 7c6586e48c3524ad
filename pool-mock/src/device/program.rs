//! What a program does with a device: streams of its own, work on them, captures.

use std::sync::Arc;

use pool_core::device::Device as _;

use super::capture::{CaptureMode, CaptureStatus, GraphHandle};
use super::clock::Actor;
use super::device::SimDevice;
use super::error::SimError;
use super::fence::SimFence;
use super::memory::SimRange;
use super::state::{Job, LEGACY, PER_THREAD, State, Wanted};
use super::stream::{Origin, SimStream, StreamKind, Task, Work};
use super::thread;
use super::violation::{Access, Action, Owner};

/// What a program's calls give.
pub(super) type Result<T> = core::result::Result<T, SimError>;

/// Bytes that a task uses: of which range, from where, how many, and how.
pub type TaskUse = (SimRange, u64, u64, Access);

/// A task as a stream has it.
pub(super) fn task_job(uses: &[TaskUse], task: Task) -> Job {
    let some = uses.iter().filter(|&&(_, _, size_bytes, _)| size_bytes > 0);
    let wanted = some.map(|&(range, offset_bytes, size_bytes, access)| Wanted {
        range: range.id,
        bytes: offset_bytes..offset_bytes.saturating_add(size_bytes),
        owner: None,
        access,
    });
    Job::Task(wanted.collect(), task)
}

/// What a program does. None of this counts as a call of the pool's, nor fails on demand.
impl SimDevice {
    pub(super) fn program<T>(
        &self,
        name: &'static str,
        make: impl FnOnce(&mut State, Action) -> Result<(T, Option<Actor>)>,
    ) -> Result<T> {
        let mut state = self.lock();
        let action = Action::Program(name);
        state.check_device(self.inner.number, action)?;
        let result = make(&mut state, action);
        let actor = result.as_ref().map_or(None, |&(_, actor)| actor);
        drop(self.inner.world.settle(state, actor));
        result.map(|(value, _)| value)
    }

    /// A stream of the program's own: a raw handle to a pool.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::Blocking);
    /// device.close_stream(stream)?;
    /// assert!(device.close_stream(stream).is_err());
    /// # Ok::<(), pool_mock::device::SimError>(())
    /// ```
    #[must_use]
    pub fn open_stream(&self, kind: StreamKind) -> SimStream {
        self.lock().open(self.inner.number, Origin::Opened(kind))
    }

    /// Ends a stream of the program's. What is queued on it still runs; its handle's value is the
    /// very next stream's.
    ///
    /// # Errors
    ///
    /// No such stream, or it is being captured, which this breaks: both are violations.
    pub fn close_stream(&self, stream: SimStream) -> Result<()> {
        self.program("close_stream", |state, action| {
            let actor = state.resolve(stream, action)?;
            state.end_stream(actor, Origin::Opened(StreamKind::default()), action)?;
            Ok(((), None))
        })
    }

    /// The legacy default stream: it waits for all blocking streams, and they wait for it.
    #[must_use]
    pub fn legacy_stream(&self) -> SimStream {
        SimStream { key: LEGACY[0], device: self.inner.number }
    }

    /// The legacy default stream by its other handle.
    #[must_use]
    pub fn explicit_legacy_stream(&self) -> SimStream {
        SimStream { key: LEGACY[1], device: self.inner.number }
    }

    /// The default stream of whichever thread uses this handle; it is a blocking one.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.per_thread_stream();
    /// let first = SimDevice::as_thread(1, || device.stream_id(&stream))?;
    /// let second = SimDevice::as_thread(2, || device.stream_id(&stream))?;
    /// assert_ne!(first, second);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn per_thread_stream(&self) -> SimStream {
        SimStream { key: PER_THREAD, device: self.inner.number }
    }

    /// Does `work` as if the calling thread were another, by number: with that one's
    /// [default stream](Self::per_thread_stream) and captures.
    pub fn as_thread<R>(number: u32, work: impl FnOnce() -> R) -> R {
        thread::with_number(u64::from(number), work)
    }

    /// Queues work that uses bytes of a range, which `owner` owns. If the stream is being
    /// captured, the work goes into the graph. Whatever is wrong with the use is noted as a
    /// [violation](Self::violations). Nothing happens if `size_bytes` is zero.
    ///
    /// # Errors
    ///
    /// No such stream, a broken capture, a call from a callback, or a device that does not work.
    pub fn queue_use(
        &self,
        stream: SimStream,
        range: &SimRange,
        offset_bytes: u64,
        size_bytes: u64,
        owner: Owner,
        access: Access,
    ) -> Result<()> {
        self.program("queue_use", |state, action| {
            let actor = state.resolve(stream, action)?;
            if size_bytes == 0 {
                return Ok(((), None));
            }
            let bytes = offset_bytes..offset_bytes.saturating_add(size_bytes);
            let wanted = Wanted { range: range.id, bytes, owner: Some(owner), access };
            state.place(actor, Job::Use(wanted), action)?;
            Ok(((), Some(actor)))
        })
    }

    /// Queues a call of the program's own, made from whichever thread runs the stream. It must
    /// not call the device. Other threads that need the stream wait for it as the operating
    /// system does, so it must not switch between the threads of a model checker.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use); a stream that is being captured takes none.
    pub fn queue_callback(
        &self,
        stream: SimStream,
        callback: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        self.program("queue_callback", |state, action| {
            let actor = state.resolve(stream, action)?;
            state.check_queue(actor, action)?;
            if state.stream(actor).capture.is_some() {
                return Err(SimError::Capturing);
            }
            state.submit(actor, Work::Callback(Box::new(callback)), Vec::new());
            Ok(((), Some(actor)))
        })
    }

    /// Queues a task that uses bytes of ranges, which nobody owns: any other use of them has to be
    /// ordered with this one. If the stream is being captured, the task goes into the graph, and
    /// runs at each launch. It runs on whichever thread runs the stream, with no lock of the
    /// device held; it must not call the device, as a [callback](Self::queue_callback) must not.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use).
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    ///
    /// use pool_core::device::Device;
    /// use pool_mock::device::{Access, Pacing, SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// let (range, stream) = (device.allocate(4096)?, device.create_stream()?);
    /// let log = Arc::new(Mutex::new(Vec::new()));
    /// for word in ["first", "second"] {
    ///     let log = Arc::clone(&log);
    ///     let task = move || log.lock().unwrap().push(word);
    ///     device.queue_task(stream, &[(range, 0, 4096, Access::Write)], Arc::new(task))?;
    /// }
    /// assert!(log.lock().unwrap().is_empty());
    /// device.run_all();
    /// assert_eq!(*log.lock().unwrap(), ["first", "second"]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn queue_task(
        &self,
        stream: SimStream,
        uses: &[TaskUse],
        task: Arc<dyn Fn() + Send + Sync>,
    ) -> Result<()> {
        self.program("queue_task", |state, action| {
            let actor = state.resolve(stream, action)?;
            state.place(actor, task_job(uses, task), action)?;
            Ok(((), Some(actor)))
        })
    }

    /// A fence of the program's own. [`discard_fence`](Self::discard_fence) takes it back.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use).
    pub fn queue_record(&self, stream: SimStream) -> Result<SimFence> {
        let number = self.inner.number;
        self.program("queue_record", |state, action| {
            let actor = state.resolve(stream, action)?;
            state.check_queue(actor, action)?;
            Ok((SimFence { id: state.record(number, actor) }, Some(actor)))
        })
    }

    /// Has a stream wait for a fence; for one of a capture it joins that.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use); or the fence is not of the stream's capture.
    pub fn queue_wait(&self, stream: SimStream, fence: &SimFence) -> Result<()> {
        self.program("queue_wait", |state, action| {
            let actor = state.resolve(stream, action)?;
            state.wait(actor, fence.id, action)?;
            Ok(((), Some(actor)))
        })
    }

    /// Takes back a fence of the program's.
    #[expect(clippy::needless_pass_by_value, reason = "there is no such fence any more")]
    pub fn discard_fence(&self, fence: SimFence) {
        self.lock().fences.remove(&fence.id);
    }

    /// Has a stream's work go into a graph, with the strictest mode.
    ///
    /// # Errors
    ///
    /// As [`begin_capture_in`](Self::begin_capture_in).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{Access, SimConfig, SimDevice};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let range = device.allocate(4096)?;
    /// let (stream, owner) = (device.create_stream()?, device.new_owner());
    /// device.begin_capture(stream)?;
    /// device.queue_use(stream, &range, 0, 4096, owner, Access::Write)?;
    /// assert!(device.capture_id(&stream)?.is_some());
    /// let graph = device.end_capture(stream)?;
    /// device.launch_graph(graph, stream)?; // only now anything is written
    /// device.drop_graph(graph)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn begin_capture(&self, stream: SimStream) -> Result<u64> {
        self.begin_capture_in(stream, CaptureMode::Global)
    }

    /// Has a stream's work go into a graph, and that of streams that wait for fences of it. Gives
    /// the capture's number, as [`capture_id`](pool_core::device::Device::capture_id) does.
    ///
    /// # Errors
    ///
    /// The stream is being captured already, or is the legacy default stream; and as
    /// [`queue_use`](Self::queue_use).
    pub fn begin_capture_in(&self, stream: SimStream, mode: CaptureMode) -> Result<u64> {
        self.program("begin_capture", |state, action| {
            let actor = state.resolve(stream, action)?;
            Ok((state.begin_capture(actor, mode)?, None))
        })
    }

    /// Ends a capture where it began.
    ///
    /// # Errors
    ///
    /// It was broken, which ends it all the same; a stream that joined it has work that no wait
    /// brought back here, which ends it, too; or none began here.
    pub fn end_capture(&self, stream: SimStream) -> Result<GraphHandle> {
        self.program("end_capture", |state, action| {
            let actor = state.resolve(stream, action)?;
            Ok((GraphHandle { id: state.end_capture(actor)? }, None))
        })
    }

    /// Whether a stream is being captured.
    ///
    /// # Errors
    ///
    /// As [`queue_use`](Self::queue_use).
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{CaptureStatus, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// assert_eq!(device.capture_status(stream)?, CaptureStatus::None);
    /// let capture = device.begin_capture(stream)?;
    /// assert_eq!(device.capture_status(stream)?, CaptureStatus::Active(capture));
    /// device.spoil_capture(stream)?;
    /// assert_eq!(device.capture_status(stream)?, CaptureStatus::Broken(capture));
    /// # Ok::<(), pool_mock::device::SimError>(())
    /// ```
    pub fn capture_status(&self, stream: SimStream) -> Result<CaptureStatus> {
        self.program("capture_status", |state, action| {
            let actor = state.resolve(stream, action)?;
            Ok((state.capture_status(actor), None))
        })
    }

    /// Has captures of a laxer mode forbid the calling thread nothing, as if they were of the
    /// laxer of both modes; gives what it was. A thread begins with
    /// [`Global`](CaptureMode::Global), which forbids all that the captures say.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{CaptureMode, SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// device.begin_capture(stream)?;
    /// let before = SimDevice::exchange_capture_mode(CaptureMode::Relaxed);
    /// device.host_wait_all()?; // forbidden otherwise
    /// SimDevice::exchange_capture_mode(before);
    /// device.end_capture(stream)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[expect(clippy::must_use_candidate, reason = "it is for what it does")]
    pub fn exchange_capture_mode(mode: CaptureMode) -> CaptureMode {
        thread::exchange_mode(mode)
    }

    /// Breaks the capture that a stream is in, as any mistake of the program's would.
    ///
    /// # Errors
    ///
    /// It is in none; and as [`queue_use`](Self::queue_use).
    pub fn spoil_capture(&self, stream: SimStream) -> Result<()> {
        self.program("spoil_capture", |state, action| {
            let actor = state.resolve(stream, action)?;
            let capture = state.stream(actor).capture.ok_or(SimError::NotCapturing)?;
            state.spoil_capture(capture);
            Ok(((), None))
        })
    }

    /// Runs a graph in a stream: its work is used anew by its owners, after all earlier work of
    /// the stream and after the graph's last launch.
    ///
    /// # Errors
    ///
    /// No such graph; the stream is being captured; and as [`queue_use`](Self::queue_use).
    pub fn launch_graph(&self, graph: GraphHandle, stream: SimStream) -> Result<()> {
        self.program("launch_graph", |state, action| {
            let actor = state.resolve(stream, action)?;
            state.check_queue(actor, action)?;
            state.launch(graph.id, actor)?;
            Ok(((), Some(actor)))
        })
    }

    /// Takes a graph back. Launches of it still run.
    ///
    /// # Errors
    ///
    /// No such graph.
    pub fn drop_graph(&self, graph: GraphHandle) -> Result<()> {
        let removed = self.lock().graphs.remove(&graph.id);
        removed.map(drop).ok_or(SimError::Unknown("graph"))
    }

    /// The stream that a handle's value means, be there one or not.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::{SimConfig, SimDevice, StreamKind};
    ///
    /// let device = SimDevice::new(SimConfig::new());
    /// let stream = device.open_stream(StreamKind::NonBlocking);
    /// assert_eq!(device.stream_with_key(stream.key()), stream);
    /// ```
    #[must_use]
    pub fn stream_with_key(&self, key: u64) -> SimStream {
        SimStream { key, device: self.inner.number }
    }

    /// A number for an allocation that no other has.
    #[must_use]
    pub fn new_owner(&self) -> Owner {
        Owner(self.lock().new_id())
    }

    /// Whether everything that was queued on this device has run.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let number = self.inner.number;
        let state = self.lock();
        state
            .streams
            .iter()
            .filter(|stream| stream.name.device == number)
            .all(|stream| stream.done == stream.submitted)
    }

    /// How many items of a stream have not run.
    ///
    /// # Errors
    ///
    /// No such stream.
    pub fn queued(&self, stream: SimStream) -> Result<u64> {
        let mut state = self.lock();
        let actor = state.resolve(stream, Action::Program("queued"))?;
        Ok(state.stream(actor).submitted - state.stream(actor).done)
    }

    /// Whether a handle means a stream that exists.
    #[must_use]
    pub fn exists(&self, stream: SimStream) -> bool {
        let special = LEGACY.contains(&stream.key) || stream.key == PER_THREAD;
        special || self.lock().handles.contains_key(&self.stream_key(&stream))
    }
}
