//! Writes of the host, on their way to buffers.

use core::mem;
use core::sync::atomic::Ordering;

use pool_core::device::Device;
use pool_core::policy::Growth;
use pool_core::{Handle, Pool, PoolConfig, PoolError, PoolStats};
use thiserror::Error;

use crate::{Chunk, Gpu, GpuError, Row, Slice, Staging};

/// The size of a buffer that the host writes, by default.
const CHUNK_BYTES: u64 = 256 << 10;

/// Bytes of the host, to be copied into buffers before the commands of the next submission.
///
/// It stands where `wgpu::util::StagingBelt` does, with these differences:
///
/// - There are two calls, [`write`](Self::write) and [`submit`](Self::submit), as with
///   [`wgpu::Queue::write_buffer`]: what has to be unmapped before a submission and mapped again
///   behind it cannot be forgotten.
/// - Writes lie one behind the other. One that does not fit into what is left of a buffer goes on in
///   the next, so no end is wasted and no write is too large.
/// - Memory has a limit, if it is to have one: a write then waits until submitted work is done,
///   instead of making more, and more can be written in a frame than the limit. And what is idle
///   [can go back](Self::trim).
///
/// # How it works
///
/// The host writes into a mapped buffer *now*, whatever the queue is about to read. `wgpu` forbids
/// that: what is mapped cannot be submitted, and what was submitted is mapped again only when its
/// work is done. So a block of the pool is a whole buffer:
///
/// 1. It is allocated without a stream: such a block is *clean*, never used or seen done by the host.
/// 2. It is written, unmapped, submitted.
/// 3. Behind the submission it is asked to be mapped again, and freed on the queue: the pool records
///    a fence, and the block rests until the host has seen it done. `wgpu` calls back for mappings
///    first and then for the work done. So what is clean is mapped, and nobody has to note it.
///
/// # Example
///
/// ```
/// # let Ok(gpu) = graphics::Gpu::open() else { return Ok(()) };
/// use graphics::{Buffers, Upload, Usage};
///
/// let vertices = Buffers::new(&gpu, Usage::Vertex)?;
/// let mut upload = Upload::new(&gpu, None)?;
/// let slice = vertices.allocate(4096)?;
/// upload.write(&slice, &[7; 4096])?;
/// // Commands that draw from the slice would be submitted with it.
/// upload.submit([])?;
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Upload<D: Device<Range = Row, Stream = wgpu::Queue> = Staging> {
    pool: Pool<D>,
    device: wgpu::Device,
    queue: wgpu::Queue,
    chunk_bytes: u64,
    copies: wgpu::CommandEncoder,
    /// Those that are written since the last submission, the last of them with room.
    open: Vec<Open>,
    /// Those that are submitted, or of no use, and not freed yet: a free may fail.
    leaving: Vec<Handle>,
    figures: Uploads,
}

/// A buffer that is being written.
#[derive(Debug)]
struct Open {
    handle: Handle,
    buffer: wgpu::Buffer,
    view: wgpu::BufferViewMut,
    used_bytes: u64,
}

/// What was uploaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uploads {
    /// Writes.
    pub writes: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Submissions.
    pub submissions: u64,
    /// Buffers that were written for them.
    pub chunks: u64,
    /// Of these, those that the queue had read before, and whose work the host had to see done.
    pub reuses: u64,
}

/// What stood in the way of an upload.
#[derive(Debug, Error)]
pub enum UploadError<E> {
    /// No memory to write into.
    #[error(transparent)]
    Pool(#[from] PoolError<E>),
    /// The place is not in the slice, or no multiple of 4.
    #[error("{size_bytes} bytes at {at_bytes} of a slice of {slice_bytes}")]
    Place {
        /// Where in the slice.
        at_bytes: u64,
        /// How many.
        size_bytes: u64,
        /// The slice's size.
        slice_bytes: u64,
    },
    /// A buffer that the host may not write: the queue has it.
    #[error("a buffer that was to be written is not mapped: {0}")]
    NotMapped(#[from] wgpu::MapRangeError),
    /// The device gave fewer buffers than it was asked for.
    #[error("a row of buffers that is too short")]
    ShortRow,
}

impl Upload {
    /// Nothing to upload. `limit_bytes` is the most that is held for it, 2 MiB at least; `None`: as
    /// much as it takes to wait for nothing.
    ///
    /// # Errors
    ///
    /// None that is known: as [`Pool::new`].
    pub fn new(gpu: &Gpu, limit_bytes: Option<u64>) -> Result<Self, PoolError<GpuError>> {
        Self::over(gpu, Staging::new(gpu, CHUNK_BYTES), CHUNK_BYTES, limit_bytes)
    }
}

impl<D: Device<Range = Row, Stream = wgpu::Queue>> Upload<D> {
    /// The same over another device, whose ranges are rows of buffers of `chunk_bytes`: a power of
    /// two, 2 MiB at most.
    ///
    /// # Errors
    ///
    /// [`PoolError::Config`] if it is none.
    pub fn over(
        gpu: &Gpu,
        device: D,
        chunk_bytes: u64,
        limit_bytes: Option<u64>,
    ) -> Result<Self, PoolError<D::Error>> {
        let growth = Growth { floor_bytes: 0, ahead: None, ..Growth::default() };
        let mut config = PoolConfig::new()
            .granule_bytes(chunk_bytes)
            .address_bytes(1 << 30)
            .cache_bytes(0)
            .growth(growth);
        if let Some(bytes) = limit_bytes {
            config = config.limit_bytes(bytes);
        }
        Ok(Self {
            pool: Pool::new(device, config)?,
            device: gpu.device.clone(),
            queue: gpu.queue.clone(),
            chunk_bytes,
            copies: encoder(&gpu.device),
            open: Vec::new(),
            leaving: Vec::new(),
            figures: Uploads::default(),
        })
    }

    /// Has bytes written to the beginning of a slice, before all commands of the next submission.
    /// Writes to one place come in their order. The last bytes are filled up to a multiple of 4.
    ///
    /// # Errors
    ///
    /// As [`write_at`](Self::write_at).
    pub fn write(&mut self, slice: &Slice, bytes: &[u8]) -> Result<(), UploadError<D::Error>> {
        self.write_at(slice, 0, bytes)
    }

    /// The same at an offset in the slice, a multiple of 4.
    ///
    /// # Errors
    ///
    /// [`UploadError::Place`], or [`UploadError::Pool`] if there is no memory to write into, as when a
    /// single write is larger than the limit; then nothing is written.
    pub fn write_at(
        &mut self,
        slice: &Slice,
        at_bytes: u64,
        bytes: &[u8],
    ) -> Result<(), UploadError<D::Error>> {
        let size_bytes = bytes.len() as u64;
        let end = size_bytes
            .checked_next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT)
            .and_then(|padded| padded.checked_add(at_bytes));
        if !at_bytes.is_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT)
            || end.is_none_or(|end| end > slice.size_bytes)
        {
            let slice_bytes = slice.size_bytes;
            return Err(UploadError::Place { at_bytes, size_bytes, slice_bytes });
        }
        // All memory first: what is recorded cannot be taken back.
        let mut index = self.make_room(size_bytes)?;
        let (mut rest, mut to_bytes) = (bytes, slice.offset_bytes + at_bytes);
        while !rest.is_empty() {
            let Some(open) = self.open.get_mut(index) else { break };
            index += 1;
            let room_bytes = self.chunk_bytes - open.used_bytes;
            let count = rest.len().min(usize::try_from(room_bytes).unwrap_or(usize::MAX));
            if count == 0 {
                continue;
            }
            let (piece, behind) = rest.split_at(count);
            let copied_bytes = open.put(piece);
            let from_bytes = open.used_bytes - copied_bytes;
            let to = &slice.buffer;
            self.copies.copy_buffer_to_buffer(&open.buffer, from_bytes, to, to_bytes, copied_bytes);
            to_bytes += copied_bytes;
            rest = behind;
        }
        self.figures.writes += 1;
        self.figures.bytes += size_bytes;
        Ok(())
    }

    /// Submits what was written, and commands behind it.
    ///
    /// # Errors
    ///
    /// As [`Pool::free_on`]; the submission is made, and the next one frees what this one could not.
    pub fn submit(
        &mut self,
        commands: impl IntoIterator<Item = wgpu::CommandBuffer>,
    ) -> Result<wgpu::SubmissionIndex, PoolError<D::Error>> {
        let copies = mem::replace(&mut self.copies, encoder(&self.device)).finish();
        let written: Vec<(Handle, wgpu::Buffer)> = self.open.drain(..).map(Open::close).collect();
        let index = self.queue.submit([copies].into_iter().chain(commands));
        self.figures.submissions += 1;
        // All mappings before the first fence: see above.
        for (_, buffer) in &written {
            buffer.map_async(wgpu::MapMode::Write, .., |_| ());
        }
        self.leaving.extend(written.into_iter().map(|(handle, _)| handle));
        self.free_leaving()?;
        Ok(index)
    }

    /// Frees behind what is submitted now.
    fn free_leaving(&mut self) -> Result<(), PoolError<D::Error>> {
        while let Some(&handle) = self.leaving.last() {
            self.pool.free_on(&self.queue, handle)?;
            self.leaving.pop();
        }
        Ok(())
    }

    /// What was uploaded so far.
    #[must_use]
    pub fn figures(&self) -> Uploads {
        self.figures
    }

    /// The pool's books.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.pool.stats()
    }

    /// Gives memory back that nothing is written into, until at most so many bytes are left.
    ///
    /// # Errors
    ///
    /// As [`Pool::trim`].
    pub fn trim(&self, keep_bytes: u64) -> Result<(), PoolError<D::Error>> {
        self.pool.trim(keep_bytes).map(|_| ())
    }

    /// Sees to room for so many bytes, in buffers from the returned index on. If there is no memory,
    /// what was written so far is submitted by itself: in the queue's order that is the same, and the
    /// pool can wait for it.
    fn make_room(&mut self, size_bytes: u64) -> Result<usize, UploadError<D::Error>> {
        let first = self.open.len().saturating_sub(1);
        match self.open_for(size_bytes) {
            Err(UploadError::Pool(PoolError::OutOfMemory { .. })) if !self.open.is_empty() => {
                self.submit([])?;
                self.open_for(size_bytes).map(|()| 0)
            }
            opened => opened.map(|()| first),
        }
    }

    /// Opens buffers until there is room for so many bytes; none if not for all.
    fn open_for(&mut self, size_bytes: u64) -> Result<(), UploadError<D::Error>> {
        let room_bytes = self.open.last().map_or(0, |open| self.chunk_bytes - open.used_bytes);
        let count = size_bytes.saturating_sub(room_bytes).div_ceil(self.chunk_bytes);
        let before = self.open.len();
        for _ in 0..count {
            match self.open_chunk() {
                Ok(open) => self.open.push(open),
                Err(error) => {
                    // Still mapped, and nothing of them is used. What cannot be freed is freed later.
                    self.leaving.extend(self.open.drain(before..).map(|open| open.handle));
                    let _ = self.free_leaving();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn open_chunk(&mut self) -> Result<Open, UploadError<D::Error>> {
        let handle = self.pool.allocate(self.chunk_bytes)?.handle();
        let location = self.pool.location(handle).map_err(PoolError::from)?;
        let chunk = location.arena.range().chunk(location.offset_bytes / self.chunk_bytes);
        let opened = chunk.ok_or(UploadError::ShortRow).and_then(Chunk::open);
        let (buffer, view, reused) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.leaving.push(handle);
                return Err(error);
            }
        };
        self.figures.chunks += 1;
        self.figures.reuses += u64::from(reused);
        Ok(Open { handle, buffer, view, used_bytes: 0 })
    }
}

impl Chunk {
    /// Its mapped memory, and whether the queue had it before.
    fn open<E>(&self) -> Result<(wgpu::Buffer, wgpu::BufferViewMut, bool), UploadError<E>> {
        let view = self.buffer.get_mapped_range_mut(..)?;
        let reused = self.uses.fetch_add(1, Ordering::Relaxed) > 0;
        Ok((self.buffer.clone(), view, reused))
    }
}

impl Open {
    /// Writes bytes behind what is there, for which there is room. How many are to be copied.
    fn put(&mut self, bytes: &[u8]) -> u64 {
        const ALIGNMENT: usize = 4;
        const { assert!(ALIGNMENT as u64 == wgpu::COPY_BUFFER_ALIGNMENT) };
        let start = usize::try_from(self.used_bytes).unwrap_or(usize::MAX);
        let end = start + bytes.len();
        let padded = end.next_multiple_of(ALIGNMENT);
        self.view.slice(start..end).copy_from_slice(bytes);
        self.view.slice(end..padded).copy_from_slice(&[0; ALIGNMENT][..padded - end]);
        self.used_bytes = padded as u64;
        (padded - start) as u64
    }

    /// Ends the host's access, so that the buffer can be submitted.
    fn close(self) -> (Handle, wgpu::Buffer) {
        drop(self.view);
        self.buffer.unmap();
        (self.handle, self.buffer)
    }
}

fn encoder(device: &wgpu::Device) -> wgpu::CommandEncoder {
    device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("uploads") })
}
