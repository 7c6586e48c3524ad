//! The simulated driver as a bed for the tests of `pool_cuda`, and the tests that only it can run.
//!
//! `cargo test` runs them, with no CUDA.

mod bed;

pub use bed::SimulatedBed;
use pool_cuda_suite::run::Test;

/// The tests that need a driver which fails on demand.
pub const TESTS: &[&[Test]] = &[];
