//! The real `dlsym`, and through it the libraries that the program has. Nothing here allocates or needs
//! std: it may run before either is ready.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

unsafe extern "C" {
    /// The C library has it under this name, and nobody wraps it.
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// The versions that glibc has or had of `dlsym`: in one library since 2.34, in another before.
const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];

/// The C library's.
static OWN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The next after this library's: the C library's, or that of another preloaded library that has one.
pub(crate) static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The C library's `dlsym`; none with a C library that has none.
pub(crate) fn dlsym() -> Option<Dlsym> {
    let mut found = OWN.load(Ordering::Acquire);
    if found.is_null() {
        for version in VERSIONS {
            // SAFETY: the name and the version are texts; any handle is.
            found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) };
            if !found.is_null() {
                break;
            }
        }
        if found.is_null() {
            return None;
        }
    }
    // SAFETY: it is the function of this name, which has this type.
    let dlsym = unsafe { core::mem::transmute::<*mut c_void, Dlsym>(found) };
    if NEXT.load(Ordering::Acquire).is_null() {
        // SAFETY: the name is a text. What comes after this library is asked for.
        let next = unsafe { dlsym(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
        NEXT.store(if next.is_null() { found } else { next }, Ordering::Release);
        OWN.store(found, Ordering::Release);
    }
    Some(dlsym)
}

/// A name of a handle's library; null if it has none.
fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: the name is a text, and the handle is one of the loader's.
    dlsym().map_or(ptr::null_mut(), |dlsym| unsafe { dlsym(handle, name.as_ptr()) })
}

/// What would be found of a name, were this library not there.
pub(crate) fn after_this(name: &CStr) -> *mut c_void {
    symbol(libc::RTLD_NEXT, name)
}

/// The driver's library, loaded if it is to be; null if there is none.
fn driver(load: bool) -> *mut c_void {
    static DRIVER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let known = DRIVER.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let flags = libc::RTLD_LAZY | if load { 0 } else { libc::RTLD_NOLOAD };
    // SAFETY: the driver's initializers may run in any program; once it is loaded it stays, since this
    // handle is never closed.
    let handle = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
    DRIVER.store(handle, Ordering::Release);
    handle
}

/// A function of the driver's own library, whatever else has its name; null if it has none.
pub(crate) fn in_driver(name: &CStr) -> *mut c_void {
    in_library(driver(true), name)
}

/// The same, if the program has the driver by now.
pub(crate) fn in_loaded_driver(name: &CStr) -> *mut c_void {
    in_library(driver(false), name)
}

fn in_library(handle: *mut c_void, name: &CStr) -> *mut c_void {
    if handle.is_null() { ptr::null_mut() } else { symbol(handle, name) }
}

/// A function of the runtime's library, if the program has that: linked, or loaded under any name that
/// begins as the runtime's does.
pub(crate) fn in_runtime(name: &CStr) -> *mut c_void {
    static RUNTIME: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let linked = after_this(name);
    if !linked.is_null() {
        return linked;
    }
    let mut handle = RUNTIME.load(Ordering::Acquire);
    if handle.is_null() {
        let mut path = [0; PATH_BYTES];
        // SAFETY: the function looks at the names of libraries, and its argument is a local.
        let found = unsafe { libc::dl_iterate_phdr(Some(find_runtime), path.as_mut_ptr().cast()) };
        if found == 0 {
            return ptr::null_mut();
        }
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: a library of this name was there just now; if it is gone, nothing is loaded.
        handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
        RUNTIME.store(handle, Ordering::Release);
    }
    in_library(handle, name)
}

/// Room for a library's path.
const PATH_BYTES: usize = 4096;

/// Copies the path of the runtime's library, and then ends the search. (It cannot be opened here, where the
/// loader has a lock that others take after one which opening needs.)
unsafe extern "C" fn find_runtime(
    library: *mut libc::dl_phdr_info,
    _size: usize,
    path_out: *mut c_void,
) -> c_int {
    // SAFETY: the loader describes a library.
    let path = unsafe { (*library).dlpi_name };
    if path.is_null() {
        return 0;
    }
    // SAFETY: a library's name is a text.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    let file = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or(bytes);
    if !file.starts_with(b"libcudart") || bytes.len() > PATH_BYTES {
        return 0;
    }
    // SAFETY: it is the local of `in_runtime`, and has room.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), path_out.cast(), bytes.len()) };
    1
}
