//! The driver's own pools: memory that is allocated and freed in the order of a stream.
//!
//! A pool keeps what is freed. Memory serves again at once on the stream that freed it, and on any
//! when that stream has come there. What is above the release threshold goes back to the device
//! when the host next waits for a stream, an event or the context.

use core::ffi::{c_int, c_void};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pool_mock::device::{Access, CaptureStatus, SimDevice};

use crate::bytes::Storage;
use crate::call::{Handle, OnStream, answer, ask, check, functions, handle, key};
use crate::code;
use crate::memory::{AccessDescription, AllocationProperties, take_block};
use crate::space::{Block, Kind};
use crate::state::{State, lock, started};

/// Pools take memory of the device in multiples of this.
const STEP_BYTES: u64 = 2 << 20;

/// A pool of the driver's.
pub(crate) struct DriverPool {
    pub(crate) ordinal: usize,
    device: SimDevice,
    accounts: Mutex<Accounts>,
}

/// What a pool has.
#[derive(Debug, Default)]
struct Accounts {
    /// Bytes that it took of the device, now and at most.
    reserved: u64,
    reserved_high: u64,
    /// Bytes of blocks that no stream has freed yet, now and at most.
    used: u64,
    used_high: u64,
    /// What it keeps when the host waits.
    threshold: u64,
    /// Bytes of blocks whose free a stream has not come to, by the stream.
    freed: HashMap<u64, u64>,
    /// Numbers that change nothing here.
    reuse: HashMap<c_int, c_int>,
    /// The devices that may use it beside its own.
    peers: BTreeSet<usize>,
    /// It is destroyed, and ends with its last block.
    is_closed: bool,
}

impl DriverPool {
    /// A pool that has nothing.
    pub(crate) fn new(ordinal: usize, device: SimDevice) -> Self {
        Self { ordinal, device, accounts: Mutex::default() }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock()
    }

    /// Whether kernels of a device may use its memory.
    pub(crate) fn serves(&self, ordinal: usize) -> bool {
        ordinal == self.ordinal || self.accounts().peers.contains(&ordinal)
    }

    /// Takes memory for a block that a stream allocates.
    fn allocate(&self, stream: u64, bytes: u64) -> Result<(), i32> {
        let mut accounts = self.accounts();
        let own = accounts.freed.get(&stream).copied().unwrap_or(0).min(bytes);
        let added = bytes - own;
        let spare = accounts.reserved - accounts.used;
        if let Some(lack) = added.checked_sub(spare).filter(|&lack| lack > 0) {
            let lack = lack.checked_next_multiple_of(STEP_BYTES).ok_or(code::OUT_OF_MEMORY)?;
            self.device.take_bytes(lack).map_err(code::of)?;
            accounts.reserved += lack;
            accounts.reserved_high = accounts.reserved_high.max(accounts.reserved);
        }
        if let Some(freed) = accounts.freed.get_mut(&stream) {
            *freed -= own;
        }
        accounts.used += added;
        accounts.used_high = accounts.used_high.max(accounts.used);
        Ok(())
    }

    /// A stream is told to free a block.
    fn free(&self, stream: u64, bytes: u64) {
        *self.accounts().freed.entry(stream).or_default() += bytes;
    }

    /// A stream has come to the free of a block: what it has not used again serves any.
    fn freed(&self, stream: u64, bytes: u64) {
        let mut accounts = self.accounts();
        let freed = accounts.freed.entry(stream).or_default();
        let back = (*freed).min(bytes);
        *freed -= back;
        accounts.used -= back;
        self.end_if_closed(&mut accounts);
    }

    /// A block that no stream uses is freed.
    pub(crate) fn free_now(&self, bytes: u64) {
        let mut accounts = self.accounts();
        accounts.used -= bytes;
        self.end_if_closed(&mut accounts);
    }

    fn end_if_closed(&self, accounts: &mut Accounts) {
        if accounts.is_closed {
            self.keep(accounts, 0);
        }
    }

    /// Gives back to the device what is above so many bytes and not used.
    fn keep(&self, accounts: &mut Accounts, bytes: u64) {
        let left = accounts.used.max(bytes).next_multiple_of(STEP_BYTES).min(accounts.reserved);
        self.device.give_bytes(accounts.reserved - left);
        accounts.reserved = left;
    }
}

/// The host has waited: the pools of a device give back what is above their thresholds.
pub(crate) fn shrink(ordinal: usize) {
    let state = lock();
    for pool in state.pools.values().filter(|pool| pool.ordinal == ordinal) {
        let mut accounts = pool.accounts();
        let threshold = accounts.threshold.min(u64::MAX - STEP_BYTES);
        pool.keep(&mut accounts, threshold);
    }
}

/// The pool that a handle means.
fn known(state: &State, pool: Handle) -> Result<Arc<DriverPool>, i32> {
    state.pools.get(&key(pool)).cloned().ok_or(code::INVALID_VALUE)
}

/// The default pool of a device.
fn default_pool(state: &State, ordinal: usize) -> Result<u64, i32> {
    state.devices[ordinal].pool.ok_or(code::NOT_SUPPORTED)
}

/// Allocates a block of a pool, in the order of a stream.
fn allocate(
    address_out: *mut u64,
    bytes: usize,
    pool: &Arc<DriverPool>,
    on: &OnStream,
) -> Result<(), i32> {
    check(address_out)?;
    if bytes == 0 {
        return Err(code::INVALID_VALUE);
    }
    // Graphs have no memory of their own here.
    if on.device.capture_status(on.stream).map_err(code::of)? != CaptureStatus::None {
        return Err(code::STREAM_CAPTURE_UNSUPPORTED);
    }
    let size = bytes as u64;
    pool.allocate(on.stream.key(), size)?;
    let range = pool.device.lend_range(size);
    // Whoever uses it has to be behind this.
    let uses = [(range, 0, size, Access::Write)];
    if let Err(error) = on.device.queue_task(on.stream, &uses, Arc::new(|| ())) {
        pool.device.end_range(&range);
        pool.free_now(size);
        return Err(code::of(error));
    }
    let kind = Kind::Pooled(Arc::clone(pool));
    let mut state = started()?;
    let address = state.space.place(size);
    let storage = Arc::new(Storage::new());
    state.space.blocks.insert(address, Block { size, range, storage, kind });
    // SAFETY: by the contract of the function that called.
    unsafe { answer(address_out, address) }
}

/// An attribute of 32 bits: how memory may be used again.
const REUSE: core::ops::RangeInclusive<c_int> = 1..=3;
const THRESHOLD: c_int = 4;
const RESERVED: c_int = 5;
const RESERVED_HIGH: c_int = 6;
const USED: c_int = 7;
const USED_HIGH: c_int = 8;

functions! {
    /// Tells a device's default pool.
    fn cuDeviceGetDefaultMemPool(pool_out: *mut Handle, device: c_int) {
        let state = started()?;
        let pool = default_pool(&state, state.ordinal(device)?)?;
        // SAFETY: by the contract of the outer function.
        unsafe { answer(pool_out, handle(pool)) }
    }

    /// Makes a pool.
    fn cuMemPoolCreate(
        pool_out: *mut Handle, properties: *const AllocationProperties
    ) {
        let mut state = started()?;
        // SAFETY: by the contract of the outer function; the properties begin as those of pages.
        let ordinal = unsafe { ask(properties) }?.ordinal(&state)?;
        default_pool(&state, ordinal)?;
        check(pool_out)?;
        let device = state.devices[ordinal].sim.clone();
        let made = state.new_handle();
        state.pools.insert(made, Arc::new(DriverPool::new(ordinal, device)));
        // SAFETY: by the contract of the outer function.
        unsafe { answer(pool_out, handle(made)) }
    }

    /// Ends a pool, when its last block is freed.
    fn cuMemPoolDestroy(pool: Handle) {
        let mut state = started()?;
        let ended = known(&state, pool)?;
        if state.devices[ended.ordinal].pool == Some(key(pool)) {
            return Err(code::INVALID_VALUE);
        }
        state.pools.remove(&key(pool));
        let mut accounts = ended.accounts();
        accounts.is_closed = true;
        ended.keep(&mut accounts, 0);
        Ok(())
    }

    /// Sets a number of a pool: 4 is what it keeps; a high water mark can be set to zero.
    fn cuMemPoolSetAttribute(pool: Handle, attribute: c_int, value: *const c_void) {
        let pool = known(&*started()?, pool)?;
        let mut accounts = pool.accounts();
        if REUSE.contains(&attribute) {
            // SAFETY: by the contract of the outer function it is a number of 32 bits.
            let value = unsafe { ask(value.cast::<c_int>()) }?;
            accounts.reuse.insert(attribute, value);
            return Ok(());
        }
        // SAFETY: by the contract of the outer function it is a number of 64 bits.
        let value = unsafe { ask(value.cast::<u64>()) }?;
        match (attribute, value) {
            (THRESHOLD, bytes) => accounts.threshold = bytes,
            (RESERVED_HIGH, 0) => accounts.reserved_high = accounts.reserved,
            (USED_HIGH, 0) => accounts.used_high = accounts.used,
            _ => return Err(code::INVALID_VALUE),
        }
        Ok(())
    }

    /// Tells a number of a pool.
    fn cuMemPoolGetAttribute(pool: Handle, attribute: c_int, value: *mut c_void) {
        let pool = known(&*started()?, pool)?;
        let accounts = pool.accounts();
        if REUSE.contains(&attribute) {
            let number = accounts.reuse.get(&attribute).copied().unwrap_or(1);
            // SAFETY: by the contract of the outer function it is a number of 32 bits.
            return unsafe { answer(value.cast::<c_int>(), number) };
        }
        let number = match attribute {
            THRESHOLD => accounts.threshold,
            RESERVED => accounts.reserved,
            RESERVED_HIGH => accounts.reserved_high,
            USED => accounts.used,
            USED_HIGH => accounts.used_high,
            _ => return Err(code::INVALID_VALUE),
        };
        // SAFETY: by the contract of the outer function it is a number of 64 bits.
        unsafe { answer(value.cast::<u64>(), number) }
    }

    /// Gives back what a pool does not use, but for so many bytes.
    fn cuMemPoolTrimTo(pool: Handle, keep: usize) {
        let pool = known(&*started()?, pool)?;
        pool.keep(&mut pool.accounts(), keep as u64);
        Ok(())
    }

    /// Says which other devices may use a pool's memory.
    fn cuMemPoolSetAccess(
        pool: Handle, descriptions: *const AccessDescription, count: usize
    ) {
        let state = started()?;
        let pool = known(&state, pool)?;
        // SAFETY: by the contract of the outer function.
        let described = unsafe { AccessDescription::read_all(&state, descriptions, count) }?;
        let mut accounts = pool.accounts();
        for (ordinal, flags) in described {
            match (flags, ordinal == pool.ordinal) {
                (3, true) => {}
                (_, true) => return Err(code::INVALID_DEVICE),
                (3, false) => drop(accounts.peers.insert(ordinal)),
                (0, false) => drop(accounts.peers.remove(&ordinal)),
                _ => return Err(code::INVALID_VALUE),
            }
        }
        Ok(())
    }

    /// Allocates a block of the default pool, in the order of a stream.
    fn cuMemAllocAsync(address_out: *mut u64, bytes: usize, stream: Handle) |call| {
        let on = call.stream(stream)?;
        let pool = {
            let state = started()?;
            known(&state, handle(default_pool(&state, on.ordinal)?))?
        };
        allocate(address_out, bytes, &pool, &on)
    }

    /// Allocates a block of a pool, in the order of a stream.
    fn cuMemAllocFromPoolAsync(
        address_out: *mut u64, bytes: usize, pool: Handle, stream: Handle
    ) |call| {
        let on = call.stream(stream)?;
        let pool = known(&*started()?, pool)?;
        allocate(address_out, bytes, &pool, &on)
    }

    /// Frees a block, in the order of a stream. Never waits.
    fn cuMemFreeAsync(address: u64, stream: Handle) |call| {
        let on = call.stream(stream)?;
        if on.device.capture_status(on.stream).map_err(code::of)? != CaptureStatus::None {
            return Err(code::STREAM_CAPTURE_UNSUPPORTED);
        }
        on.device.check_queue(on.stream, call.name).map_err(code::of)?;
        let Block { size, range, kind, .. } = take_block(address)?;
        let (device, stream) = (on.device.clone(), on.stream.key());
        if let Kind::Pooled(pool) = &kind {
            pool.free(stream, size);
        }
        let task = move || {
            device.end_range(&range);
            match &kind {
                Kind::Pooled(pool) => pool.freed(stream, size),
                Kind::Plain { device, .. } => device.give_bytes(size),
                Kind::Pinned | Kind::Registered => {}
            }
        };
        // Whoever used it has to be before this.
        let uses = [(range, 0, size, Access::Write)];
        on.device.queue_task(on.stream, &uses, Arc::new(task)).map_err(code::of)
    }
}
