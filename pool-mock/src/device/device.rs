//! The device: what a pool calls.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use parking_lot::Mutex;
use pool_core::device::{Call, Capabilities, Device, Failure, MemoryInfo, Severity};

use super::capture::CaptureStatus;
use super::clock::Actor;
use super::config::SimConfig;
use super::error::SimError;
use super::fence::{Place, SimFence};
use super::memory::{RangeState, SimRange};
use super::pages::SimPages;
use super::schedule::Holds;
use super::state::{Fatal, Job, LEGACY, State, Wanted};
use super::stream::{Origin, SimStream};
use super::thread;
use super::violation::{Access, Action, Violation};
use super::world::{Hook, Locked, World};

/// What the trait's calls give.
type Result<T> = core::result::Result<T, Failure<SimError>>;

/// Addresses of ranges are a multiple of this apart.
const RANGE_STRIDE: u64 = 1 << 40;

/// A device that exists only in memory, whose timing one controls and which notices what a real
/// one would answer with corrupted data.
///
/// A clone is the same device. Its lock is never held while a callback or a hook runs.
///
/// What a pool calls is the trait [`Device`]; what a program queues is in methods named
/// `queue_...` and around them; the rest is for tests: when work runs, what fails, what was found.
///
/// # Example
///
/// ```
/// use pool_core::device::Device;
/// use pool_mock::device::{Access, Pacing, SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
/// let range = device.allocate(1 << 20)?;
/// let (first, second) = (device.create_stream()?, device.create_stream()?);
/// let (one, other) = (device.new_owner(), device.new_owner());
///
/// device.queue_use(first, &range, 0, 4096, one, Access::Write)?;
/// let fence = device.record(&first)?;
/// assert!(!device.is_done(&fence)?, "nothing runs before the host waits");
/// device.wait(&second, &fence)?;
/// device.queue_use(second, &range, 0, 4096, other, Access::Write)?;
/// device.assert_clean(); // ordered by the fence; without it the two uses would race
///
/// device.discard(fence);
/// device.synchronize()?;
/// device.destroy_stream(&first)?;
/// device.destroy_stream(&second)?;
/// device.free(&range)?;
/// assert!(device.balance().is_zero());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SimDevice {
    pub(super) inner: Arc<Inner>,
}

/// What a device's clones share.
pub(super) struct Inner {
    pub(super) world: Arc<World>,
    pub(super) number: u32,
    pub(super) config: SimConfig,
    pub(super) hooks: Mutex<Hooks>,
}

/// What a test has run at each call.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) before: Option<Hook>,
    pub(super) after: Option<Hook>,
}

impl fmt::Debug for SimDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDevice")
            .field("number", &self.inner.number)
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl SimDevice {
    /// A device in a world of its own.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        let world = Arc::new(World::new(State::new(&config)));
        Self { inner: Arc::new(Inner { world, number: 0, config, hooks: Mutex::default() }) }
    }

    /// Another device in the same world: the same kind, with memory and streams of its own. Each
    /// can wait for the other's fences, and one detector watches both.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{Access, SimConfig, SimDevice};
    ///
    /// let first = SimDevice::new(SimConfig::new());
    /// let second = first.peer();
    /// let range = second.allocate(4096)?;
    /// let (writer, reader) = (first.create_stream()?, second.create_stream()?);
    /// let (one, other) = (first.new_owner(), first.new_owner());
    /// first.queue_use(writer, &range, 0, 4096, one, Access::Write)?;
    /// let fence = first.record(&writer)?;
    /// second.wait(&reader, &fence)?;
    /// second.queue_use(reader, &range, 0, 4096, other, Access::Write)?;
    /// second.assert_clean();
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn peer(&self) -> Self {
        self.peer_with(self.inner.config.clone())
    }

    /// Another device in the same world, of another kind. When work runs, and what is looked for,
    /// is the same in the whole world, whatever this says.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    /// use pool_mock::device::{SimConfig, SimDevice};
    ///
    /// let first = SimDevice::new(SimConfig::new());
    /// let small = first.peer_with(SimConfig::new().memory_bytes(1 << 20));
    /// assert_eq!(small.memory()?.total_bytes, 1 << 20);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn peer_with(&self, config: SimConfig) -> Self {
        let world = Arc::clone(&self.inner.world);
        let number = world.lock().add_device(&config);
        Self { inner: Arc::new(Inner { world, number, config, hooks: Mutex::default() }) }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        self.inner.world.lock()
    }

    fn has(&self, capability: Capabilities) -> bool {
        self.inner.config.capabilities.contains(capability)
    }

    /// A call that changes the state, and may queue something on a stream, which it then names.
    fn call<T>(
        &self,
        call: Call,
        act: impl FnOnce(&mut State) -> core::result::Result<(T, Option<Actor>), SimError>,
    ) -> Result<T> {
        self.running_call(call, |mut state| {
            let made = act(&mut state);
            let actor = made.as_ref().map_or(None, |&(_, actor)| actor);
            let state = self.inner.world.settle(state, actor);
            (state, made.map(|(value, _)| value))
        })
    }

    /// A call that may run queued work, for which it gives the lock away: before and after it the
    /// hooks, then what every call is checked for, then `act`.
    fn running_call<'a, T>(
        &'a self,
        call: Call,
        act: impl FnOnce(Locked<'a>) -> (Locked<'a>, core::result::Result<T, SimError>),
    ) -> Result<T> {
        let hooks = self.inner.hooks.lock().clone();
        if let Some(hook) = hooks.before {
            hook(call);
        }
        let made = self.checked_call(call, act);
        if let Some(hook) = hooks.after {
            hook(call);
        }
        made
    }

    fn checked_call<'a, T>(
        &'a self,
        call: Call,
        act: impl FnOnce(Locked<'a>) -> (Locked<'a>, core::result::Result<T, SimError>),
    ) -> Result<T> {
        let number = self.inner.number;
        let mut state = self.lock();
        if !self.has(needed(call)) {
            state.violate(Violation::Unsupported(call));
            return Err(Failure::Unsupported(call));
        }
        let count = state.device(number).calls.begin(call);
        let checked = state.check_call(number, call, count);
        let (mut state, made) = match checked {
            Ok(()) => act(state),
            Err(error) => (state, Err(error)),
        };
        if let Err(error) = &made {
            state.device(number).calls.failed(count, error);
        }
        Ok(made?)
    }
}

/// What a device must be able to do for a call.
const fn needed(call: Call) -> Capabilities {
    match call {
        Call::Extend => Capabilities::EXTEND,
        Call::Reserve | Call::CreatePages | Call::DestroyPages | Call::Commit | Call::Decommit => {
            Capabilities::PAGES
        }
        Call::CreateStream | Call::DestroyStream => Capabilities::STREAMS,
        Call::StreamId => Capabilities::STREAM_IDS,
        Call::Record | Call::IsDone | Call::Wait | Call::WaitOnHost => Capabilities::FENCES,
        Call::Copy => Capabilities::COPY,
        Call::Memory => Capabilities::MEMORY,
        _ => Capabilities::empty(),
    }
}

impl State {
    /// Whether a call may be made: the device works, no callback makes it, no capture forbids
    /// it, and it is not to fail.
    fn check_call(
        &mut self,
        device: u32,
        call: Call,
        number: u64,
    ) -> core::result::Result<(), SimError> {
        let action = Action::Call(call);
        self.check_device(device, action)?;
        let grows = self.device(device).capabilities.contains(Capabilities::GROWS_IN_CAPTURE);
        match call {
            Call::Free
            | Call::DestroyPages
            | Call::Decommit
            | Call::IsDone
            | Call::WaitOnHost
            | Call::Synchronize => {
                self.check_captures(action)?;
            }
            Call::Allocate | Call::Extend | Call::Reserve | Call::CreatePages | Call::Commit
                if !grows =>
            {
                self.check_captures(action)?;
            }
            Call::RecordAll => self.check_device_captures(device, action)?,
            _ => {}
        }
        if let Some(error) = self.device(device).faults.strike(call, number) {
            if error == SimError::Fatal {
                self.device(device).fatal = Fatal::Said;
            }
            return Err(error);
        }
        Ok(())
    }

    /// Whether a device can be called at all, from here.
    pub(super) fn check_device(
        &mut self,
        device: u32,
        action: Action,
    ) -> core::result::Result<(), SimError> {
        let by_program = matches!(action, Action::Program(_));
        if !self.device(device).alive {
            if !by_program {
                self.violate(Violation::AfterShutDown(action));
            }
            return Err(SimError::ShuttingDown);
        }
        match self.device(device).fatal {
            Fatal::No => {}
            _ if by_program => return Err(SimError::Fatal),
            Fatal::Unsaid => {
                self.device(device).fatal = Fatal::Said;
                return Err(SimError::Fatal);
            }
            Fatal::Said => {
                self.violate(Violation::AfterFatal(action));
                return Err(SimError::Fatal);
            }
        }
        if thread::is_in_callback() {
            self.violate(Violation::InCallback(action));
            return Err(SimError::ForbiddenInCallback);
        }
        Ok(())
    }

    /// Takes memory of a device.
    pub(super) fn take_memory(
        &mut self,
        device: u32,
        bytes: u64,
    ) -> core::result::Result<(), SimError> {
        let free_bytes = self.free_bytes(device);
        if bytes > free_bytes {
            return Err(SimError::OutOfMemory { asked_bytes: bytes, free_bytes });
        }
        self.device(device).used_bytes += bytes;
        Ok(())
    }

    fn free_bytes(&mut self, device: u32) -> u64 {
        let device = self.device(device);
        device.memory_bytes.saturating_sub(device.used_bytes).saturating_sub(device.foreign_bytes)
    }

    /// A range of a device.
    fn range_mut(
        &mut self,
        device: u32,
        range: &SimRange,
        call: Call,
    ) -> core::result::Result<&mut RangeState, SimError> {
        if self.ranges.get(&range.id).is_none_or(|known| known.device != device) {
            self.violate(Violation::Unknown { action: Action::Call(call), what: "range" });
            return Err(SimError::Unknown("range"));
        }
        self.ranges.get_mut(&range.id).ok_or(SimError::Unknown("range"))
    }

    /// Notes that memory is taken from work that may still use it.
    /// Says whether there is such work.
    pub(super) fn check_taken(
        &mut self,
        action: Action,
        range: u64,
        bytes: core::ops::Range<u64>,
    ) -> bool {
        let pending = self.pending(range, bytes);
        let is_used = pending.is_some();
        if let Some(pending) = pending {
            self.violate(Violation::TakenInUse { action, pending });
        }
        is_used
    }
}

impl Device for SimDevice {
    type Range = SimRange;
    type Stream = SimStream;
    type Fence = SimFence;
    type Pages = SimPages;
    type Error = SimError;

    fn allocate(&self, size_bytes: u64) -> Result<SimRange> {
        let Inner { number, config, .. } = &*self.inner;
        self.call(Call::Allocate, |state| {
            if size_bytes == 0 || size_bytes > RANGE_STRIDE / 2 {
                return Err(SimError::Invalid("no range has this size"));
            }
            state.take_memory(*number, size_bytes)?;
            let id = state.new_id();
            state.ranges.insert(id, RangeState::new(*number, size_bytes));
            let address = id.wrapping_mul(RANGE_STRIDE).wrapping_add(config.misalign_bytes);
            Ok((SimRange { id, device: *number, address }, None))
        })
    }

    fn free(&self, range: &SimRange) -> Result<()> {
        self.running_call(Call::Free, |mut state| {
            if self.has(Capabilities::FREE_WAITS) {
                state = self.inner.world.synchronize(state, self.inner.number);
            }
            let freed =
                state.range_mut(self.inner.number, range, Call::Free).and_then(|known| match known
                    .pages
                    .len()
                {
                    0 => Ok((known.size_bytes, known.backed_bytes)),
                    _ => Err(SimError::Invalid("there are pages under it")),
                });
            let freed = freed.map(|(size_bytes, backed_bytes)| {
                state.check_taken(Action::Call(Call::Free), range.id, 0..size_bytes);
                state.ranges.remove(&range.id);
                state.device(self.inner.number).used_bytes -= backed_bytes;
            });
            (state, freed)
        })
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.config.capabilities
    }

    fn severity(&self, error: &SimError) -> Severity {
        match error {
            SimError::OutOfMemory { .. } | SimError::InjectedOutOfMemory { .. } => {
                Severity::OutOfMemory
            }
            SimError::Fatal => Severity::Fatal,
            _ => Severity::Call,
        }
    }

    fn is_alive(&self) -> bool {
        self.lock().device(self.inner.number).ask_whether_alive()
    }

    fn address(&self, range: &SimRange) -> Option<u64> {
        self.has(Capabilities::ADDRESSES).then_some(range.address)
    }

    fn extend(&self, range: &SimRange, from_bytes: u64, to_bytes: u64) -> Result<()> {
        let number = &self.inner.number;
        self.call(Call::Extend, |state| {
            let RangeState { size_bytes, reserved, .. } =
                *state.range_mut(*number, range, Call::Extend)?;
            if reserved {
                return Err(SimError::Invalid("these are only addresses"));
            }
            if from_bytes != size_bytes || to_bytes <= from_bytes || to_bytes > RANGE_STRIDE / 2 {
                return Err(SimError::Invalid("the range cannot have this size"));
            }
            let added_bytes = to_bytes - from_bytes;
            state.take_memory(*number, added_bytes)?;
            let known = state.range_mut(*number, range, Call::Extend)?;
            known.size_bytes = to_bytes;
            known.backed_bytes += added_bytes;
            known.committed.set(from_bytes..to_bytes, ());
            Ok(((), None))
        })
    }

    fn page_sizes(&self) -> &[u64] {
        if self.has(Capabilities::PAGES) { &self.inner.config.page_sizes } else { &[] }
    }

    fn reserve(&self, size_bytes: u64) -> Result<SimRange> {
        let Inner { number, config, .. } = &*self.inner;
        self.call(Call::Reserve, |state| {
            config.check_pages(size_bytes)?;
            if size_bytes > RANGE_STRIDE {
                return Err(SimError::Invalid("there are not so many addresses"));
            }
            let id = state.new_id();
            state.ranges.insert(id, RangeState::reserved(*number, size_bytes));
            let address = id.wrapping_mul(RANGE_STRIDE);
            Ok((SimRange { id, device: *number, address }, None))
        })
    }

    fn create_pages(&self, size_bytes: u64) -> Result<SimPages> {
        let Inner { number, config, .. } = &*self.inner;
        self.call(Call::CreatePages, |state| {
            config.check_pages(size_bytes)?;
            Ok((state.create_pages(*number, size_bytes)?, None))
        })
    }

    fn destroy_pages(&self, pages: SimPages) -> Result<()> {
        let number = self.inner.number;
        let destroy = |state: &mut State| Ok((state.destroy_pages(number, &pages)?, None));
        let made = self.call(Call::DestroyPages, destroy);
        if let Err(Failure::Device(
            SimError::Injected { .. } | SimError::InjectedOutOfMemory { .. },
        )) = made
        {
            // Nobody has the handle any more, so the memory is gone with it.
            let _ = self.lock().destroy_pages(number, &pages);
        }
        made
    }

    fn commit(&self, range: &SimRange, offset_bytes: u64, pages: &[&SimPages]) -> Result<()> {
        let Inner { number, config, .. } = &*self.inner;
        self.call(Call::Commit, |state| {
            if !offset_bytes.is_multiple_of(config.page_bytes()) || pages.is_empty() {
                return Err(SimError::Invalid("these are no whole pages"));
            }
            state.range_mut(*number, range, Call::Commit)?;
            state.commit(range.id, offset_bytes, pages)?;
            Ok(((), None))
        })
    }

    fn decommit(&self, range: &SimRange, offset_bytes: u64, pages: &SimPages) -> Result<()> {
        let number = self.inner.number;
        self.call(Call::Decommit, |state| {
            state.range_mut(number, range, Call::Decommit)?;
            state.decommit(range.id, offset_bytes, pages)?;
            Ok(((), None))
        })
    }

    fn create_stream(&self) -> Result<SimStream> {
        let number = self.inner.number;
        self.call(Call::CreateStream, |state| Ok((state.open(number, Origin::Created), None)))
    }

    fn destroy_stream(&self, stream: &SimStream) -> Result<()> {
        let made = self.call(Call::DestroyStream, |state| {
            let action = Action::Call(Call::DestroyStream);
            let actor = state.resolve(*stream, action)?;
            state.end_stream(actor, Origin::Created, action)?;
            Ok(((), None))
        });
        if let Err(Failure::Device(
            SimError::Injected { .. } | SimError::InjectedOutOfMemory { .. },
        )) = made
        {
            // Nobody knows whether it still exists, so it does not.
            let mut state = self.lock();
            if let Some(&actor) = state.handles.get(&stream.key)
                && state.stream(actor).origin == Origin::Created
                && state.stream(actor).capture.is_none()
            {
                state.close(actor);
            }
        }
        made
    }

    fn stream_key(&self, stream: &SimStream) -> u64 {
        if LEGACY.contains(&stream.key) { LEGACY[0] } else { stream.key }
    }

    fn stream_id(&self, stream: &SimStream) -> Result<u64> {
        self.call(Call::StreamId, |state| {
            let action = Action::Call(Call::StreamId);
            let actor = state.resolve(*stream, action)?;
            // As the CUDA driver has it, whatever the mode.
            if let CaptureStatus::Active(capture) = state.capture_status(actor) {
                return Err(state.break_capture(capture, action));
            }
            Ok((state.stream(actor).name.id, None))
        })
    }

    fn record(&self, stream: &SimStream) -> Result<SimFence> {
        let number = self.inner.number;
        self.call(Call::Record, |state| {
            let action = Action::Call(Call::Record);
            let actor = state.resolve(*stream, action)?;
            state.check_queue(actor, action)?;
            Ok((SimFence { id: state.record(number, actor) }, Some(actor)))
        })
    }

    fn streams(&self) -> Option<Vec<SimStream>> {
        let Inner { number, config, .. } = &*self.inner;
        if !config.lists_streams || !self.has(Capabilities::FENCES) {
            return None;
        }
        let state = self.lock();
        let own = state.streams.iter().filter(|stream| {
            stream.alive && stream.name.device == *number && stream.origin != Origin::Chain
        });
        Some(own.map(|stream| SimStream { key: stream.name.key, device: *number }).collect())
    }

    fn record_all(&self) -> Result<Vec<SimFence>> {
        let Inner { number, config, .. } = &*self.inner;
        if !config.lists_streams || !self.has(Capabilities::FENCES) {
            self.synchronize()?;
            return Ok(Vec::new());
        }
        // Also for streams whose handles are gone, or mean another stream on this thread.
        self.call(Call::RecordAll, |state| {
            let ends = state.ends(*number).into_iter();
            let fences = ends.map(|(at, clock)| SimFence {
                id: state.add_fence(*number, Place::Stream { at, clock }),
            });
            Ok((fences.collect(), None))
        })
    }

    fn is_done(&self, fence: &SimFence) -> Result<bool> {
        self.running_call(Call::IsDone, |state| {
            let mut state = self.inner.world.settle(state, None);
            let place = state.real_place(fence.id, Action::Call(Call::IsDone));
            let done = place.map(|(at, clock)| {
                let is_done = state.is_done(at);
                if is_done {
                    state.see(at, &clock);
                }
                is_done
            });
            (state, done)
        })
    }

    fn wait(&self, stream: &SimStream, fence: &SimFence) -> Result<()> {
        self.call(Call::Wait, |state| {
            let action = Action::Call(Call::Wait);
            let actor = state.resolve(*stream, action)?;
            state.wait(actor, fence.id, action)?;
            Ok(((), Some(actor)))
        })
    }

    fn wait_on_host(&self, fence: &SimFence) -> Result<()> {
        self.running_call(Call::WaitOnHost, |mut state| {
            match state.real_place(fence.id, Action::Call(Call::WaitOnHost)) {
                Ok((at, clock)) => {
                    state = self.inner.world.reach(state, at, Holds::Run);
                    state.see(at, &clock);
                    (state, Ok(()))
                }
                Err(error) => (state, Err(error)),
            }
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.running_call(Call::Synchronize, |state| {
            (self.inner.world.synchronize(state, self.inner.number), Ok(()))
        })
    }

    fn discard(&self, fence: SimFence) {
        let mut state = self.lock();
        state.device(self.inner.number).calls.count_discard();
        let _ = state.check_device(self.inner.number, Action::Discard);
        if state.fences.remove(&fence.id).is_none() {
            state.violate(Violation::Unknown { action: Action::Discard, what: "fence" });
        }
    }

    fn capture_id(&self, stream: &SimStream) -> Result<Option<u64>> {
        if !self.has(Capabilities::CAPTURE) {
            return Ok(None);
        }
        self.call(Call::CaptureId, |state| {
            let actor = state.resolve(*stream, Action::Call(Call::CaptureId))?;
            Ok((state.stream(actor).capture, None))
        })
    }

    fn copy(
        &self,
        stream: &SimStream,
        from: (&SimRange, u64),
        to: (&SimRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        self.call(Call::Copy, |state| {
            let action = Action::Call(Call::Copy);
            let actor = state.resolve(*stream, action)?;
            let wanted = |(range, offset_bytes): (&SimRange, u64), access| {
                let bytes = offset_bytes..offset_bytes.saturating_add(size_bytes);
                Wanted { range: range.id, bytes, owner: None, access }
            };
            let (from, to) = (wanted(from, Access::Read), wanted(to, Access::Write));
            if from.range == to.range
                && from.bytes.start < to.bytes.end
                && to.bytes.start < from.bytes.end
            {
                return Err(SimError::Invalid("the two overlap"));
            }
            state.place(actor, Job::Copy(from, to), action)?;
            Ok(((), Some(actor)))
        })
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let number = self.inner.number;
        self.call(Call::Memory, |state| {
            let free_bytes = state.free_bytes(number);
            Ok((MemoryInfo { free_bytes, total_bytes: state.device(number).memory_bytes }, None))
        })
    }

    fn now(&self) -> Option<Duration> {
        self.has(Capabilities::CLOCK).then(|| self.lock().now)
    }

    fn quarantine(&self, range: &SimRange, offset_bytes: u64, size_bytes: u64) {
        if let Some(range) = self.lock().ranges.get_mut(&range.id) {
            range.resting.set(offset_bytes..offset_bytes.saturating_add(size_bytes), ());
        }
    }

    fn release(&self, range: &SimRange, offset_bytes: u64, size_bytes: u64) {
        if let Some(range) = self.lock().ranges.get_mut(&range.id) {
            range.resting.take(offset_bytes..offset_bytes.saturating_add(size_bytes));
        }
    }
}
