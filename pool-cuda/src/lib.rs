//! CUDA devices for [`pool_core`].
//!
//! Today this crate opens a device and says what a pool needs to know of it; arenas, streams and
//! buffers will build on that. The driver (`libcuda.so.1`) is found when the program runs and is
//! not linked, so a program with this crate starts everywhere, and where there is no driver it
//! gets [`CudaError::NoDriver`].
//!
//! ```no_run
//! let device = pool_cuda::Device::open(0)?;
//! let memory = device.memory()?;
//! println!("{}: {} of {} bytes free", device.name(), memory.free_bytes, memory.total_bytes);
//! # Ok::<(), pool_cuda::CudaError>(())
//! ```
//!
//! # Building without CUDA
//!
//! The feature `cust` (on by default) brings [`Device::from_cust`] for a device that cust has chosen.
//! cust's build script wants a folder with a `lib64` in it under `CUDA_LIBRARY_PATH`, and asks
//! the linker for `-lcuda`; an empty archive `lib64/libcuda.a` satisfies both. Without the
//! feature, nothing of this is needed.

mod context;
#[cfg(feature = "cust")]
mod cust;
mod device;
mod driver;
mod error;
mod sys;

pub use context::ContextGuard;
pub use device::{Device, GRANULE_BYTES, MemoryInfo};
pub use driver::Driver;
pub use error::CudaError;
pub use pool_core;
