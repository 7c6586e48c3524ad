//! What concerns a device as a whole: limits, figures, and what goes back to it.

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use crate::calls::guarded;
use crate::code::Code;
use crate::device::DevicePool;
use crate::library::library;

/// A device's figures, of which PyTorch's names are made. Bytes are those of blocks as they were given out.
#[expect(non_snake_case, reason = "C's names")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poolTorchStats {
    /// Held by the program.
    pub liveBytes: u64,
    /// The most of them at once.
    pub peakLiveBytes: u64,
    /// All that were ever given out.
    pub allocatedBytes: u64,
    /// All that were ever freed.
    pub freedBytes: u64,
    /// Blocks given out.
    pub allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Of the allocations, those that the stream's own memory served at once.
    pub hits: u64,
    /// Taken from the device.
    pub reservedBytes: u64,
    /// The most of them at once.
    pub peakReservedBytes: u64,
    /// Freed, and waiting for work of the device or for a graph.
    pub deferredBytes: u64,
    /// Blocks that wait.
    pub deferredBlocks: u64,
    /// Free.
    pub freeBytes: u64,
    /// In caches of threads.
    pub cachedBytes: u64,
    /// The most that may be taken from the device; 0: as much as there is.
    pub limitBytes: u64,
    /// What the device has.
    pub totalBytes: u64,
    /// Of that, what nobody has taken, in any process; 0 if the driver does not say.
    pub deviceFreeBytes: u64,
    /// Stretches of memory that were taken from the device, and are not back.
    pub arenas: u64,
    /// Times that more was taken from the device.
    pub growths: u64,
    /// Calls of the device that give memory.
    pub deviceAllocations: u64,
    /// Calls of the device that take it back.
    pub deviceFrees: u64,
    /// Times that the host waited for the device.
    pub hostWaits: u64,
    /// Requests that were refused for want of memory.
    pub refusals: u64,
}

impl DevicePool {
    fn torch_stats(&self) -> poolTorchStats {
        let (pool, totals) = (self.core.stats(), self.ledger.totals());
        let live_bytes = totals.live_bytes();
        poolTorchStats {
            liveBytes: live_bytes,
            peakLiveBytes: self.ledger.peak_bytes(live_bytes),
            allocatedBytes: totals.allocated_bytes,
            freedBytes: totals.freed_bytes,
            allocations: totals.allocations,
            frees: totals.frees,
            hits: totals.hits,
            reservedBytes: pool.reserved_bytes,
            peakReservedBytes: pool.peak_reserved_bytes,
            deferredBytes: pool.deferred_bytes,
            deferredBlocks: pool.deferred_blocks,
            freeBytes: pool.free_bytes,
            cachedBytes: pool.cached_bytes,
            limitBytes: pool.limit_bytes.unwrap_or(0),
            totalBytes: self.device().total_bytes(),
            deviceFreeBytes: self.device().memory().map_or(0, |memory| memory.free_bytes),
            arenas: pool.arenas,
            growths: pool.growths,
            deviceAllocations: pool.calls.allocations
                + pool.calls.extensions
                + pool.calls.creations,
            deviceFrees: pool.calls.frees + pool.calls.destructions,
            hostWaits: pool.calls.host_waits,
            refusals: self.refusals.load(Ordering::Relaxed),
        }
    }
}

/// Writes a device's figures; all zero for one that was not used. 1: `stats` is null. 101 (invalid device):
/// there is none with this number.
///
/// # Safety
///
/// `stats` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_stats(device: c_int, stats: *mut poolTorchStats) -> c_int {
    guarded(|| {
        if stats.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let library = library()?;
        let pool = library.opened(library.ordinal(device)?);
        let figures = pool.map_or_else(poolTorchStats::default, DevicePool::torch_stats);
        // SAFETY: it is not null, and can be written by the caller's promise.
        unsafe { stats.write(figures) };
        Ok(())
    })
}

/// Gives back to all devices what nothing uses.
#[unsafe(no_mangle)]
pub extern "C" fn pool_torch_empty_cache() -> c_int {
    guarded(|| library()?.all_opened().try_for_each(|pool| pool.trim(0)))
}

/// Sets the most that is taken from a device, as a part of its memory: 1 is all of it. 1 (invalid value): the
/// fraction is not from 0 to 1.
#[unsafe(no_mangle)]
pub extern "C" fn pool_torch_set_fraction(fraction: f64, device: c_int) -> c_int {
    guarded(|| {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Code::INVALID_VALUE);
        }
        let library = library()?;
        let pool = library.pool(library.ordinal(device)?)?;
        pool.set_limit(Some(part(pool.device().total_bytes(), fraction)))
    })
}

/// A part of so many bytes.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the fraction is from 0 to 1, and no device has 2^53 bytes"
)]
fn part(bytes: u64, fraction: f64) -> u64 {
    (bytes as f64 * fraction) as u64
}
