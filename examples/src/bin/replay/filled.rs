//! Work that needs no kernel: small fills.

use pool_core::{Block, Device as _, Pool, device::Failure};
use pool_cuda::{CudaDevice, CudaError, CudaStream};
use pool_mock::{
    device::Access,
    replay::{Stopped, Work},
};

/// So many bytes of a block are filled at most.
const MOST_BYTES: u64 = 4096;

/// A block that is filled wherever the program uses it, so that streams have work, and fences are
/// not done at once.
#[derive(Debug)]
pub(crate) struct Filled {
    address: u64,
    bytes: usize,
}

impl Work<CudaDevice> for Filled {
    fn begin(pool: &Pool<CudaDevice>, block: &Block) -> Result<Self, Stopped<CudaError>> {
        let bytes = block.size_bytes().min(MOST_BYTES);
        // Blocks of a CUDA device have addresses.
        let address = pool.address(block);
        let bytes = address.and_then(|_| usize::try_from(bytes).ok()).unwrap_or(0);
        Ok(Self { address: address.unwrap_or(0), bytes })
    }

    fn queue(
        &self,
        device: &CudaDevice,
        stream: &CudaStream,
        access: Access,
    ) -> Result<(), Stopped<CudaError>> {
        let byte = if access == Access::Write { 0xff } else { 0 };
        // SAFETY: the stream is the pool's, and lives as long as that. The bytes are the block's,
        // which is live, and freed behind this in the stream's order.
        let filled = unsafe { device.fill(stream, self.address, byte, self.bytes) };
        Ok(filled.map_err(Failure::from)?)
    }

    fn order(
        device: &CudaDevice,
        before: &CudaStream,
        after: &CudaStream,
    ) -> Result<(), Stopped<CudaError>> {
        let fence = device.record(before)?;
        let waited = device.wait(after, &fence);
        device.discard(fence);
        Ok(waited?)
    }
}
