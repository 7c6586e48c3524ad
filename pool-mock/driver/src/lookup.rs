//! How programs find the functions by what they do, whichever version of them there is; and those for
//! programs whose default stream is each thread's own.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;

use crate::call::{Handle, answer, answer_if, check, functions, handle};
use crate::code;
use crate::driver_pools::{cuMemAllocAsync, cuMemFreeAsync};
use crate::symbol;

/// Asks for the functions of a default stream of each thread.
const PER_THREAD: u64 = 2;

/// The function that a name without a version means: the newest one that is there.
fn newest(name: &CStr, flags: u64) -> *const c_void {
    let endings: &[&str] =
        if flags & PER_THREAD == 0 { &["_v2", ""] } else { &["_v2_ptsz", "_ptsz", "_v2", ""] };
    let found = endings.iter().map(|ending| {
        let full = [name.to_bytes(), ending.as_bytes()].concat();
        CString::new(full).map_or(core::ptr::null(), |full| symbol(&full))
    });
    found.into_iter().find(|found| !found.is_null()).unwrap_or(core::ptr::null())
}

/// Writes the function that is meant.
///
/// # Safety
///
/// The name is null or a text that ends with a zero byte, the other pointer null or valid for a write.
unsafe fn find_newest(
    name: *const c_char,
    function_out: *mut *const c_void,
    flags: u64,
) -> Result<bool, i32> {
    check(name)?;
    // SAFETY: not null, and a text by this function's contract.
    let found = newest(unsafe { CStr::from_ptr(name) }, flags);
    // SAFETY: by this function's contract.
    unsafe { answer(function_out, found) }?;
    Ok(!found.is_null())
}

/// The stream that a program with a default stream of each thread means.
fn own(stream: Handle) -> Handle {
    if stream.is_null() { handle(2) } else { stream }
}

/// The code of a call, as a result.
fn passed(code: c_int) -> Result<(), i32> {
    if code == code::SUCCESS { Ok(()) } else { Err(code) }
}

functions! {
    /// Finds a function; not to find it is an error.
    fn cuGetProcAddress(
        name: *const c_char, function_out: *mut *const c_void, _version: c_int, flags: u64
    ) {
        // SAFETY: by the contract of the outer function.
        let found = unsafe { find_newest(name, function_out, flags) }?;
        if found { Ok(()) } else { Err(code::NOT_FOUND) }
    }

    /// Finds a function, and says whether there is one.
    fn cuGetProcAddress_v2(
        name: *const c_char,
        function_out: *mut *const c_void,
        _version: c_int,
        flags: u64,
        status_out: *mut c_int,
    ) {
        // SAFETY: by the contract of the outer function.
        let found = unsafe { find_newest(name, function_out, flags) }?;
        // SAFETY: as above.
        unsafe { answer_if(status_out, c_int::from(!found)) };
        if found { Ok(()) } else { Err(code::NOT_FOUND) }
    }

    /// As `cuMemAllocAsync`; 0 is the thread's own stream.
    fn cuMemAllocAsync_ptsz(address_out: *mut u64, bytes: usize, stream: Handle) {
        // SAFETY: by the contract of the outer function.
        passed(unsafe { cuMemAllocAsync(address_out, bytes, own(stream)) })
    }

    /// As `cuMemFreeAsync`; 0 is the thread's own stream.
    fn cuMemFreeAsync_ptsz(address: u64, stream: Handle) {
        // SAFETY: by the contract of the outer function.
        passed(unsafe { cuMemFreeAsync(address, own(stream)) })
    }
}
