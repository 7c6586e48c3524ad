//! The driver's functions as a table of pointers, with prototypes of our own.
//!
//! cust declares the results as a Rust enum, of which a newer driver's code would be an invalid
//! value; here they are `i32`, checked in one place that knows the call's name.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::mem::transmute;

use crate::error::{CudaError, check};

/// The driver's number for a device. It is not the ordinal, though it looks like it.
pub(crate) type RawDevice = c_int;

/// The driver's pointer to a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct RawContext(pub(crate) *mut c_void);

// SAFETY: the pointer is opaque and only handed back to the driver, which lets any thread use
// any context.
unsafe impl Send for RawContext {}
// SAFETY: as above.
unsafe impl Sync for RawContext {}

/// Says whether the device can map and unmap pages of its memory.
pub(crate) const ATTRIBUTE_VIRTUAL_MEMORY: c_int = 102;

/// Asks for the least size of a page, not the recommended one.
pub(crate) const GRANULARITY_MINIMUM: c_int = 0;

/// What kind of page is meant: the driver's `CUmemAllocationProp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PageProperties {
    kind: c_int,
    handle_types: c_int,
    location_kind: c_int,
    location: c_int,
    win32_handle: *mut c_void,
    flags: [u8; 8],
}

// The driver reads exactly these 32 bytes.
const _: () = assert!(size_of::<PageProperties>() == 32);

impl PageProperties {
    /// Plain pages on this device, shared with no other process.
    pub(crate) fn on(device: RawDevice) -> Self {
        const PINNED: c_int = 1;
        const DEVICE: c_int = 1;
        Self {
            kind: PINNED,
            handle_types: 0,
            location_kind: DEVICE,
            location: device,
            win32_handle: core::ptr::null_mut(),
            flags: [0; 8],
        }
    }
}

/// Declares the table, how it is filled, and a checked method for each function.
macro_rules! functions {
    ($($method:ident = $name:literal ($($argument:ident: $kind:ty),*);)*) => {
        /// Pointers to the driver's functions.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Functions {
            $($method: unsafe extern "C" fn($($kind),*) -> c_int,)*
        }

        impl Functions {
            /// Fills the table; the first name without a function ends it with an error.
            ///
            /// # Safety
            ///
            /// Each pointer that `lookup` returns is null or the driver's function of that name,
            /// and stays callable.
            pub(crate) unsafe fn find(
                mut lookup: impl FnMut(&CStr) -> *const c_void,
            ) -> Result<Self, CudaError> {
                Ok(Self {
                    $($method: {
                        const NAME: &CStr = match CStr::from_bytes_with_nul(
                            concat!($name, "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => panic!("a function's name holds no zero byte"),
                        };
                        let function = lookup(NAME);
                        if function.is_null() {
                            return Err(CudaError::MissingFunction { call: $name });
                        }
                        // SAFETY: it is not null, and by this function's contract it is the
                        // driver's function of this name, whose prototype this is.
                        unsafe {
                            transmute::<*const c_void, unsafe extern "C" fn($($kind),*) -> c_int>(
                                function,
                            )
                        }
                    },)*
                })
            }

            $(
                /// Calls the driver's function of the same name.
                ///
                /// # Safety
                ///
                /// Every pointer is valid for what the driver reads and writes through it.
                pub(crate) unsafe fn $method(&self, $($argument: $kind),*) -> Result<(), CudaError> {
                    // SAFETY: passed on to the caller.
                    check($name, unsafe { (self.$method)($($argument),*) })
                }
            )*
        }
    };
}

functions! {
    init = "cuInit"(flags: c_uint);
    driver_version = "cuDriverGetVersion"(version: *mut c_int);
    device_count = "cuDeviceGetCount"(count: *mut c_int);
    device = "cuDeviceGet"(device: *mut RawDevice, ordinal: c_int);
    device_name = "cuDeviceGetName"(name: *mut c_char, length: c_int, device: RawDevice);
    device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: RawDevice);
    device_attribute = "cuDeviceGetAttribute"(
        value: *mut c_int, attribute: c_int, device: RawDevice
    );
    retain_context = "cuDevicePrimaryCtxRetain"(context: *mut RawContext, device: RawDevice);
    release_context = "cuDevicePrimaryCtxRelease_v2"(device: RawDevice);
    push_context = "cuCtxPushCurrent_v2"(context: RawContext);
    pop_context = "cuCtxPopCurrent_v2"(context: *mut RawContext);
    memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
    page_size = "cuMemGetAllocationGranularity"(
        bytes: *mut usize, properties: *const PageProperties, option: c_int
    );
}
