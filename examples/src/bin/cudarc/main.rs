//! The pool's memory in a program of cudarc's: its copies, fills and launches take it as they take
//! cudarc's own.
//!
//! The exit code is 0 if every element is what it should be, else 1.

mod pool_slice;

use core::error::Error;
use std::process::ExitCode;

use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use pool_cuda::CudaPool;

use self::pool_slice::SliceSource;

const KERNEL: &str = include_str!("../../../../pool-cuda/examples/first/saxpy.ptx");

/// Elements of a vector.
const LEN: u16 = 10_000;

/// Rounds, each with memory of its own.
const ROUNDS: u16 = 100;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cudarc: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    // First: it says by an error that there is no driver, where cudarc panics.
    let pool = CudaPool::open(0)?;
    // Both have the device's primary context.
    let context = CudaContext::new(0)?;
    let stream = context.new_stream()?;
    let slices = SliceSource::new(&pool, &stream)?;
    let saxpy = context.load_module(Ptx::from_src(KERNEL))?.load_function("saxpy")?;

    let host: Vec<f32> = (0..LEN).map(f32::from).collect();
    for round in 0..ROUNDS {
        let mut x = slices.alloc::<f32>(LEN.into())?;
        let mut y = slices.alloc::<f32>(LEN.into())?;
        stream.memcpy_htod(&host, &mut x)?;
        stream.memset_zeros(&mut y)?;
        let (len, a) = (u64::from(LEN), f32::from(round));
        let mut launch = stream.launch_builder(&saxpy);
        launch.arg(&len).arg(&a).arg(&x).arg(&mut y);
        // SAFETY: the kernel takes these four, reads and writes so many elements, and is on the
        // stream of both slices.
        unsafe { launch.launch(LaunchConfig::for_num_elems(LEN.into())) }?;
        let expected: Vec<f32> = host.iter().map(|x| a * x).collect();
        if stream.clone_dtoh(&y)? != expected {
            return Err(format!("round {round}: the result is wrong").into());
        }
    }

    // On another stream of cudarc's, which is ordered with the slice's own.
    let mut x = slices.alloc::<f32>(LEN.into())?;
    stream.memcpy_htod(&host, &mut x)?;
    let other = context.new_stream()?;
    if other.clone_dtoh(&x)? != host {
        return Err("what another stream read is not what was written".into());
    }
    drop(x);

    context.synchronize()?;
    let stats = pool.stats();
    println!(
        "{}: {ROUNDS} rounds of {LEN} elements are right; {} MiB taken from the driver by {} calls, \
         {} bytes live",
        pool.device().name(),
        stats.reserved_bytes >> 20,
        stats.calls.allocations,
        stats.live_bytes,
    );
    Ok(())
}
