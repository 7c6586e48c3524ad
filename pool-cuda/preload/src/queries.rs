//! The driver's functions that say something of memory: of the pool's they say what they would of memory
//! that the driver gave out block by block.

use core::ffi::{c_int, c_uint, c_void};

use pool_cuda_c::whose::{self, LiveBlock};

use crate::large::around;
use crate::pool::{self, NOT_SUPPORTED, SUCCESS};
use crate::real::{self, Handle};

/// Attributes of an address.
const CONTEXT: c_int = 1;
const MEMORY_KIND: c_int = 2;
const IS_SHAREABLE: c_int = 10;
const START: c_int = 11;
const BYTES: c_int = 12;

/// Memory of a device.
const OF_DEVICE: c_int = 2;

/// In the place of the driver's function of this name: what the pool has and nobody holds is free.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    // SAFETY: passed on to the caller.
    let code = unsafe { real::cuMemGetInfo_v2(free, total) };
    if code == SUCCESS && !free.is_null() && !total.is_null() && pool::is_there() {
        // SAFETY: the driver has written them.
        unsafe { free.write((*free).saturating_add(whose::free_bytes()).min(*total)) };
    }
    code
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuMemGetAddressRange_v2(
    start: *mut u64,
    bytes: *mut usize,
    address: u64,
) -> c_int {
    // SAFETY: passed on to the caller.
    let code = unsafe { real::cuMemGetAddressRange_v2(start, bytes, address) };
    if code == SUCCESS
        && pool::is_there()
        && let Some((at, block)) = around(address)
    {
        if !start.is_null() {
            // SAFETY: it can be written, by the caller's promise.
            unsafe { start.write(at) };
        }
        if !bytes.is_null() {
            // SAFETY: as above.
            unsafe { bytes.write(block.bytes) };
        }
    }
    code
}

/// Writes what a block of the pool's says otherwise than the memory that it is a part of.
///
/// # Safety
///
/// The pointer is null or can be written, as the attribute is.
unsafe fn correct(data: *mut c_void, attribute: c_int, (start, block): (u64, LiveBlock)) {
    if data.is_null() {
        return;
    }
    // SAFETY: by this function's contract.
    unsafe {
        match attribute {
            CONTEXT => data.cast::<Handle>().write(block.context),
            IS_SHAREABLE => data.cast::<bool>().write(false),
            START => data.cast::<u64>().write(start),
            BYTES => data.cast::<usize>().write(block.bytes),
            _ => {}
        }
    }
}

fn is_corrected(attribute: c_int) -> bool {
    [CONTEXT, IS_SHAREABLE, START, BYTES].contains(&attribute)
}

/// The block of the pool's that has an address. The driver is asked first whether that is of a device:
/// programs ask for addresses of all kinds.
fn block_of(address: u64) -> Option<(u64, LiveBlock)> {
    let mut kind: c_int = 0;
    // SAFETY: the pointer is to a local.
    let code = unsafe { real::cuPointerGetAttribute((&raw mut kind).cast(), MEMORY_KIND, address) };
    let is_devices = code == SUCCESS && kind == OF_DEVICE;
    if is_devices && pool::is_there() { around(address) } else { None }
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuPointerGetAttribute(
    data: *mut c_void,
    attribute: c_int,
    address: u64,
) -> c_int {
    // SAFETY: passed on to the caller.
    let code = unsafe { real::cuPointerGetAttribute(data, attribute, address) };
    if is_corrected(attribute)
        && !data.is_null()
        && let Some(found) = block_of(address)
    {
        // SAFETY: passed on to the caller.
        unsafe { correct(data, attribute, found) };
        return SUCCESS;
    }
    code
}

/// In the place of the driver's function of this name.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuPointerGetAttributes(
    count: c_uint,
    attributes: *const c_int,
    data: *const *mut c_void,
    address: u64,
) -> c_int {
    // SAFETY: passed on to the caller.
    let code = unsafe { real::cuPointerGetAttributes(count, attributes, data, address) };
    if code != SUCCESS || attributes.is_null() || data.is_null() {
        return code;
    }
    // SAFETY: the driver has read as many.
    let each = |place| unsafe { (*attributes.add(place), *data.add(place)) };
    let places = 0..count as usize;
    if places.clone().any(|place| is_corrected(each(place).0))
        && let Some(found) = block_of(address)
    {
        for (attribute, data) in places.map(each) {
            // SAFETY: passed on to the caller.
            unsafe { correct(data, attribute, found) };
        }
    }
    code
}

/// In the place of the driver's function of this name. A handle names a whole allocation of the driver's, in
/// which a block of the pool's is one of many: to open it would give another's address, so there is none.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuIpcGetMemHandle(handle: *mut c_void, address: u64) -> c_int {
    if pool::is_there() && around(address).is_some() {
        return NOT_SUPPORTED;
    }
    // SAFETY: passed on to the caller.
    unsafe { real::cuIpcGetMemHandle(handle, address) }
}
