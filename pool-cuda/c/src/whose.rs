//! What another library in the same process asks: whose an address is, and what the current context is of.
//!
//! For `pool-cuda-preload`, which stands where a program expects the driver, and so has to know what is the
//! pools' before it calls anything.

use core::ffi::{c_int, c_void};

use crate::code::{Code, Result};
use crate::library::{Library, library};

/// A live block, as [`block_at`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveBlock {
    /// Its bytes, as it was given out.
    pub bytes: usize,
    /// The context that it is of.
    pub context: *mut c_void,
}

/// A result as C has it.
fn plain<T>(result: Result<T>) -> core::result::Result<T, c_int> {
    result.map_err(Code::number)
}

/// Whether a live block of a pool begins at an address. Takes no lock, calls nothing, and starts nothing:
/// it may be asked anywhere, also in a forked child and while the process ends.
#[must_use]
pub fn is_pools(address: u64) -> bool {
    Library::started().is_some_and(|library| library.find(address).is_some())
}

/// Whether an address is of a pool's memory, a live block's or not. Takes a lock, so not in a forked child.
#[must_use]
pub fn is_in_pools(address: u64) -> bool {
    Library::started().is_some_and(|library| library.has(address))
}

/// The live block that begins at an address. Takes a lock, so not in a forked child.
#[must_use]
pub fn block_at(address: u64) -> Option<LiveBlock> {
    let (pool, handle) = Library::started()?.find(address)?;
    let block = pool.core.block(handle).ok()?;
    let bytes = usize::try_from(block.size_bytes()).ok()?;
    Some(LiveBlock { bytes, context: pool.device().context() })
}

/// The runtime's number of the device whose primary context is current; it has a pool then.
///
/// # Errors
///
/// A `cudaError_t`; 201 if there is none.
pub fn device_here() -> core::result::Result<c_int, c_int> {
    let pool = plain(library().and_then(Library::in_context))?;
    c_int::try_from(pool.device().ordinal()).map_err(|_| Code::INVALID_DEVICE.number())
}

/// The bytes that the pool of that device has and nobody holds.
#[must_use]
pub fn free_bytes() -> usize {
    let pool = library().and_then(Library::in_context);
    pool.map_or(0, |pool| {
        let figures = pool.stats();
        figures.reservedBytes.saturating_sub(figures.liveBytes)
    })
}

/// Has all pools give back what nobody holds. Waits for work that may still use it, unless something is
/// captured.
pub fn give_back() {
    if let Some(library) = Library::started() {
        library.all_opened().for_each(|pool| {
            // What cannot be waited for stays.
            let _ = pool.core.trim_waiting(0).or_else(|_| pool.core.trim(0));
        });
    }
}

/// Lets that device use what the pool of another context's device has and will have.
///
/// # Errors
///
/// A `cudaError_t`; 201 or 400 if one is no primary context.
///
/// # Safety
///
/// The context is one of the driver's, and there until this returns.
pub unsafe fn open_here(of: *mut c_void) -> core::result::Result<(), c_int> {
    plain(library().and_then(|library| {
        let here = library.in_context()?;
        let of = library.pool_in(of, Code::INVALID_HANDLE)?;
        Ok(of.device().open_to(here.device())?)
    }))
}
