//! The pool for programs that are not Rust: stream-ordered memory by C functions of its own, in a
//! library that links nothing of CUDA. The header, `include/pool_cuda.h`, says what each does; the
//! package `pool-cuda-library` makes `libpool_cuda.so` and `libpool_cuda.a` of this crate.
//!
//! | module | its one job |
//! | --- | --- |
//! | `calls` | the functions that name a stream, and those that name a device |
//! | `plain` | those that name neither |
//! | `last` | what went wrong last on a thread |
//! | `conf` | what the environment says of the pools |
//! | `runtime` | the CUDA runtime, where the process has it |
//! | `handle`, `thread` | streams as programs name them, and what a thread remembers of them |
//! | `library` | the process's driver and pools, and whose a stream or a pointer is |
//! | `device` | one device's pool, and the streams that it knows |
//! | `torch` | the functions that PyTorch calls, and those that its shim calls |
//! | `ledger`, `stats` | what is counted, and what programs read of it |
//! | `whose` | what another library in the process asks |
//! | `code` | the runtime's codes |

mod calls;
mod code;
mod conf;
mod device;
mod handle;
mod last;
mod ledger;
mod library;
mod plain;
mod runtime;
mod stats;
mod thread;
mod torch;
#[doc(hidden)]
pub mod whose;

pub use calls::{
    poolBeginCapture, poolEndCapture, poolFreeAsync, poolGetStats, poolMallocAsync,
    poolRecordStream, poolReleaseGraph, poolResetPeaks, poolSetLimit, poolStreamDestroyed,
    poolTrim,
};
pub use last::{poolLastError, poolLastErrorMessage};
#[doc(hidden)]
pub use library::{start_aligned, start_on, stop};
pub use plain::{poolFree, poolMalloc};
pub use stats::poolStats;
pub use torch::*;
