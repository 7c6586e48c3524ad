//! An adapter, opened, with errors that are seen.

use pool_core::device::Severity;
use thiserror::Error;

/// A device and its queue.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// What makes buffers, pipelines, pictures.
    pub device: wgpu::Device,
    /// The one queue, which runs in order.
    pub queue: wgpu::Queue,
    /// The adapter's name and the driver's, for people.
    pub name: String,
}

/// There is no device.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No driver, or none that serves.
    #[error("no Vulkan adapter: {0}")]
    NoAdapter(#[from] wgpu::RequestAdapterError),
    /// The adapter was found, and refused.
    #[error("the adapter gave no device: {0}")]
    NoDevice(#[from] wgpu::RequestDeviceError),
}

/// What `wgpu` refused.
#[derive(Debug, Error)]
pub enum GpuError {
    /// No memory for a buffer.
    #[error("no memory for a buffer of {size_bytes} bytes")]
    OutOfMemory {
        /// Its size.
        size_bytes: u64,
    },
    /// A buffer that is larger than the device allows.
    #[error("a buffer of {size_bytes} bytes, where {most_bytes} are allowed")]
    TooLarge {
        /// The size.
        size_bytes: u64,
        /// The limit.
        most_bytes: u64,
    },
    /// A call that is not valid, in `wgpu`'s words.
    #[error("{0}")]
    Invalid(String),
    /// A wait that failed.
    #[error(transparent)]
    Poll(#[from] wgpu::PollError),
    /// Work that is done, and that nobody is told of: the device was lost.
    #[error("the end of the work is not told")]
    Stuck,
}

impl GpuError {
    /// What it means for calls that follow.
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::OutOfMemory { .. } | Self::TooLarge { .. } => Severity::OutOfMemory,
            Self::Invalid(_) | Self::Poll(_) => Severity::Call,
            Self::Stuck => Severity::Fatal,
        }
    }
}

impl Gpu {
    /// Opens the first Vulkan adapter, with the limits that every one has. `wgpu` finds what is not
    /// valid by itself; where Vulkan's own layer for that is installed, it looks too.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if there is none.
    ///
    /// # Example
    ///
    /// ```
    /// match graphics::Gpu::open() {
    ///     Ok(gpu) => println!("{}", gpu.name),
    ///     Err(error) => println!("{error}"),
    /// }
    /// ```
    pub fn open() -> Result<Self, OpenError> {
        let mut options = wgpu::InstanceDescriptor::new_without_display_handle();
        options.backends = wgpu::Backends::VULKAN;
        options.flags = wgpu::InstanceFlags::VALIDATION;
        let instance = wgpu::Instance::new(options);
        let wish = wgpu::RequestAdapterOptions::default();
        let adapter = pollster::block_on(instance.request_adapter(&wish))?;
        let info = adapter.get_info();
        let wish = wgpu::DeviceDescriptor::default();
        let (device, queue) = pollster::block_on(adapter.request_device(&wish))?;
        let name = format!("{} ({} {})", info.name, info.driver, info.driver_info);
        Ok(Self { device, queue, name })
    }

    /// Does something, and says whether `wgpu` found it valid.
    ///
    /// # Errors
    ///
    /// [`GpuError::Invalid`] with the first thing that it found.
    ///
    /// # Example
    ///
    /// ```
    /// # let Ok(gpu) = graphics::Gpu::open() else { return };
    /// let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::VERTEX;
    /// let description =
    ///     wgpu::BufferDescriptor { label: None, size: 64, usage, mapped_at_creation: false };
    /// assert!(gpu.checked(|| gpu.device.create_buffer(&description)).is_err());
    /// ```
    pub fn checked<T>(&self, act: impl FnOnce() -> T) -> Result<T, GpuError> {
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let result = act();
        match pollster::block_on(scope.pop()) {
            Some(error) => Err(GpuError::Invalid(error.to_string())),
            None => Ok(result),
        }
    }
}

/// Makes a buffer, or says why not: `wgpu` itself hands out one that fails at its first use.
pub(crate) fn create_buffer(
    device: &wgpu::Device,
    label: &str,
    size_bytes: u64,
    usage: wgpu::BufferUsages,
    mapped_at_creation: bool,
) -> Result<wgpu::Buffer, GpuError> {
    let most_bytes = device.limits().max_buffer_size;
    if size_bytes > most_bytes {
        return Err(GpuError::TooLarge { size_bytes, most_bytes });
    }
    let invalid = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let buffer = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(label),
        size: size_bytes,
        usage,
        mapped_at_creation,
    });
    if pollster::block_on(memory.pop()).is_some() {
        return Err(GpuError::OutOfMemory { size_bytes });
    }
    match pollster::block_on(invalid.pop()) {
        Some(error) => Err(GpuError::Invalid(error.to_string())),
        None => Ok(buffer),
    }
}

/// Waits for all work that is submitted.
pub(crate) fn wait_for_all(device: &wgpu::Device) -> Result<(), GpuError> {
    device.poll(wgpu::PollType::Wait { submission_index: None, timeout: None })?;
    Ok(())
}
