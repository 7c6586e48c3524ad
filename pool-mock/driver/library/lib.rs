//! The functions of the simulated driver, to be loaded under the real one's name: a test puts a link
//! `libcuda.so.1` to it where the loader looks.

pub use pool_mock_driver::*;

/// How often a function was called, for a program that wants to know whether it was; 0 for one that does
/// not exist.
///
/// # Safety
///
/// The name is a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_count(name: *const core::ffi::c_char) -> usize {
    // SAFETY: by this function's contract.
    let name = unsafe { core::ffi::CStr::from_ptr(name) };
    name.to_str().map_or(0, pool_mock_driver::count)
}
