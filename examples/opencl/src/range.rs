//! Ranges: buffers, and the parts of them that blocks are.

use core::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cl3::command_queue;
use cl3::memory::{self, CL_BUFFER_CREATE_TYPE_REGION, CL_MEM_ALLOC_HOST_PTR, CL_MEM_READ_WRITE};
use cl3::types::{CL_BLOCKING, cl_buffer_region, cl_context, cl_mem, cl_mem_flags};
use pool_core::device::Device;
use pool_core::threads::Threads;
use pool_core::{Block, Pool};

use crate::error::ClError;
use crate::handle::{Event, Memory, Owned};
use crate::queue::ClStream;

/// An arena's memory: a buffer, until it is given back.
#[derive(Debug)]
pub struct ClRange {
    buffer: Mutex<Option<Owned<Memory>>>,
    size_bytes: u64,
    granule_bytes: u64,
}

/// A part of a range: a sub-buffer, by which kernels and copies name a block's bytes.
///
/// Two commands that run at the same time must not use a buffer and a part of it, nor two parts that
/// overlap; parts that lie beside each other are all right. So no command names a whole range.
#[derive(Debug)]
pub struct ClPart {
    memory: Owned<Memory>,
    size_bytes: usize,
}

impl ClRange {
    /// A buffer, of which nothing says that its memory is there.
    fn create(
        context: cl_context,
        flags: cl_mem_flags,
        bytes: usize,
    ) -> Result<Owned<Memory>, ClError> {
        // SAFETY: the context lives, and no memory of the host is named.
        let buffer = unsafe { memory::create_buffer(context, flags, bytes, core::ptr::null_mut()) }
            .map_err(ClError::of("clCreateBuffer"))?;
        // SAFETY: the reference was made just now.
        Ok(unsafe { Owned::new(buffer) })
    }

    /// A buffer, whose memory is there: OpenCL may leave that until the first command that uses it,
    /// so there is one, in a stream of the caller's. Where the device's memory is the host's, the
    /// runtime is asked to take it at once: PoCL 3.1 refuses then, and aborts in the command.
    ///
    /// A system that promises more than it has still gives pages when they are first written.
    pub(crate) fn allocate(
        context: cl_context,
        stream: &ClStream,
        size_bytes: u64,
        granule_bytes: u64,
        is_hosts: bool,
    ) -> Result<Self, ClError> {
        let too_large = |_| ClError::Call {
            call: "clCreateBuffer",
            code: cl3::error_codes::CL_INVALID_BUFFER_SIZE,
        };
        let bytes = usize::try_from(size_bytes).map_err(too_large)?;
        let place = if is_hosts { CL_MEM_ALLOC_HOST_PTR } else { 0 };
        let buffer = Self::create(context, CL_MEM_READ_WRITE | place, bytes)?;
        let pattern = 0_u8;
        // SAFETY: the pattern is one byte, which the call copies, and the buffer has one at least.
        let touched = unsafe {
            let pattern = (&raw const pattern).cast::<c_void>();
            let (queue, buffer) = (stream.queue(), buffer.raw());
            command_queue::enqueue_fill_buffer(
                queue,
                buffer,
                pattern,
                1,
                0,
                1,
                0,
                core::ptr::null(),
            )
        }
        .map_err(ClError::of("clEnqueueFillBuffer"))?;
        // SAFETY: the reference was made just now.
        drop(unsafe { Owned::<Event>::new(touched) });
        stream.finish()?;
        Ok(Self { buffer: Mutex::new(Some(buffer)), size_bytes, granule_bytes })
    }

    fn buffer(&self) -> MutexGuard<'_, Option<Owned<Memory>>> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it back. The runtime keeps the memory until commands that are queued have used it, and
    /// as long as there are parts.
    pub(crate) fn free(&self) -> Result<(), ClError> {
        let mut buffer = self.buffer();
        let owned = buffer.take().ok_or(ClError::Freed)?;
        // SAFETY: the reference is released here, or stays as it was.
        match unsafe { memory::release_mem_object(owned.raw()) } {
            Ok(()) => core::mem::forget(owned),
            Err(code) => {
                *buffer = Some(owned);
                return Err(ClError::Call { call: "clReleaseMemObject", code });
            }
        }
        Ok(())
    }

    /// What parts begin at.
    pub(crate) fn granule_bytes(&self) -> u64 {
        self.granule_bytes
    }

    /// A part of it.
    ///
    /// # Errors
    ///
    /// [`ClError::NoPart`], [`ClError::Freed`], [`ClError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::device::Device;
    ///
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return Ok(()) };
    /// let range = device.allocate(1 << 20)?;
    /// let granule_bytes = device.granule_bytes();
    /// assert_eq!(range.part(granule_bytes, 100)?.size_bytes(), 100);
    /// assert!(range.part(granule_bytes - 1, 100).is_err());
    /// assert!(range.part(0, (1 << 20) + 1).is_err());
    /// # device.free(&range)?;
    /// # Ok::<(), pool_core::device::Failure<pool_opencl::ClError>>(())
    /// ```
    pub fn part(&self, offset_bytes: u64, size_bytes: u64) -> Result<ClPart, ClError> {
        let Self { size_bytes: range_bytes, granule_bytes, .. } = *self;
        let none = ClError::NoPart { offset_bytes, size_bytes, range_bytes, granule_bytes };
        let end_bytes = offset_bytes.checked_add(size_bytes).filter(|&end| end <= range_bytes);
        let is_aligned = offset_bytes.is_multiple_of(granule_bytes);
        let (Some(_), true, true) = (end_bytes, is_aligned, size_bytes > 0) else {
            return Err(none);
        };
        let (Ok(origin), Ok(size)) = (usize::try_from(offset_bytes), usize::try_from(size_bytes))
        else {
            return Err(none);
        };
        let region = cl_buffer_region { origin, size };
        let buffer = self.buffer();
        let whole = buffer.as_ref().ok_or(ClError::Freed)?;
        // SAFETY: the region is what this kind of part takes, and lies in the buffer, which is none
        // itself.
        let part = unsafe {
            let region = (&raw const region).cast::<c_void>();
            let kind = CL_BUFFER_CREATE_TYPE_REGION;
            memory::create_sub_buffer(whole.raw(), CL_MEM_READ_WRITE, kind, region)
        }
        .map_err(ClError::of("clCreateSubBuffer"))?;
        // SAFETY: the reference was made just now.
        Ok(ClPart { memory: unsafe { Owned::new(part) }, size_bytes: size })
    }
}

impl ClPart {
    /// A few bytes of no range, which work of this crate's writes to and nobody reads.
    pub(crate) fn apart(context: cl_context, size_bytes: usize) -> Result<Self, ClError> {
        Ok(Self { memory: ClRange::create(context, CL_MEM_READ_WRITE, size_bytes)?, size_bytes })
    }

    /// The part that a block is. It is only to be used as long as the block is live, and in its stream's
    /// order; dropped before, its memory stays the block's.
    ///
    /// # Errors
    ///
    /// [`ClError::Handle`] if the block is not live, and those of [`ClRange::part`].
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Pool, PoolConfig};
    /// use pool_opencl::{ClDevice, ClPart};
    ///
    /// # let Ok(device) = ClDevice::open(0) else { return Ok(()) };
    /// let pool = Pool::new(device, PoolConfig::new())?;
    /// let block = pool.allocate(1000)?;
    /// let part = ClPart::of(&pool, &block)?;
    /// assert_eq!(part.size_bytes() as u64, block.size_bytes());
    /// assert!(!part.memory().is_null());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of<D: Device<Range = ClRange>, T: Threads>(
        pool: &Pool<D, T>,
        block: &Block,
    ) -> Result<Self, ClError> {
        let location = pool.location(block.handle())?;
        location.arena.range().part(location.offset_bytes, block.size_bytes())
    }

    /// How many bytes it has.
    ///
    /// # Example
    ///
    /// See [`of`](Self::of).
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The sub-buffer, as an argument of kernels: a `cl_mem`.
    ///
    /// # Example
    ///
    /// See [`of`](Self::of).
    #[must_use]
    pub fn memory(&self) -> cl_mem {
        self.memory.raw()
    }

    /// Reads it whole, once all that is before in the stream is done.
    ///
    /// # Errors
    ///
    /// [`ClError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::device::Device;
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return Ok(()) };
    /// let range = device.allocate(4096)?;
    /// let stream = device.create_stream()?;
    /// assert_eq!(range.part(0, 100)?.read(&stream)?.len(), 100);
    /// # Ok::<(), pool_core::device::Failure<pool_opencl::ClError>>(())
    /// ```
    pub fn read(&self, stream: &ClStream) -> Result<Vec<u8>, ClError> {
        let mut bytes = vec![0; self.size_bytes];
        // SAFETY: `bytes` is as long as the part, and the call returns when it is filled.
        let read = unsafe {
            let (queue, memory) = (stream.queue(), self.memory.raw());
            let to = bytes.as_mut_ptr().cast::<c_void>();
            let (size, none) = (bytes.len(), core::ptr::null());
            command_queue::enqueue_read_buffer(queue, memory, CL_BLOCKING, 0, size, to, 0, none)
        }
        .map_err(ClError::of("clEnqueueReadBuffer"))?;
        // SAFETY: the reference was made just now.
        drop(unsafe { Owned::<Event>::new(read) });
        Ok(bytes)
    }

    /// Copies it to another, in a stream. They are as long as each other, or the shorter one decides.
    pub(crate) fn copy_to(&self, to: &Self, stream: &ClStream) -> Result<(), ClError> {
        let bytes = self.size_bytes.min(to.size_bytes);
        // SAFETY: queue and parts live, and both have so many bytes. The runtime keeps the parts
        // until it is done with them.
        let copied = unsafe {
            let (queue, from, to) = (stream.queue(), self.memory.raw(), to.memory.raw());
            command_queue::enqueue_copy_buffer(queue, from, to, 0, 0, bytes, 0, core::ptr::null())
        }
        .map_err(ClError::of("clEnqueueCopyBuffer"))?;
        // SAFETY: the reference was made just now.
        drop(unsafe { Owned::<Event>::new(copied) });
        Ok(())
    }
}
