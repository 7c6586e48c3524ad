//! Memory of other kinds, which is the driver's. What the pool has and nobody holds counts as free, so where the
//! driver has too little, the pool gives that back, and the driver is asked once more.

use core::ffi::{c_int, c_uint, c_void};

use pool_cuda_c::whose;

use crate::pool::{self, OUT_OF_MEMORY};
use crate::real::{self, Handle};

/// Asks the driver, and again once the pools have given back what nobody holds.
fn with_room(ask: impl Fn() -> c_int) -> c_int {
    let code = ask();
    if code != OUT_OF_MEMORY || !pool::is_there() {
        return code;
    }
    whose::give_back();
    ask()
}

/// Declares functions of the driver that give memory.
macro_rules! asked_twice {
    ($($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// In the place of the driver's function of this name.
            ///
            /// # Safety
            ///
            /// As that.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                // SAFETY: passed on to the caller. A call that fails has done nothing.
                with_room(|| unsafe { real::$name($($argument),*) })
            }
        )*
    };
}

asked_twice! {
    cuMemAllocPitch_v2(
        address: *mut u64, pitch: *mut usize, width: usize, height: usize, element: c_uint
    );
    cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint);
    cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: Handle, stream: Handle);
    cuMemAllocFromPoolAsync_ptsz(address: *mut u64, bytes: usize, pool: Handle, stream: Handle);
    cuMemCreate(pages: *mut u64, bytes: usize, properties: *const c_void, flags: u64);
    cuArrayCreate_v2(array: *mut Handle, description: *const c_void);
    cuArray3DCreate_v2(array: *mut Handle, description: *const c_void);
    cuMipmappedArrayCreate(array: *mut Handle, description: *const c_void, levels: c_uint);
}
