//! Events: points in streams' work.

use core::ffi::c_uint;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use pool_core::device::{Device as _, Failure};
use pool_mock::device::{SimDevice, SimFence};

use crate::call::{Call, Handle, answer, check, functions, handle, key};
use crate::code;
use crate::context::ContextId;
use crate::driver_pools;
use crate::state::{State, current, started};

/// An event.
pub(crate) struct Event {
    pub(crate) context: ContextId,
    is_timed: bool,
    /// What was recorded last.
    pub(crate) recorded: Option<Arc<Recorded>>,
}

/// A recording of an event.
pub(crate) struct Recorded {
    device: SimDevice,
    fences: Vec<SimFence>,
    /// When the streams came there, in nanoseconds.
    time: Option<Arc<AtomicU64>>,
}

impl Recorded {
    /// A recording behind all work of a context so far.
    pub(crate) fn behind_all(device: &SimDevice) -> Result<Arc<Self>, i32> {
        let fences = device.record_all().map_err(|failure| match failure {
            Failure::Device(error) => code::of(error),
            _ => code::NOT_SUPPORTED,
        })?;
        Ok(Arc::new(Self { device: device.clone(), fences, time: None }))
    }

    /// Whether all is done, as the host sees it.
    fn is_done(&self) -> Result<bool, i32> {
        for fence in &self.fences {
            if !self.device.query_fence(fence).map_err(code::of)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        for fence in self.fences.drain(..) {
            self.device.discard_fence(fence);
        }
    }
}

/// The flag of an event that does not take the time.
const DISABLE_TIMING: c_uint = 2;
/// All flags that an event may have.
const FLAGS: c_uint = 7;

/// The event that a handle means.
pub(crate) fn known_event(call: Call, state: &State, event: Handle) -> Result<&Event, i32> {
    let known = state.events.get(&key(event)).ok_or_else(|| {
        if state.was_handle(key(event)) {
            // On a real device this is the end of the process.
            let device = &state.devices[0].sim;
            call.violation(device, "the event is destroyed, or is none");
        }
        code::INVALID_HANDLE
    })?;
    state.live(known.context)?;
    Ok(known)
}

/// What was recorded last in an event.
fn recording(call: Call, event: Handle) -> Result<Option<Arc<Recorded>>, i32> {
    let state = started()?;
    state.current()?;
    Ok(known_event(call, &state, event)?.recorded.clone())
}

/// When the streams came to an event.
fn time(call: Call, event: Handle) -> Result<Duration, i32> {
    let recorded = recording(call, event)?.ok_or(code::INVALID_HANDLE)?;
    let time = recorded.time.as_ref().ok_or(code::INVALID_HANDLE)?;
    if !recorded.is_done()? {
        return Err(code::NOT_READY);
    }
    Ok(Duration::from_nanos(time.load(Ordering::SeqCst)))
}

functions! {
    /// Makes an event. Flag 2: it takes no time.
    fn cuEventCreate(event_out: *mut Handle, flags: c_uint) {
        if flags > FLAGS {
            return Err(code::INVALID_VALUE);
        }
        check(event_out)?;
        let mut state = started()?;
        let context = state.current()?.id;
        let key = state.new_handle();
        let is_timed = flags & DISABLE_TIMING == 0;
        state.events.insert(key, Event { context, is_timed, recorded: None });
        // SAFETY: by the contract of the outer function.
        unsafe { answer(event_out, handle(key)) }
    }

    /// Ends an event. What waits for it still does.
    fn cuEventDestroy_v2(event: Handle) |call| {
        let mut state = started()?;
        state.current()?;
        known_event(call, &state, event)?;
        state.events.remove(&key(event));
        Ok(())
    }

    /// Records an event behind all that is queued on a stream of its context.
    fn cuEventRecord(event: Handle, stream: Handle) |call| {
        let on = call.stream(stream)?;
        let is_timed = {
            let state = started()?;
            let known = known_event(call, &state, event)?;
            if known.context != on.context {
                return Err(code::INVALID_HANDLE);
            }
            known.is_timed
        };
        let time = is_timed.then(Arc::default);
        if let Some(time) = &time {
            let (device, time) = (on.device.clone(), Arc::<AtomicU64>::clone(time));
            let task = move || {
                let now = device.now().unwrap_or_default().as_nanos();
                time.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::SeqCst);
            };
            on.device.queue_task(on.stream, &[], Arc::new(task)).map_err(code::of)?;
        }
        let fence = on.device.queue_record(on.stream).map_err(code::of)?;
        let recorded = Arc::new(Recorded { device: on.device, fences: vec![fence], time });
        if let Some(known) = started()?.events.get_mut(&key(event)) {
            known.recorded = Some(recorded);
        }
        Ok(())
    }

    /// Asks whether an event's work is done; one that was never recorded is.
    fn cuEventQuery(event: Handle) |call| {
        let recorded = recording(call, event)?.filter(|recorded| !recorded.fences.is_empty());
        let done = match recorded {
            Some(recorded) => recorded.is_done()?,
            None => current()?.device.check_call(call.name).map(|()| true).map_err(code::of)?,
        };
        if done { Ok(()) } else { Err(code::NOT_READY) }
    }

    /// Waits for an event's work.
    fn cuEventSynchronize(event: Handle) |call| {
        let recorded = recording(call, event)?;
        let current = current()?;
        let Some(recorded) = recorded.filter(|recorded| !recorded.fences.is_empty()) else {
            return current.device.check_call(call.name).map_err(code::of);
        };
        let mut waited = false;
        for fence in &recorded.fences {
            waited |= recorded.device.host_wait(fence).map_err(code::of)?;
        }
        call.waited(waited);
        driver_pools::shrink(current.ordinal);
        Ok(())
    }

    /// Tells the time between two events in milliseconds.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle) |call| {
        let (start, end) = (time(call, start)?, time(call, end)?);
        let seconds = end.as_secs_f32() - start.as_secs_f32();
        // SAFETY: by the contract of the outer function.
        unsafe { answer(milliseconds, seconds * 1000.0) }
    }

    /// Has what is queued on a stream from now on wait for an event, of whichever context.
    fn cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint) |call| {
        if flags > 1 {
            return Err(code::INVALID_VALUE);
        }
        let on = call.stream(stream)?;
        let Some(recorded) = recording(call, event)? else { return Ok(()) };
        for fence in &recorded.fences {
            on.device.queue_wait(on.stream, fence).map_err(code::of)?;
        }
        Ok(())
    }
}
