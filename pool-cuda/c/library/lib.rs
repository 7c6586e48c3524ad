//! The C functions as a library to link or to load: `pool_cuda_c` says what they do.

pub use pool_cuda_c::*;
