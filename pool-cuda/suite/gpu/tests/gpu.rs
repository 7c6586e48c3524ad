//! Runs the tests on this machine's GPUs.

use std::process::ExitCode;

use pool_cuda_gpu::GpuBed;
use pool_cuda_suite::run;

fn main() -> ExitCode {
    match GpuBed::start() {
        Ok(bed) => run::run(Box::leak(Box::new(bed)), run::ALL),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
