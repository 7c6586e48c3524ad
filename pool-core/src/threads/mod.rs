//! Many threads on one range.
//!
//! skeleton: the surface is final, what is behind it is not.

mod allocator;
mod config;
mod owner;
mod stats;

pub use allocator::{Cache, SharedAllocator};
pub use config::SharedConfig;
pub use owner::Owner;
pub use stats::{SharedStats, Work};
