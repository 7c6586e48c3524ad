//! The driver's functions that give and take memory.

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering};

use pool_cuda::{CudaError, Driver};
use pool_cuda_c::whose;

use crate::pool::{self, DEINITIALIZED, INVALID_VALUE, OUT_OF_MEMORY, SUCCESS};
use crate::real::{self, Handle};
use crate::{captures, kept, large};

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
    // In a context that the pool does not serve, or where there is none, the driver is asked.
    whose::device_here().ok()?;
    let mut block = ptr::null_mut();
    // SAFETY: the pointer is to a local.
    let code = unsafe { pool_cuda_c::poolMalloc(&raw mut block, bytes) };
    // SAFETY: as this function.
    unsafe { given(code, block, address_out, bytes) }.inspect(|&code| {
        if is_captured && code == SUCCESS {
            kept::keep(address(block));
        }
    })
}

/// What a call of the pool for memory answers.
///
/// # Safety
///
/// The pointer can be written.
unsafe fn given(
    code: c_int,
    block: *mut c_void,
    address_out: *mut u64,
    bytes: usize,
) -> Option<c_int> {
    match code {
        SUCCESS => {
            large::note(address(block), bytes);
            // SAFETY: by the caller's promise.
            unsafe { address_out.write(address(block)) };
            Some(SUCCESS)
        }
        OUT_OF_MEMORY => Some(OUT_OF_MEMORY),
        _ => None,
    }
}

/// A pointer as the driver takes it.
pub(crate) fn address(block: *mut c_void) -> u64 {
    block.addr() as u64
}

/// An address as a pointer: nothing of the host is behind it.
fn pointer(address: u64) -> *mut c_void {
    ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0))
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
    if unsafe { captures::has(stream) } || is_elsewhere(stream) {
        return None;
    }
    let mut block = ptr::null_mut();
    // SAFETY: the pointer is to a local, and the stream is there by the caller's promise.
    let code = unsafe { pool_cuda_c::poolMallocAsync(&raw mut block, bytes, stream) };
    // SAFETY: it is not null, and can be written by the caller's promise.
    unsafe { given(code, block, address_out, bytes) }
}

/// Whether a stream is the default one of a context that the pool does not serve.
fn is_elsewhere(stream: Handle) -> bool {
    stream.addr() <= PER_THREAD && whose::device_here().is_err()
}

/// What a free is, if the memory is the pool's; `None`: the driver is to be asked.
pub(crate) fn free(address: u64) -> Option<c_int> {
    // SAFETY: what the program promises the driver.
    free_with(address, || unsafe { pool_cuda_c::poolFree(pointer(address)) })
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
        let block = pointer(address);
        // SAFETY: passed on to the caller.
        unsafe {
            if is_elsewhere(stream) {
                pool_cuda_c::poolFree(block)
            } else {
                pool_cuda_c::poolFreeAsync(block, stream)
            }
        }
    })
}

/// Frees a block of the pool's, by what does so where nothing is in the way.
fn free_with(address: u64, free: impl FnOnce() -> c_int) -> Option<c_int> {
    if !whose::is_pools(address) {
        // A block that was freed before, the first perhaps of an arena that the driver gave out.
        let is_within = pool::is_there() && whose::is_in_pools(address);
        return is_within.then_some(INVALID_VALUE);
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
