//! What happens where nothing can go on.

use core::sync::atomic::{AtomicPtr, Ordering};

/// The version of this header: a byte each for major, minor and patch.
pub const POOL_CORE_VERSION: u32 = 0x00_01_00;

/// The version of the library: `POOL_CORE_VERSION` of the header that belongs to it.
#[unsafe(no_mangle)]
pub extern "C" fn pool_core_version() -> u32 {
    POOL_CORE_VERSION
}

/// The program's function for the end, or null.
static HALT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Names the function that is called where a call cannot go on, for its range's storage was
/// overwritten: it reports, and resets the machine or stops it, but does not come back. Null, as
/// at the start: an instruction that traps. Write the pointer before other threads make calls.
#[unsafe(no_mangle)]
pub extern "C" fn pool_core_on_panic(halt: Option<extern "C" fn()>) {
    let pointer = halt.map_or(core::ptr::null_mut(), |halt| halt as *mut ());
    HALT.store(pointer, Ordering::Relaxed);
}

/// What the library's panic handler does.
#[doc(hidden)]
#[cold]
pub fn stop() -> ! {
    let halt = HALT.load(Ordering::Relaxed);
    if !halt.is_null() {
        // SAFETY: what is not null was such a function.
        let halt: extern "C" fn() = unsafe { core::mem::transmute(halt) };
        halt();
    }
    loop {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        // SAFETY: it traps.
        unsafe {
            core::arch::asm!("ud2");
        }
        #[cfg(target_arch = "arm")]
        // SAFETY: it traps.
        unsafe {
            core::arch::asm!("udf #0");
        }
        #[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
        // SAFETY: it traps.
        unsafe {
            core::arch::asm!("unimp");
        }
        core::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;

    #[test]
    fn the_version_is_the_packages() {
        let bytes = POOL_CORE_VERSION.to_be_bytes();
        let version = std::format!("{}.{}.{}", bytes[1], bytes[2], bytes[3]);
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
    }
}
