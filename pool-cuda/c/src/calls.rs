//! The functions.

use core::ffi::{c_int, c_void};
use core::panic::AssertUnwindSafe;
use core::ptr;
use std::panic::catch_unwind;

use pool_core::device::Device as _;
use pool_core::{GraphId, On, PoolError};
use pool_cuda::{CudaError, CudaStream};

use crate::code::{Code, Result};
use crate::device::DevicePool;
use crate::handle::StreamHandle;
use crate::library::{Route, library, seen};
use crate::stats::poolStats;
use crate::{last, thread};

/// Runs what is no hit. No panic passes into C.
pub(crate) fn guarded(work: impl FnOnce() -> Result<()>) -> c_int {
    last::begin();
    last::answer(catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(Code::UNKNOWN)))
}

/// A program's pointer to the device's memory.
#[inline]
pub(crate) fn pointer(address: u64) -> *mut c_void {
    // Nothing of the host is behind it.
    ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0))
}

/// Gives out memory of the stream's device, aligned to 256 bytes, that work queued on the stream from now
/// on may use. Work on other streams has to be ordered behind it by the program. Zero bytes are a null
/// pointer and no error.
///
/// 1 (invalid value): devPtr is null. 2 (memory allocation): there is no such block, nor can one be made
/// within the limit and the device's memory. 201 (no such context): a default stream, and the current
/// context is not its device's primary one, which is not noticed at a hit. 400 (invalid handle): a stream
/// of such a context. 900: see
/// CAPTURES. Else the code of the call of the driver that failed. *devPtr is written at success alone.
///
/// # Safety
///
/// `devPtr` is null or can be written. The stream is there.
#[expect(non_snake_case, reason = "C's names")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolMallocAsync(
    devPtr: *mut *mut c_void,
    size: usize,
    stream: *mut c_void,
) -> c_int {
    if devPtr.is_null() {
        return last::answer(Err(Code::INVALID_VALUE));
    }
    let handle = StreamHandle::of(stream);
    if let Some(address) = hit(handle, size) {
        // SAFETY: it is not null, and can be written by the caller's promise.
        unsafe { devPtr.write(pointer(address)) };
        return 0;
    }
    guarded(|| {
        let address = allocate(handle, size)?;
        // SAFETY: as above.
        unsafe { devPtr.write(pointer(address)) };
        Ok(())
    })
}

/// What the own memory of a stream that this thread has seen serves, with no call of the driver but to
/// ask for the current context where the stream's name does not say which it is.
#[inline]
fn hit(handle: StreamHandle, size: usize) -> Option<u64> {
    let seen = seen(handle).filter(|_| size > 0)?;
    let core = &seen.pool.core;
    let size_bytes = size as u64;
    let found = core.hit_on(seen.stream, size_bytes);
    let block = found.or_else(|| core.own_on(seen.stream, size_bytes))?;
    seen.pool.ledger.gave(seen.counts(), block.size_bytes(), true);
    // The device has addresses.
    Some(core.address(&block).unwrap_or_default())
}

/// What is no hit: the driver is asked whose the stream is, since its handle may be another's by now.
#[inline(never)]
fn allocate(handle: StreamHandle, size: usize) -> Result<u64> {
    let library = library()?;
    if size == 0 {
        return Ok(0);
    }
    let size_bytes = size as u64;
    let (pool, block) = library.on(handle, |route| {
        let pool = route.pool();
        let block = match route {
            Route::Known(_, stream) => pool.core.allocate_on(stream, size_bytes),
            Route::PerThread(_) => pool.core.allocate_on(&CudaStream::PER_THREAD, size_bytes),
        };
        Ok((pool, block?))
    })?;
    thread::with_counts(pool, |counts| pool.ledger.gave(counts, block.size_bytes(), false));
    Ok(pool.core.address(&block).unwrap_or_default())
}

/// Takes memory back, which serves again behind the work that is queued now on the stream and on the one
/// that it was given out on. The stream may be of another device. Work on any other stream that uses it
/// has to be ordered before by the program, or said by poolRecordStream. Null is no error, and nothing
/// happens.
///
/// 1 (invalid value): no live block of the library's begins at devPtr; it was freed already, or is of
/// another allocator. Else as poolMallocAsync, and the block is live still.
///
/// # Safety
///
/// The stream is there.
#[expect(non_snake_case, reason = "C's names")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolFreeAsync(devPtr: *mut c_void, stream: *mut c_void) -> c_int {
    if devPtr.is_null() {
        return 0;
    }
    let (handle, address) = (StreamHandle::of(stream), devPtr.addr() as u64);
    if let Some(seen) = seen(handle)
        && let Some(block) = seen.pool.core.block_at_address(address)
    {
        match seen.pool.core.free_own_on(seen.stream, block) {
            Ok(Some(block)) => {
                seen.pool.ledger.took(seen.counts(), block.size_bytes());
                return 0;
            }
            Ok(None) => {}
            // Another thread freed it just now.
            Err(_) => return guarded(|| Err(Code::INVALID_VALUE)),
        }
    }
    guarded(|| free(handle, address))
}

/// What is no free into a stream's own memory: of another device's, for example.
#[inline(never)]
fn free(handle: StreamHandle, address: u64) -> Result<()> {
    let library = library()?;
    let (pool, block) = library.find(address).ok_or(Code::INVALID_VALUE)?;
    let freed = library
        .on(handle, |route| with_on(pool, route, handle, |on| pool.core.free_on(on, block)))?;
    thread::with_counts(pool, |counts| pool.ledger.took(counts, freed.size_bytes()));
    Ok(())
}

/// Does something with a stream as a block's pool takes it, which may be another device's than the
/// stream's.
fn with_on<R>(
    pool: &DevicePool,
    route: Route,
    handle: StreamHandle,
    work: impl FnOnce(On<'_, CudaStream>) -> core::result::Result<R, PoolError<CudaError>>,
) -> core::result::Result<R, PoolError<CudaError>> {
    let of = route.pool();
    let is_own = ptr::eq(of, pool);
    let raw = if is_own { handle.stream() } else { handle.stream_of(of.device()) };
    // The block's pool knows of no capture of another device's.
    if !is_own && of.device().capture_id(&handle.stream()).is_ok_and(|capture| capture.is_some()) {
        return Err(PoolError::UnannouncedCapture { capture_id: 0 });
    }
    match route {
        Route::Known(_, stream) if is_own => work(On::Stream(stream)),
        _ => work(On::Raw(&raw)),
    }
}

/// Says that work on a stream, what is queued now and what will be until the block is freed, uses a block: it
/// serves again behind that work too. The stream may be of another device.
///
/// 1 (invalid value): no live block of the library's begins at devPtr. Else as poolMallocAsync.
///
/// # Safety
///
/// The stream is there.
#[expect(non_snake_case, reason = "C's names")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolRecordStream(devPtr: *mut c_void, stream: *mut c_void) -> c_int {
    guarded(|| {
        let (handle, address) = (StreamHandle::of(stream), devPtr.addr() as u64);
        let library = library()?;
        let (pool, block) = library.find(address).ok_or(Code::INVALID_VALUE)?;
        library
            .on(handle, |route| with_on(pool, route, handle, |on| pool.core.record_use(block, on)))
    })
}

/// Says that a stream is about to be destroyed, or that the library is not to keep it any more. Its free
/// memory serves others once its work so far is done. A stream that the library does not know is no error.
///
/// 1 (invalid value): a default stream, which has no end. 900: the stream is announced as captured.
///
/// # Safety
///
/// The stream is there still.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolStreamDestroyed(stream: *mut c_void) -> c_int {
    guarded(|| {
        let handle = StreamHandle::of(stream);
        let library = library()?;
        if handle.is_default() { Err(Code::INVALID_VALUE) } else { library.retire(handle) }
    })
}

/// Says that a stream is about to be captured into a graph, to which the program gives a number of its
/// own. Until the capture's end is announced nothing is waited for on that device, and nothing goes back to
/// it. Captures with the same number share memory, so that their graphs must not run at once.
///
/// 900: the stream is announced already.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolBeginCapture(stream: *mut c_void, graph: u64) -> c_int {
    guarded(|| {
        let handle = StreamHandle::of(stream);
        let route = library()?.route(handle)?;
        let (pool, raw) = (route.pool(), handle.stream());
        pool.core.begin_capture(on(route, &raw), GraphId(graph)).map_err(|error| pool.code(error))
    })
}

/// Says that a capture has ended, well or not. 1: none was announced for the stream.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolEndCapture(stream: *mut c_void) -> c_int {
    guarded(|| {
        let handle = StreamHandle::of(stream);
        let route = library()?.route(handle)?;
        let (pool, raw) = (route.pool(), handle.stream());
        pool.core.end_capture(on(route, &raw)).map_err(|error| pool.code(error))
    })
}

/// A stream as its own pool takes it.
fn on(route: Route, raw: &CudaStream) -> On<'_, CudaStream> {
    match route {
        Route::Known(_, stream) => On::Stream(stream),
        Route::PerThread(_) => On::Raw(raw),
    }
}

/// Says that a graph of a device is launched no more: what is its own serves again once all work of the
/// device so far is done. 1: there is no such graph. 900: it is being captured.
#[unsafe(no_mangle)]
pub extern "C" fn poolReleaseGraph(device: c_int, graph: u64) -> c_int {
    guarded(|| {
        let library = library()?;
        let pool = library.opened(library.ordinal(device)?).ok_or(Code::INVALID_VALUE)?;
        pool.core.release_graph(GraphId(graph)).map_err(|error| pool.code(error))
    })
}

/// Sets the most bytes that the library takes from a device; 0: as many as there are. What it has beyond
/// that goes back as far as nothing uses it; the rest stays, and nothing more is taken. 101 (invalid
/// device): there is none with this number, which is the runtime's.
#[unsafe(no_mangle)]
pub extern "C" fn poolSetLimit(device: c_int, bytes: usize) -> c_int {
    guarded(|| {
        let library = library()?;
        let pool = library.pool(library.ordinal(device)?)?;
        pool.set_limit((bytes > 0).then_some(bytes as u64))
    })
}

/// Gives memory back to a device that nothing uses, while more than `keep` bytes stay. No work of the
/// device is waited for: memory that it may still use stays.
#[unsafe(no_mangle)]
pub extern "C" fn poolTrim(device: c_int, keep: usize) -> c_int {
    guarded(|| {
        let library = library()?;
        let pool = library.opened(library.ordinal(device)?);
        pool.map_or(Ok(()), |pool| pool.trim(keep as u64))
    })
}

/// Starts a device's peaks anew from what is there now.
#[unsafe(no_mangle)]
pub extern "C" fn poolResetPeaks(device: c_int) -> c_int {
    guarded(|| {
        let library = library()?;
        if let Some(pool) = library.opened(library.ordinal(device)?) {
            pool.reset_peaks();
        }
        Ok(())
    })
}

/// Writes a device's figures; all zero for one that was not used. 1: stats is null.
///
/// # Safety
///
/// `stats` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn poolGetStats(device: c_int, stats: *mut poolStats) -> c_int {
    guarded(|| {
        if stats.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        let library = library()?;
        let pool = library.opened(library.ordinal(device)?);
        let figures = pool.map_or_else(poolStats::default, DevicePool::stats);
        // SAFETY: it is not null, and can be written by the caller's promise.
        unsafe { stats.write(figures) };
        Ok(())
    })
}
