//! What another library in the same process asks: whose an address is, and memory by codes alone.
//!
//! For `pool-cuda-preload`, which stands where a program expects the driver, and so must know what is the
//! pools' and what is not before it calls anything.

use core::ffi::{c_int, c_void};

use crate::code::{Code, Result};
use crate::device::DevicePool;
use crate::library::{Library, library};
use crate::thread;

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
    result.map_err(|code| Code::of(Err(code)))
}

/// Whether a live block of a pool begins at an address. Takes no lock, calls nothing, and starts nothing:
/// it may be asked anywhere, also in a forked child and while the process ends.
#[must_use]
pub fn is_pools(address: u64) -> bool {
    Library::started().is_some_and(|library| library.find(address).is_some())
}

/// The live block that begins at an address. Takes a lock, so not in a forked child.
#[must_use]
pub fn block_at(address: u64) -> Option<LiveBlock> {
    let (pool, handle) = Library::started()?.find(address)?;
    let block = pool.core.block(handle).ok()?;
    let bytes = usize::try_from(block.size_bytes()).ok()?;
    Some(LiveBlock { bytes, context: pool.device().context() })
}

/// Gives out memory of the current context's device that nothing uses, for any stream.
///
/// # Errors
///
/// A `cudaError_t`; 201 if no context is current.
pub fn allocate(bytes: usize) -> core::result::Result<u64, c_int> {
    plain(library().and_then(|library| {
        let pool = library.here()?;
        let block = pool.core.allocate(bytes as u64).map_err(|error| pool.code(error))?;
        thread::with_counts(pool, |counts| pool.ledger.gave(counts, block.size_bytes(), false));
        Ok(pool.core.address(&block).unwrap_or_default())
    }))
}

/// Takes a block back that any stream may have used: it serves again behind all work of the device.
///
/// # Errors
///
/// A `cudaError_t`; 1 if no live block begins there.
pub fn free(address: u64) -> core::result::Result<(), c_int> {
    plain(library().and_then(|library| {
        let (pool, block) = library.find(address).ok_or(Code::INVALID_VALUE)?;
        let freed = pool.core.free(block).map_err(|error| pool.code(error))?;
        thread::with_counts(pool, |counts| pool.ledger.took(counts, freed.size_bytes()));
        Ok(())
    }))
}

/// The bytes that the pool of the current context's device has and nobody holds.
#[must_use]
pub fn free_bytes() -> usize {
    let pool = library().and_then(Library::here);
    pool.map_or(0, |pool| {
        let figures = pool.stats();
        figures.reservedBytes.saturating_sub(figures.liveBytes)
    })
}

/// The runtime's number of the current context's device.
///
/// # Errors
///
/// A `cudaError_t`; 201 if no primary context is current.
pub fn device_here() -> core::result::Result<c_int, c_int> {
    let pool = plain(library().and_then(Library::here))?;
    c_int::try_from(pool.device().ordinal()).map_err(|_| Code::of(Err(Code::INVALID_DEVICE)))
}

/// Lets the current context's device use what the pool of another context's device has and will have.
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
        let here: &DevicePool = library.here()?;
        let of = library.pool_in(of, Code::INVALID_HANDLE)?;
        Ok(of.device().open_to(here.device())?)
    }))
}
