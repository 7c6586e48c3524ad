//! Streams: made, waited for, asked.

use core::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use pool_core::device::{Device as _, Failure};
use pool_mock::device::StreamKind;

use crate::call::{Call, Handle, OnStream, answer, check, functions, handle, key};
use crate::code;
use crate::context::ContextId;
use crate::driver_pools;
use crate::state::started;

/// A stream that was made.
pub(crate) struct Stream {
    pub(crate) context: ContextId,
    flags: c_uint,
    priority: c_int,
}

/// The flag of a stream that is not ordered with the legacy default stream.
const NON_BLOCKING: c_uint = 1;

fn create(out: *mut Handle, flags: c_uint, priority: c_int) -> Result<(), i32> {
    if flags > NON_BLOCKING {
        return Err(code::INVALID_VALUE);
    }
    check(out)?;
    let mut state = started()?;
    let current = state.current()?;
    let blocking = flags != NON_BLOCKING;
    let kind = if blocking { StreamKind::Blocking } else { StreamKind::NonBlocking };
    let key = current.device.open_stream(kind).key();
    let priority = priority.clamp(-5, 0);
    state.streams.insert(key, Stream { context: current.id, flags, priority });
    // SAFETY: by the contract of the function that called.
    unsafe { answer(out, handle(key)) }
}

/// What a stream was made with; a default stream has neither flags nor a priority.
fn made_with(call: Call, stream: Handle) -> Result<(c_uint, c_int), i32> {
    call.stream(stream)?;
    let state = started()?;
    Ok(state.streams.get(&key(stream)).map_or((0, 0), |known| (known.flags, known.priority)))
}

/// A function of the program's, as it is handed to the driver.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

functions! {
    /// Makes a stream; flag 1: one that is not ordered with the legacy default stream.
    fn cuStreamCreate(stream_out: *mut Handle, flags: c_uint) {
        create(stream_out, flags, 0)
    }

    /// Makes a stream with a priority, which changes nothing here.
    fn cuStreamCreateWithPriority(
        stream_out: *mut Handle, flags: c_uint, priority: c_int
    ) {
        create(stream_out, flags, priority)
    }

    /// Ends a stream. What is queued on it still runs; the next stream has its handle.
    fn cuStreamDestroy_v2(stream: Handle) |call| {
        let OnStream { device, stream: known, .. } = call.stream(stream)?;
        let taken = started()?.streams.remove(&key(stream));
        let taken = taken.ok_or(code::INVALID_HANDLE)?;
        let closed = device.close_stream(known).map_err(code::of);
        if closed.is_err() {
            started()?.streams.insert(key(stream), taken);
        }
        closed
    }

    /// Waits for all that is queued on a stream.
    fn cuStreamSynchronize(stream: Handle) |call| {
        let on = call.stream(stream)?;
        let waited = on.device.host_wait_stream(on.stream).map_err(code::of)?;
        call.waited(waited);
        driver_pools::shrink(on.ordinal);
        Ok(())
    }

    /// Asks whether all that is queued on a stream is done.
    fn cuStreamQuery(stream: Handle) |call| {
        let on = call.stream(stream)?;
        let done = on.device.query_stream(on.stream).map_err(code::of)?;
        if done { Ok(()) } else { Err(code::NOT_READY) }
    }

    /// Tells a stream's number, which no other has or had. The stream may not be captured.
    fn cuStreamGetId(stream: Handle, id: *mut u64) |call| {
        let on = call.stream(stream)?;
        let found = on.device.stream_id(&on.stream).map_err(|failure| match failure {
            Failure::Device(error) => code::of(error),
            _ => code::INVALID_HANDLE,
        })?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(id, found) }
    }

    /// Tells a stream's context.
    fn cuStreamGetCtx(stream: Handle, context_out: *mut Handle) |call| {
        let on = call.stream(stream)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(context_out, handle(on.context.handle)) }
    }

    /// Tells the flags that a stream was made with.
    fn cuStreamGetFlags(stream: Handle, flags: *mut c_uint) |call| {
        // SAFETY: by the contract of the outer function.
        unsafe { answer(flags, made_with(call, stream)?.0) }
    }

    /// Tells the priority that a stream was made with.
    fn cuStreamGetPriority(stream: Handle, priority: *mut c_int) |call| {
        // SAFETY: by the contract of the outer function.
        unsafe { answer(priority, made_with(call, stream)?.1) }
    }

    /// Has a stream call a function of the program's, which must not call the driver. In a
    /// capture it is called at each launch of the graph.
    fn cuLaunchHostFunc(
        stream: Handle, function: Option<HostFunction>, data: *mut c_void
    ) |call| {
        let function = function.ok_or(code::INVALID_VALUE)?;
        let on = call.stream(stream)?;
        let data = data.expose_provenance();
        let task = move || {
            // SAFETY: the caller of `cuLaunchHostFunc` says that the function may be called with
            // this, from another thread.
            unsafe { function(core::ptr::with_exposed_provenance_mut(data)) };
        };
        on.device.queue_task(on.stream, &[], Arc::new(task)).map_err(code::of)
    }
}
