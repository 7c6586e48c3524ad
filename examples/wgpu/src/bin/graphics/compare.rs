//! What buffers and uploads cost, beside what a program without pools does.

use core::error::Error;
use core::hint::black_box;
use core::mem;
use core::num::NonZeroU64;
use core::time::Duration;
use std::time::Instant;

use ash::vk;
use bytesize::ByteSize;
use fastrand::Rng;
use gpu_allocator::vulkan as peer;
use graphics::{Buffers, Gpu, Slice, Upload, Usage};
use wgpu::util::StagingBelt;

use crate::figures::new_table;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Blocks that live at a time.
const LIVE: usize = 2_000;

/// How many are replaced in a run.
const REPLACED: usize = 10_000;

/// Runs of each subject, of which the fastest counts: others' work on the machine only slows.
const RUNS: usize = 5;

/// How often a program polls, in replaced blocks: wgpu drops what is done then.
const POLL_EVERY: usize = 250;

/// A place that blocks come from.
trait Source {
    type Block;
    fn make(&mut self, size_bytes: u64) -> Outcome<Self::Block>;
    fn drop(&mut self, block: Self::Block) -> Outcome<()>;
    /// What it has of the device now.
    fn reserved_bytes(&self) -> u64;
}

/// Sizes of 256 bytes to 64 KiB, as many small ones as large ones.
fn size_bytes(rng: &mut Rng) -> u64 {
    let magnitude = rng.u32(8..16);
    rng.u64(1 << magnitude..2 << magnitude)
}

/// Replaces blocks at random: how long one takes, and what is reserved over what is live.
fn churn<S: Source>(gpu: &Gpu, mut source: S) -> Outcome<(Duration, f64)> {
    let mut rng = Rng::with_seed(1);
    let mut sizes: Vec<u64> = (0..LIVE).map(|_| size_bytes(&mut rng)).collect();
    let mut blocks = sizes.iter().map(|&bytes| source.make(bytes)).collect::<Outcome<Vec<_>>>()?;
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        for turn in 0..REPLACED {
            let place = rng.usize(..LIVE);
            sizes[place] = size_bytes(&mut rng);
            let new = source.make(sizes[place])?;
            source.drop(mem::replace(&mut blocks[place], black_box(new)))?;
            if turn % POLL_EVERY == 0 {
                gpu.device.poll(wgpu::PollType::Poll)?;
            }
        }
        best = best.min(start.elapsed());
    }
    let waste = float(source.reserved_bytes()) / float(sizes.iter().sum());
    blocks.into_iter().try_for_each(|block| source.drop(block))?;
    Ok((best / u32::try_from(REPLACED)?, waste))
}

struct Pooled(Buffers);

impl Source for Pooled {
    type Block = Slice;

    fn make(&mut self, size_bytes: u64) -> Outcome<Slice> {
        Ok(self.0.allocate(size_bytes)?)
    }

    fn drop(&mut self, slice: Slice) -> Outcome<()> {
        Ok(self.0.free(slice)?)
    }

    fn reserved_bytes(&self) -> u64 {
        self.0.stats().reserved_bytes
    }
}

/// A buffer each, of a device that has nothing else.
struct Single(Gpu);

impl Source for Single {
    type Block = wgpu::Buffer;

    fn make(&mut self, size_bytes: u64) -> Outcome<wgpu::Buffer> {
        Ok(self.0.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: size_bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT),
            usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        }))
    }

    fn drop(&mut self, buffer: wgpu::Buffer) -> Outcome<()> {
        buffer.destroy();
        Ok(())
    }

    fn reserved_bytes(&self) -> u64 {
        let report = self.0.device.generate_allocator_report();
        report.map_or(0, |report| report.total_reserved_bytes)
    }
}

/// The allocator that is under wgpu's buffers, on the same device, without buffers.
struct Peer {
    allocator: peer::Allocator,
}

impl Peer {
    fn new(gpu: &Gpu) -> Outcome<Self> {
        // SAFETY: nothing of the device is destroyed through it, and the allocator goes before it.
        let device = unsafe { gpu.device.as_hal::<wgpu::hal::api::Vulkan>() };
        let device = device.ok_or("the device is not Vulkan's")?;
        let allocator = peer::Allocator::new(&peer::AllocatorCreateDesc {
            instance: device.shared_instance().raw_instance().clone(),
            device: device.raw_device().clone(),
            physical_device: device.raw_physical_device(),
            debug_settings: gpu_allocator::AllocatorDebugSettings::default(),
            buffer_device_address: false,
            allocation_sizes: gpu_allocator::AllocationSizes::default(),
        })?;
        Ok(Self { allocator })
    }
}

impl Source for Peer {
    type Block = peer::Allocation;

    fn make(&mut self, size_bytes: u64) -> Outcome<peer::Allocation> {
        Ok(self.allocator.allocate(&peer::AllocationCreateDesc {
            name: "",
            requirements: vk::MemoryRequirements {
                size: size_bytes,
                alignment: 256,
                memory_type_bits: u32::MAX,
            },
            location: gpu_allocator::MemoryLocation::GpuOnly,
            linear: true,
            allocation_scheme: peer::AllocationScheme::GpuAllocatorManaged,
        })?)
    }

    fn drop(&mut self, block: peer::Allocation) -> Outcome<()> {
        Ok(self.allocator.free(block)?)
    }

    fn reserved_bytes(&self) -> u64 {
        self.allocator.generate_report().total_capacity_bytes
    }
}

/// Blocks of mixed sizes that come and go.
pub(crate) fn buffers(gpu: &Gpu) -> Outcome<String> {
    let pooled = churn(gpu, Pooled(Buffers::new(gpu, Usage::Storage)?))?;
    let peer = churn(gpu, Peer::new(gpu)?)?;
    let fresh = Gpu::open()?;
    let single = churn(&fresh, Single(fresh.clone()))?;
    let mut table = new_table(&[
        "a block replaced by another",
        "time",
        "over the pool's",
        "reserved over live",
    ]);
    for (name, (time, waste)) in [
        ("slice of a pool", pooled),
        ("gpu-allocator, memory without a buffer", peer),
        ("wgpu::Buffer", single),
    ] {
        table.add_row([
            name.to_owned(),
            format!("{:.2} µs", time.as_secs_f64() * 1e6),
            format!("{:.1}", ratio(time, pooled.0)),
            format!("{waste:.2}"),
        ]);
    }
    Ok(table.to_string())
}

/// Frames that are uploaded in a run.
const FRAMES: usize = 40;

/// Writes in a frame: of uniforms, and of meshes.
const WRITES: [(usize, usize); 2] = [(1_000, 176), (16, 20_000)];

/// Has frames written by a function, which submits each. How long one takes.
fn frames(gpu: &Gpu, mut frame: impl FnMut(&[u8]) -> Outcome<()>) -> Outcome<Duration> {
    let bytes = vec![7; 20_000];
    let mut best = Duration::MAX;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..FRAMES {
            frame(&bytes)?;
            gpu.device.poll(wgpu::PollType::Poll)?;
        }
        gpu.device.poll(wgpu::PollType::wait_indefinitely())?;
        best = best.min(start.elapsed());
    }
    Ok(best / u32::try_from(FRAMES)?)
}

/// Writes of the host to buffers.
pub(crate) fn uploads(gpu: &Gpu) -> Outcome<String> {
    let buffers = Buffers::new(gpu, Usage::Storage)?;
    let mut slices = Vec::new();
    for (count, bytes) in WRITES {
        for _ in 0..count {
            slices.push((buffers.allocate(bytes as u64)?, bytes));
        }
    }
    let mut upload = Upload::new(gpu, None)?;
    let ours = frames(gpu, |bytes| {
        slices.iter().try_for_each(|(slice, size)| upload.write(slice, &bytes[..*size]))?;
        upload.submit([])?;
        Ok(())
    })?;
    let held = ByteSize(upload.stats().reserved_bytes);
    let mut belt = StagingBelt::new(gpu.device.clone(), 256 << 10);
    let belts = frames(gpu, |bytes| {
        let mut encoder =
            gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        for (slice, size) in &slices {
            let length = NonZeroU64::new(*size as u64).ok_or("an empty write")?;
            let mut view =
                belt.write_buffer(&mut encoder, &slice.buffer, slice.offset_bytes, length);
            view.copy_from_slice(&bytes[..*size]);
        }
        belt.finish();
        gpu.queue.submit([encoder.finish()]);
        belt.recall();
        Ok(())
    })?;
    let queues = frames(gpu, |bytes| {
        for (slice, size) in &slices {
            gpu.queue.write_buffer(&slice.buffer, slice.offset_bytes, &bytes[..*size]);
        }
        gpu.queue.submit([]);
        Ok(())
    })?;
    let mut table = new_table(&["a frame's uploads, 1,016 writes", "time", "over the pool's"]);
    for (name, time) in [
        (format!("Upload, {held} held"), ours),
        ("wgpu::util::StagingBelt".to_owned(), belts),
        ("wgpu::Queue::write_buffer".to_owned(), queues),
    ] {
        table.add_row([
            name,
            format!("{:.2} ms", time.as_secs_f64() * 1e3),
            format!("{:.1}", ratio(time, ours)),
        ]);
    }
    Ok(table.to_string())
}

fn ratio(time: Duration, other: Duration) -> f64 {
    time.as_secs_f64() / other.as_secs_f64().max(f64::MIN_POSITIVE)
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn float(count: u64) -> f64 {
    count as f64
}
