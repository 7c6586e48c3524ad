//! Virtual memory: addresses without memory, pages without addresses, and the two together.
//!
//! Pages are mapped whole, and a mapping is opened and unmapped whole. Nothing waits for work: to
//! unmap what queued work uses is a violation.

use core::ffi::{c_int, c_ulonglong};
use core::ops::Range;
use std::collections::BTreeSet;
use std::sync::Arc;

use pool_mock::device::SimRange;

use crate::bytes::Storage;
use crate::call::{Call, answer, ask, check, functions};
use crate::code;
use crate::memory::{AccessDescription, AllocationProperties};
use crate::space::Mapping;
use crate::state::{State, started};

/// Pages of a device's memory.
pub(crate) struct Pages {
    ordinal: usize,
    pub(crate) size: u64,
    range: SimRange,
    storage: Arc<Storage>,
    /// Whether their handle exists.
    pub(crate) is_held: bool,
    /// How often they are mapped.
    mappings: u64,
}

/// The size of the least page of any device; those without pages have no part in this.
fn page_bytes(state: &State) -> Result<u64, i32> {
    let sizes = state.config.devices.iter().filter_map(|device| device.page_bytes);
    sizes.min().map(|bytes| bytes as u64).ok_or(code::NOT_SUPPORTED)
}

/// A stretch of whole pages.
fn stretch(state: &State, address: u64, size: usize) -> Result<Range<u64>, i32> {
    let (page, size) = (page_bytes(state)?, size as u64);
    if size == 0 || !address.is_multiple_of(page) || !size.is_multiple_of(page) {
        return Err(code::INVALID_VALUE);
    }
    Ok(address..address.checked_add(size).ok_or(code::INVALID_VALUE)?)
}

/// Checks that no capture forbids the call: it allocates or frees, or might.
fn check_captures(call: Call, state: &State) -> Result<(), i32> {
    state.devices[0].sim.check_call(call.name).map_err(code::of)
}

/// Ends pages that have neither a handle nor a mapping.
fn end_if_unused(call: Call, state: &mut State, pages: u64) -> Result<(), i32> {
    let known = state.pages.get(&pages).ok_or(code::INVALID_VALUE)?;
    if known.is_held || known.mappings > 0 {
        return Ok(());
    }
    let device = &state.devices[known.ordinal].sim;
    device.take_range_back(&known.range, call.name).map_err(code::of)?;
    device.give_bytes(known.size);
    state.pages.remove(&pages);
    Ok(())
}

functions! {
    /// Tells the size in bytes of the pages that a device can map.
    fn cuMemGetAllocationGranularity(
        bytes: *mut usize, properties: *const AllocationProperties, option: c_int
    ) {
        if !(0..=1).contains(&option) {
            return Err(code::INVALID_VALUE);
        }
        let state = started()?;
        // SAFETY: by the contract of the outer function.
        let ordinal = unsafe { ask(properties) }?.ordinal(&state)?;
        let page_bytes = state.config.devices[ordinal].page_bytes.ok_or(code::NOT_SUPPORTED)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(bytes, page_bytes) }
    }

    /// Reserves addresses: those that are wished for, if they are free.
    fn cuMemAddressReserve(
        address_out: *mut u64,
        size: usize,
        alignment: usize,
        wish: u64,
        flags: c_ulonglong,
    ) |call| {
        let mut state = started()?;
        check(address_out)?;
        let size = stretch(&state, 0, size)?.end;
        if flags != 0 || (alignment != 0 && !alignment.is_power_of_two()) {
            return Err(code::INVALID_VALUE);
        }
        check_captures(call, &state)?;
        let align = page_bytes(&state)?.max(alignment as u64);
        let address = state.space.reserve(size, align, wish).ok_or(code::OUT_OF_MEMORY)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(address_out, address) }
    }

    /// Gives addresses back, as they were reserved; nothing may be mapped there.
    fn cuMemAddressFree(address: u64, size: usize) |call| {
        let mut state = started()?;
        let bytes = stretch(&state, address, size)?;
        let is_whole = state.space.reserved.get(&address) == Some(&(size as u64));
        if !is_whole || state.space.is_mapped(&bytes) {
            return Err(code::INVALID_VALUE);
        }
        check_captures(call, &state)?;
        state.space.reserved.remove(&address);
        Ok(())
    }

    /// Takes pages of a device's memory.
    fn cuMemCreate(
        handle_out: *mut u64,
        size: usize,
        properties: *const AllocationProperties,
        flags: c_ulonglong,
    ) |call| {
        let mut state = started()?;
        check(handle_out)?;
        // SAFETY: by the contract of the outer function.
        let ordinal = unsafe { ask(properties) }?.ordinal(&state)?;
        let page_bytes = state.config.devices[ordinal].page_bytes.ok_or(code::NOT_SUPPORTED)?;
        if size == 0 || !size.is_multiple_of(page_bytes) || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        check_captures(call, &state)?;
        let device = state.devices[ordinal].sim.clone();
        let size = size as u64;
        device.take_bytes(size).map_err(code::of)?;
        let (range, storage) = (device.lend_range(size), Arc::new(Storage::new()));
        let pages = Pages { ordinal, size, range, storage, is_held: true, mappings: 0 };
        let key = state.new_handle();
        state.pages.insert(key, pages);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(handle_out, key) }
    }

    /// Gives the handle of pages back; the pages go with their last mapping.
    fn cuMemRelease(handle: u64) |call| {
        let mut state = started()?;
        state.pages.get(&handle).filter(|pages| pages.is_held).ok_or(code::INVALID_VALUE)?;
        check_captures(call, &state)?;
        if let Some(pages) = state.pages.get_mut(&handle) {
            pages.is_held = false;
        }
        end_if_unused(call, &mut state, handle)
    }

    /// Maps pages, all of them, at reserved addresses.
    fn cuMemMap(
        address: u64, size: usize, offset: usize, handle: u64, flags: c_ulonglong
    ) |call| {
        let mut state = started()?;
        let bytes = stretch(&state, address, size)?;
        let pages = state.pages.get(&handle).filter(|pages| pages.is_held);
        let pages = pages.ok_or(code::INVALID_VALUE)?;
        if (offset as u64).checked_add(size as u64).is_none_or(|end| end > pages.size) {
            return Err(code::INVALID_VALUE);
        }
        if size as u64 != pages.size {
            return Err(code::NOT_SUPPORTED);
        }
        let free = state.space.is_reserved(bytes.clone()) && !state.space.is_mapped(&bytes);
        if flags != 0 || !free {
            return Err(code::INVALID_VALUE);
        }
        check_captures(call, &state)?;
        let mapping = Mapping {
            size: pages.size,
            pages: handle,
            memory: pages.range,
            window: state.devices[pages.ordinal].sim.lend_range(pages.size),
            storage: Arc::clone(&pages.storage),
            writers: BTreeSet::new(),
            readers: BTreeSet::new(),
        };
        state.space.mappings.insert(address, mapping);
        if let Some(pages) = state.pages.get_mut(&handle) {
            pages.mappings += 1;
        }
        Ok(())
    }

    /// Unmaps a stretch that consists of whole mappings. Waits for nothing.
    fn cuMemUnmap(address: u64, size: usize) |call| {
        let mut state = started()?;
        let bytes = stretch(&state, address, size)?;
        let unmapped = state.space.whole_mappings(bytes).ok_or(code::INVALID_VALUE)?;
        check_captures(call, &state)?;
        for start in unmapped {
            let Some(mapping) = state.space.mappings.remove(&start) else { continue };
            let device = &state.devices[0].sim;
            device.take_range_back(&mapping.window, call.name).map_err(code::of)?;
            if let Some(pages) = state.pages.get_mut(&mapping.pages) {
                pages.mappings -= 1;
            }
            end_if_unused(call, &mut state, mapping.pages)?;
        }
        Ok(())
    }

    /// Opens a stretch that consists of whole mappings to devices, or closes it.
    fn cuMemSetAccess(
        address: u64, size: usize, descriptions: *const AccessDescription, count: usize
    ) |call| {
        let mut state = started()?;
        let bytes = stretch(&state, address, size)?;
        let opened = state.space.whole_mappings(bytes).ok_or(code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        let described = unsafe { AccessDescription::read_all(&state, descriptions, count) }?;
        check_captures(call, &state)?;
        for start in opened {
            let Some(mapping) = state.space.mappings.get_mut(&start) else { continue };
            for &(ordinal, flags) in &described {
                mapping.writers.remove(&ordinal);
                mapping.readers.remove(&ordinal);
                match flags {
                    0 => {}
                    1 => drop(mapping.readers.insert(ordinal)),
                    _ => drop(mapping.writers.insert(ordinal)),
                }
            }
        }
        Ok(())
    }
}
