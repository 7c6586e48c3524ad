//! Allocations that no free block of their size and stream serves.

use core::hint::black_box;
use core::time::Duration;
use std::time::Instant;

use pool_cuda::CudaPool;
use pool_cuda::pool_core::PoolConfig;
use pool_cuda::pool_core::policy::Growth;
use pool_cuda::pool_core::pool::DeviceCalls;

use crate::Result;
use crate::figures::{Figure, float};
use crate::rig::{Rig, size};
use crate::timing::Effort;

/// Requests of a round.
const ROUND: u32 = 50;

pub(super) fn figures(rig: &Rig, effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (first, step) in [(256, 256), (64 << 10, 4 << 10), (1 << 20, 64 << 10)] {
        figures.push(split(rig, effort, first, step)?);
    }
    for pending in [false, true] {
        figures.push(from_another_stream(rig, effort, pending)?);
    }
    for bytes in rig.that_fit(&[2 << 20, 64 << 20, 1 << 30], 8)? {
        figures.push(growth(rig, effort, bytes)?);
    }
    Ok(figures)
}

/// Grows only when a request needs it, so that nothing grows in between.
fn grows_when_asked() -> PoolConfig {
    PoolConfig::new().growth(Growth { ahead: None, ..Growth::new() })
}

/// Each request has a size that is nowhere free, so that a larger block is cut for it.
fn split(rig: &Rig, effort: Effort, first: usize, step: usize) -> Result<Figure> {
    let pool = rig.pool(grows_when_asked().initial_bytes(256 << 20))?;
    let stream = pool.create_stream()?;
    let mut buffers = Vec::new();
    let samples = effort.samples(ROUND, || {
        // Together again, as one free block.
        buffers.clear();
        // SAFETY: no block or stream of the pool's is touched.
        unsafe { pool.core() }.flush();
        let start = Instant::now();
        for turn in 0..ROUND as usize {
            buffers.push(black_box(pool.alloc::<u8>(first + turn * step, &stream)?));
        }
        Ok(start.elapsed())
    })?;
    let (least, most) = (first, first + (ROUND as usize - 1) * step);
    let what = format!("{} to {}, cut from a larger block", size(least as u64), size(most as u64));
    Ok(Figure::ns(what, &samples).remark("the allocation alone"))
}

/// What another stream has just freed, with no other memory to be had.
fn from_another_stream(rig: &Rig, effort: Effort, pending: bool) -> Result<Figure> {
    const BYTES: usize = 48 << 20;
    let pool = rig.pool(grows_when_asked().initial_bytes(64 << 20).limit_bytes(64 << 20))?;
    let mut streams = (pool.create_stream()?, pool.create_stream()?);
    let before = pool.stats().calls;
    let mut allocations = 0;
    let samples = effort.samples(1, || {
        let (from, to) = &streams;
        let mut buffer = pool.alloc::<u8>(BYTES, from)?;
        if pending {
            let work = buffer.on_mut(from)?;
            let cycles = rig.kernels.cycles(Duration::from_micros(50));
            // SAFETY: the bytes are the guard's, on its stream.
            unsafe { rig.kernels.mark(from, work.address(), 4096, cycles) }?;
        }
        drop(buffer);
        let start = Instant::now();
        let buffer = black_box(pool.alloc::<u8>(BYTES, to)?);
        let elapsed = start.elapsed();
        drop(buffer);
        from.synchronize()?;
        to.synchronize()?;
        allocations += 1;
        // Who has it now is asked next.
        core::mem::swap(&mut streams.0, &mut streams.1);
        Ok(elapsed)
    })?;
    let what = if pending { "behind 50 µs of its work" } else { "idle" };
    let calls = calls_each(before, pool.stats().calls, allocations);
    Ok(Figure::ns(format!("48 MiB that another stream freed, {what}"), &samples).remark(calls))
}

/// Memory of the driver's, since nothing is free.
fn growth(rig: &Rig, effort: Effort, bytes: u64) -> Result<Figure> {
    let floor_bytes = bytes;
    let growth = Growth { floor_bytes, ahead: None, ..Growth::new() };
    let pool: CudaPool = rig.pool(PoolConfig::new().growth(growth))?;
    let stream = pool.create_stream()?;
    let len = usize::try_from(bytes)?;
    let most = rig.free_bytes()? / 4 / bytes;
    let mut buffers = Vec::new();
    let samples = effort.samples(1, || {
        if buffers.len() as u64 >= most {
            buffers.clear();
            pool.trim(0)?;
        }
        let start = Instant::now();
        buffers.push(black_box(pool.alloc::<u8>(len, &stream)?));
        Ok(start.elapsed())
    })?;
    let what = format!("{}, for which the pool grows by an arena", size(bytes));
    Ok(Figure::us(what, &samples))
}

/// Calls of the device for each allocation.
fn calls_each(before: DeviceCalls, after: DeviceCalls, allocations: u64) -> String {
    let each = |before: u64, after: u64| float(after - before) / float(allocations.max(1));
    format!(
        "records {:.1}, queries {:.1}, waits {:.1} of streams and {:.1} of the host, each",
        each(before.records, after.records),
        each(before.queries, after.queries),
        each(before.device_waits, after.device_waits),
        each(before.host_waits, after.host_waits),
    )
}
