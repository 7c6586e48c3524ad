//! The driver's functions that give and take memory.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use pool_cuda::{CudaError, Driver};
use pool_cuda_c::whose;

use crate::pool::{self, DEINITIALIZED, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS};
use crate::real::{self, Handle};
use crate::{arenas, captures, kept, large};

/// The calling thread's default stream, as a handle.
pub(crate) const PER_THREAD: usize = 2;

/// The stream that a program with a default stream of each thread means.
pub(crate) fn own(stream: Handle) -> Handle {
    if stream.is_null() { ptr::without_provenance_mut(PER_THREAD) } else { stream }
}

/// The program has set a pool of its own to serve who names none.
static HAS_OWN_POOL: AtomicBool = AtomicBool::new(false);

/// What a call that names no stream gets from the pool; `None`: the driver is to be asked.
///
/// # Safety
///
/// The pointer is null or can be written.
pub(crate) unsafe fn allocate(address_out: *mut u64, bytes: usize) -> Option<c_int> {
    if address_out.is_null() || bytes == 0 || !pool::serves() {
        return None;
    }
    // A capture that begins just now does not know the address yet.
    let is_captured = captures::any();
    match whose::allocate(bytes) {
        Ok(address) => {
            if is_captured {
                kept::keep(address);
            }
            large::note(address, bytes);
            // SAFETY: it is not null, and can be written by the caller's promise.
            unsafe { address_out.write(address) };
            Some(SUCCESS)
        }
        Err(OUT_OF_MEMORY) => Some(OUT_OF_MEMORY),
        // In a context that the pool does not serve, for example, or where there is none.
        Err(_) => None,
    }
}

/// The same of a call that names a stream.
///
/// # Safety
///
/// As [`allocate`], and the stream is there.
pub(crate) unsafe fn allocate_on(
    address_out: *mut u64,
    bytes: usize,
    stream: Handle,
) -> Option<c_int> {
    let is_none = address_out.is_null() || bytes == 0 || HAS_OWN_POOL.load(Ordering::Acquire);
    if is_none || !pool::serves() {
        return None;
    }
    // SAFETY: passed on to the caller. In a capture it becomes a node of the graph.
    if unsafe { captures::has(stream) } || (stream.addr() <= PER_THREAD && !has_context()) {
        return None;
    }
    let mut block: *mut c_void = ptr::null_mut();
    // SAFETY: the pointer is to a local, and the stream is there by the caller's promise.
    match unsafe { pool_cuda_c::poolMallocAsync(&raw mut block, bytes, stream) } {
        SUCCESS => {
            let address = block.addr() as u64;
            large::note(address, bytes);
            // SAFETY: it is not null, and can be written by the caller's promise.
            unsafe { address_out.write(address) };
            Some(SUCCESS)
        }
        OUT_OF_MEMORY => Some(OUT_OF_MEMORY),
        _ => None,
    }
}

/// Whether a context is current: a default stream is one of it.
fn has_context() -> bool {
    let mut context = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let code = unsafe { real::cuCtxGetCurrent(&raw mut context) };
    code == SUCCESS && !context.is_null()
}

/// What a free is, if the memory is the pool's; `None`: the driver is to be asked.
pub(crate) fn free(address: u64) -> Option<c_int> {
    free_with(address, || whose::free(address).map_or_else(|code| code, |()| SUCCESS))
}

/// The same on a stream.
///
/// # Safety
///
/// The stream is there.
pub(crate) unsafe fn free_on(address: u64, stream: Handle) -> Option<c_int> {
    // A graph cannot free what is not a graph's: the driver says so.
    // SAFETY: passed on to the caller.
    if Driver::check_process().is_ok() && unsafe { captures::has(stream) } {
        return None;
    }
    free_with(address, || {
        let pointer = ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0));
        // SAFETY: passed on to the caller.
        unsafe { pool_cuda_c::poolFreeAsync(pointer, stream) }
    })
}

/// Frees a block of the pool's, by what does so where nothing is in the way.
fn free_with(address: u64, free: impl FnOnce() -> c_int) -> Option<c_int> {
    if !whose::is_pools(address) {
        // A block that was freed before, and was the first of more that the pool has.
        let is_arena = pool::is_there() && arenas::has(address);
        return is_arena.then_some(INVALID_VALUE);
    }
    match Driver::check_process() {
        Ok(()) => {}
        // The child has no driver; that says so itself.
        Err(CudaError::Forked) => return None,
        Err(_) => return Some(DEINITIALIZED),
    }
    if pool::is_over() {
        // It went with its context.
        return Some(INVALID_VALUE);
    }
    if let Some(is_first) = kept::free(address) {
        return Some(if is_first { SUCCESS } else { INVALID_VALUE });
    }
    let was_noted = large::strike(address);
    let code = free();
    if code != SUCCESS && was_noted {
        large::keep(address);
    }
    Some(code)
}

/// Declares functions that are served where they can be, and the driver's otherwise.
macro_rules! served {
    ($($name:ident($($argument:ident: $kind:ty),*) $serve:expr;)*) => {
        $(
            /// In the place of the driver's function of this name.
            ///
            /// # Safety
            ///
            /// As that.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: passed on to the caller.
                let served: Option<c_int> = unsafe { $serve };
                // SAFETY: as above.
                served.unwrap_or_else(|| unsafe { real::$name($($argument),*) })
            }
        )*
    };
}

served! {
    cuMemAlloc_v2(address: *mut u64, bytes: usize) allocate(address, bytes);
    cuMemAllocAsync(address: *mut u64, bytes: usize, stream: Handle)
        allocate_on(address, bytes, stream);
    cuMemAllocAsync_ptsz(address: *mut u64, bytes: usize, stream: Handle)
        allocate_on(address, bytes, own(stream));
    cuMemFreeAsync(address: u64, stream: Handle) free_on(address, stream);
    cuMemFreeAsync_ptsz(address: u64, stream: Handle) free_on(address, own(stream));
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    // SAFETY: passed on to the caller.
    free(address).unwrap_or_else(|| unsafe { real::cuMemFree_v2(address) })
}

/// In the place of the driver's function of this name: a program that gives a device a pool of its own gets
/// from the driver what it asks for without naming one.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuDeviceSetMemPool(device: c_int, pool: Handle) -> c_int {
    let mut usual = ptr::null_mut();
    // SAFETY: passed on to the caller.
    let code = unsafe { real::cuDeviceSetMemPool(device, pool) };
    // SAFETY: the pointer is to a local.
    let asked = unsafe { real::cuDeviceGetDefaultMemPool(&raw mut usual, device) };
    if code == SUCCESS && (asked != SUCCESS || pool != usual) {
        HAS_OWN_POOL.store(true, Ordering::Release);
    }
    code
}
