//! Many threads on one pool.

use core::time::Duration;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use fastrand::Rng;
use pool_cuda::CudaPool;
use pool_cuda::pool_core::{PoolConfig, PoolStats};

use super::hits::log_uniform;
use crate::Result;
use crate::figures::{Figure, float};
use crate::options::Options;
use crate::rig::Rig;

/// Buffers that a thread holds.
const LIVE: usize = 16;

pub(super) fn figures(rig: &Rig, options: &Options) -> Result<Vec<Figure>> {
    // What the driver keeps for as many streams and events is not this pool's.
    round(rig, options, options.operations / 100)?;
    let free_bytes = rig.free_bytes()?;
    let Round { elapsed, bytes, stats } = round(rig, options, options.operations)?;
    // Others on the device may take and give back meanwhile.
    let missing_bytes = free_bytes.saturating_sub(rig.free_bytes()?);
    let allocations = u64::from(options.threads) * options.operations;
    let operations = 2 * allocations;
    let (threads, each) = (options.threads, options.operations);
    Ok(vec![
        Figure::one("time", elapsed.as_secs_f64(), "s")
            .remark(format!("{threads} threads, {each} allocations and as many frees each")),
        Figure::one("operations", float(operations) / elapsed.as_secs_f64() / 1e6, "million/s"),
        Figure::one("served", float(bytes) / float(1 << 30), "GiB"),
        Figure::one("live blocks at the end", float(stats.live_blocks), "blocks")
            .remark("nothing lost, and the pool verified"),
        Figure::one("reserved at most", float(stats.peak_reserved_bytes) / float(1 << 20), "MiB"),
        Figure::one("device calls", float(stats.calls.total()), "calls"),
        Figure::one("device memory that is missing after", float(missing_bytes), "bytes"),
    ])
}

/// What a pool served, and how it was at its end.
struct Round {
    elapsed: Duration,
    bytes: u64,
    stats: PoolStats,
}

/// Has all threads do so many operations on a new pool, which has to end with nothing lost.
fn round(rig: &Rig, options: &Options, operations: u64) -> Result<Round> {
    let pool = rig.pool(PoolConfig::new())?;
    let barrier = Barrier::new(options.threads as usize + 1);
    let (elapsed, bytes) = thread::scope(|scope| {
        let workers: Vec<_> = (0..options.threads)
            .map(|number| {
                let (pool, barrier) = (&pool, &barrier);
                let seed = options.seed.wrapping_mul(1000).wrapping_add(number.into());
                scope.spawn(move || worker(pool, barrier, operations, seed))
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let mut bytes = 0;
        for worker in workers {
            bytes += worker.join().map_err(|_| "a thread panicked")??;
        }
        Ok::<_, Box<dyn core::error::Error + Send + Sync>>((start.elapsed(), bytes))
    })?;
    let (stats, failure) = (pool.stats(), pool.take_failure());
    // SAFETY: no block or stream of the pool's is touched.
    unsafe { pool.core() }.verify()?;
    if stats.live_blocks != 0 || stats.live_bytes != 0 || failure.is_some() {
        return Err(format!("something was lost: {stats:?}, {failure:?}").into());
    }
    Ok(Round { elapsed, bytes, stats })
}

/// Allocates and drops on a stream of its own, and says how many bytes it was served.
fn worker(pool: &CudaPool, barrier: &Barrier, operations: u64, seed: u64) -> Result<u64> {
    let stream = pool.create_stream();
    barrier.wait();
    let stream = stream?;
    let mut rng = Rng::with_seed(seed);
    let mut held: [Option<_>; LIVE] = [const { None }; LIVE];
    let mut bytes = 0;
    for _ in 0..operations {
        // One in ten is large.
        let sizes = if rng.u8(..10) == 0 { (64 << 10, 4 << 20) } else { (64, 16 << 10) };
        let size = log_uniform(&mut rng, sizes);
        let buffer = pool.alloc::<u8>(usize::try_from(size)?, &stream)?;
        bytes += size;
        if let Some(slot) = held.get_mut(rng.usize(..LIVE)) {
            *slot = Some(buffer);
        }
    }
    Ok(bytes)
}
