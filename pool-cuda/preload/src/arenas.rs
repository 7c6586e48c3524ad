//! What the pool has of the driver in one piece. A program that frees a block twice must not free the whole
//! piece that the block was the first of: so what the pool takes and gives back goes through here.

use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pool::SUCCESS;
use crate::real::{self, Handle};

/// Where the pieces begin.
static ARENAS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn arenas() -> MutexGuard<'static, BTreeSet<u64>> {
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the pool's memory begins at an address, as the driver has it.
pub(crate) fn has(address: u64) -> bool {
    COUNT.load(Ordering::Acquire) > 0 && arenas().contains(&address)
}

/// The function that the pool calls in the place of the driver's; none for most.
pub(crate) fn function(name: &CStr) -> Option<*const c_void> {
    Some(match name.to_bytes() {
        b"cuMemAlloc_v2" => allocate as *const c_void,
        b"cuMemAllocFromPoolAsync" => allocate_from_pool as *const c_void,
        b"cuMemFree_v2" => free as *const c_void,
        b"cuMemFreeAsync" => free_in_stream as *const c_void,
        _ => return None,
    })
}

/// # Safety
///
/// If the code is a success, the pointer was written.
unsafe fn note(code: c_int, address: *const u64) -> c_int {
    if code == SUCCESS {
        // SAFETY: by this function's contract.
        arenas().insert(unsafe { *address });
        COUNT.fetch_add(1, Ordering::AcqRel);
    }
    code
}

/// Strikes out what is about to be given back, after which the address may be anybody's.
fn giving_back(address: u64, give_back: impl FnOnce() -> c_int) -> c_int {
    let was_noted = arenas().remove(&address);
    let code = give_back();
    if was_noted {
        if code == SUCCESS {
            COUNT.fetch_sub(1, Ordering::AcqRel);
        } else {
            arenas().insert(address);
        }
    }
    code
}

unsafe extern "C" fn allocate(address: *mut u64, bytes: usize) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { note(real::cuMemAlloc_v2(address, bytes), address) }
}

unsafe extern "C" fn allocate_from_pool(
    address: *mut u64,
    bytes: usize,
    pool: Handle,
    stream: Handle,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { note(real::cuMemAllocFromPoolAsync(address, bytes, pool, stream), address) }
}

unsafe extern "C" fn free(address: u64) -> c_int {
    // SAFETY: passed on to the caller.
    giving_back(address, || unsafe { real::cuMemFree_v2(address) })
}

unsafe extern "C" fn free_in_stream(address: u64, stream: Handle) -> c_int {
    // SAFETY: passed on to the caller.
    giving_back(address, || unsafe { real::cuMemFreeAsync(address, stream) })
}
