//! Where arenas come from.

use core::ffi::c_void;

use super::CudaDevice;
use super::context::Context;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::sys::{
    ATTRIBUTE_MEMORY_POOLS, AccessDescription, HOST_PORTABLE, PoolProperties, RawAddress,
    RawDevice, RawPool, RawStream, STREAM_NON_BLOCKING,
};

/// Where a device's arenas come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArenaSource {
    /// Pages where the device has them (`cuMemCreate`, `cuMemMap`): memory goes where blocks are,
    /// and moves without being copied. Else, and for what is to be one piece,
    /// [`DriverPool`](Self::DriverPool).
    #[default]
    Automatic,
    /// A pool of the driver's (`cuMemAllocFromPoolAsync`) where the device has them, so that
    /// giving back waits for no work; else [`Plain`](Self::Plain).
    DriverPool,
    /// `cuMemAlloc` and `cuMemFree`, which waits for all work of the device.
    Plain,
    /// Memory of the host, pinned, which the device reads and writes at the same address
    /// (`cuMemHostAlloc`). To give it back waits for all work of the device. No block of it is moved:
    /// the host would wait for the copy.
    PinnedHost,
}

/// A device's memory, or the host's, as arenas are taken of it.
#[derive(Debug)]
pub(super) enum Memory {
    DriverPool(DriverPool),
    Plain,
    /// Host memory that the device can read and write, at the same address.
    Host,
}

/// Host memory at an address that the driver gave.
#[expect(clippy::cast_possible_truncation, reason = "there is no CUDA with smaller pointers")]
pub(crate) fn host_pointer(address: RawAddress) -> *mut c_void {
    core::ptr::with_exposed_provenance_mut(address as usize)
}

/// An arena's memory, or addresses for it.
#[derive(Debug)]
pub struct CudaRange {
    pub(super) address: RawAddress,
    /// How many addresses it is, if they were reserved without memory; else 0.
    pub(super) reserved_bytes: u64,
}

impl CudaRange {
    /// Where it begins.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Memory {
    pub(super) fn of(
        source: ArenaSource,
        driver: &Driver,
        context: &Context,
        device: RawDevice,
    ) -> Result<Self, CudaError> {
        match source {
            ArenaSource::Plain => Ok(Self::Plain),
            ArenaSource::PinnedHost => Ok(Self::Host),
            ArenaSource::Automatic | ArenaSource::DriverPool => {
                if !driver.has(ATTRIBUTE_MEMORY_POOLS, device)? {
                    return Ok(Self::Plain);
                }
                context.within(|| DriverPool::new(driver, device)).map(Self::DriverPool)
            }
        }
    }

    /// Whether to free waits for all work of the device.
    pub(super) fn free_waits(&self) -> bool {
        !matches!(self, Self::DriverPool(_))
    }

    pub(super) fn allocate(
        &self,
        driver: &Driver,
        context: &Context,
        bytes: usize,
    ) -> Result<CudaRange, CudaError> {
        let mut address = 0;
        match self {
            Self::DriverPool(pool) => {
                address = context.within(|| pool.allocate(driver, bytes))?;
            }
            Self::Plain => context.within(|| {
                // SAFETY: the pointer is to a local.
                unsafe { driver.functions.allocate(&raw mut address, bytes) }
            })?,
            Self::Host => context.within(|| {
                let mut start = core::ptr::null_mut();
                // SAFETY: the pointer is to a local.
                unsafe { driver.functions.allocate_host(&raw mut start, bytes, HOST_PORTABLE) }?;
                address = start.expose_provenance() as u64;
                Ok(())
            })?,
        }
        Ok(CudaRange { address, reserved_bytes: 0 })
    }

    pub(super) fn free(
        &self,
        driver: &Driver,
        context: &Context,
        range: &CudaRange,
    ) -> Result<(), CudaError> {
        match self {
            Self::DriverPool(pool) => context.within(|| pool.free(driver, range.address)),
            // SAFETY: it was allocated so, and a pool frees it once.
            Self::Plain => context.within(|| unsafe { driver.functions.free(range.address) }),
            Self::Host => context.within(|| {
                let start = host_pointer(range.address);
                // SAFETY: as above.
                unsafe { driver.functions.free_host(start) }
            }),
        }
    }
}

/// A pool of the driver's, with a stream of its own in which nothing else is queued: what is
/// allocated in it is there once that stream is empty, and what is freed in it goes back then,
/// whatever runs elsewhere.
#[derive(Debug)]
pub(super) struct DriverPool {
    raw: RawPool,
    stream: RawStream,
}

impl DriverPool {
    /// A pool that keeps nothing. Its context is current.
    pub(super) fn new(driver: &Driver, device: RawDevice) -> Result<Self, CudaError> {
        let mut stream = RawStream::NULL;
        // SAFETY: the pointer is to a local.
        unsafe { driver.functions.create_stream(&raw mut stream, STREAM_NON_BLOCKING) }?;
        let mut raw = RawPool::NULL;
        let properties = PoolProperties::on(device);
        // SAFETY: both pointers are to locals, and the properties have the driver's layout.
        let made = unsafe { driver.functions.create_pool(&raw mut raw, &raw const properties) };
        if let Err(error) = made {
            // SAFETY: it was made just now.
            let _ = unsafe { driver.functions.destroy_stream(stream) };
            return Err(error);
        }
        Ok(Self { raw, stream })
    }

    fn allocate(&self, driver: &Driver, bytes: usize) -> Result<RawAddress, CudaError> {
        let mut address = 0;
        // SAFETY: the pointer is to a local; pool and stream live as long as `self`.
        unsafe {
            driver.functions.allocate_from_pool(&raw mut address, bytes, self.raw, self.stream)
        }?;
        // Other streams may use it only behind the allocation.
        // SAFETY: the stream lives as long as `self`.
        let there = unsafe { driver.functions.synchronize_stream(self.stream) };
        if let Err(error) = there {
            let _ = self.free(driver, address);
            return Err(error);
        }
        Ok(address)
    }

    fn free(&self, driver: &Driver, address: RawAddress) -> Result<(), CudaError> {
        // SAFETY: it was allocated from this pool, and is freed once.
        unsafe { driver.functions.free_in_stream(address, self.stream) }?;
        // Only now the memory leaves the pool. It is freed whatever this says; a driver that is
        // lost says so at the next call, too.
        // SAFETY: the stream lives as long as `self`.
        let _ = unsafe { driver.functions.synchronize_stream(self.stream) };
        Ok(())
    }

    /// Lets kernels of another device use all that is allocated from it.
    pub(super) fn open_to(&self, driver: &Driver, peer: &CudaDevice) -> Result<(), CudaError> {
        let access = AccessDescription::for_device(peer.raw_device());
        // SAFETY: the pointer is to a local of the driver's layout, and the pool lives.
        unsafe { driver.functions.set_pool_access(self.raw, &raw const access, 1) }
    }

    /// Ends it, when nothing is allocated from it any more.
    pub(super) fn end(&self, driver: &Driver) {
        // SAFETY: both are the pool's own, and this is their last use.
        // Nobody is left to tell of a failure.
        unsafe {
            let _ = driver.functions.destroy_pool(self.raw);
            let _ = driver.functions.destroy_stream(self.stream);
        }
    }
}
