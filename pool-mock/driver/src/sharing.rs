//! Pages of one process in another: exported as file descriptors, imported from them.
//!
//! A descriptor keeps the pages, as a handle does. The program may close it once they are
//! imported; each import is a handle of its own.

use core::ffi::{c_int, c_ulonglong, c_void};
use std::os::fd::IntoRawFd as _;
use std::sync::Arc;

use crate::call::{answer, check, functions};
use crate::code;
use crate::shared_memory::SharedMemory;
use crate::state::{State, started};
use crate::virtual_memory::Pages;

/// By file descriptors.
const FILE_DESCRIPTOR: c_int = 1;
/// As another system has it.
const OF_ANOTHER_SYSTEM: c_int = 2;

/// The pages behind a descriptor: known ones, or those of another process.
fn find_pages(state: &mut State, descriptor: c_int) -> Option<u64> {
    let same = |pages: &Pages| pages.shared.as_ref().is_some_and(|shared| shared.is(descriptor));
    if let Some((&known, _)) = state.pages.iter().find(|(_, pages)| same(pages)) {
        return Some(known);
    }
    let (shared, ordinal, size) = SharedMemory::of_another(descriptor)?;
    let storage = Arc::new(shared.storage(size).ok()?);
    let range = state.devices.get(ordinal)?.sim.lend_range(size);
    let mut pages = Pages::new(ordinal, size, range, storage);
    pages.shared = Some(shared);
    pages.is_foreign = true;
    Some(state.add_pages(pages))
}

functions! {
    /// Gives a file descriptor by which another process can have pages.
    fn cuMemExportToShareableHandle(
        descriptor_out: *mut c_void, handle: u64, kind: c_int, flags: c_ulonglong
    ) {
        let state = started()?;
        let pages = state.pages_of(handle)?;
        let shared = pages.shared.as_ref().ok_or(code::INVALID_VALUE)?;
        if kind != FILE_DESCRIPTOR || flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        check(descriptor_out)?;
        let descriptor = shared.export().map_err(|_| code::OPERATING_SYSTEM)?.into_raw_fd();
        // SAFETY: by the contract of the outer function.
        unsafe { answer(descriptor_out.cast::<c_int>(), descriptor) }
    }

    /// Takes pages by a file descriptor, which stays the program's: one handle more.
    fn cuMemImportFromShareableHandle(
        handle_out: *mut u64, descriptor: *mut c_void, kind: c_int
    ) {
        let mut state = started()?;
        check(handle_out)?;
        match kind {
            FILE_DESCRIPTOR => {}
            OF_ANOTHER_SYSTEM => return Err(code::NOT_SUPPORTED),
            _ => return Err(code::INVALID_VALUE),
        }
        let descriptor = c_int::try_from(descriptor.addr()).map_err(|_| code::UNKNOWN)?;
        let pages = find_pages(&mut state, descriptor).ok_or(code::UNKNOWN)?;
        let handle = state.add_page_handle(pages);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(handle_out, handle) }
    }
}
