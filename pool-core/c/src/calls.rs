//! The functions that change a range, and those that ask it.

use core::ffi::c_char;

use pool_core::Handle;

use crate::begin::answer;
use crate::block::{Block, Cursor, Damage, Request, Stats};
use crate::error::{Error, Result};
use crate::state::{Call, Offsets, Range, checked, read};

/// Runs a call on a range.
///
/// # Safety
///
/// As of [`Call::begin`].
#[inline]
unsafe fn on(range: *mut Range, work: impl FnOnce(&mut Offsets) -> Result<()>) -> Error {
    // SAFETY: by the caller's promise.
    answer(unsafe { Call::begin(range) }.and_then(|mut call| work(call.offsets())))
}

/// Writes what a call gives.
///
/// # Safety
///
/// The pointer is null or can be written.
unsafe fn put<T>(to: *mut T, value: T) -> Result<()> {
    let to = checked(to)?;
    // SAFETY: it is neither null nor misaligned, so it can be written.
    unsafe { to.write(value) };
    Ok(())
}

/// A handle of C's.
fn handle(number: u64) -> Result<Handle> {
    Handle::from_raw(number).ok_or(Error::ForeignHandle)
}

/// Gives out a block: `size_bytes` rounded up to granules (in spans and under buddy placement to a power of two
/// of them), at a multiple of `align_bytes`, a power of two or 0 for the granule's.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_allocate(
    range: *mut Range,
    size_bytes: u64,
    align_bytes: u64,
    block: *mut Block,
) -> Error {
    let request = pool_core::Request::new(size_bytes).align_bytes(align_bytes.max(1));
    // SAFETY: by the caller's promise.
    unsafe { allocate(range, Ok(request), block) }
}

/// The same with all that can be asked for.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_allocate_as(
    range: *mut Range,
    request: *const Request,
    block: *mut Block,
) -> Error {
    // SAFETY: by the caller's promise.
    unsafe { allocate(range, read(request).and_then(|request| request.range()), block) }
}

/// Gives out a block.
///
/// # Safety
///
/// The pointers are null or lead to such values.
unsafe fn allocate(
    range: *mut Range,
    request: Result<pool_core::Request>,
    block: *mut Block,
) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            let (request, block) = (request?, checked(block)?);
            put(block, offsets.allocate(request)?.into())
        })
    }
}

/// Frees a block. A handle that names no live block is an error that changes nothing.
///
/// # Safety
///
/// The pointer is null, or leads to a range or to as many bytes as a range's head has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_free(range: *mut Range, block: u64) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            offsets.free(handle(block)?)?;
            Ok(())
        })
    }
}

/// Changes a block's size where it lies: its handle and offset stay. A shrink always succeeds, to no effect
/// where the storage is full; a growth does if what is behind the block is free. What the block then is goes
/// to `resized`, which may be null.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_resize(
    range: *mut Range,
    block: u64,
    size_bytes: u64,
    resized: *mut Block,
) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            let to = if resized.is_null() { None } else { Some(checked(resized)?) };
            let block = offsets.resize(handle(block)?, size_bytes)?.into();
            to.map_or(Ok(()), |to| put(to, block))
        })
    }
}

/// Whether a request would be served now, if the storage has room for it: out of memory if not.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_fits(range: *mut Range, request: *const Request) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            let request = read(request)?.range()?;
            if offsets.fits(request) { Ok(()) } else { Err(Error::OutOfMemory) }
        })
    }
}

/// The live block that a handle names.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_get_block(
    range: *mut Range,
    block: u64,
    found: *mut Block,
) -> Error {
    // SAFETY: by the caller's promise.
    unsafe { on(range, |offsets| put(found, offsets.block(handle(block)?)?.into())) }
}

/// The live block that an offset lies in. Takes a step for each block before it.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_get_block_at(
    range: *mut Range,
    offset_bytes: u64,
    found: *mut Block,
) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            let block = offsets.piece_at(offset_bytes).and_then(Block::of);
            put(found, block.filter(|block| block.handle != 0).ok_or(Error::NoBlock)?)
        })
    }
}

/// The next block of a walk over all blocks, live and free, in the order of their offsets; no block at the end.
/// The range may change between two calls: the walk gives what is then where it goes on, which begins before
/// that if it has merged with what came before. It holds nothing and need not be ended.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_next(
    range: *mut Range,
    cursor: *mut Cursor,
    block: *mut Block,
) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            let (Cursor { offset_bytes, hint }, block) = (read(cursor)?, checked(block)?);
            let hint = u32::try_from(hint).unwrap_or(u32::MAX);
            let mut place = pool_core::Cursor { offset_bytes, hint };
            let piece = offsets.next_piece(&mut place).and_then(Block::of).ok_or(Error::NoBlock)?;
            put(block, piece)?;
            put(cursor, Cursor { offset_bytes: place.offset_bytes, hint: place.hint.into() })
        })
    }
}

/// What a range has.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_get_stats(range: *mut Range, stats: *mut Stats) -> Error {
    // SAFETY: by the caller's promise.
    let asked = unsafe { Call::begin(range) }.and_then(|mut call| {
        let entries = call.entries();
        let offsets = call.offsets();
        let figures = Stats::of(&offsets.stats(), offsets.largest_free_bytes(), entries.into());
        // SAFETY: by the caller's promise.
        unsafe { put(stats, figures) }
    });
    answer(asked)
}

/// Checks all that a range keeps: damaged if anything does not hold, and what goes to `damage`, which may be
/// null. Takes a step for each block, and for each granule of open spans.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_verify(range: *mut Range, damage: *mut Damage) -> Error {
    // SAFETY: by the caller's promise.
    unsafe {
        on(range, |offsets| {
            let to = if damage.is_null() { None } else { Some(checked(damage)?) };
            let Err(error) = offsets.verify() else { return Ok(()) };
            if let Some(to) = to {
                let what: *const c_char = error.what.as_ptr().cast();
                put(to, Damage { what, what_bytes: error.what.len(), at: error.at })?;
            }
            Err(Error::Damaged)
        })
    }
}
