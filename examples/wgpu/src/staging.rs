//! The device under memory that the host writes.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use pool_core::device::{Capabilities, Device, Failure, Severity};

use crate::gpu::{create_buffer, wait_for_all};
use crate::{Gpu, GpuError};

/// How long a callback may take to come that another thread was given.
const PATIENCE: Duration = Duration::from_secs(1);

/// Mappable buffers, all of one size, in rows.
///
/// `wgpu` maps a buffer whole: either the host has it or the queue. So the pool's granule is a
/// buffer, and a range is a row of them, mapped when they are made.
#[derive(Debug)]
pub struct Staging {
    gpu: Gpu,
    chunk_bytes: u64,
    start: Instant,
}

/// Buffers that are one range.
#[derive(Debug)]
pub struct Row(Box<[Chunk]>);

/// A buffer of a row.
#[derive(Debug)]
pub struct Chunk {
    /// It is mapped whenever its block is clean.
    pub(crate) buffer: wgpu::Buffer,
    /// How often it was given out.
    pub(crate) uses: AtomicU32,
}

impl Row {
    /// The buffer at an index.
    #[must_use]
    pub(crate) fn chunk(&self, index: u64) -> Option<&Chunk> {
        self.0.get(usize::try_from(index).ok()?)
    }
}

/// A point in the queue: whether what was submitted before it is done, as seen by the host.
#[derive(Clone, Debug)]
pub struct Done(Arc<AtomicBool>);

impl Done {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Staging {
    /// Of a device, in buffers of a size.
    #[must_use]
    pub fn new(gpu: &Gpu, chunk_bytes: u64) -> Self {
        Self { gpu: gpu.clone(), chunk_bytes, start: Instant::now() }
    }
}

impl Device for Staging {
    type Range = Row;
    type Stream = wgpu::Queue;
    type Fence = Done;
    type Pages = ();
    type Error = GpuError;

    fn allocate(&self, size_bytes: u64) -> Result<Row, Failure<GpuError>> {
        let flags = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
        let chunks = (0..size_bytes.div_ceil(self.chunk_bytes)).map(|_| {
            let buffer = create_buffer(&self.gpu.device, "upload", self.chunk_bytes, flags, true)?;
            Ok(Chunk { buffer, uses: AtomicU32::new(0) })
        });
        Ok(Row(chunks.collect::<Result<_, GpuError>>()?))
    }

    fn free(&self, row: &Row) -> Result<(), Failure<GpuError>> {
        row.0.iter().for_each(|chunk| chunk.buffer.destroy());
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FENCES | Capabilities::CLOCK
    }

    fn severity(&self, error: &GpuError) -> Severity {
        error.severity()
    }

    /// A callback of `wgpu`, which comes after those of all mappings that were asked for before.
    fn record(&self, queue: &wgpu::Queue) -> Result<Done, Failure<GpuError>> {
        let done = Done(Arc::new(AtomicBool::new(false)));
        let signal = done.clone();
        queue.on_submitted_work_done(move || signal.0.store(true, Ordering::Release));
        Ok(done)
    }

    fn streams(&self) -> Option<Vec<wgpu::Queue>> {
        Some(vec![self.gpu.queue.clone()])
    }

    fn is_done(&self, fence: &Done) -> Result<bool, Failure<GpuError>> {
        if !fence.is_set() {
            self.gpu.device.poll(wgpu::PollType::Poll).map_err(GpuError::from)?;
        }
        Ok(fence.is_set())
    }

    /// There is one queue, and it runs in order.
    fn wait(&self, _: &wgpu::Queue, _: &Done) -> Result<(), Failure<GpuError>> {
        Ok(())
    }

    fn wait_on_host(&self, fence: &Done) -> Result<(), Failure<GpuError>> {
        wait_for_all(&self.gpu.device)?;
        let end = Instant::now();
        while !fence.is_set() {
            // Another thread has the callback in its hands.
            if end.elapsed() > PATIENCE {
                return Err(GpuError::Stuck.into());
            }
            thread::yield_now();
        }
        Ok(())
    }

    fn synchronize(&self) -> Result<(), Failure<GpuError>> {
        Ok(wait_for_all(&self.gpu.device)?)
    }

    fn now(&self) -> Option<Duration> {
        Some(self.start.elapsed())
    }
}
