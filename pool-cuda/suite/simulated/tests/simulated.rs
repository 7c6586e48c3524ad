//! Runs the tests on the simulated driver.

use std::process::ExitCode;

use pool_cuda_simulated::{SimulatedBed, TESTS};
use pool_cuda_suite::run;

fn main() -> ExitCode {
    run::run(&SimulatedBed, &[run::ALL, TESTS].concat())
}
