//! Offsets of device memory, managed without touching it.
//!
//! `pool-core` hands out *offsets* in ranges of memory that it never reads or writes, so it
//! serves any device: a GPU's memory, a shared buffer, a file. It needs neither `std` nor, in
//! storage that the caller lends, `alloc`.
//!
//! The layers, each knowing only the one below:
//!
//! | layer | where | knows |
//! | --- | --- | --- |
//! | pool | `pool` (feature `alloc`) | memory of a `Device`, in the order of its streams |
//! | threads | `threads` (feature `alloc`) | one range for many threads: caches, hand-over, shards |
//! | core | [`range`] | one range: placement, splitting, merging; one owner at a time |
//!
//! Below them is the `Device`, a trait that any accelerator's runtime can offer.
//!
//! # Example
//!
//! ```
//! use pool_core::{OffsetAllocator, RangeConfig};
//!
//! // 24 GiB of some device's memory, in granules of 256 bytes.
//! let mut range = OffsetAllocator::new(&RangeConfig::new(24 << 30))?;
//! let tensor = range.allocate(100 << 20)?;
//! println!("at offset {}", tensor.offset_bytes());
//! range.free(tensor.handle())?;
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
//!
//! # Features
//!
//! - `alloc`: metadata in chunks from the heap (`Chunked`), that grow as blocks are added.
//!   Without it a range lives in storage that the caller lends ([`Borrowed`]).
//!   Brings `SharedAllocator`, `Pool` and `Device` too.
//! - `std`: a cache for every thread by itself, and a lock that yields to the operating system.
//! - `serde`: policies and advice can be written and read, as one run hands them to the next.
//! - `record`: what a pool did, as events, labels and figures.
//! - `metrics`: these figures for the facade of that name.
//! - `tracing`: what happens off the way of a hit as events of that crate.
//! - `locked-words`: 64-bit atomics as locks, as targets without them have them.

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
// But for one promise of the caller's: what it means to adopt a stream.
#![cfg_attr(not(all(test, loom)), deny(unsafe_code))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(feature = "std", pool_sabotage))]
extern crate std;

#[cfg(feature = "alloc")]
#[forbid(unsafe_code)]
pub mod device;
#[cfg(feature = "alloc")]
pub mod pool;
#[forbid(unsafe_code)]
pub mod range;
#[cfg(feature = "alloc")]
#[forbid(unsafe_code)]
mod sabotage;
#[cfg(feature = "alloc")]
#[forbid(unsafe_code)]
pub mod sync;
#[cfg(feature = "alloc")]
// Models alone have the memory of blocks, for their checker to watch.
#[cfg_attr(not(all(test, loom)), forbid(unsafe_code))]
pub mod threads;

#[cfg(feature = "alloc")]
pub use device::Device;
#[cfg(feature = "record")]
pub use pool::record;
#[cfg(feature = "alloc")]
pub use pool::{
    Advice, Affinity, Cause, Deferred, DeviceError, Evidence, GraphId, Lifetime, Movable,
    MovableGuard, On, Pool, PoolConfig, PoolError, PoolStats, Reason, Reclaimed, Remedy, Shortage,
    StreamId, Tag, TagPeak, Tried, Trimmed,
};
#[cfg(feature = "alloc")]
pub use pool::{budget, policy};
#[cfg(feature = "alloc")]
pub use range::Chunked;
pub use range::{
    AllocError, Block, Borrowed, ConfigError, Cursor, EndError, Handle, HandleError, Metadata,
    Node, OffsetAllocator, Options, Piece, Placement, RangeConfig, RangeStats, Request,
    ResizeError, SpanExtent, Spans, Storage, VerifyError, Visits,
};
#[cfg(feature = "alloc")]
pub use threads::{Cache, ClassUse, Owner, SharedAllocator, SharedConfig, SharedStats, Work};

/// The examples of the README.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}
