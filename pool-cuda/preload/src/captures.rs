//! Which streams are being captured, and what the pool is told of it.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pool::{self, SUCCESS};
use crate::real::{self, Handle};

/// A capture that is being made.
struct Capture {
    stream: usize,
    /// The pool's number of its graph, where the pool knows the stream's context.
    graph: Option<u64>,
}

static CAPTURES: Mutex<Vec<Capture>> = Mutex::new(Vec::new());
/// How many there are, for those who only want to know whether.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Numbers of graphs: far from those that anybody else may choose.
static NUMBERS: AtomicU64 = AtomicU64::new(1 << 63);

fn captures() -> MutexGuard<'static, Vec<Capture>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether anything is being captured in the process.
pub(crate) fn any() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Whether work on a stream becomes a graph's: the driver knows which streams have joined a capture. One
/// that cannot say counts as captured, so that the driver says the rest.
///
/// # Safety
///
/// The stream is there.
pub(crate) unsafe fn has(stream: Handle) -> bool {
    // SAFETY: passed on to the caller.
    any() && unsafe { is_captured(stream) }
}

/// The same, whether or not anything is known to be captured.
///
/// # Safety
///
/// The stream is there.
unsafe fn is_captured(stream: Handle) -> bool {
    let mut status: c_int = 0;
    // SAFETY: the pointer is to a local, and the stream is there by the caller's promise.
    let code = unsafe { real::cuStreamIsCapturing(stream, &raw mut status) };
    code != SUCCESS || status != 0
}

/// Runs the driver's function that begins a capture, with the pool told before.
///
/// # Safety
///
/// The stream is there.
pub(crate) unsafe fn begin(stream: Handle, begin: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: passed on to the caller.
    let is_new = pool::serves() && unsafe { announce(stream) };
    let code = begin();
    if code != SUCCESS && is_new {
        // SAFETY: passed on to the caller.
        unsafe { forget(stream) };
    }
    code
}

/// Tells the pool; false if the stream is in a capture that it knows.
///
/// # Safety
///
/// The stream is there.
unsafe fn announce(stream: Handle) -> bool {
    let key = stream.addr();
    if captures().iter().any(|capture| capture.stream == key) {
        return false;
    }
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    // No lock is held: the pool may wait for what other threads do.
    // SAFETY: passed on to the caller.
    let code = unsafe { pool_cuda_c::poolBeginCapture(stream, number) };
    captures().push(Capture { stream: key, graph: (code == SUCCESS).then_some(number) });
    COUNT.fetch_add(1, Ordering::Release);
    true
}

/// Runs the driver's function that ends a capture, and tells the pool if that has an end.
///
/// # Safety
///
/// The stream is there.
pub(crate) unsafe fn end(stream: Handle, end: impl FnOnce() -> c_int) -> c_int {
    let code = end();
    // SAFETY: passed on to the caller, here and below.
    if any() && (code == SUCCESS || !unsafe { is_captured(stream) }) {
        // SAFETY: as above.
        unsafe { forget(stream) };
    }
    code
}

/// The pool is told that a capture is over, if there is one. The graph has nothing of the pool's: what was
/// given out on a captured stream is the driver's, and the rest is kept.
///
/// # Safety
///
/// The stream is there.
pub(crate) unsafe fn forget(stream: Handle) {
    let key = stream.addr();
    let ended = {
        let mut captures = captures();
        let place = captures.iter().position(|capture| capture.stream == key);
        place.map(|place| captures.swap_remove(place))
    };
    let Some(capture) = ended else { return };
    if let Some(graph) = capture.graph {
        // SAFETY: passed on to the caller.
        unsafe { pool_cuda_c::poolEndCapture(stream) };
        // Of whichever device it is: the first number that is none ends the search.
        let mut device = 0;
        while pool_cuda_c::poolReleaseGraph(device, graph) == pool::INVALID_VALUE {
            device += 1;
        }
    }
    COUNT.fetch_sub(1, Ordering::Release);
}
