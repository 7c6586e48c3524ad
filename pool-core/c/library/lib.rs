//! The C functions as a library to link: `pool_core_c` says what they do.
//!
//! The profile `embedded` builds it without `std`, with a panic handler of its own. In the other
//! profiles, in which a panic unwinds, it is checked with the rest of the workspace, and `std`
//! has the handler.

#![cfg_attr(panic = "abort", no_std)]

pub use pool_core_c::*;

/// Only damage that others did to lent storage, or a fault of the library, comes to this.
#[cfg(panic = "abort")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    pool_core_c::stop()
}
