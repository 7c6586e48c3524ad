//! The pool of one usage.

use pool_core::device::Device;
use pool_core::policy::Growth;
use pool_core::{Handle, Pool, PoolConfig, PoolError, PoolStats, Request};

use crate::{Gpu, GpuError, Memory, Usage};

/// Most bytes that a pool can hold: the space of its offsets.
const SPACE_BYTES: u64 = 4 << 30;

/// A part of a buffer. It is no owner: whoever has it [frees](Buffers::free) it. `wgpu` copies from
/// one buffer to another, so not between two parts of one.
#[derive(Debug)]
pub struct Slice {
    /// The buffer.
    pub buffer: wgpu::Buffer,
    /// Where the part begins.
    pub offset_bytes: u64,
    /// How long it is: what was asked for, or a little more.
    pub size_bytes: u64,
    /// What it is for.
    pub usage: Usage,
    /// Which block of the pool it is; `None`: the buffer is its own.
    pub(crate) handle: Option<Handle>,
}

impl Slice {
    /// How many elements of a size lie before it in the buffer: the first vertex, index or instance
    /// of a draw that has the whole buffer bound.
    #[must_use]
    pub(crate) fn first(&self, element_bytes: u64) -> u32 {
        let first = self.offset_bytes / element_bytes;
        debug_assert!(self.offset_bytes.is_multiple_of(element_bytes));
        u32::try_from(first).unwrap_or(u32::MAX)
    }
}

/// Buffers of one usage, cut up.
///
/// # Example
///
/// ```
/// # let Ok(gpu) = graphics::Gpu::open() else { return Ok(()) };
/// use graphics::{Buffers, Usage};
///
/// let uniforms = Buffers::new(&gpu, Usage::Uniform)?;
/// let (one, other) = (uniforms.allocate(160)?, uniforms.allocate(160)?);
/// assert_eq!(one.buffer, other.buffer);
/// assert_eq!(other.offset_bytes % 256, 0);
/// uniforms.free(one)?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Buffers {
    pool: Pool<Memory>,
    usage: Usage,
}

impl Buffers {
    /// None yet: the first request makes the first.
    ///
    /// # Errors
    ///
    /// [`PoolError::Config`] on a device whose limits are no power of two.
    pub fn new(gpu: &Gpu, usage: Usage) -> Result<Self, PoolError<GpuError>> {
        let growth = Growth { floor_bytes: usage.arena_bytes(), ahead: None, ..Growth::default() };
        let memory = Memory::new(gpu, usage);
        let config = PoolConfig::new()
            // No more than it has to be: a pool's own is larger than a vertex.
            .granule_bytes(memory.granule_bytes())
            .address_bytes(SPACE_BYTES)
            .growth(growth);
        Ok(Self { pool: Pool::new(memory, config)?, usage })
    }

    /// A part of a buffer, aligned as the usage wants it, or as the request says.
    ///
    /// # Errors
    ///
    /// As [`Pool::allocate`].
    pub fn allocate(&self, request: impl Into<Request>) -> Result<Slice, PoolError<GpuError>> {
        let block = self.pool.allocate(request)?;
        let location = self.pool.location(block.handle())?;
        Ok(Slice {
            buffer: location.arena.range().clone(),
            offset_bytes: location.offset_bytes,
            size_bytes: block.size_bytes(),
            usage: self.usage,
            handle: Some(block.handle()),
        })
    }

    /// Takes a part back, all of whose uses are submitted: its bytes may be another's with the next
    /// submit. What commands use that are not submitted yet must not be freed.
    ///
    /// # Errors
    ///
    /// [`PoolError::Handle`] if it is none of this pool.
    #[expect(clippy::needless_pass_by_value, reason = "it is used up")]
    pub fn free(&self, slice: Slice) -> Result<(), PoolError<GpuError>> {
        if let Some(handle) = slice.handle {
            self.pool.free(handle)?;
        }
        Ok(())
    }

    /// The pool's books.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }
}
