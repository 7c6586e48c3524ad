//! Starting the driver, and what there is: versions, devices, errors in words.

use core::ffi::{c_char, c_int, c_uint};
use core::ptr;

use crate::call::{answer, functions};
use crate::code;
use crate::devices::SimulatedDevice;
use crate::late;
use crate::state::{lock, started};

/// A device that a call names by its number, and its ordinal.
fn named(number: c_int) -> Result<(usize, SimulatedDevice), i32> {
    let state = started()?;
    let ordinal = state.ordinal(number)?;
    Ok((ordinal, state.config.devices[ordinal]))
}

/// An attribute of a device; `None` for one that the simulated driver does not know.
fn attribute(device: &SimulatedDevice, attribute: c_int) -> Option<c_int> {
    Some(match attribute {
        // Threads in a block, in each direction, and blocks in a grid.
        1..=3 => 1024,
        4 => 64,
        5 => c_int::MAX,
        6 | 7 => 65_535,
        // Bytes of shared memory in a block.
        8 => 48 << 10,
        // Threads in a warp.
        10 => 32,
        // Multiprocessors.
        16 => 132,
        // Can map host memory, run kernels side by side; has unified addresses, and priorities.
        19 | 31 | 41 | 78 => 1,
        // Compute capability 9.0.
        75 => 9,
        76 => 0,
        // Virtual memory management.
        102 => c_int::from(device.page_bytes.is_some()),
        // Pages by file descriptors.
        103 => c_int::from(device.shareable),
        // Memory pools.
        115 => c_int::from(device.pools),
        _ => return None,
    })
}

functions! {
    /// Starts the driver. The flags must be 0.
    fn cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(code::INVALID_VALUE);
        }
        let mut state = lock();
        if state.config.devices.is_empty() {
            return Err(code::NO_DEVICE);
        }
        state.initialized = true;
        late::initialize();
        Ok(())
    }

    /// Tells the driver's version, also before it is started.
    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: by the contract of the outer function.
        unsafe { answer(version, lock().config.driver_version) }
    }

    /// Says a code in words. (cust asks for it when it prints an error.)
    fn cuGetErrorString(error: c_int, text: *mut *const c_char) {
        let (_, words) = code::text(error).ok_or(code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(text, words.as_ptr()) }
    }

    /// Tells a code's name.
    fn cuGetErrorName(error: c_int, text: *mut *const c_char) {
        let (name, _) = code::text(error).ok_or(code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(text, name.as_ptr()) }
    }

    /// Tells how many devices there are.
    fn cuDeviceGetCount(count: *mut c_int) {
        let devices = started()?.config.devices.len();
        // SAFETY: by the contract of the outer function.
        unsafe { answer(count, c_int::try_from(devices).unwrap_or(c_int::MAX)) }
    }

    /// Gives the number of the device with an ordinal.
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        let number = started()?.config.number(ordinal)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(device, number) }
    }

    /// Writes a device's name and a zero byte, cut to the buffer's length.
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int) {
        let (_, device) = named(device)?;
        let bytes = device.name.to_bytes();
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
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        let (_, device) = named(device)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(bytes, device.total_bytes) }
    }

    /// Tells an attribute of a device.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let (_, device) = named(device)?;
        let found = self::attribute(&device, attribute).ok_or(code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(value, found) }
    }

    /// Tells whether one device can use another's memory: each can.
    fn cuDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) {
        let (device, peer) = (named(device)?.0, named(peer)?.0);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(can, c_int::from(device != peer)) }
    }
}
