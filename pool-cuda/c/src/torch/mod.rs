//! What PyTorch calls, by the types of its interface for foreign allocators, and what the shim of the
//! package `pool_cuda_torch` calls in its place.
//!
//! Here a call names its device, so that nobody is asked which one is current. A stream that it names is
//! adopted if it is never destroyed: the legacy default stream, and those that were listed. Any other is
//! raw: a fence is recorded in it at each free.
//!
//! | module | its one job |
//! | --- | --- |
//! | `memory` | memory in the order of a stream |
//! | `graphs` | pools that graphs are captured into, as functions |
//! | `open` | which of them there are, and what is announced for them |
//! | `device` | limits, figures, what goes back |
//! | `streams` | which streams are never destroyed |

mod device;
mod graphs;
mod memory;
mod open;
mod streams;

pub use device::{
    pool_torch_empty_cache, pool_torch_set_fraction, pool_torch_stats, poolTorchStats,
};
pub use graphs::{
    pool_torch_begin_pool, pool_torch_end_pool, pool_torch_hold_pool, pool_torch_pool_uses,
    pool_torch_release_pool,
};
pub use memory::{
    pool_torch_allocate, pool_torch_allocate_in_pool, pool_torch_allocate_segment, pool_torch_base,
    pool_torch_free, pool_torch_malloc, pool_torch_record_stream, pool_torch_release,
};
pub use streams::pool_torch_list_streams;

/// What is remembered for a process.
#[derive(Debug, Default)]
pub(crate) struct Torch {
    streams: streams::Listed,
    pools: open::Pools,
}
