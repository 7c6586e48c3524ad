//! The simulated driver as a bed for the tests of `pool_cuda`: `cargo test` runs them, with no CUDA.

mod bed;

pub use bed::SimulatedBed;
