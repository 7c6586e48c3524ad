//! The driver's own calls beside the pool, in the same loop.

use core::hint::black_box;
use std::time::Instant;

use pool_cuda::pool_core::PoolConfig;

use super::{SIZES, hits};
use crate::Result;
use crate::figures::Figure;
use crate::rig::{Rig, size};
use crate::timing::{Effort, Samples};

pub(super) fn figures(rig: &Rig, effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    rig.calls.keep_in_default_pool()?;
    for bytes in rig.that_fit(&SIZES, 2)? {
        let name = size(bytes);
        let ours = hits::alone(rig, effort, bytes)?;
        let ordered = effort.batches(|| {
            let memory = rig.calls.allocate_async(black_box(bytes), &stream)?;
            rig.calls.free_async(black_box(memory), &stream)
        })?;
        stream.synchronize()?;
        rig.calls.empty_default_pool()?;
        let plain = effort.each(|| {
            let memory = rig.calls.allocate(black_box(bytes))?;
            rig.calls.free(black_box(memory))
        })?;
        // Each of the two by itself, as it is the free that waits.
        let mut frees = Vec::new();
        let allocated = effort.samples(1, || {
            let start = Instant::now();
            let memory = black_box(rig.calls.allocate(black_box(bytes))?);
            let elapsed = start.elapsed();
            let start = Instant::now();
            rig.calls.free(memory)?;
            frees.push(start.elapsed());
            Ok(elapsed)
        })?;
        let of_frees = Samples::new(&frees, 1);
        figures.extend([
            Figure::ns(format!("{name}, the pool"), &ours),
            Figure::ns(format!("{name}, cuMemAllocAsync and cuMemFreeAsync"), &ordered)
                .remark("release threshold at its maximum"),
            Figure::us(format!("{name}, cuMemAlloc and cuMemFree"), &plain),
            Figure::us(format!("{name}, cuMemAlloc"), &allocated),
            Figure::us(format!("{name}, cuMemFree"), &of_frees),
            Figure::ratio(format!("{name}, cuMemAllocAsync over the pool"), &ordered, &ours),
            Figure::ratio(format!("{name}, cuMemAlloc over the pool"), &plain, &ours),
        ]);
    }
    Ok(figures)
}
