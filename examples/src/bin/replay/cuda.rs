//! A CUDA device.

use core::marker::PhantomData;

use pool_cuda::{CudaDevice, CudaError};
use pool_mock::replay::Work;

use crate::machine::Machine;

/// Work on blocks of a CUDA device.
#[path = "filled.rs"]
pub(crate) mod filled;

/// A CUDA device and what is queued on it.
#[derive(Debug)]
pub(crate) struct Cuda<W> {
    device: CudaDevice,
    work: PhantomData<W>,
}

impl<W> Cuda<W> {
    /// A device of this machine by its number.
    pub(crate) fn open(ordinal: u32) -> Result<Self, CudaError> {
        Ok(Self { device: CudaDevice::open(ordinal)?, work: PhantomData })
    }
}

impl<W: Work<CudaDevice> + Send> Machine for Cuda<W> {
    type Device = CudaDevice;
    type Work = W;

    fn ways(&self) -> Vec<String> {
        vec![format!("cuda:{}", self.device.ordinal())]
    }

    fn working(&self, _: usize, _: u64) -> CudaDevice {
        self.device.clone()
    }

    fn silent(&self, _: u64) -> CudaDevice {
        self.device.clone()
    }

    /// Nine tenths of what nobody has.
    fn room_bytes(&self) -> u64 {
        self.device.memory().map_or(0, |memory| memory.free_bytes / 10 * 9)
    }

    /// The device tells of none.
    fn violations(&self, _: &CudaDevice) -> Vec<String> {
        Vec::new()
    }
}
