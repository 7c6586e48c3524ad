//! Runs the tests on the simulated driver.

use std::process::ExitCode;

use pool_cuda_simulated::SimulatedBed;
use pool_cuda_suite::run;

fn main() -> ExitCode {
    run::run(|| Ok(SimulatedBed), run::ALL)
}
