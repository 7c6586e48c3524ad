//! Buffers that free memory serves.

use core::hint::black_box;

use fastrand::Rng;
use pool_cuda::pool_core::PoolConfig;
use pool_cuda::{CudaPool, PoolBuffer, PoolStream};

use super::SIZES;
use crate::Result;
use crate::figures::Figure;
use crate::rig::{Rig, size};
use crate::timing::{Effort, Samples};

/// Blocks that live beside the measured one.
const LIVE: usize = 64;

/// One thing after another, in an order that was drawn before the clock ran.
const DRAWN: usize = 1 << 14;

pub(super) fn figures(rig: &Rig, effort: Effort, seed: u64) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for bytes in rig.that_fit(&SIZES, 1)? {
        let samples = alone(rig, effort, bytes)?;
        figures.push(Figure::ns(format!("{}, again and again", size(bytes)), &samples));
    }
    let mut rng = Rng::with_seed(seed);
    for bytes in rig.that_fit(&SIZES, 1)? {
        let samples = among_others(rig, effort, bytes, &mut rng)?;
        let what = format!("{}, again and again, while {LIVE} others live", size(bytes));
        figures.push(Figure::ns(what, &samples));
    }
    let sizes = rig.that_fit(&SIZES, LIVE as u64 / 4)?;
    for &bytes in &sizes {
        let samples = one_size_of_many(rig, effort, &sizes, bytes, &mut rng)?;
        let what = format!("{}, one of {LIVE} of all sizes replaced by its like", size(bytes));
        figures.push(Figure::ns(what, &samples));
    }
    for (least, most) in [(64, 4 << 10), (64, 16 << 10), (64 << 10, 1 << 20), (64, 64 << 20)] {
        let samples = random(rig, effort, (least, most), &mut rng)?;
        let (least, most) = (size(least), size(most));
        let what = format!("{least} to {most}, one of {LIVE} replaced by any other size");
        figures.push(Figure::ns(what, &samples));
    }
    Ok(figures)
}

/// A buffer of so many bytes.
fn allocate(pool: &CudaPool, stream: &PoolStream, bytes: u64) -> Result<PoolBuffer<u8>> {
    Ok(pool.alloc(usize::try_from(bytes)?, stream)?)
}

/// Allocates and drops a buffer of one size.
pub(super) fn pairs(
    effort: Effort,
    pool: &CudaPool,
    stream: &PoolStream,
    bytes: u64,
) -> Result<Samples> {
    let bytes = usize::try_from(bytes)?;
    effort.batches(|| {
        // Looked at where it is, as a program's is: to move it would take as long as some of it.
        let buffer = pool.alloc::<u8>(black_box(bytes), stream)?;
        black_box(&buffer);
        Ok(())
    })
}

/// Nothing else lives.
pub(super) fn alone(rig: &Rig, effort: Effort, bytes: u64) -> Result<Samples> {
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    pairs(effort, &pool, &stream, bytes)
}

/// Others of mixed sizes live, and stay.
fn among_others(rig: &Rig, effort: Effort, bytes: u64, rng: &mut Rng) -> Result<Samples> {
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    let mut others = Vec::new();
    for _ in 0..LIVE {
        others.push(allocate(&pool, &stream, log_uniform(rng, (64, 16 << 20)))?);
    }
    let samples = pairs(effort, &pool, &stream, bytes)?;
    drop(others);
    Ok(samples)
}

/// Buffers of all sizes live, and one of a size after another is dropped and allocated again.
fn one_size_of_many(
    rig: &Rig,
    effort: Effort,
    sizes: &[u64],
    bytes: u64,
    rng: &mut Rng,
) -> Result<Samples> {
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    let mut buffers = Vec::new();
    let mut of_the_size = Vec::new();
    for (index, &each) in sizes.iter().cycle().take(LIVE).enumerate() {
        buffers.push(Some(allocate(&pool, &stream, each)?));
        if each == bytes {
            of_the_size.push(index);
        }
    }
    let picks: Vec<usize> =
        (0..DRAWN).filter_map(|_| rng.choice(of_the_size.iter().copied())).collect();
    let mut picks = picks.iter().cycle();
    effort.batches(|| {
        let Some(slot) = picks.next().and_then(|&pick| buffers.get_mut(pick)) else {
            return Err("no buffer has the size".into());
        };
        *slot = None;
        *slot = Some(black_box(allocate(&pool, &stream, bytes)?));
        Ok(())
    })
}

/// Buffers of sizes between two live, and one after another is replaced by one of another size.
fn random(rig: &Rig, effort: Effort, sizes: (u64, u64), rng: &mut Rng) -> Result<Samples> {
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    let mut buffers = Vec::new();
    for _ in 0..LIVE {
        buffers.push(Some(allocate(&pool, &stream, log_uniform(rng, sizes))?));
    }
    let picks: Vec<(usize, u64)> =
        (0..DRAWN).map(|_| (rng.usize(..LIVE), log_uniform(rng, sizes))).collect();
    let mut picks = picks.iter().cycle();
    effort.batches(|| {
        let Some(&(pick, bytes)) = picks.next() else { return Err("nothing was drawn".into()) };
        let Some(slot) = buffers.get_mut(pick) else { return Err("no such buffer".into()) };
        *slot = None;
        *slot = Some(black_box(allocate(&pool, &stream, bytes)?));
        Ok(())
    })
}

/// A size between two, each power of two as likely as any other.
pub(super) fn log_uniform(rng: &mut Rng, (least, most): (u64, u64)) -> u64 {
    let octave = rng.u32(least.ilog2()..=most.ilog2());
    rng.u64(1 << octave..2 << octave).clamp(least, most)
}
