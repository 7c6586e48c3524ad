//! Captures, and the graphs that they make.

use core::ffi::{c_int, c_ulonglong};
use core::ptr;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use pool_mock::device::{CaptureMode, CaptureStatus, GraphHandle, SimDevice, SimError};

use crate::call::{Call, Handle, OnStream, answer, answer_if, ask, check, functions, handle, key};
use crate::code;
use crate::state::started;

/// Who began a capture.
pub(crate) struct OpenCapture {
    thread: ThreadId,
    mode: CaptureMode,
}

/// A graph; the last of its handles and executables takes it away.
pub(crate) struct Graph {
    device: SimDevice,
    handle: GraphHandle,
}

impl Drop for Graph {
    fn drop(&mut self) {
        // It is there: nobody else takes it away.
        let _ = self.device.drop_graph(self.handle);
    }
}

/// A mode by its number.
fn mode(number: c_int) -> Result<CaptureMode, i32> {
    match number {
        0 => Ok(CaptureMode::Global),
        1 => Ok(CaptureMode::ThreadLocal),
        2 => Ok(CaptureMode::Relaxed),
        _ => Err(code::INVALID_VALUE),
    }
}

const fn mode_number(mode: CaptureMode) -> c_int {
    match mode {
        CaptureMode::Global => 0,
        CaptureMode::ThreadLocal => 1,
        CaptureMode::Relaxed => 2,
    }
}

/// Whether a stream is being captured. The legacy default stream cannot say, while a stream that
/// it waits for is.
fn status(call: Call, stream: Handle) -> Result<CaptureStatus, i32> {
    let on = call.stream(stream)?;
    if key(stream) <= 1 && on.device.is_blocking_captured() {
        return Err(code::STREAM_CAPTURE_IMPLICIT);
    }
    on.device.capture_status(on.stream).map_err(code::of)
}

/// A status by its number, and the capture's.
const fn numbers(status: CaptureStatus) -> (c_int, u64) {
    match status {
        CaptureStatus::None => (0, 0),
        CaptureStatus::Active(id) => (1, id),
        CaptureStatus::Broken(id) => (2, id),
    }
}

functions! {
    /// Has a stream's work go into a graph. Mode 0 forbids unsafe calls to all threads, 1 to this
    /// one, 2 to none.
    fn cuStreamBeginCapture_v2(stream: Handle, mode: c_int) |call| {
        let mode = self::mode(mode)?;
        let on = call.stream(stream)?;
        if key(stream) <= 1 {
            return Err(code::STREAM_CAPTURE_UNSUPPORTED);
        }
        let begun = on.device.begin_capture_in(on.stream, mode).map_err(|error| match error {
            SimError::Capturing => code::ILLEGAL_STATE,
            other => code::of(other),
        })?;
        let open = OpenCapture { thread: thread::current().id(), mode };
        started()?.captures.insert(begun, open);
        Ok(())
    }

    /// Ends a capture where it began, and gives the graph; null if the capture was broken.
    fn cuStreamEndCapture(stream: Handle, graph_out: *mut Handle) |call| {
        check(graph_out)?;
        let OnStream { device, stream, .. } = call.stream(stream)?;
        let (_, id) = numbers(device.capture_status(stream).map_err(code::of)?);
        let here = thread::current().id();
        let open = started()?.captures.get(&id).map(|open| (open.thread, open.mode));
        if open.is_some_and(|(thread, mode)| thread != here && mode != CaptureMode::Relaxed) {
            return Err(code::STREAM_CAPTURE_WRONG_THREAD);
        }
        // SAFETY: by the contract of the outer function.
        unsafe { answer(graph_out, ptr::null_mut()) }?;
        let ended = device.end_capture(stream);
        let mut state = started()?;
        if !matches!(ended, Err(SimError::NotOrigin)) {
            state.captures.remove(&id);
        }
        let graph = Arc::new(Graph { device, handle: ended.map_err(code::of)? });
        let key = state.new_handle();
        state.graphs.insert(key, graph);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(graph_out, handle(key)) }
    }

    /// Tells whether a stream is being captured: 0 no, 1 yes, 2 into a capture that is broken.
    fn cuStreamIsCapturing(stream: Handle, status_out: *mut c_int) |call| {
        check(status_out)?;
        let (status, _) = numbers(status(call, stream)?);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(status_out, status) }
    }

    /// Tells that and the capture's number. All pointers but the first may be null; the graph and
    /// what is in it are not shown.
    fn cuStreamGetCaptureInfo_v2(
        stream: Handle,
        status_out: *mut c_int,
        id_out: *mut u64,
        graph_out: *mut Handle,
        dependencies_out: *mut *const Handle,
        count_out: *mut usize,
    ) |call| {
        check(status_out)?;
        let (status, id) = numbers(status(call, stream)?);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(status_out, status) }?;
        if status == 1 {
            // SAFETY: as above.
            unsafe {
                answer_if(id_out, id);
                answer_if(graph_out, ptr::null_mut());
                answer_if(dependencies_out, ptr::null());
                answer_if(count_out, 0);
            }
        }
        Ok(())
    }

    /// Changes what captures forbid the calling thread, and gives what it was: 0 whatever they
    /// say, 1 only those of its own, 2 nothing.
    fn cuThreadExchangeStreamCaptureMode(mode_in_out: *mut c_int) {
        drop(started()?);
        // SAFETY: by the contract of the outer function.
        let new = self::mode(unsafe { ask(mode_in_out) }?)?;
        let old = SimDevice::exchange_capture_mode(new);
        // SAFETY: as above.
        unsafe { answer(mode_in_out, mode_number(old)) }
    }

    /// Makes a graph ready to be launched.
    fn cuGraphInstantiateWithFlags(
        executable_out: *mut Handle, graph: Handle, _flags: c_ulonglong
    ) {
        let mut state = started()?;
        state.current()?;
        check(executable_out)?;
        let graph = state.graphs.get(&key(graph)).cloned().ok_or(code::INVALID_VALUE)?;
        let key = state.new_handle();
        state.executables.insert(key, graph);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(executable_out, handle(key)) }
    }

    /// Runs a graph's work in a stream.
    fn cuGraphLaunch(executable: Handle, stream: Handle) |call| {
        let on = call.stream(stream)?;
        let graph = started()?.executables.get(&key(executable)).cloned();
        let graph = graph.ok_or(code::INVALID_HANDLE)?;
        on.device.launch_graph(graph.handle, on.stream).map_err(code::of)
    }

    /// Ends what can be launched. Launches of it still run.
    fn cuGraphExecDestroy(executable: Handle) {
        let taken = started()?.executables.remove(&key(executable));
        taken.map(drop).ok_or(code::INVALID_HANDLE)
    }

    /// Ends a graph. What was made ready to be launched stays.
    fn cuGraphDestroy(graph: Handle) {
        let taken = started()?.graphs.remove(&key(graph));
        taken.map(drop).ok_or(code::INVALID_HANDLE)
    }
}
