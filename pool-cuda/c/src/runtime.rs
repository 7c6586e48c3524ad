//! The CUDA runtime, where the process has it: for what only it knows, and what only it can free.

use core::ffi::{CStr, c_int, c_void};

/// The address of one of its functions, if it is loaded so that others can see it.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Its current device on this thread.
pub(crate) fn device() -> Option<c_int> {
    let found = function(c"cudaGetDevice")?;
    // SAFETY: the runtime's function of this name has this prototype.
    let get = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_int) -> c_int>(found)
    };
    let mut device = 0;
    // SAFETY: the pointer is to a local.
    (unsafe { get(&raw mut device) } == 0).then_some(device)
}

/// Frees what it gave out: its answer. None if it is not there.
///
/// # Safety
///
/// The pointer is not the pool's.
pub(crate) unsafe fn free(pointer: *mut c_void) -> Option<c_int> {
    let found = function(c"cudaFree")?;
    // SAFETY: as in `device`.
    let free = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(found)
    };
    // SAFETY: it refuses what is not its own.
    Some(unsafe { free(pointer) })
}
