//! The driver of this machine's GPUs as a bed for the tests of `pool_cuda`.
//!
//! The README of this folder says how to build them where there is no CUDA, and how to run them.

mod bed;
mod library;

pub use bed::GpuBed;
pub use library::loaded_libraries;
