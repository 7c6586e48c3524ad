//! Which driver this process has.

use core::ffi::{CStr, c_void};
use std::collections::BTreeSet;
use std::fs;

/// The name under which the driver is installed.
const DRIVER: &CStr = c"libcuda.so.1";

/// The driver's function of this name, or null.
pub(crate) fn symbol(name: &CStr) -> *const c_void {
    // SAFETY: both are strings; the driver is loaded already, and is never unloaded.
    unsafe {
        let driver = libc::dlopen(DRIVER.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if driver.is_null() { core::ptr::null() } else { libc::dlsym(driver, name.as_ptr()) }
    }
}

/// The files of the driver that are loaded in this process.
#[must_use]
pub fn loaded_libraries() -> BTreeSet<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    paths.filter(|path| path.contains("libcuda.so")).map(str::to_owned).collect()
}

/// Whether a function that this program was linked with is in one of the driver's files, and not in
/// the program itself.
pub(crate) fn is_in_driver(function: *const c_void) -> bool {
    // SAFETY: all bytes zero are a value of it.
    let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is to a local.
    if unsafe { libc::dladdr(function, &raw mut found) } == 0 || found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: it is a string that lasts as long as the library.
    let file = unsafe { CStr::from_ptr(found.dli_fname) };
    file.to_string_lossy().contains("libcuda.so")
}
