//! What a scene needs of buffers; pooled, or one buffer each.

use core::mem;
use pool_core::{PoolError, PoolStats};
use thiserror::Error;

use crate::gpu::create_buffer;
use crate::{Buffers, Gpu, GpuError, Slice, Upload, UploadError, Uploads, Usage};

/// What a store refused.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Its pools did.
    #[error(transparent)]
    Pool(#[from] PoolError<GpuError>),
    /// Its uploads did.
    #[error(transparent)]
    Upload(#[from] UploadError<GpuError>),
    /// `wgpu` did.
    #[error(transparent)]
    Gpu(#[from] GpuError),
}

/// Memory for a scene, which draws the same from each.
///
/// # Example
///
/// ```
/// # let Ok(gpu) = graphics::Gpu::open() else { return Ok(()) };
/// use graphics::{Plain, Pooled, Store, StoreError, Usage};
///
/// fn upload(store: &mut impl Store) -> Result<(), StoreError> {
///     let slice = store.allocate(Usage::Vertex, 320)?;
///     store.write(&slice, &[0; 320])?;
///     store.free(slice)?;
///     store.submit(None)
/// }
/// upload(&mut Pooled::new(&gpu, None)?)?;
/// upload(&mut Plain::new(&gpu))?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait Store {
    /// Memory for a usage.
    ///
    /// # Errors
    ///
    /// There is none.
    fn allocate(&mut self, usage: Usage, size_bytes: u64) -> Result<Slice, StoreError>;

    /// Has bytes written before the commands of the next submission run.
    ///
    /// # Errors
    ///
    /// Nothing is written.
    fn write(&mut self, slice: &Slice, bytes: &[u8]) -> Result<(), StoreError>;

    /// Takes memory back that no command uses which is recorded from now on. Those that are recorded
    /// already may, whether submitted or not.
    ///
    /// # Errors
    ///
    /// It is none of this store.
    fn free(&mut self, slice: Slice) -> Result<(), StoreError>;

    /// Submits what was written, and commands behind it.
    ///
    /// # Errors
    ///
    /// Memory that could not be taken back; the submission is made.
    fn submit(&mut self, commands: Option<wgpu::CommandBuffer>) -> Result<(), StoreError>;
}

/// A pool for each usage, and one for uploads.
#[derive(Debug)]
pub struct Pooled {
    pools: [Buffers; Usage::ALL.len()],
    upload: Upload,
    /// What was let go of since the last submission. Commands that use it may be recorded and not
    /// submitted, and what is uploaded next runs before those: so it is not free yet.
    leaving: Vec<Slice>,
    /// Blocks given out so far, and their bytes as they were asked for.
    asked: (u64, u64),
}

impl Pooled {
    /// No buffers yet. `upload_limit_bytes` is for [`Upload::new`].
    ///
    /// # Errors
    ///
    /// As [`Buffers::new`].
    pub fn new(gpu: &Gpu, upload_limit_bytes: Option<u64>) -> Result<Self, PoolError<GpuError>> {
        let [vertex, index, uniform, storage] = Usage::ALL.map(|usage| Buffers::new(gpu, usage));
        let pools = [vertex?, index?, uniform?, storage?];
        let upload = Upload::new(gpu, upload_limit_bytes)?;
        Ok(Self { pools, upload, leaving: Vec::new(), asked: (0, 0) })
    }

    /// The pool of a usage.
    #[must_use]
    pub fn pool(&self, usage: Usage) -> &Buffers {
        &self.pools[usage as usize]
    }

    /// What was uploaded, and the books of the pool for that.
    #[must_use]
    pub fn uploads(&self) -> (Uploads, PoolStats) {
        (self.upload.figures(), self.upload.stats())
    }

    /// Slices given out so far, and the bytes that were asked for.
    #[must_use]
    pub fn asked(&self) -> (u64, u64) {
        self.asked
    }
}

impl Store for Pooled {
    fn allocate(&mut self, usage: Usage, size_bytes: u64) -> Result<Slice, StoreError> {
        let slice = self.pool(usage).allocate(size_bytes)?;
        self.asked = (self.asked.0 + 1, self.asked.1 + size_bytes);
        Ok(slice)
    }

    fn write(&mut self, slice: &Slice, bytes: &[u8]) -> Result<(), StoreError> {
        Ok(self.upload.write(slice, bytes)?)
    }

    fn free(&mut self, slice: Slice) -> Result<(), StoreError> {
        self.leaving.push(slice);
        Ok(())
    }

    fn submit(&mut self, commands: Option<wgpu::CommandBuffer>) -> Result<(), StoreError> {
        self.upload.submit(commands)?;
        for slice in mem::take(&mut self.leaving) {
            self.pool(slice.usage).free(slice)?;
        }
        Ok(())
    }
}

/// A buffer each, and the queue's own writes: as a program does that has no pool.
#[derive(Debug)]
pub struct Plain {
    gpu: Gpu,
}

impl Plain {
    /// Of a device.
    #[must_use]
    pub fn new(gpu: &Gpu) -> Self {
        Self { gpu: gpu.clone() }
    }
}

impl Store for Plain {
    fn allocate(&mut self, usage: Usage, size_bytes: u64) -> Result<Slice, StoreError> {
        let size_bytes = size_bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT);
        let buffer =
            create_buffer(&self.gpu.device, usage.name(), size_bytes, usage.flags(), false)?;
        Ok(Slice { buffer, offset_bytes: 0, size_bytes, usage, handle: None })
    }

    fn write(&mut self, slice: &Slice, bytes: &[u8]) -> Result<(), StoreError> {
        let mut padded = bytes.to_vec();
        padded.resize(bytes.len().next_multiple_of(4), 0);
        Ok(self.gpu.checked(|| self.gpu.queue.write_buffer(&slice.buffer, 0, &padded))?)
    }

    /// `wgpu` keeps a buffer that commands use.
    fn free(&mut self, slice: Slice) -> Result<(), StoreError> {
        drop(slice);
        Ok(())
    }

    fn submit(&mut self, commands: Option<wgpu::CommandBuffer>) -> Result<(), StoreError> {
        self.gpu.queue.submit(commands);
        Ok(())
    }
}
