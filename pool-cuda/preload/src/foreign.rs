//! Functions of other libraries, called by addresses that are looked up once.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// What the driver and the runtime answer where a function is not there: the library has none of its name.
pub(crate) const NOT_FOUND: c_int = 500;

/// A function by its name, which ends with a zero; null if it is not there by now.
pub(crate) fn found(
    place: &AtomicPtr<c_void>,
    name: &str,
    look_up: fn(&CStr) -> *mut c_void,
) -> *mut c_void {
    let known = place.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    let function = CStr::from_bytes_with_nul(name.as_bytes()).map_or(ptr::null_mut(), look_up);
    place.store(function, Ordering::Release);
    function
}

/// Declares functions of a library, each as its interface has it, and how a name is looked up there.
macro_rules! functions {
    ($look_up:path; $($name:ident($($argument:ident: $kind:ty),*);)*) => {
        $(
            /// The library's function of this name.
            ///
            /// # Safety
            ///
            /// As that.
            #[allow(non_snake_case, reason = "the library's names")]
            pub(crate) unsafe fn $name($($argument: $kind),*) -> c_int {
                use core::sync::atomic::AtomicPtr;
                static FOUND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
                let name = concat!(stringify!($name), "\0");
                let function = $crate::foreign::found(&FOUND, name, $look_up);
                if function.is_null() {
                    return $crate::foreign::NOT_FOUND;
                }
                // SAFETY: it is the library's function of this name, whose prototype this is.
                let function = unsafe {
                    core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> c_int>(
                        function,
                    )
                };
                // SAFETY: passed on to the caller.
                unsafe { function($($argument),*) }
            }
        )*
    };
}

pub(crate) use functions;
