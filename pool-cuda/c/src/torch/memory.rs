//! Memory in the order of a stream, by PyTorch's types.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering;

use crate::calls::{guarded, pointer};
use crate::code::{Code, Result};
use crate::device::DevicePool;
use crate::handle::StreamHandle;
use crate::last::poolLastErrorMessage;
use crate::library::{Library, library};
use crate::thread::{self, Seen};
use crate::torch::open::{PoolId, during_capture};
use crate::torch::streams::Named;

/// Why the last call of this thread failed.
fn reason() -> String {
    let message = poolLastErrorMessage();
    // SAFETY: it ends with a zero, and stays until another call of this thread fails.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}

/// `pool_torch_allocate` for a program that takes null as success, as PyTorch does: where there is no
/// memory the process ends, and says why.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_malloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let block = unsafe { pool_torch_allocate(size, device, stream) };
    if block.is_null() && size > 0 {
        eprintln!("pool_torch_malloc: {size} bytes on device {device}: {}", reason());
        std::process::abort();
    }
    block
}

/// `pool_torch_release` for a program that takes no answer: what is not freed is said on the standard
/// error, with the size, which is not looked at otherwise.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_free(
    ptr: *mut c_void,
    size: usize,
    device: c_int,
    stream: *mut c_void,
) {
    // SAFETY: the caller's promise.
    let code = unsafe { pool_torch_release(ptr, device, stream) };
    // At the process's end, and in a forked child, the driver has it.
    let is_over = [Code::UNLOADING, Code::INITIALIZATION].map(Code::number).contains(&code);
    if code != 0 && !is_over {
        eprintln!("pool_torch_free: {ptr:p}, {size} bytes on device {device}: {}", reason());
    }
}

/// Gives out memory of a device that work queued on a stream of it may use, aligned to 256 bytes. Null where
/// there is none, and for zero bytes: `poolLastError` and `poolLastErrorMessage` say why.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_allocate(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    give(size, device, StreamHandle::of(stream), None)
}

/// The same for a stream whose memory is a pool's that is open, by the pool's number of two parts. If the
/// stream is captured, the memory is the graphs' that share the pool.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_allocate_in_pool(
    size: usize,
    device: c_int,
    stream: *mut c_void,
    first: u64,
    second: u64,
) -> *mut c_void {
    give(size, device, StreamHandle::of(stream), Some((first, second)))
}

#[inline]
fn give(size: usize, device: c_int, handle: StreamHandle, into: Option<PoolId>) -> *mut c_void {
    if let Some(address) = hit(size as u64, device, handle) {
        return pointer(address);
    }
    let mut address = 0;
    guarded(|| {
        address = allocate(size as u64, device, handle, into)?;
        Ok(())
    });
    pointer(address)
}

/// Gives out a segment for an allocator that lends it to whichever stream it likes, as PyTorch's own does: nothing
/// that is queued still uses it. The stream is the one that the allocator works for: if it is captured, which
/// nobody need have announced, the capture stays whole. `poolFree` takes a segment back. Null as for
/// `pool_torch_allocate`.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_allocate_segment(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let mut address = 0;
    guarded(|| {
        let library = library()?;
        let pool = library.pool(library.ordinal(device)?)?;
        if size == 0 {
            return Ok(());
        }
        let ask = || pool.core.allocate(size as u64).map_err(|error| pool.code(error));
        let handle = StreamHandle::of(stream);
        let block = if !handle.is_default() && pool.is_captured(handle)? {
            during_capture(pool, handle, ask)?
        } else {
            ask()?
        };
        thread::with_counts(pool, |counts| pool.ledger.gave(counts, block.size_bytes(), false));
        address = pool.core.address(&block).unwrap_or_default();
        Ok(())
    });
    pointer(address)
}

/// What this thread has seen of a stream of a device.
#[inline]
fn seen(device: c_int, handle: StreamHandle) -> Option<Seen> {
    let library = library().ok()?;
    let pool = library.opened(usize::try_from(device).ok()?)?;
    thread::seen(library.key(handle, pool)).filter(|seen| ptr::eq(seen.pool, pool))
}

/// What the stream's own memory serves, with no call of the driver. While a capture is announced it serves
/// nothing.
#[inline]
fn hit(size_bytes: u64, device: c_int, handle: StreamHandle) -> Option<u64> {
    let seen = seen(device, handle).filter(|_| size_bytes > 0)?;
    let core = &seen.pool.core;
    let found = core.hit_on(seen.stream, size_bytes);
    let block = found.or_else(|| core.own_on(seen.stream, size_bytes))?;
    seen.pool.ledger.gave(seen.counts(), block.size_bytes(), true);
    // The device has addresses.
    Some(core.address(&block).unwrap_or_default())
}

#[inline(never)]
fn allocate(
    size_bytes: u64,
    device: c_int,
    handle: StreamHandle,
    into: Option<PoolId>,
) -> Result<u64> {
    let library = library()?;
    let pool = library.pool(library.ordinal(device)?)?;
    if size_bytes == 0 {
        return Ok(0);
    }
    let named = Named::own(library, pool, handle)?;
    if pool.core.is_capturing() {
        library.torch().pools.end_what_is_over(pool)?;
    }
    if let Some(id) = into {
        library.torch().pools.announce(pool, id, handle)?;
    }
    pool.check_capture(handle)?;
    let ask = || pool.core.allocate_on(named.on(), size_bytes).map_err(|error| pool.code(error));
    let block = ask()
        .or_else(|code| {
            let held_back = into.filter(|_| code == Code::MEMORY);
            // Perhaps for want of what a capture forbids, and none is under way.
            match held_back {
                Some(id) if library.torch().pools.withdraw(pool, id)? => ask(),
                _ => Err(code),
            }
        })
        .inspect_err(|&code| {
            if code == Code::MEMORY {
                pool.refusals.fetch_add(1, Ordering::Relaxed);
            }
        })?;
    thread::with_counts(pool, |counts| pool.ledger.gave(counts, block.size_bytes(), false));
    Ok(pool.core.address(&block).unwrap_or_default())
}

/// Takes memory back, behind the work that is queued now on a stream of the device and on those that were
/// noted for it. If nothing can be recorded in the stream, it is taken back behind all work of the device.
/// Null is no error.
///
/// 1 (invalid value): no live block begins at `ptr`.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_release(
    ptr: *mut c_void,
    device: c_int,
    stream: *mut c_void,
) -> c_int {
    if ptr.is_null() {
        return 0;
    }
    let (handle, address) = (StreamHandle::of(stream), ptr.addr() as u64);
    if let Some(seen) = seen(device, handle)
        && let Some(block) = seen.pool.core.block_at_address(address)
        && let Ok(Some(block)) = seen.pool.core.free_own_on(seen.stream, block)
    {
        seen.pool.ledger.took(seen.counts(), block.size_bytes());
        return 0;
    }
    guarded(|| free(device, handle, address))
}

#[inline(never)]
fn free(device: c_int, handle: StreamHandle, address: u64) -> Result<()> {
    let library = library()?;
    let (pool, block) = library.find(address).ok_or(Code::INVALID_VALUE)?;
    let on_stream =
        |named: Named| pool.core.free_on(named.on(), block).map_err(|error| pool.code(error));
    let freed = behind(library, pool, device, handle)
        .and_then(on_stream)
        // A block that is gone by now is gone here, too.
        .or_else(|_| pool.core.free(block).map_err(|error| pool.code(error)))?;
    thread::with_counts(pool, |counts| pool.ledger.took(counts, freed.size_bytes()));
    Ok(())
}

/// The stream that a block is freed behind.
fn behind(
    library: &'static Library,
    pool: &'static DevicePool,
    device: c_int,
    handle: StreamHandle,
) -> Result<Named> {
    let of = library.pool(library.ordinal(device)?)?;
    of.check_capture(handle)?;
    if ptr::eq(of, pool) {
        Named::own(library, pool, handle)
    } else {
        Ok(Named::Raw(handle.stream_of(of.device())))
    }
}

/// Says that work on a stream, of whichever device, uses a block until that is freed. A stream that is
/// neither a default one nor listed may be destroyed before: then all work of the device is waited for.
///
/// 1 (invalid value): no live block begins at `ptr`. Null is no error.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_record_stream(ptr: *mut c_void, stream: *mut c_void) -> c_int {
    if ptr.is_null() {
        return 0;
    }
    guarded(|| {
        let library = library()?;
        let (pool, block) = library.find(ptr.addr() as u64).ok_or(Code::INVALID_VALUE)?;
        let named = Named::any(library, pool, StreamHandle::of(stream))?;
        pool.core.record_use(block, named.on()).map_err(|error| pool.code(error))
    })
}

/// Where the allocation begins that a block is, and its bytes: a block is one by itself. Null if none begins
/// at `ptr`.
///
/// # Safety
///
/// `size` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_base(ptr: *mut c_void, size: *mut usize) -> *mut c_void {
    let mut size_bytes = 0;
    let code = guarded(|| {
        let (pool, block) = library()?.find(ptr.addr() as u64).ok_or(Code::INVALID_VALUE)?;
        let block = pool.core.block(block).map_err(|_| Code::INVALID_VALUE)?;
        size_bytes = usize::try_from(block.size_bytes()).unwrap_or(usize::MAX);
        Ok(())
    });
    if code != 0 {
        return ptr::null_mut();
    }
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { size.write(size_bytes) };
    }
    ptr
}
