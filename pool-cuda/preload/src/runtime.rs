//! The runtime's functions. What they cannot serve goes on to the runtime, which starts itself as it
//! would, remembers its errors, and in the end asks the driver, which is this library too.

use core::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

use pool_cuda_c::whose;

use crate::memory;
use crate::memory::address;
use crate::pool::{self, SUCCESS};
use crate::real::Handle;

/// The runtime's own functions.
pub(crate) mod own {
    use super::{Handle, c_char, c_int, c_uint, c_ulonglong, c_void};
    use crate::{foreign, loader};

    foreign::functions! { loader::in_runtime;
        cudaGetDevice(device: *mut c_int);
        cudaRuntimeGetVersion(version: *mut c_int);
        cudaMalloc(block: *mut *mut c_void, bytes: usize);
        cudaFree(block: *mut c_void);
        cudaMallocAsync(block: *mut *mut c_void, bytes: usize, stream: Handle);
        cudaMallocAsync_ptsz(block: *mut *mut c_void, bytes: usize, stream: Handle);
        cudaFreeAsync(block: *mut c_void, stream: Handle);
        cudaFreeAsync_ptsz(block: *mut c_void, stream: Handle);
        cudaGetDriverEntryPoint(
            name: *const c_char, function: *mut *mut c_void, flags: c_ulonglong, status: *mut c_int
        );
        cudaGetDriverEntryPoint_ptsz(
            name: *const c_char, function: *mut *mut c_void, flags: c_ulonglong, status: *mut c_int
        );
        cudaGetDriverEntryPointByVersion(
            name: *const c_char, function: *mut *mut c_void, version: c_uint, flags: c_ulonglong,
            status: *mut c_int
        );
        cudaGetDriverEntryPointByVersion_ptsz(
            name: *const c_char, function: *mut *mut c_void, version: c_uint, flags: c_ulonglong,
            status: *mut c_int
        );
    }
}

/// Whether the current context is what the runtime would allocate in: it is of the runtime's device. Of a
/// thread that has none yet the runtime makes one.
fn is_in_place() -> bool {
    let mut device = 0;
    pool::serves()
        // SAFETY: the pointer is to a local.
        && unsafe { own::cudaGetDevice(&raw mut device) } == SUCCESS
        && whose::device_here() == Ok(device)
}

/// The same of a call that names a stream: only default streams depend on it.
fn is_in_place_for(stream: Handle) -> bool {
    stream.addr() > memory::PER_THREAD || is_in_place()
}

/// Declares functions: what they succeed with, and else the runtime's.
macro_rules! served {
    ($($name:ident($($argument:ident: $kind:ty),*) $serve:expr;)*) => {
        $(
            /// In the place of the runtime's function of this name.
            ///
            /// # Safety
            ///
            /// As that.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: passed on to the caller.
                let served: Option<c_int> = unsafe { $serve };
                // SAFETY: as above.
                served.unwrap_or_else(|| unsafe { own::$name($($argument),*) })
            }
        )*
    };
}

/// A success stays; of a failure the runtime is to know.
fn succeeded(served: Option<c_int>) -> Option<c_int> {
    served.filter(|&code| code == SUCCESS)
}

/// # Safety
///
/// As the runtime's function.
unsafe fn allocate(block: *mut *mut c_void, bytes: usize) -> Option<c_int> {
    if !is_in_place() {
        return None;
    }
    // SAFETY: passed on to the caller. A pointer and an address are as long.
    succeeded(unsafe { memory::allocate(block.cast(), bytes) })
}

/// # Safety
///
/// As the runtime's function.
unsafe fn allocate_on(block: *mut *mut c_void, bytes: usize, stream: Handle) -> Option<c_int> {
    if !is_in_place_for(stream) {
        return None;
    }
    // SAFETY: as above.
    succeeded(unsafe { memory::allocate_on(block.cast(), bytes, stream) })
}

served! {
    cudaMalloc(block: *mut *mut c_void, bytes: usize) allocate(block, bytes);
    cudaMallocAsync(block: *mut *mut c_void, bytes: usize, stream: Handle)
        allocate_on(block, bytes, stream);
    cudaMallocAsync_ptsz(block: *mut *mut c_void, bytes: usize, stream: Handle)
        allocate_on(block, bytes, memory::own(stream));
    cudaFreeAsync(block: *mut c_void, stream: Handle) memory::free_on(address(block), stream);
    cudaFreeAsync_ptsz(block: *mut c_void, stream: Handle)
        memory::free_on(address(block), memory::own(stream));
}

/// In the place of the runtime's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cudaFree(block: *mut c_void) -> c_int {
    // SAFETY: passed on to the caller.
    memory::free(address(block)).unwrap_or_else(|| unsafe { own::cudaFree(block) })
}
