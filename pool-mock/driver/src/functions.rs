//! The driver's functions, by the names and prototypes that the real library has.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;

use crate::code;
use crate::devices::{DEVICES, context, number, ordinal_of_context};
use crate::simulation::{State, call};

/// The version that the simulated driver has: CUDA 12.4.
const VERSION: c_int = 12_040;
/// The attribute of virtual memory management.
const VIRTUAL_MEMORY: c_int = 102;

/// What `cuMemGetAllocationGranularity` reads: the start of `CUmemAllocationProp`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationProperties {
    /// 1: pinned, the only kind.
    pub kind: c_int,
    /// How the memory may be shared.
    pub handle_types: c_int,
    /// 1: on a device.
    pub location_kind: c_int,
    /// The device's number.
    pub location: c_int,
}

/// Writes a result where the caller wants it.
///
/// # Safety
///
/// `out` is null or valid for a write.
unsafe fn answer<T>(out: *mut T, value: T) -> Result<(), i32> {
    if out.is_null() {
        return Err(code::INVALID_VALUE);
    }
    // SAFETY: not null, and valid by this function's contract.
    unsafe { ptr::write(out, value) };
    Ok(())
}

/// Declares the functions, and the table of their names.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($state:ident, $contexts:ident; $($argument:ident: $kind:ty),*) $work:block
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// Every pointer is null or valid for what the driver reads and writes through it.
            #[unsafe(no_mangle)]
            #[allow(unused_variables, reason = "not every function looks at the contexts")]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
                call(stringify!($name), |$state: &mut State, $contexts: &mut Vec<usize>| $work)
            }
        )*

        /// Finds a function by its name, as the system's loader does in the real library; null
        /// for a name that is not there.
        ///
        /// # Example
        ///
        /// ```
        /// assert!(!pool_mock_driver::symbol(c"cuInit").is_null());
        /// assert!(pool_mock_driver::symbol(c"cuNoSuchThing").is_null());
        /// ```
        #[must_use]
        pub fn symbol(name: &CStr) -> *const c_void {
            match name.to_str() {
                $(Ok(stringify!($name)) => $name as *const c_void,)*
                _ => ptr::null(),
            }
        }
    };
}

functions! {
    /// Starts the driver. The flags must be 0.
    fn cuInit(state, contexts; flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        state.initialized = true;
        Ok(())
    }

    /// Says a code in words. (cust asks for it when it prints an error.)
    fn cuGetErrorString(state, contexts; error: c_int, text: *mut *const c_char) {
        let words = code::words(error).ok_or(code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(text, words.as_ptr()) }
    }

    /// Tells the driver's version, also before it is started.
    fn cuDriverGetVersion(state, contexts; version: *mut c_int) {
        // SAFETY: by the contract of the outer function.
        unsafe { answer(version, VERSION) }
    }

    /// Tells how many devices there are.
    fn cuDeviceGetCount(state, contexts; count: *mut c_int) {
        state.initialized()?;
        let devices = c_int::try_from(DEVICES.len()).map_err(|_| code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(count, devices) }
    }

    /// Gives the number of the device with an ordinal.
    fn cuDeviceGet(state, contexts; device: *mut c_int, ordinal: c_int) {
        state.initialized()?;
        let number = number(ordinal)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(device, number) }
    }

    /// Writes a device's name and a zero byte, cut to the buffer's length.
    fn cuDeviceGetName(state, contexts; name: *mut c_char, length: c_int, device: c_int) {
        let bytes = DEVICES[state.device(device)?].name.to_bytes();
        let room = usize::try_from(length).ok().and_then(|length| length.checked_sub(1));
        let room = room.ok_or(code::INVALID_VALUE)?;
        if name.is_null() {
            return Err(code::INVALID_VALUE);
        }
        let count = bytes.len().min(room);
        // SAFETY: `name` is valid for `length` bytes by the contract of the outer function, and
        // `count` is less than that.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), name.cast::<u8>(), count);
            ptr::write(name.add(count), 0);
        }
        Ok(())
    }

    /// Tells a device's memory in bytes.
    fn cuDeviceTotalMem_v2(state, contexts; bytes: *mut usize, device: c_int) {
        let device = DEVICES[state.device(device)?];
        // SAFETY: by the contract of the outer function.
        unsafe { answer(bytes, device.total_bytes) }
    }

    /// Tells an attribute of a device; only that of virtual memory management is known.
    fn cuDeviceGetAttribute(
        state, contexts; value: *mut c_int, attribute: c_int, device: c_int
    ) {
        let device = DEVICES[state.device(device)?];
        if attribute != VIRTUAL_MEMORY {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: by the contract of the outer function.
        unsafe { answer(value, c_int::from(device.page_bytes.is_some())) }
    }

    /// Gives a device's primary context and counts one reference more.
    fn cuDevicePrimaryCtxRetain(state, contexts; context_out: *mut *mut c_void, device: c_int) {
        let ordinal = state.device(device)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(context_out, context(ordinal)) }?;
        state.retained[ordinal] += 1;
        Ok(())
    }

    /// Takes back one reference to a device's primary context.
    fn cuDevicePrimaryCtxRelease_v2(state, contexts; device: c_int) {
        let ordinal = state.device(device)?;
        let left = state.retained[ordinal].checked_sub(1).ok_or(code::INVALID_CONTEXT)?;
        state.retained[ordinal] = left;
        Ok(())
    }

    /// Makes a context current on this thread.
    fn cuCtxPushCurrent_v2(state, contexts; context_in: *mut c_void) {
        state.initialized()?;
        let ordinal = ordinal_of_context(context_in)?;
        if state.retained[ordinal] == 0 {
            return Err(code::CONTEXT_IS_DESTROYED);
        }
        contexts.push(ordinal);
        Ok(())
    }

    /// Makes the context before the current one current again. The pointer may be null.
    fn cuCtxPopCurrent_v2(state, contexts; context_out: *mut *mut c_void) {
        state.initialized()?;
        let ordinal = contexts.pop().ok_or(code::INVALID_CONTEXT)?;
        if context_out.is_null() {
            return Ok(());
        }
        // SAFETY: by the contract of the outer function.
        unsafe { answer(context_out, context(ordinal)) }
    }

    /// Tells the current context's device's free and total memory in bytes.
    fn cuMemGetInfo_v2(state, contexts; free: *mut usize, total: *mut usize) {
        state.initialized()?;
        let ordinal = *contexts.last().ok_or(code::INVALID_CONTEXT)?;
        if free.is_null() || total.is_null() {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: by the contract of the outer function.
        unsafe { answer(free, DEVICES[ordinal].free_bytes) }?;
        // SAFETY: as above.
        unsafe { answer(total, DEVICES[ordinal].total_bytes) }
    }

    /// Tells the size in bytes of the pages that a device can map.
    fn cuMemGetAllocationGranularity(
        state, contexts; bytes: *mut usize, properties: *const AllocationProperties, option: c_int
    ) {
        if properties.is_null() || !(0..=1).contains(&option) {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: not null, and valid by the contract of the outer function.
        let properties = unsafe { ptr::read(properties) };
        if (properties.kind, properties.location_kind) != (1, 1) {
            return Err(code::INVALID_VALUE);
        }
        let device = DEVICES[state.device(properties.location)?];
        let page_bytes = device.page_bytes.ok_or(code::NOT_SUPPORTED)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(bytes, page_bytes) }
    }
}
