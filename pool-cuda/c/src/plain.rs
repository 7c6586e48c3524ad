//! Memory that is asked for and freed without a stream, as `cudaMalloc` and `cudaFree` do.

use core::ffi::{c_int, c_void};

use pool_core::device::Device as _;

use crate::calls::{guarded, pointer};
use crate::code::{Code, Result};
use crate::library::{Library, library};
use crate::{runtime, thread};

/// Gives out memory of the current device that work on any stream may use from now on, aligned to 256
/// bytes, as `cudaMalloc` does: nothing that is queued still uses it. Zero bytes are a null pointer and no
/// error. As with the runtime, the primary context of its current device is made current on a thread that
/// has none.
///
/// 1 (invalid value): `devPtr` is null. 2 (memory allocation): there is no such block, nor can one be made
/// within the limit and the device's memory. 201 (no such context): the current context is not its
/// device's primary one. `*devPtr` is written at success alone.
///
/// # Safety
///
/// `devPtr` is null or can be written.
#[expect(non_snake_case, reason = "C's names")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolMalloc(devPtr: *mut *mut c_void, size: usize) -> c_int {
    if devPtr.is_null() {
        return guarded(|| Err(Code::INVALID_VALUE));
    }
    if let Some(address) = hit(size as u64) {
        // SAFETY: it is not null, and can be written by the caller's promise.
        unsafe { devPtr.write(pointer(address)) };
        return 0;
    }
    guarded(|| {
        let address = allocate(size as u64)?;
        // SAFETY: as above.
        unsafe { devPtr.write(pointer(address)) };
        Ok(())
    })
}

/// What clean memory serves at the first look, with no call of the driver where there is one device; else
/// it is asked for the current context.
#[inline]
fn hit(size_bytes: u64) -> Option<u64> {
    if size_bytes == 0 || !thread::has_entered() {
        return None;
    }
    let pool = library().ok()?.here().ok()?;
    let block = pool.core.hit_clean(size_bytes)?;
    thread::with_counts(pool, |counts| pool.ledger.gave(counts, block.size_bytes(), true));
    // The device has addresses.
    Some(pool.core.address(&block).unwrap_or_default())
}

#[inline(never)]
fn allocate(size_bytes: u64) -> Result<u64> {
    let pool = library()?.here()?;
    if size_bytes == 0 {
        return Ok(0);
    }
    let block = pool.core.allocate(size_bytes).map_err(|error| pool.code(error))?;
    thread::with_counts(pool, |counts| pool.ledger.gave(counts, block.size_bytes(), false));
    Ok(pool.core.address(&block).unwrap_or_default())
}

/// Takes memory back, as `cudaFree` does, whichever of the library's functions gave it out. It serves again
/// once all work of its device so far is done. That is not waited for, unless `POOL_CONF` has `free_sync:1`.
/// What is not the pool's is passed on to the runtime's `cudaFree`, or else to the driver. Null is no error.
///
/// 1 (invalid value): no live block begins at `devPtr`.
///
/// # Safety
///
/// As for `cudaFree`: work that is queued from now on does not use the memory.
#[expect(non_snake_case, reason = "C's names")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolFree(devPtr: *mut c_void) -> c_int {
    guarded(|| {
        let library = library()?;
        if devPtr.is_null() {
            return library.here().map(drop);
        }
        let address = devPtr.addr() as u64;
        let Some((pool, block)) = library.find(address) else {
            // SAFETY: no block begins there.
            return unsafe { pass_on(library, devPtr) };
        };
        library.enter_thread()?;
        if library.conf().free_sync {
            pool.device().synchronize().map_err(Code::from)?;
        }
        let freed = pool.core.free(block).map_err(|error| pool.code(error))?;
        thread::with_counts(pool, |counts| pool.ledger.took(counts, freed.size_bytes()));
        Ok(())
    })
}

/// Frees what is not the pool's. An address in the pool's own memory is nobody else's.
///
/// # Safety
///
/// No live block of the pool begins there.
unsafe fn pass_on(library: &'static Library, pointer: *mut c_void) -> Result<()> {
    let address = pointer.addr() as u64;
    if library.has(address) {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: as the caller says.
    match unsafe { runtime::free(pointer) } {
        Some(0) => Ok(()),
        Some(code) => Err(Code::of_runtime(code)),
        None => {
            library.enter_thread()?;
            // SAFETY: the driver refuses what it did not give out.
            unsafe { library.driver().free(address) }.map_err(Code::from)
        }
    }
}
