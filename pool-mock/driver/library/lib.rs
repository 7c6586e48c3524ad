//! The functions of the simulated driver, to be loaded under the real one's name: a test puts a link
//! `libcuda.so.1` to it where the loader looks. Programs may ask it by functions of its own what was done.

use core::ffi::{CStr, c_char};

pub use pool_mock_driver::*;

/// How often a function was called; 0 for one that does not exist.
///
/// # Safety
///
/// The name is a text that ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn simulated_count(name: *const c_char) -> usize {
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_or(0, pool_mock_driver::count)
}

/// From now on queued work runs late: when something waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_late() {
    pool_mock_driver::first_device().set_pacing(pool_mock_driver::Pacing::Idle);
}

/// All queued work runs.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_run() {
    pool_mock_driver::first_device().run_all();
}

/// Says what must not have happened, on the standard error output; how much of it did.
#[unsafe(no_mangle)]
pub extern "C" fn simulated_violations() -> usize {
    let violations = pool_mock_driver::first_device().violations();
    for violation in &violations {
        eprintln!("{violation:?}");
    }
    violations.len()
}
