//! What is said of addresses, other ways to memory, and memory for other processes by whole allocations.

use core::ffi::{c_int, c_uint, c_void};
use core::ops::Range;

use crate::call::{answer, answer_if, ask, check, functions, handle};
use crate::code;
use crate::memory::cuMemAlloc_v2;
use crate::space::Kind;
use crate::state::{State, started};

/// What the driver knows of the memory behind an address.
struct Known {
    bytes: Range<u64>,
    /// The ordinal of its device; none for the host's.
    ordinal: Option<usize>,
    /// Whether it was allocated in one piece, so that another process can have it whole.
    is_plain: bool,
}

impl Known {
    fn at(state: &State, address: u64) -> Result<Self, i32> {
        let block = state.space.blocks.range(..=address).next_back();
        if let Some((&start, block)) = block.filter(|&(&start, block)| address - start < block.size)
        {
            let (ordinal, is_plain) = match &block.kind {
                Kind::Plain { ordinal, .. } => (Some(*ordinal), true),
                Kind::Pooled(pool) => (Some(pool.ordinal), false),
                Kind::Pinned | Kind::Registered => (None, false),
            };
            return Ok(Self { bytes: start..start + block.size, ordinal, is_plain });
        }
        let mapping = state.space.mappings.range(..=address).next_back();
        let mapping = mapping.filter(|&(&start, mapping)| address - start < mapping.size);
        let (&start, mapping) = mapping.ok_or(code::INVALID_VALUE)?;
        let ordinal = mapping.writers.iter().next().copied();
        Ok(Self { bytes: start..start + mapping.size, ordinal, is_plain: false })
    }

    /// A number that an attribute says of an address.
    fn attribute(&self, state: &State, attribute: c_int, address: u64) -> Result<u64, i32> {
        let context = self.ordinal.filter(|_| self.is_plain);
        Ok(match attribute {
            CONTEXT => context.map_or(0, |ordinal| state.devices[ordinal].primary),
            // 1: the host's; 2: a device's.
            MEMORY_KIND => 1 + u64::from(self.ordinal.is_some()),
            DEVICE_POINTER => address,
            IS_MANAGED => 0,
            ORDINAL => self.ordinal.ok_or(code::INVALID_VALUE)? as u64,
            IS_SHAREABLE => self.is_plain.into(),
            START => self.bytes.start,
            SIZE => self.bytes.end - self.bytes.start,
            _ => return Err(code::INVALID_VALUE),
        })
    }
}

const CONTEXT: c_int = 1;
const MEMORY_KIND: c_int = 2;
const DEVICE_POINTER: c_int = 3;
const IS_MANAGED: c_int = 8;
const ORDINAL: c_int = 9;
const IS_SHAREABLE: c_int = 10;
const START: c_int = 11;
const SIZE: c_int = 12;

/// Writes an attribute, as long as it is.
///
/// # Safety
///
/// The pointer is null or valid for a write of the attribute.
unsafe fn write(data: *mut c_void, attribute: c_int, value: u64) -> Result<(), i32> {
    match attribute {
        MEMORY_KIND | ORDINAL => {
            let value = c_int::try_from(value).map_err(|_| code::INVALID_VALUE)?;
            // SAFETY: by this function's contract.
            unsafe { answer(data.cast(), value) }
        }
        // SAFETY: as above.
        IS_MANAGED | IS_SHAREABLE => unsafe { answer(data.cast(), value != 0) },
        // SAFETY: as above.
        _ => unsafe { answer(data.cast(), value) },
    }
}

/// `CUipcMemHandle`: here an address and zeroes.
type IpcHandle = [u64; 8];

functions! {
    /// Tells where the allocation begins that has an address, and its size.
    fn cuMemGetAddressRange_v2(start_out: *mut u64, size_out: *mut usize, address: u64) {
        let known = Known::at(&*started()?, address)?;
        let size = usize::try_from(known.bytes.end - known.bytes.start);
        // SAFETY: by the contract of the outer function.
        unsafe { answer_if(start_out, known.bytes.start) };
        // SAFETY: as above.
        unsafe { answer_if(size_out, size.unwrap_or(usize::MAX)) };
        Ok(())
    }

    /// Tells an attribute of an address.
    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, address: u64) {
        let state = started()?;
        let value = Known::at(&state, address)?.attribute(&state, attribute, address)?;
        // SAFETY: by the contract of the outer function.
        unsafe { write(data, attribute, value) }
    }

    /// Tells several attributes; zero for those that the address does not have.
    fn cuPointerGetAttributes(
        count: c_uint, attributes: *const c_int, data: *const *mut c_void, address: u64
    ) {
        let state = started()?;
        let known = Known::at(&state, address);
        for place in 0..count as usize {
            // SAFETY: by the contract of the outer function; `ask` looks for null itself.
            let (attribute, data) = unsafe {
                (ask(attributes.wrapping_add(place))?, ask(data.wrapping_add(place))?)
            };
            let value = known.as_ref().map_err(|&code| code);
            let value = value.and_then(|known| known.attribute(&state, attribute, address));
            // SAFETY: as above.
            unsafe { write(data, attribute, value.unwrap_or(0)) }?;
        }
        Ok(())
    }

    /// Gives a handle for other processes to memory that was allocated in one piece: to all of it,
    /// wherever in it the address is.
    fn cuIpcGetMemHandle(handle_out: *mut IpcHandle, address: u64) {
        let known = Known::at(&*started()?, address)?;
        if !known.is_plain {
            return Err(code::INVALID_VALUE);
        }
        // SAFETY: by the contract of the outer function.
        unsafe { answer(handle_out, [known.bytes.start, 0, 0, 0, 0, 0, 0, 0]) }
    }

    /// Allocates rows that begin at multiples of 512 bytes.
    fn cuMemAllocPitch_v2(
        address_out: *mut u64, pitch_out: *mut usize, width: usize, height: usize, _element: c_uint
    ) {
        check(pitch_out)?;
        let pitch = width.checked_next_multiple_of(512).ok_or(code::INVALID_VALUE)?;
        let bytes = pitch.checked_mul(height).ok_or(code::INVALID_VALUE)?;
        // SAFETY: by the contract of the outer function.
        match unsafe { cuMemAlloc_v2(address_out, bytes) } {
            // SAFETY: as above.
            code::SUCCESS => unsafe { answer(pitch_out, pitch) },
            refused => Err(refused),
        }
    }

    /// Allocates memory that moves to who uses it: here it is the device's.
    fn cuMemAllocManaged(address_out: *mut u64, bytes: usize, _flags: c_uint) {
        // SAFETY: by the contract of the outer function.
        match unsafe { cuMemAlloc_v2(address_out, bytes) } {
            code::SUCCESS => Ok(()),
            refused => Err(refused),
        }
    }

    /// Ends all that is in a device's primary context. Here nothing is; it only has to exist.
    fn cuDevicePrimaryCtxReset_v2(device: c_int) {
        started()?.ordinal(device).map(drop)
    }

    /// The device's own pool, or another, serves from now on who names none. Here it is always its own.
    fn cuDeviceSetMemPool(device: c_int, pool: *mut c_void) {
        let state = started()?;
        let ordinal = state.ordinal(device)?;
        let own = state.devices[ordinal].pool.map(handle);
        if own == Some(pool) { Ok(()) } else { Err(code::NOT_SUPPORTED) }
    }
}
