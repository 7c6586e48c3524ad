//! The device under memory that only the queue writes.

use pool_core::device::{Device, Failure, Severity};

use crate::gpu::create_buffer;
use crate::{Gpu, GpuError, Usage};

/// Buffers of one usage. It has no fences: all work on them is in the one queue, in order.
#[derive(Debug)]
pub struct Memory {
    device: wgpu::Device,
    usage: Usage,
}

impl Memory {
    /// Of a device, for a usage.
    #[must_use]
    pub(crate) fn new(gpu: &Gpu, usage: Usage) -> Self {
        Self { device: gpu.device.clone(), usage }
    }
}

impl Device for Memory {
    type Range = wgpu::Buffer;
    type Stream = ();
    type Fence = ();
    type Pages = ();
    type Error = GpuError;

    fn allocate(&self, size_bytes: u64) -> Result<wgpu::Buffer, Failure<GpuError>> {
        let (name, flags) = (self.usage.name(), self.usage.flags());
        Ok(create_buffer(&self.device, name, size_bytes, flags, false)?)
    }

    /// `wgpu` keeps the memory until submitted work is done with it.
    fn free(&self, buffer: &wgpu::Buffer) -> Result<(), Failure<GpuError>> {
        buffer.destroy();
        Ok(())
    }

    fn granule_bytes(&self) -> u64 {
        self.usage.granule_bytes(&self.device.limits())
    }

    fn most_range_bytes(&self) -> u64 {
        self.device.limits().max_buffer_size
    }

    fn severity(&self, error: &GpuError) -> Severity {
        error.severity()
    }
}
