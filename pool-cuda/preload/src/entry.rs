//! The ways on which a program, and the runtime first of all, asks the driver itself for its functions. The
//! real one is always asked: what the driver does not have, nobody gets.

use core::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use crate::names;
use crate::pool::SUCCESS;
use crate::real;
use crate::runtime::own;

/// Asks for the functions of the legacy default stream, or of one of each thread; 0: as the program is made.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// The oldest CUDA whose runtime has `cudaGetDriverEntryPoint`.
const OLDEST: c_int = 11030;

/// Puts this library's function in the place of the one that was found.
///
/// # Safety
///
/// The name is null or a text; if the code is a success, the other pointer is null or was written.
unsafe fn replace(
    code: c_int,
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    is_per_thread: bool,
) -> c_int {
    if code != SUCCESS || name.is_null() || function.is_null() {
        return code;
    }
    // SAFETY: by this function's contract.
    unsafe {
        let served = names::entry_of(CStr::from_ptr(name), version, is_per_thread);
        if !(*function).is_null() && !served.is_null() {
            function.write(served);
        }
    }
    code
}

/// Whether flags ask for the functions of a default stream of each thread.
fn is_per_thread(flags: u64, usually: bool) -> bool {
    match flags & (LEGACY | PER_THREAD) {
        LEGACY => false,
        PER_THREAD => true,
        _ => usually,
    }
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        let code = real::cuGetProcAddress(name, function, version, flags);
        replace(code, name, function, version, is_per_thread(flags, false))
    }
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe {
        let code = real::cuGetProcAddress_v2(name, function, version, flags, status);
        replace(code, name, function, version, is_per_thread(flags, false))
    }
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGetProcAddress_v2_ptsz(
    name: *const c_char,
    function: *mut *mut c_void,
    version: c_int,
    flags: u64,
    status: *mut c_int,
) -> c_int {
    // What it usually means may as well be said, for a driver that does not export this one by its name.
    let flags = if flags & (LEGACY | PER_THREAD) == 0 { flags | PER_THREAD } else { flags };
    // SAFETY: passed on to the caller.
    unsafe { cuGetProcAddress_v2(name, function, version, flags, status) }
}

/// The version of CUDA that the program's runtime is of, by which it asks the driver.
fn runtime_version() -> c_int {
    let mut version = 0;
    // SAFETY: the pointer is to a local.
    let code = unsafe { own::cudaRuntimeGetVersion(&raw mut version) };
    if code == SUCCESS { version } else { OLDEST }
}

/// A version as the driver counts.
fn number(version: c_uint) -> c_int {
    c_int::try_from(version).unwrap_or(c_int::MAX)
}

/// Declares the runtime's functions that find a driver's: of which version, and whether usually for a
/// default stream of each thread.
macro_rules! entry_points {
    ($($name:ident($($argument:ident: $kind:ty),*) $version:expr, $is_per_thread:literal;)*) => {
        $(
            /// In the place of the runtime's function of this name.
            ///
            /// # Safety
            ///
            /// As that.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name(
                name: *const c_char,
                function: *mut *mut c_void,
                $($argument: $kind,)*
                flags: c_ulonglong,
                status: *mut c_int,
            ) -> c_int {
                // SAFETY: passed on to the caller.
                unsafe {
                    let code = own::$name(name, function, $($argument,)* flags, status);
                    let is_per_thread = is_per_thread(flags, $is_per_thread);
                    replace(code, name, function, $version, is_per_thread)
                }
            }
        )*
    };
}

entry_points! {
    cudaGetDriverEntryPoint() runtime_version(), false;
    cudaGetDriverEntryPoint_ptsz() runtime_version(), true;
    cudaGetDriverEntryPointByVersion(version: c_uint) number(version), false;
    cudaGetDriverEntryPointByVersion_ptsz(version: c_uint) number(version), true;
}
