//! Steps with the lifetimes that a training has: activations live until their backward kernel,
//! workspaces for one kernel, gradients for the next.

use core::time::Duration;

use fastrand::Rng;
use pool_cuda::pool_core::PoolConfig;
use pool_cuda::{CudaPool, PoolBuffer, PoolStream};

use super::hits::log_uniform;
use crate::Result;
use crate::calls::{Calls, Ordered, Plain};
use crate::figures::Figure;
use crate::rig::Rig;
use crate::timing::{Effort, Samples};

/// Layers: each has a forward and a backward kernel, and three allocations.
const LAYERS: usize = 100;

/// Bytes of a block that a kernel writes.
const WRITTEN: u64 = 4096;

pub(super) fn figures(rig: &Rig, effort: Effort, seed: u64) -> Result<Vec<Figure>> {
    let step = step(&mut Rng::with_seed(seed));
    let pool = rig.pool(PoolConfig::new())?;
    let stream = pool.create_stream()?;
    rig.calls.keep_in_default_pool()?;
    let mut figures = Vec::new();
    for micros in [2, 20] {
        let time = Duration::from_micros(micros);
        let loops = Loop { rig, effort, step: &step, stream: &stream, time };
        let once = loops.run(&mut Once::new(&rig.calls, &step)?)?;
        for (name, samples) in [
            ("the pool", loops.run(&mut Pooled { pool: &pool, stream: &stream })?),
            (
                "cuMemAllocAsync",
                loops.run(&mut DriverOrdered { calls: &rig.calls, stream: &stream })?,
            ),
            ("cuMemAlloc", loops.run(&mut DriverPlain { calls: &rig.calls })?),
        ] {
            let percent = 100.0 * (samples.median_ns() / once.median_ns() - 1.0);
            figures.push(
                Figure::ms(format!("kernels of {micros} µs, {name}"), &samples)
                    .remark(format!("{percent:+.1} % over memory allocated once")),
            );
        }
        figures.push(Figure::ms(format!("kernels of {micros} µs, allocated once"), &once));
    }
    stream.synchronize()?;
    rig.calls.empty_default_pool()?;
    Ok(figures)
}

/// A thing that a step does with one of its blocks.
#[derive(Clone, Copy, Debug)]
enum Act {
    Allocate {
        block: usize,
        bytes: u64,
    },
    /// A kernel that writes the block.
    Kernel {
        block: usize,
    },
    Free {
        block: usize,
    },
}

/// The acts of a step, of 300 blocks: three a layer.
fn step(rng: &mut Rng) -> Vec<Act> {
    let mut acts = Vec::new();
    let sizes = (256 << 10, 64 << 20);
    for layer in 0..LAYERS {
        let (activation, workspace) = (layer, LAYERS + layer);
        acts.extend([
            Act::Allocate { block: activation, bytes: log_uniform(rng, sizes) },
            Act::Allocate { block: workspace, bytes: log_uniform(rng, sizes) },
            Act::Kernel { block: activation },
            Act::Free { block: workspace },
        ]);
    }
    for layer in (0..LAYERS).rev() {
        let (activation, gradient) = (layer, 2 * LAYERS + layer);
        acts.extend([
            Act::Allocate { block: gradient, bytes: log_uniform(rng, sizes) },
            Act::Kernel { block: gradient },
            Act::Free { block: activation },
        ]);
        if layer + 1 < LAYERS {
            acts.push(Act::Free { block: gradient + 1 });
        }
    }
    acts.push(Act::Free { block: 2 * LAYERS });
    acts
}

/// Where a step's memory comes from.
trait Source {
    type Memory;

    fn allocate(&mut self, block: usize, bytes: u64) -> Result<Self::Memory>;

    /// Where the memory is, for a kernel on the stream of the steps.
    fn address(&mut self, memory: &mut Self::Memory) -> Result<u64>;

    fn free(&mut self, memory: Self::Memory) -> Result<()>;
}

/// Steps, again and again.
struct Loop<'r> {
    rig: &'r Rig,
    effort: Effort,
    step: &'r [Act],
    stream: &'r PoolStream,
    /// Of a kernel.
    time: Duration,
}

impl Loop<'_> {
    fn run<S: Source>(&self, source: &mut S) -> Result<Samples> {
        let cycles = self.rig.kernels.cycles(self.time);
        let mut blocks: Vec<Option<S::Memory>> = (0..3 * LAYERS).map(|_| None).collect();
        self.effort.each(|| {
            for &act in self.step {
                let (Act::Allocate { block, .. } | Act::Kernel { block } | Act::Free { block }) =
                    act;
                let Some(slot) = blocks.get_mut(block) else { return Err("no such block".into()) };
                match (act, slot.as_mut()) {
                    (Act::Allocate { bytes, .. }, _) => {
                        *slot = Some(source.allocate(block, bytes)?);
                    }
                    (Act::Kernel { .. }, Some(memory)) => {
                        let address = source.address(memory)?;
                        // SAFETY: the block is larger, and lives until it is freed on the stream
                        // or by a call that waits for it.
                        unsafe { self.rig.kernels.mark(self.stream, address, WRITTEN, cycles) }?;
                    }
                    (Act::Free { .. }, _) => {
                        slot.take().map_or(Ok(()), |memory| source.free(memory))?;
                    }
                    (Act::Kernel { .. }, None) => return Err("a kernel without its block".into()),
                }
            }
            Ok(self.stream.synchronize()?)
        })
    }
}

/// The pool.
struct Pooled<'r> {
    pool: &'r CudaPool,
    stream: &'r PoolStream,
}

impl Source for Pooled<'_> {
    type Memory = PoolBuffer<u8>;

    fn allocate(&mut self, _: usize, bytes: u64) -> Result<Self::Memory> {
        Ok(self.pool.alloc(usize::try_from(bytes)?, self.stream)?)
    }

    fn address(&mut self, memory: &mut Self::Memory) -> Result<u64> {
        Ok(memory.on_mut(self.stream)?.address())
    }

    fn free(&mut self, memory: Self::Memory) -> Result<()> {
        drop(memory);
        Ok(())
    }
}

/// `cuMemAllocAsync`.
struct DriverOrdered<'r> {
    calls: &'r Calls,
    stream: &'r PoolStream,
}

impl Source for DriverOrdered<'_> {
    type Memory = Ordered;

    fn allocate(&mut self, _: usize, bytes: u64) -> Result<Ordered> {
        self.calls.allocate_async(bytes, self.stream)
    }

    fn address(&mut self, memory: &mut Ordered) -> Result<u64> {
        Ok(memory.address())
    }

    fn free(&mut self, memory: Ordered) -> Result<()> {
        self.calls.free_async(memory, self.stream)
    }
}

/// `cuMemAlloc`.
struct DriverPlain<'r> {
    calls: &'r Calls,
}

impl Source for DriverPlain<'_> {
    type Memory = Plain;

    fn allocate(&mut self, _: usize, bytes: u64) -> Result<Plain> {
        self.calls.allocate(bytes)
    }

    fn address(&mut self, memory: &mut Plain) -> Result<u64> {
        Ok(memory.address())
    }

    fn free(&mut self, memory: Plain) -> Result<()> {
        self.calls.free(memory)
    }
}

/// Memory for each block of a step, allocated before the first one.
struct Once<'r> {
    calls: &'r Calls,
    blocks: Vec<Plain>,
}

impl<'r> Once<'r> {
    fn new(calls: &'r Calls, step: &[Act]) -> Result<Self> {
        let mut this = Self { calls, blocks: Vec::new() };
        // No more is written, so that no more is needed.
        for _ in step.iter().filter(|act| matches!(act, Act::Allocate { .. })) {
            this.blocks.push(calls.allocate(WRITTEN)?);
        }
        Ok(this)
    }
}

impl Source for Once<'_> {
    /// The address.
    type Memory = u64;

    fn allocate(&mut self, block: usize, _: u64) -> Result<u64> {
        Ok(self.blocks.get(block).ok_or("no such block")?.address())
    }

    fn address(&mut self, memory: &mut u64) -> Result<u64> {
        Ok(*memory)
    }

    fn free(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
}

impl Drop for Once<'_> {
    fn drop(&mut self) {
        for memory in self.blocks.drain(..) {
            // Nobody is left to tell of a failure.
            let _ = self.calls.free(memory);
        }
    }
}
