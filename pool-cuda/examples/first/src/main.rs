//! A first program: two vectors in the pool's memory, a kernel on them, and the result on the host.
//!
//! It needs the driver to start, and to be linked a folder with `lib64/libcuda.so` that
//! `CUDA_LIBRARY_PATH` names: see the guide, pool-cuda's README.

use core::error::Error;

use cust::launch;
use cust::module::Module;
use pool_cuda::CudaPool;

/// The kernel, which the driver compiles.
const PTX: &str = include_str!("../saxpy.ptx");

/// Elements of a vector.
const LEN: u16 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    // The device's primary context, which is the pool's, too.
    let _context = cust::quick_init()?;
    let kernels = Module::from_ptx(PTX, &[])?;
    let pool = CudaPool::open(0)?;
    let stream = pool.create_stream()?;

    let host: Vec<f32> = (0..LEN).map(f32::from).collect();
    for round in 0..10_u8 {
        // From the second round on, these are the first round's memory: no call of the driver.
        let x = pool.alloc_from(&host, &stream)?;
        let mut y = pool.alloc_zeroed::<f32>(host.len(), &stream)?;
        let a = f32::from(round);
        let (from, to) = (x.on(&stream)?, y.on_mut(&stream)?);
        // SAFETY: the kernel takes a length, a factor and two vectors so long, of which it reads one
        // and writes the other; both guards name the stream.
        unsafe { launch!(kernels.saxpy<<<4, 256, 0, stream>>>(host.len(), a, from, to))? };

        // This waits for the kernel.
        let result = y.on(&stream)?.to_vec()?;
        let expected: Vec<f32> = host.iter().map(|x| a * x).collect();
        if result != expected {
            return Err(format!("round {round}: the result is wrong").into());
        }
        // Here both go back to the pool, in the stream's order, without a wait.
    }

    let stats = pool.stats();
    println!(
        "{}: the results are right; {} MiB taken from the driver by {} call",
        pool.device().name(),
        stats.reserved_bytes >> 20,
        stats.calls.allocations,
    );
    Ok(())
}
