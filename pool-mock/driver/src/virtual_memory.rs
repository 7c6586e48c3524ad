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
use crate::shared_memory::SharedMemory;
use crate::space::Mapping;
use crate::state::{State, started};

/// Pages of a device's memory.
pub(crate) struct Pages {
    ordinal: usize,
    size: u64,
    range: SimRange,
    storage: Arc<Storage>,
    /// What is behind them, if other processes may have it.
    pub(crate) shared: Option<SharedMemory>,
    /// Whether another process has taken the device's memory for them.
    pub(crate) is_foreign: bool,
    /// How many handles they have.
    handles: u64,
    /// How often they are mapped.
    mappings: u64,
}

impl Pages {
    /// Pages without a handle.
    pub(crate) const fn new(
        ordinal: usize,
        size: u64,
        range: SimRange,
        storage: Arc<Storage>,
    ) -> Self {
        let (shared, is_foreign) = (None, false);
        Self { ordinal, size, range, storage, shared, is_foreign, handles: 0, mappings: 0 }
    }

    /// What they take of their device's memory, for this process.
    pub(crate) const fn taken_bytes(&self) -> u64 {
        if self.is_foreign { 0 } else { self.size }
    }

    /// Whether a handle, a mapping or somebody elsewhere has them.
    fn is_used(&self) -> bool {
        let is_elsewhere = |shared: &SharedMemory| !self.is_foreign && shared.is_elsewhere();
        self.handles > 0 || self.mappings > 0 || self.shared.as_ref().is_some_and(is_elsewhere)
    }
}

impl State {
    /// The pages that a handle means.
    pub(crate) fn pages_of(&self, handle: u64) -> Result<&Pages, i32> {
        let pages = self.page_handles.get(&handle).and_then(|pages| self.pages.get(pages));
        pages.ok_or(code::INVALID_VALUE)
    }

    /// Adds pages; gives the number by which they are known.
    pub(crate) fn add_pages(&mut self, pages: Pages) -> u64 {
        let key = self.new_handle();
        self.pages.insert(key, pages);
        key
    }

    /// Gives pages one handle more.
    pub(crate) fn add_page_handle(&mut self, pages: u64) -> u64 {
        let handle = self.new_handle();
        self.page_handles.insert(handle, pages);
        if let Some(pages) = self.pages.get_mut(&pages) {
            pages.handles += 1;
        }
        handle
    }
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

/// New memory for pages of a device, and what of it other processes may have.
fn memory(
    ordinal: usize,
    size: u64,
    is_shareable: bool,
) -> Result<(Option<SharedMemory>, Storage), i32> {
    if !is_shareable {
        return Ok((None, Storage::new()));
    }
    let shared = SharedMemory::create(ordinal, size);
    let both =
        shared.and_then(|shared| shared.storage(size).map(|storage| (Some(shared), storage)));
    both.map_err(|_| code::OPERATING_SYSTEM)
}

/// Ends pages that nobody has.
fn end_if_unused(name: &'static str, state: &mut State, pages: u64) -> Result<(), i32> {
    let known = state.pages.get(&pages).ok_or(code::INVALID_VALUE)?;
    if known.is_used() {
        return Ok(());
    }
    let device = &state.devices[known.ordinal].sim;
    device.take_range_back(&known.range, name).map_err(code::of)?;
    device.give_bytes(known.taken_bytes());
    state.pages.remove(&pages);
    Ok(())
}

/// Ends pages that somebody elsewhere was the last to have, which tells nobody here.
pub(crate) fn sweep(state: &mut State) {
    let left = |pages: &Pages| pages.handles == 0 && pages.mappings == 0;
    let left: Vec<u64> =
        state.pages.iter().filter(|(_, pages)| left(pages)).map(|(&key, _)| key).collect();
    for pages in left {
        // Nobody is there to tell.
        let _ = end_if_unused("the last use elsewhere", state, pages);
    }
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
        let properties = unsafe { ask(properties) }?;
        let ordinal = properties.ordinal(&state)?;
        let known = state.config.devices[ordinal];
        let page_bytes = known.page_bytes.ok_or(code::NOT_SUPPORTED)?;
        let is_shareable = properties.is_shareable(&known)?;
        if size == 0 || !size.is_multiple_of(page_bytes) || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        check_captures(call, &state)?;
        sweep(&mut state);
        let device = state.devices[ordinal].sim.clone();
        let size = size as u64;
        device.take_bytes(size).map_err(code::of)?;
        let made = memory(ordinal, size, is_shareable);
        let (shared, storage) = made.inspect_err(|_| device.give_bytes(size))?;
        let pages = Pages::new(ordinal, size, device.lend_range(size), Arc::new(storage));
        let pages = state.add_pages(Pages { shared, ..pages });
        let handle = state.add_page_handle(pages);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(handle_out, handle) }
    }

    /// Gives a handle of pages back; the pages go with the last that has them: a handle, a
    /// mapping, a file descriptor, another process.
    fn cuMemRelease(handle: u64) |call| {
        let mut state = started()?;
        state.pages_of(handle)?;
        check_captures(call, &state)?;
        let pages = state.page_handles.remove(&handle).ok_or(code::INVALID_VALUE)?;
        if let Some(pages) = state.pages.get_mut(&pages) {
            pages.handles -= 1;
        }
        end_if_unused(call.name, &mut state, pages)
    }

    /// Maps pages, all of them, at reserved addresses.
    fn cuMemMap(
        address: u64, size: usize, offset: usize, handle: u64, flags: c_ulonglong
    ) |call| {
        let mut state = started()?;
        let bytes = stretch(&state, address, size)?;
        let pages = state.pages_of(handle)?;
        if (offset, size as u64) != (0, pages.size) {
            return Err(code::NOT_SUPPORTED);
        }
        let free = state.space.is_reserved(bytes.clone()) && !state.space.is_mapped(&bytes);
        if flags != 0 || !free {
            return Err(code::INVALID_VALUE);
        }
        check_captures(call, &state)?;
        let mapping = Mapping {
            size: pages.size,
            pages: state.page_handles[&handle],
            memory: pages.range,
            window: state.devices[pages.ordinal].sim.lend_range(pages.size),
            storage: Arc::clone(&pages.storage),
            writers: BTreeSet::new(),
            readers: BTreeSet::new(),
        };
        if let Some(pages) = state.pages.get_mut(&mapping.pages) {
            pages.mappings += 1;
        }
        state.space.mappings.insert(address, mapping);
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
            end_if_unused(call.name, &mut state, mapping.pages)?;
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
