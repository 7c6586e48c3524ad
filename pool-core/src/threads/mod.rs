//! Many threads on one range.
//!
//! A [`SharedAllocator`] is an [`OffsetAllocator`](crate::OffsetAllocator) that threads share.
//! From the front to the back:
//!
//! | module | its one job |
//! | --- | --- |
//! | `allocator`, `config`, `owner`, `stats`, `verify` | what programs hold, ask for and read |
//! | `platform`, `local` | the lock and the place for a cache that a platform offers |
//! | `cache`, `classes`, `stock` | free small blocks, kept by one thread at a time |
//! | `depot`, `ring` | whole magazines that pass between caches without a lock |
//! | `word`, `words` | the atomic word of each block in a span, which decides its frees |
//! | `names`, `starts`, `packed` | blocks outside spans: their handles, where they begin, and both in registers |
//! | `journal` | what one thread notes and others read |
//! | `inner` | all of these, and what is tried before a request is refused |
//! | `spaces` | a shard for each owner: what a pool of streams does with them |
//! | `bare` | addresses of spaces that no memory is behind |
//! | `centre`, `shard` | the range and its shards, each under a lock |
//! | `latest` | the block that a shard served last, which comes and goes |
//!
//! A cached block is in one slot of a cache or in one magazine, and whoever takes it out of there
//! has it: so that a flush takes blocks out of the caches of threads that sleep, and no cache
//! needs a lock.

#![expect(
    clippy::cast_possible_truncation,
    reason = "granules, classes and indices of magazines are u32 by construction, and packed \
              words are taken apart by casts"
)]
#![expect(
    clippy::inline_always,
    reason = "a hit is a few dozen instructions, which calls would double"
)]

mod allocator;
mod bare;
mod cache;
mod centre;
mod classes;
mod config;
mod depot;
mod inner;
#[cfg(feature = "record")]
mod journal;
mod latest;
#[cfg(feature = "std")]
mod local;
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) mod models;
mod names;
mod owner;
mod packed;
mod platform;
mod ring;
mod sabotage;
mod shard;
mod spaces;
mod starts;
mod stats;
mod stock;
mod tables;
mod verify;
mod word;
mod words;

pub use allocator::SharedAllocator;
pub use cache::Cache;
pub(crate) use classes::{CLASS_SHARE, MOST_DEPTH};
pub use config::SharedConfig;
#[cfg(feature = "record")]
pub(crate) use journal::{Journal, WORDS, Writer};
#[cfg(feature = "std")]
pub use local::OsThreads;
pub use owner::Owner;
#[cfg(any(loom, shuttle))]
pub use platform::ModelThreads;
pub use platform::{BareThreads, DefaultThreads, Threads};
#[cfg(pool_sabotage)]
pub(crate) use sabotage::NAMES as SWITCHES;
pub(crate) use spaces::{Aside, HUB, NotFreed};
pub use stats::{ClassUse, SharedStats, Work};
#[cfg(feature = "record")]
pub(crate) use tables::{NoTable, filled};
