//! A range in the caller's storage: how much, and where each part lies.
//!
//! The head comes first, then the entries, 32 bytes each, and at the end the words of spans.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicBool;

use pool_core::{Node, RangeConfig};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::state::{Call, Offsets, Range, checked, mark, read};

/// What a range's storage is aligned to.
pub const POOL_RANGE_STORAGE_ALIGN: usize = 32;
/// The bytes at the head of a range's storage, before its first entry.
pub const POOL_RANGE_HEAD_BYTES: usize = 6336;
/// The bytes of an entry, which describes a block, a free block or a span.
pub const POOL_RANGE_ENTRY_BYTES: usize = 32;

const WORD_BYTES: usize = size_of::<u64>();

// Entries are named by 32 bits.
const _: () = assert!(size_of::<usize>() >= size_of::<u32>());

// On machines with short addresses the head is a little smaller.
const _: () = assert!(size_of::<Range>() <= POOL_RANGE_HEAD_BYTES);
const _: () = assert!(POOL_RANGE_HEAD_BYTES.is_multiple_of(POOL_RANGE_STORAGE_ALIGN));
const _: () = assert!(align_of::<Range>() == POOL_RANGE_STORAGE_ALIGN);
const _: () = assert!(align_of::<Node>() <= POOL_RANGE_STORAGE_ALIGN);
const _: () = assert!(size_of::<Node>() == POOL_RANGE_ENTRY_BYTES);

/// How many bytes of storage are enough for so many live blocks, wherever they lie. A range works with less,
/// too, until it is full, and with more.
///
/// # Safety
///
/// The pointers are null or lead to such values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_storage_bytes(
    config: *const Config,
    blocks: u32,
    storage_bytes: *mut usize,
) -> Error {
    let sized = || {
        // SAFETY: by the caller's promise.
        let config = unsafe { read(config) }?;
        let storage_bytes = checked(storage_bytes)?;
        let bytes = bytes_for(&config, blocks, isize::MAX as usize)?;
        // SAFETY: it can be written.
        unsafe { storage_bytes.write(bytes) };
        Ok(())
    };
    answer(sized())
}

/// The same on a machine whose largest object has so many bytes.
fn bytes_for(config: &Config, blocks: u32, most_bytes: usize) -> Result<usize> {
    let range = config.range()?;
    let entries = range.nodes_for(blocks)?.checked_mul(POOL_RANGE_ENTRY_BYTES);
    entries
        .and_then(|entries| entries.checked_add(POOL_RANGE_HEAD_BYTES))
        .and_then(|bytes| bytes.checked_add(span_bytes(config, &range).ok()?))
        .filter(|&bytes| bytes <= most_bytes)
        .ok_or(Error::StorageSize)
}

/// The bytes of the words of spans.
fn span_bytes(config: &Config, range: &RangeConfig) -> Result<usize> {
    let words = range.span_words_for(config.spans)?;
    words.checked_mul(WORD_BYTES).ok_or(Error::StorageSize)
}

/// Creates a range in storage, which it then is the start of. What the storage held does not matter; from now
/// on it is the range's, and stays where it is, until the range ends or is created anew.
///
/// # Safety
///
/// The pointers are null or lead to such values, and storage to `storage_bytes` bytes that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_create(
    config: *const Config,
    storage: *mut c_void,
    storage_bytes: usize,
    range: *mut *mut Range,
) -> Error {
    let created = || {
        // SAFETY: by the caller's promise.
        let config = unsafe { read(config) }?;
        let out = checked(range)?;
        if storage.is_null() {
            return Err(Error::Pointer);
        }
        // SAFETY: by the caller's promise, it is so long.
        let range = unsafe { create(&config, storage.cast(), storage_bytes) }?;
        // SAFETY: it can be written.
        unsafe { out.write(range) };
        Ok(())
    };
    answer(created())
}

/// Creates a range.
///
/// # Safety
///
/// The storage is so long, and nobody else uses it.
unsafe fn create(config: &Config, storage: *mut u8, storage_bytes: usize) -> Result<*mut Range> {
    let shape = config.range()?;
    if !storage.addr().is_multiple_of(POOL_RANGE_STORAGE_ALIGN) {
        return Err(Error::StorageAlignment);
    }
    // No object is longer than that, whatever is said.
    let storage_bytes = storage_bytes.min(isize::MAX as usize);
    let span_bytes = span_bytes(config, &shape)?;
    let entries = storage_bytes
        .checked_sub(POOL_RANGE_HEAD_BYTES)
        .and_then(|bytes| bytes.checked_sub(span_bytes))
        .map(|bytes| bytes / POOL_RANGE_ENTRY_BYTES)
        .ok_or(Error::StorageSize)?;

    // SAFETY: the parts lie in the storage one behind the other, as was reckoned; each is aligned,
    // for the storage is, and the parts before are multiples of 32 bytes. Any bits are entries and
    // words, so long as they were written once, as they are here.
    let (nodes, words) = unsafe {
        let nodes: *mut Node = storage.add(POOL_RANGE_HEAD_BYTES).cast();
        let words: *mut u64 = nodes.add(entries).cast();
        nodes.write_bytes(0, entries);
        words.write_bytes(0, span_bytes / WORD_BYTES);
        (
            core::slice::from_raw_parts_mut(nodes, entries),
            core::slice::from_raw_parts_mut(words, span_bytes / WORD_BYTES),
        )
    };
    let range: *mut Range = storage.cast();
    // SAFETY: the head lies at the storage's start, and a place for a range may hold anything.
    let place = unsafe { &mut *(&raw mut (*range).offsets).cast::<MaybeUninit<Offsets>>() };
    Offsets::emplace(place, &shape, nodes, words)?;
    // SAFETY: the same.
    unsafe {
        (&raw mut (*range).lock).write(config.lock);
        (&raw mut (*range).busy).write(AtomicBool::new(false));
        // There are never more than 2^30 of use.
        (&raw mut (*range).entries).write(u32::try_from(entries).unwrap_or(u32::MAX));
        (&raw mut (*range).mark).write(mark(range));
    }
    Ok(range)
}

/// Ends a range: its storage is the caller's again. Its blocks need not be freed.
///
/// # Safety
///
/// The pointer is null, or leads to a range or to as many bytes as a range's head has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_range_end(range: *mut Range) -> Error {
    // SAFETY: by the caller's promise.
    answer(unsafe { Call::begin(range) }.map(Call::end))
}

/// What a call answers.
pub(crate) fn answer(result: Result<()>) -> Error {
    result.err().unwrap_or(Error::None)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::config::Lock;

    fn config(spans: u32) -> Config {
        Config {
            capacity_bytes: 1 << 40,
            granule_bytes: 0,
            span_bytes: 0,
            small_bytes: 0,
            placement: 0,
            spans,
            handle_seed: 0,
            tolerance_percent: 0,
            lock: Lock { take: None, give: None, context: core::ptr::null_mut() },
        }
    }

    #[test]
    fn storage_is_reckoned_without_a_wrap_whatever_a_machine_can_address() {
        let narrow = i32::MAX as usize;
        let wide = isize::MAX as usize;
        for blocks in [0, 1, 1000, 1 << 24] {
            let bytes = bytes_for(&config(0), blocks, wide).unwrap();
            assert_eq!(bytes, POOL_RANGE_HEAD_BYTES + 32 * (2 * blocks as usize + 1));
            assert_eq!(bytes_for(&config(0), blocks, narrow), Ok(bytes));
        }
        for blocks in [1 << 26, 1 << 30, u32::MAX] {
            assert!(bytes_for(&config(0), blocks, wide).unwrap() > narrow);
            assert_eq!(bytes_for(&config(0), blocks, narrow), Err(Error::StorageSize));
        }
        assert!(bytes_for(&config(1000), 1, narrow).is_ok());
        assert!(bytes_for(&config(u32::MAX), 1, wide).is_ok());
        assert_eq!(bytes_for(&config(u32::MAX), 1, narrow), Err(Error::StorageSize));
    }
}
