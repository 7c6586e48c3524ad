//! What every measurement is made with.

use core::fmt::Write as _;

use pool_cuda::pool_core::PoolConfig;
use pool_cuda::{CudaDevice, CudaPool};

use crate::Result;
use crate::calls::Calls;
use crate::kernels::Kernels;

/// A device, the driver's calls, and kernels.
pub(crate) struct Rig {
    pub(crate) device: CudaDevice,
    pub(crate) calls: Calls,
    pub(crate) kernels: Kernels,
}

impl Rig {
    /// Loads what is needed on a device whose context is current.
    pub(crate) fn new(device: CudaDevice) -> Result<Self> {
        let calls = Calls::load()?;
        let pool = CudaPool::new(device.clone(), PoolConfig::new())?;
        let kernels = Kernels::load(&calls, &pool.create_stream()?)?;
        Ok(Self { device, calls, kernels })
    }

    /// A new pool with settings of its own.
    pub(crate) fn pool(&self, config: PoolConfig) -> Result<CudaPool> {
        Ok(CudaPool::new(self.device.clone(), config)?)
    }

    /// Bytes of the device that nobody has.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        Ok(self.device.memory()?.free_bytes)
    }

    /// Those of some sizes of which the device has room for so many each.
    pub(crate) fn that_fit(&self, sizes: &[u64], count: u64) -> Result<Vec<u64>> {
        let most_bytes = self.free_bytes()? / 2 / count.max(1);
        Ok(sizes.iter().copied().filter(|&bytes| bytes <= most_bytes).collect())
    }
}

/// A size as people write it.
pub(crate) fn size(bytes: u64) -> String {
    let mut text = String::new();
    let (count, unit) = match bytes.trailing_zeros() {
        30.. => (bytes >> 30, "GiB"),
        20.. => (bytes >> 20, "MiB"),
        10.. => (bytes >> 10, "KiB"),
        _ => (bytes, "B"),
    };
    // A string takes whatever is written.
    let _ = write!(text, "{count} {unit}");
    text
}
