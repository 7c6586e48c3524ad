//! [`pool_core`] on CUDA devices: a pool of device memory, in the order of streams.
//!
//! [`CudaPool`] is what a Rust program with CUDA uses: [`PoolBuffer`]s of typed elements, which go
//! back when they are dropped, in the order of the streams that they were used on.
//! [`CudaDevice`] is the [`Device`](pool_core::device::Device) under it, for a
//! [`Pool`](pool_core::Pool) of plain blocks.
//!
//! ```no_run
//! use pool_cuda::CudaPool;
//!
//! let pool = CudaPool::open(0)?;
//! let (compute, copies) = (pool.create_stream()?, pool.create_stream()?);
//! let numbers = pool.alloc_from(&[1.0_f32, 2.0, 3.0], &compute)?;
//! assert_eq!(numbers.on(&copies)?.to_vec()?, [1.0, 2.0, 3.0]); // waits for `compute`
//! # Ok::<(), pool_cuda::Error>(())
//! ```
//!
//! | what for | where |
//! | --- | --- |
//! | memory | [`CudaPool::alloc`], [`alloc_zeroed`](CudaPool::alloc_zeroed), [`alloc_from`](CudaPool::alloc_from), [`alloc_movable`](CudaPool::alloc_movable); of the host, [`PinnedPool`] |
//! | to use a buffer on a stream | [`PoolBuffer::on`], [`PoolBuffer::on_mut`]: guards [`DeviceRef`], [`DeviceMut`] |
//! | streams | [`CudaPool::create_stream`], [`adopt_raw`](CudaPool::adopt_raw), [`legacy_stream`](CudaPool::legacy_stream), [`per_thread_stream`](CudaPool::per_thread_stream) |
//! | kernels | `cust::launch!` with a [`PoolStream`], or [`PoolStream::launch_raw`] |
//! | graphs | [`CudaPool::begin_capture`] |
//! | several devices | [`CudaDevice::can_access`], [`CudaDevice::open_to`] |
//! | where arenas come from | [`ArenaSource`] |
//! | other processes | [`CudaDevice::exportable`], [`PoolBuffer::share`], [`CudaDevice::import_bytes`] |
//!
//! # What holds everywhere
//!
//! - A hit, an allocation that free memory serves, makes no call of the driver; a drop never
//!   waits, but for the last handle or buffer of a pool, which waits for the device.
//! - A launch is unsafe. It is queued on the stream that its guards name, while they are alive, and its
//!   kernel stays in their elements and only reads what is a [`DeviceRef`]. All else is ordered by the
//!   guards.
//! - The context that is current on a thread is current again after each call.
//! - In a child of a fork every call that does something answers [`CudaError::Forked`], and while the
//!   process exits, [`CudaError::Exiting`]; what is dropped then does nothing. Figures (`stats`,
//!   `advice`) are not to be asked for there.
//! - A refused request changes nothing, and a failed call of the driver is named, with its code.
//!
//! # Building and starting without CUDA
//!
//! The driver (`libcuda.so.1`) is found when the program runs and is not linked by this crate, so
//! a program without the feature `cust` starts everywhere, and where there is no driver it gets
//! [`CudaError::NoDriver`]. With it, on by default, a program needs the driver to start, as any
//! program with cust does.
//!
//! cust's build script wants a folder with a `lib64` in it under `CUDA_LIBRARY_PATH`, and asks
//! the linker for `-lcuda`. To check and to test, an empty archive `lib64/libcuda.a` satisfies both.
//! A program that is to run needs a `lib64/libcuda.so` there: the driver's, or a stub with the
//! same soname, as the toolkit has it. Without the feature, nothing of this is needed.
//!
//! The crate's readme is a guide with a first program.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cust")]
mod cust;
mod device;
mod driver;
mod error;
mod fences;
mod lease;
mod pool;
mod process;
mod sabotage;
mod sync;
mod sys;
mod threads;

pub use device::{
    ArenaSource, ContextGuard, CudaDevice, CudaFence, CudaPages, CudaRange, CudaStream,
    EventCounts, ImportedBytes, PageCounts, PagesId, SharedBytes, SharedPages,
};
pub use driver::Driver;
pub use error::CudaError;
pub use pool::{
    Contents, CudaPool, DeviceMut, DeviceRef, Error, LaunchShape, MovableBuffer, MovableUse,
    PinnedBuffer, PinnedPool, PoolBuffer, PoolStream, RawBuffer, RegisteredHost,
};
pub use pool_core;
pub use threads::{Biased, BiasedGuard, CudaThreads};

/// The guide, whose programs must compile.
#[cfg(all(doctest, feature = "cust"))]
#[doc = include_str!("../README.md")]
mod guide {}
