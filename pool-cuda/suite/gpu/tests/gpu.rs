//! Runs the tests on this machine's GPUs.

use std::process::ExitCode;

use pool_cuda_gpu::GpuBed;
use pool_cuda_suite::run;

fn main() -> ExitCode {
    run::run(GpuBed::start, run::ALL)
}
