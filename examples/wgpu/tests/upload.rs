//! Writes of the host reach their slices, and no memory is written that the queue still reads.

mod support;

use core::sync::atomic::{AtomicI64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use graphics::{Buffers, Done, Gpu, GpuError, Row, Staging, Upload, UploadError, Usage};
use pool_core::device::{Capabilities, Device, Failure, Severity};
use support::read;

/// A small one, so that writes go over its end.
const CHUNK_BYTES: u64 = 64 << 10;

fn bytes(seed: u64, count: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    (0..count).map(|_| rng.u8(..)).collect()
}

/// What a slice holds after writes, beside what it should.
#[test]
fn writes_of_all_sizes_arrive_in_order() {
    let Some(gpu) = support::gpu() else { return };
    let storage = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let staging = Staging::new(&gpu, CHUNK_BYTES);
    let mut upload = Upload::over(&gpu, staging, CHUNK_BYTES, None).expect("a pool");
    let sizes = [0, 1, 3, 4, 5, 255, 4096, 65_535, 65_536, 65_537, 200_001];
    let slices: Vec<_> =
        sizes.iter().map(|&size| storage.allocate(size.max(1) as u64).expect("memory")).collect();
    for round in 0..3 {
        for (slice, &size) in slices.iter().zip(&sizes) {
            // The first write is covered by the second.
            upload.write(slice, &vec![1; size]).expect("a write");
            upload.write(slice, &bytes(round, size)).expect("a write");
        }
        upload.submit([]).expect("a submission");
        for (slice, &size) in slices.iter().zip(&sizes) {
            let arrived = read(&gpu, slice);
            assert!(arrived[..size] == bytes(round, size), "{size} bytes");
        }
    }
    let figures = upload.figures();
    assert_eq!((figures.writes, figures.submissions), (3 * 2 * 11, 3));
    // One behind the other: nothing is lost but the end of the last buffer of each round.
    assert_eq!(figures.chunks, 3 * (figures.bytes / 3).div_ceil(CHUNK_BYTES));
}

#[test]
fn a_place_outside_the_slice_is_refused() {
    let Some(gpu) = support::gpu() else { return };
    let storage = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let mut upload = Upload::new(&gpu, None).expect("a pool");
    let slice = storage.allocate(256).expect("memory");
    for (at, size) in [(0, 257), (252, 5), (2, 4), (256, 1), (u64::MAX - 3, 4)] {
        let refused = upload.write_at(&slice, at, &vec![1; size]);
        assert!(matches!(refused, Err(UploadError::Place { .. })), "{size} at {at}");
    }
    upload.write_at(&slice, 252, &[1; 3]).expect("a write that ends with the slice");
    upload.submit([]).expect("a submission");
    assert_eq!(read(&gpu, &slice)[252..], [1, 1, 1, 0]);
}

/// One write after the other, each to the same slice and copied from there by commands of its own
/// submission: each copy has to find its own, though the memory written is the same again and again.
#[test]
fn memory_is_written_again_only_when_its_submission_is_done() {
    let Some(gpu) = support::gpu() else { return };
    let storage = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let limit = Some(2 << 20);
    let mut upload = Upload::new(&gpu, limit).expect("a pool");
    let slice = storage.allocate(1 << 20).expect("memory");
    // wgpu copies from one buffer to another, and not within one.
    let others = Buffers::new(&gpu, Usage::Vertex).expect("a pool");
    let copies: Vec<_> = (0..24).map(|_| others.allocate(1 << 20).expect("memory")).collect();
    for (copy, round) in copies.iter().zip(0..) {
        upload.write(&slice, &bytes(round, 1 << 20)).expect("a write");
        let mut encoder =
            gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let (from, to) = (slice.offset_bytes, copy.offset_bytes);
        encoder.copy_buffer_to_buffer(&slice.buffer, from, &copy.buffer, to, 1 << 20);
        upload.submit([encoder.finish()]).expect("a submission");
    }
    for (copy, round) in copies.iter().zip(0..) {
        assert!(read(&gpu, copy) == bytes(round, 1 << 20), "write {round}");
    }
    let (figures, stats) = (upload.figures(), upload.stats());
    assert_eq!(stats.peak_reserved_bytes, 2 << 20);
    assert_eq!(figures.chunks, 24 * 4);
    assert!(figures.reuses >= figures.chunks - 8);
    assert_eq!(stats.calls.records, figures.chunks, "one fence for each");
}

#[test]
fn a_write_larger_than_the_limit_is_refused_and_the_next_is_not() {
    let Some(gpu) = support::gpu() else { return };
    let storage = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let mut upload = Upload::new(&gpu, Some(2 << 20)).expect("a pool");
    let slice = storage.allocate(3 << 20).expect("memory");
    upload.write(&slice, &bytes(0, 3 << 20)).expect_err("more than there may be");
    // More than the limit before one submission: part of it is submitted earlier.
    for part in 0..3 {
        upload.write_at(&slice, part << 20, &bytes(part, 1 << 20)).expect("a write");
    }
    upload.submit([]).expect("a submission");
    let arrived = read(&gpu, &slice);
    for (part, piece) in arrived.chunks(1 << 20).enumerate() {
        assert!(piece == bytes(part as u64, 1 << 20), "part {part}");
    }
    assert!(upload.figures().submissions > 1);
}

#[test]
fn what_is_idle_goes_back() {
    let Some(gpu) = support::gpu() else { return };
    let storage = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let mut upload = Upload::new(&gpu, None).expect("a pool");
    let slice = storage.allocate(8 << 20).expect("memory");
    upload.write(&slice, &bytes(0, 8 << 20)).expect("a write");
    upload.submit([]).expect("a submission");
    assert_eq!(upload.stats().reserved_bytes, 8 << 20);
    gpu.device.poll(wgpu::PollType::wait_indefinitely()).expect("the end of the work");
    upload.trim(0).expect("memory that is idle");
    assert_eq!(upload.stats().reserved_bytes, 0);
    upload.write(&slice, &bytes(1, 8 << 20)).expect("a write");
    upload.submit([]).expect("a submission");
    assert!(read(&gpu, &slice) == bytes(1, 8 << 20));
}

/// Does what another does, but for a fault.
struct Faulty {
    staging: Staging,
    fault: Fault,
}

enum Fault {
    /// It says of each fence that it is done.
    Early,
    /// One call fails: the one of this number.
    Call(Arc<AtomicI64>),
}

impl Faulty {
    fn call(&self) -> Result<(), Failure<GpuError>> {
        match &self.fault {
            Fault::Call(left) if left.fetch_sub(1, Ordering::Relaxed) == 0 => {
                Err(GpuError::Invalid("a fault".to_owned()).into())
            }
            _ => Ok(()),
        }
    }
}

impl Device for Faulty {
    type Range = Row;
    type Stream = wgpu::Queue;
    type Fence = Done;
    type Pages = ();
    type Error = GpuError;

    fn allocate(&self, size_bytes: u64) -> Result<Row, Failure<GpuError>> {
        self.call()?;
        self.staging.allocate(size_bytes)
    }

    fn free(&self, row: &Row) -> Result<(), Failure<GpuError>> {
        self.call()?;
        self.staging.free(row)
    }

    fn capabilities(&self) -> Capabilities {
        self.staging.capabilities()
    }

    fn severity(&self, error: &GpuError) -> Severity {
        self.staging.severity(error)
    }

    fn record(&self, queue: &wgpu::Queue) -> Result<Done, Failure<GpuError>> {
        self.call()?;
        self.staging.record(queue)
    }

    fn is_done(&self, fence: &Done) -> Result<bool, Failure<GpuError>> {
        self.call()?;
        if matches!(self.fault, Fault::Early) { Ok(true) } else { self.staging.is_done(fence) }
    }

    fn wait_on_host(&self, fence: &Done) -> Result<(), Failure<GpuError>> {
        self.call()?;
        if matches!(self.fault, Fault::Early) { Ok(()) } else { self.staging.wait_on_host(fence) }
    }

    fn now(&self) -> Option<Duration> {
        self.staging.now()
    }
}

/// Writes as much as the limit, in submissions that nobody waits for: what is written next was
/// submitted just now.
fn press<D: Device<Range = Row, Stream = wgpu::Queue>>(
    gpu: &Gpu,
    device: D,
) -> Result<(), UploadError<D::Error>> {
    let storage = Buffers::new(gpu, Usage::Storage).expect("a pool");
    let slice = storage.allocate(2 << 20).expect("memory");
    let mut upload = Upload::over(gpu, device, CHUNK_BYTES, Some(2 << 20))?;
    for round in 0..4 {
        upload.write(&slice, &bytes(round, 2 << 20))?;
        upload.submit([])?;
    }
    Ok(())
}

/// The control: without the rest, the host would write what the queue still has. `wgpu` notices.
#[test]
fn with_fences_that_are_done_too_early_the_host_is_refused_what_the_queue_has() {
    let Some(gpu) = support::gpu() else { return };
    press(&gpu, Staging::new(&gpu, CHUNK_BYTES)).expect("a rest, and then the memory");
    let refused =
        press(&gpu, Faulty { staging: Staging::new(&gpu, CHUNK_BYTES), fault: Fault::Early });
    assert!(matches!(refused, Err(UploadError::NotMapped(_))), "{refused:?}");
}

/// Whichever call of the device fails, no write is half there, and the memory is the pool's again.
#[test]
fn after_a_call_that_failed_the_next_write_is_served_and_nothing_is_lost() {
    let Some(gpu) = support::gpu() else { return };
    let storage = Buffers::new(&gpu, Usage::Storage).expect("a pool");
    let slice = storage.allocate(1 << 20).expect("memory");
    for call in 0.. {
        let left = Arc::new(AtomicI64::new(call));
        let device =
            Faulty { staging: Staging::new(&gpu, CHUNK_BYTES), fault: Fault::Call(left.clone()) };
        let mut upload = Upload::over(&gpu, device, CHUNK_BYTES, Some(2 << 20)).expect("a pool");
        let mut last = None;
        for round in 1..=5 {
            if upload.write(&slice, &vec![round; 1 << 20]).is_ok() {
                last = Some(round);
            }
            let _ = upload.submit([]);
        }
        let last = last.expect("a write after the failure");
        assert!(read(&gpu, &slice) == vec![last; 1 << 20], "call {call}");
        let _ = upload.trim(0);
        upload.submit([]).expect("no second failure");
        assert_eq!(upload.stats().live_bytes, 0, "call {call}");
        gpu.device.poll(wgpu::PollType::wait_indefinitely()).expect("the end of the work");
        upload.trim(0).expect("no second failure");
        assert_eq!(upload.stats().reserved_bytes, 0, "call {call}");
        if left.load(Ordering::Relaxed) >= 0 {
            assert!(call > 50, "there are more calls than {call}");
            break;
        }
    }
}
