//! The driver's functions that the pool has to be told of: captures, ends of streams and of contexts, and
//! devices that use each other's memory.

use core::ffi::{c_int, c_uint, c_void};

use pool_cuda_c::whose;

use crate::captures;
use crate::memory::own;
use crate::pool::{self, SUCCESS};
use crate::real::{self, Handle};

/// The peer's memory can be used already.
const ALREADY_ENABLED: c_int = 704;

/// No primary context, or a handle of another's.
const NOT_SERVED: [c_int; 2] = [201, 400];

/// Declares functions of the driver around which something is done.
macro_rules! around {
    ($($name:ident($($argument:ident: $kind:ty),*) $around:path, $stream:expr;)*) => {
        $(
            /// In the place of the driver's function of this name.
            ///
            /// # Safety
            ///
            /// As that.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: passed on to the caller, here and within.
                unsafe { $around($stream, || real::$name($($argument),*)) }
            }
        )*
    };
}

around! {
    cuStreamBeginCapture(stream: Handle) captures::begin, stream;
    cuStreamBeginCapture_ptsz(stream: Handle) captures::begin, own(stream);
    cuStreamBeginCapture_v2(stream: Handle, mode: c_int) captures::begin, stream;
    cuStreamBeginCapture_v2_ptsz(stream: Handle, mode: c_int) captures::begin, own(stream);
    cuStreamBeginCaptureToGraph(
        stream: Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, mode: c_int
    ) captures::begin, stream;
    cuStreamBeginCaptureToGraph_ptsz(
        stream: Handle, graph: Handle, dependencies: *const Handle, edges: *const c_void,
        count: usize, mode: c_int
    ) captures::begin, own(stream);
    cuStreamEndCapture(stream: Handle, graph: *mut Handle) captures::end, stream;
    cuStreamEndCapture_ptsz(stream: Handle, graph: *mut Handle) captures::end, own(stream);
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuStreamDestroy_v2(stream: Handle) -> c_int {
    if pool::is_there() {
        // SAFETY: passed on to the caller. One that the pool does not know is none of its.
        unsafe {
            captures::forget(stream);
            pool_cuda_c::poolStreamDestroyed(stream);
        }
    }
    // SAFETY: passed on to the caller.
    unsafe { real::cuStreamDestroy_v2(stream) }
}

/// In the place of the driver's function of this name: the current device may then use the pool of the
/// other, too.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: c_uint) -> c_int {
    // SAFETY: passed on to the caller.
    let code = unsafe { real::cuCtxEnablePeerAccess(peer, flags) };
    if (code == SUCCESS || code == ALREADY_ENABLED) && pool::serves() {
        // SAFETY: passed on to the caller.
        let opened = unsafe { whose::open_here(peer) };
        // A context that the pool does not serve has nothing of it; else it is as if the driver had refused.
        return opened.err().filter(|code| !NOT_SERVED.contains(code)).unwrap_or(code);
    }
    code
}

/// In the place of the driver's function of this name. What the pool has there is gone then, so that from
/// here on the driver serves.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> c_int {
    if pool::is_there() {
        pool::end();
    }
    // SAFETY: passed on to the caller.
    unsafe { real::cuDevicePrimaryCtxReset_v2(device) }
}
