//! Plain memory: of a device, and of the host's that devices can use.

use core::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use pool_core::device::Device as _;
use pool_mock::device::SimDevice;

use crate::bytes::{HostBytes, Storage};
use crate::call::{Call, answer, ask, check, functions};
use crate::code;
use crate::context::Current;
use crate::devices::SimulatedDevice;
use crate::space::{Block, Kind};
use crate::state::{State, current, started};
use crate::virtual_memory;

/// The start of `CUmemAllocationProp` and of `CUmemPoolProps`: what memory is meant.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AllocationProperties {
    /// 1: pinned, the only kind.
    pub kind: c_int,
    /// How other processes may have the memory; 0: they may not; 1: by file descriptors.
    pub handle_types: c_int,
    /// 1: on a device.
    pub location_kind: c_int,
    /// The device's number.
    pub location: c_int,
}

impl AllocationProperties {
    /// The device that is meant.
    pub(crate) fn ordinal(self, state: &State) -> Result<usize, i32> {
        if (self.kind, self.location_kind) != (1, 1) {
            return Err(code::INVALID_VALUE);
        }
        state.ordinal(self.location)
    }

    /// Whether other processes may have pages of a device.
    pub(crate) fn is_shareable(self, device: &SimulatedDevice) -> Result<bool, i32> {
        match (self.handle_types, device.shareable) {
            (0, _) => Ok(false),
            (1, true) => Ok(true),
            (1, false) => Err(code::NOT_SUPPORTED),
            // Between machines, which takes more than one.
            (8, _) => Err(code::NOT_PERMITTED),
            _ => Err(code::INVALID_VALUE),
        }
    }
}

/// `CUmemAccessDesc`: which device may do what.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AccessDescription {
    /// 1: a device.
    pub location_kind: c_int,
    /// The device's number.
    pub location: c_int,
    /// 0: nothing; 1: read; 3: read and write.
    pub flags: c_int,
}

impl AccessDescription {
    /// Reads several: for each a device's ordinal and what it may.
    ///
    /// # Safety
    ///
    /// The pointer is null or valid for reads of so many.
    pub(crate) unsafe fn read_all(
        state: &State,
        descriptions: *const Self,
        count: usize,
    ) -> Result<Vec<(usize, c_int)>, i32> {
        let read = (0..count).map(|place| {
            // SAFETY: by this function's contract; `ask` looks for null itself.
            let one = unsafe { ask(descriptions.wrapping_add(place)) }?;
            if one.location_kind != 1 || ![0, 1, 3].contains(&one.flags) {
                return Err(code::INVALID_VALUE);
            }
            Ok((state.ordinal(one.location)?, one.flags))
        });
        check(descriptions).and_then(|()| read.collect())
    }
}

/// Takes a block of a device's memory away from its address.
pub(crate) fn take_block(address: u64) -> Result<Block, i32> {
    let mut state = started()?;
    let known = state.space.blocks.get(&address).ok_or(code::INVALID_VALUE)?;
    if !matches!(known.kind, Kind::Plain { .. } | Kind::Pooled(_)) {
        return Err(code::INVALID_VALUE);
    }
    state.space.blocks.remove(&address).ok_or(code::INVALID_VALUE)
}

/// Makes the host's memory known at its own address.
fn add_host(
    state: &mut State,
    device: &SimDevice,
    bytes: HostBytes,
    size: u64,
    kind: Kind,
) -> Result<u64, i32> {
    let start = bytes.address() as u64;
    let end = start.checked_add(size).ok_or(code::INVALID_VALUE)?;
    let before = state.space.blocks.range(..end).next_back();
    if before.is_some_and(|(&other, block)| other + block.size > start) {
        return Err(code::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let storage = Arc::new(Storage::Host(bytes));
    let range = device.lend_range(size);
    state.space.blocks.insert(start, Block { size, range, storage, kind });
    Ok(start)
}

/// Takes the host's memory away from the driver. It is a violation if queued work uses it; that
/// work is then run first, since it could only read what is no memory.
fn take_host(
    call: Call,
    pointer: *mut c_void,
    is_kind: impl Fn(&Kind) -> bool,
    otherwise: i32,
) -> Result<(), i32> {
    let (taken, devices) = {
        let mut state = started()?;
        let device = state.current()?.device;
        let start = pointer.addr() as u64;
        state.space.blocks.get(&start).filter(|block| is_kind(&block.kind)).ok_or(otherwise)?;
        device.check_call(call.name).map_err(code::of)?;
        let taken = state.space.blocks.remove(&start).ok_or(otherwise)?;
        let devices = state.contexts.values().map(|context| context.device.clone());
        (taken, devices.collect::<Vec<_>>())
    };
    let is_used = devices[0].take_range_back(&taken.range, call.name).map_err(code::of)?;
    if is_used {
        for device in devices {
            call.waited(device.host_wait_all().map_err(code::of)?);
        }
    }
    Ok(())
}

/// Allocates memory of the host's.
fn allocate_host(call: Call, out: *mut *mut c_void, bytes: usize) -> Result<(), i32> {
    let Current { device, .. } = current()?;
    check(out)?;
    if bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    device.check_call(call.name).map_err(code::of)?;
    let memory = HostBytes::allocate(bytes).ok_or(code::OUT_OF_MEMORY)?;
    let size = bytes as u64;
    let mut state = started()?;
    let start = add_host(&mut state, &device, memory, size, Kind::Pinned)?;
    let address = usize::try_from(start).map_err(|_| code::OUT_OF_MEMORY)?;
    // SAFETY: by the contract of the function that called.
    unsafe { answer(out, core::ptr::with_exposed_provenance_mut(address)) }
}

/// All flags of memory of the host's.
const HOST_FLAGS: c_uint = 0b1111;

functions! {
    /// Tells the current context's device's free and total memory in bytes.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let current = current()?;
        virtual_memory::sweep(&mut *started()?);
        check(free)?;
        check(total)?;
        let device = started()?.devices[current.ordinal].sim.clone();
        let memory = device.memory().map_err(|_| code::UNKNOWN)?;
        let bytes = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: by the contract of the outer function.
        unsafe { answer(free, bytes(memory.free_bytes)) }?;
        // SAFETY: as above.
        unsafe { answer(total, bytes(memory.total_bytes)) }
    }

    /// Allocates memory of the current context's device.
    fn cuMemAlloc_v2(address_out: *mut u64, bytes: usize) |call| {
        let mut state = started()?;
        let Current { ordinal, .. } = state.current()?;
        check(address_out)?;
        if bytes == 0 {
            return Err(code::INVALID_VALUE);
        }
        let device = state.devices[ordinal].sim.clone();
        device.check_call(call.name).map_err(code::of)?;
        let size = bytes as u64;
        device.take_bytes(size).map_err(code::of)?;
        let address = state.space.place(size);
        let (range, storage) = (device.lend_range(size), Arc::new(Storage::new()));
        let kind = Kind::Plain { ordinal, device };
        state.space.blocks.insert(address, Block { size, range, storage, kind });
        // SAFETY: by the contract of the outer function.
        unsafe { answer(address_out, address) }
    }

    /// Waits for the whole device and frees memory. Null is freed at once.
    fn cuMemFree_v2(address: u64) |call| {
        let Current { device, .. } = current()?;
        if address == 0 {
            return Ok(());
        }
        device.check_call(call.name).map_err(code::of)?;
        let Block { size, range, kind, .. } = take_block(address)?;
        let ordinal = match &kind {
            Kind::Plain { ordinal, .. } => *ordinal,
            Kind::Pooled(pool) => pool.ordinal,
            Kind::Pinned | Kind::Registered => return Err(code::INVALID_VALUE),
        };
        let devices = started()?.all_of(ordinal);
        let mut waited = false;
        for device in &devices {
            waited |= device.host_wait_all().map_err(code::of)?;
        }
        call.waited(waited);
        devices[0].take_range_back(&range, call.name).map_err(code::of)?;
        match kind {
            Kind::Pooled(pool) => pool.free_now(size),
            Kind::Plain { device, .. } => device.give_bytes(size),
            Kind::Pinned | Kind::Registered => {}
        }
        Ok(())
    }

    /// Allocates memory of the host's that devices use by the same address.
    fn cuMemHostAlloc(pointer_out: *mut *mut c_void, bytes: usize, flags: c_uint) |call| {
        if flags > HOST_FLAGS {
            return Err(code::INVALID_VALUE);
        }
        allocate_host(call, pointer_out, bytes)
    }

    /// As `cuMemHostAlloc` without flags.
    fn cuMemAllocHost_v2(pointer_out: *mut *mut c_void, bytes: usize) |call| {
        allocate_host(call, pointer_out, bytes)
    }

    /// Frees memory of the host's that the driver allocated.
    fn cuMemFreeHost(pointer: *mut c_void) |call| {
        take_host(call, pointer, |kind| matches!(kind, Kind::Pinned), code::INVALID_VALUE)
    }

    /// Lets devices use memory that the program has.
    fn cuMemHostRegister_v2(pointer: *mut c_void, bytes: usize, flags: c_uint) |call| {
        let Current { device, .. } = current()?;
        check(pointer)?;
        if bytes == 0 || flags > HOST_FLAGS {
            return Err(code::INVALID_VALUE);
        }
        device.check_call(call.name).map_err(code::of)?;
        // SAFETY: by the contract of `cuMemHostRegister_v2` the memory stays until it is
        // unregistered, which waits for what uses it.
        let memory = unsafe { HostBytes::borrow(pointer.cast()) };
        let mut state = started()?;
        add_host(&mut state, &device, memory, bytes as u64, Kind::Registered)?;
        Ok(())
    }

    /// Takes that back.
    fn cuMemHostUnregister(pointer: *mut c_void) |call| {
        let otherwise = code::HOST_MEMORY_NOT_REGISTERED;
        take_host(call, pointer, |kind| matches!(kind, Kind::Registered), otherwise)
    }
}
