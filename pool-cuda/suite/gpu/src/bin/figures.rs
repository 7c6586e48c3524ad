//! Prints what long runs on a GPU have done: every byte of many buffers, and many threads.

use core::error::Error;

use clap::Parser;
use pool_cuda::CudaPool;
use pool_cuda_gpu::GpuBed;
use pool_cuda_suite::{Bed, integrity, stress};

/// How much is done.
#[derive(Clone, Copy, Debug, Parser)]
#[command(about)]
struct Arguments {
    /// Buffers whose every byte is looked at
    #[arg(long, default_value_t = 300_000)]
    buffers: u64,
    /// Buffers in pages that move, the same
    #[arg(long, default_value_t = 60_000)]
    large_buffers: u64,
    /// Threads that allocate and free
    #[arg(long, default_value_t = 32)]
    threads: u64,
    /// Allocations of each thread
    #[arg(long, default_value_t = 1_000_000)]
    allocations: u64,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let bed = GpuBed::start()?;
    let session = bed.begin(0);
    let is_simulated = bed.is_simulated();
    let mut differences = 0;
    let [usual, moving] = [integrity::Parameters::usual, integrity::Parameters::moving]
        .map(|parameters| parameters(is_simulated));
    for (kind, allocations) in [(usual, arguments.buffers), (moving, arguments.large_buffers)] {
        let parameters = integrity::Parameters { allocations, seed: arguments.seed, ..kind };
        let found = integrity::run(session.driver(), &parameters);
        println!(
            "{} buffers on {} streams from {} threads: {} bytes looked at, {} differences, {} refusals, \
             {} pages moved",
            found.allocations,
            parameters.streams,
            parameters.threads,
            found.bytes_checked,
            found.differences,
            found.refusals,
            found.moved_pages,
        );
        differences += found.differences;
    }
    let pool = CudaPool::open(0)?;
    let done = stress::run(&pool, arguments.threads, arguments.allocations);
    let operations = u128::from(2 * done.threads * done.allocations);
    println!(
        "{} threads, {} allocations and frees each: {:.2?}, {} ps an operation, {} bytes reserved at \
         most",
        done.threads,
        done.allocations,
        done.time,
        done.time.as_nanos() * 1000 / operations.max(1),
        done.peak_reserved_bytes,
    );
    drop(pool);
    session.end()?;
    if differences == 0 { Ok(()) } else { Err("bytes were touched by others".into()) }
}
