//! A device, if there is one.

use graphics::Gpu;

/// The device; `None`, with a message, on a machine without a Vulkan driver. With `VULKAN_EXPECTED`
/// in the environment there has to be one.
pub(crate) fn gpu() -> Option<Gpu> {
    match Gpu::open() {
        Ok(gpu) => Some(gpu),
        Err(error) if std::env::var_os("VULKAN_EXPECTED").is_none() => {
            eprintln!("passed over: {error}");
            None
        }
        Err(error) => panic!("VULKAN_EXPECTED is set: {error}"),
    }
}

/// The bytes of a slice, once all that is submitted is done.
#[allow(dead_code, reason = "not every test reads back")]
pub(crate) fn read(gpu: &Gpu, slice: &graphics::Slice) -> Vec<u8> {
    let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: slice.size_bytes,
        usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
        mapped_at_creation: false,
    });
    let mut encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(&slice.buffer, slice.offset_bytes, &buffer, 0, slice.size_bytes);
    gpu.queue.submit([encoder.finish()]);
    graphics::read_back(gpu, &buffer).expect("a buffer of what was copied")
}
