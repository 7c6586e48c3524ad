//! The simulated devices, and the numbers and pointers they are known by.

use core::ffi::{CStr, c_int, c_void};

use crate::code;

/// What a simulated device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedDevice {
    /// Its name.
    pub name: &'static CStr,
    /// All its memory in bytes.
    pub total_bytes: usize,
    /// What of it is free, in bytes.
    pub free_bytes: usize,
    /// The size of its pages in bytes, if it has virtual memory management.
    pub page_bytes: Option<usize>,
}

/// The devices: one with pages, one without.
pub const DEVICES: [SimulatedDevice; 2] = [
    SimulatedDevice {
        name: c"Simulated device 0",
        total_bytes: 8 << 30,
        free_bytes: 7 << 30,
        page_bytes: Some(2 << 20),
    },
    SimulatedDevice {
        name: c"Simulated device 1",
        total_bytes: 4 << 30,
        free_bytes: 3 << 30,
        page_bytes: None,
    },
];

/// A device's number is its ordinal and this, so that one taken for the other is noticed.
const FIRST_NUMBER: c_int = 100;

/// The number of the device with this ordinal.
pub(crate) fn number(ordinal: c_int) -> Result<c_int, i32> {
    let known = usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < DEVICES.len());
    if known { Ok(FIRST_NUMBER + ordinal) } else { Err(code::INVALID_DEVICE) }
}

/// The ordinal of the device with this number.
pub(crate) fn ordinal(number: c_int) -> Result<usize, i32> {
    number
        .checked_sub(FIRST_NUMBER)
        .and_then(|ordinal| usize::try_from(ordinal).ok())
        .filter(|&ordinal| ordinal < DEVICES.len())
        .ok_or(code::INVALID_DEVICE)
}

/// The primary context of a device; nobody reads through it.
pub(crate) fn context(ordinal: usize) -> *mut c_void {
    core::ptr::without_provenance_mut(0x1000 * (ordinal + 1))
}

/// The ordinal of the device whose primary context this is.
pub(crate) fn ordinal_of_context(raw: *mut c_void) -> Result<usize, i32> {
    (0..DEVICES.len()).find(|&ordinal| context(ordinal) == raw).ok_or(code::INVALID_CONTEXT)
}
