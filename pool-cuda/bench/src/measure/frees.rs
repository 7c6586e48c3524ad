//! Frees while the device works for somebody else.

use core::fmt::Write as _;
use core::time::Duration;
use std::time::Instant;

use pool_cuda::pool_core::PoolConfig;
use pool_cuda::pool_core::policy::Growth;
use pool_cuda::{ArenaSource, CudaPool, PoolStream};

use crate::Result;
use crate::figures::Figure;
use crate::rig::Rig;
use crate::timing::{Effort, Samples};

/// What is freed.
const BYTES: usize = 64 << 20;

/// How long the device works meanwhile.
const WORK: Duration = Duration::from_millis(100);

pub(super) fn figures(rig: &Rig) -> Result<Vec<Figure>> {
    let arenas = Growth { floor_bytes: BYTES as u64, ahead: None, ..Growth::new() };
    let config = || PoolConfig::new().growth(arenas);
    let pool = rig.pool(config())?;
    let plain = rig.device.with_source(ArenaSource::Plain)?;
    let plain = CudaPool::new(plain, config())?;
    let stream = pool.create_stream()?;
    // Nothing of the pools that are measured.
    let elsewhere = rig.pool(config())?.create_stream()?;
    let of_plain = plain.create_stream()?;
    let calls = &rig.calls;
    calls.keep_in_default_pool()?;
    let busy = Busy { rig, elsewhere: &elsewhere };

    let figures = vec![
        busy.figure(
            "a buffer dropped",
            || Ok(pool.alloc::<u8>(BYTES, &stream)?),
            |buffer| {
                drop(buffer);
                Ok(true)
            },
        )?,
        busy.figure(
            "an arena given back, from a pool of the driver's",
            || empty_arena(&pool, &stream),
            |()| give_back(&pool),
        )?,
        busy.figure(
            "an arena given back, from cuMemAlloc",
            || empty_arena(&plain, &of_plain),
            |()| give_back(&plain),
        )?,
        busy.figure(
            "cuMemFreeAsync",
            || calls.allocate_async(BYTES as u64, &stream),
            |memory| calls.free_async(memory, &stream).map(|()| true),
        )?,
        busy.figure(
            "cuMemFree",
            || calls.allocate(BYTES as u64),
            |memory| calls.free(memory).map(|()| true),
        )?,
    ];
    stream.synchronize()?;
    calls.empty_default_pool()?;
    Ok(figures)
}

/// Has a pool be one arena, of which nothing is in use.
fn empty_arena(pool: &CudaPool, stream: &PoolStream) -> Result<()> {
    drop(pool.alloc::<u8>(BYTES, stream)?);
    Ok(stream.synchronize()?)
}

/// Gives all of it back; false if something stayed.
fn give_back(pool: &CudaPool) -> Result<bool> {
    pool.trim(0)?;
    Ok(pool.stats().reserved_bytes == 0)
}

/// A device that works on a stream that has nothing to do with what is measured.
pub(super) struct Busy<'r> {
    pub(super) rig: &'r Rig,
    pub(super) elsewhere: &'r PoolStream,
}

impl Busy<'_> {
    /// How long the host takes for a free, and how often the work still ran when that was over.
    pub(super) fn figure<M>(
        &self,
        what: &str,
        mut allocate: impl FnMut() -> Result<M>,
        mut free: impl FnMut(M) -> Result<bool>,
    ) -> Result<Figure> {
        let done = self.rig.calls.create_event()?;
        let (mut runs, mut outlasted, mut stayed) = (0_u32, 0_u32, 0_u32);
        let samples: Samples = Effort::new(Duration::ZERO).samples(1, || {
            let memory = allocate()?;
            self.rig.kernels.spin(self.elsewhere, WORK)?;
            done.record(self.elsewhere)?;
            let start = Instant::now();
            let went = free(memory)?;
            let elapsed = start.elapsed();
            stayed += u32::from(!went);
            runs += 1;
            outlasted += u32::from(!done.is_done()?);
            done.wait()?;
            Ok(elapsed)
        })?;
        let mut remark = format!("the work still ran after {outlasted} of {runs}");
        if stayed > 0 {
            // A string takes whatever is written.
            let _ = write!(remark, ", and the memory stayed {stayed} times");
        }
        Ok(Figure::us(what, &samples).remark(remark))
    }
}
