//! One range: an allocator of offsets.
//!
//! A range is a chain of *pieces* in address order: free runs, live blocks and spans, each
//! described by a node outside the memory. The modules, from the bottom up:
//!
//! | module | its one job |
//! | --- | --- |
//! | `node`, `storage`, `table` | nodes, where they are kept, the chain of pieces |
//! | `class`, `trie`, `size_index`, `address_index` | which free run is the best, or the lowest |
//! | `runs`, `buddies` | splitting and merging to the granule, or by powers of two |
//! | `buddy_tree`, `span`, `quick`, `sort`, `spans` | small blocks as bits |
//! | `need`, `allocator`, `last_look` | a request against all of them, in order |
//! | `query` | questions that change nothing |
//! | `end`, `resize`, `blocks`, `walk`, `verify` | the range's end, a block's size, lists, checks |
//! | `islands`, `bare` | stretches that are lent, and addresses without memory, for the layer above |

#![expect(
    clippy::cast_possible_truncation,
    reason = "granules, nodes, slots and orders are u32 by construction: a range of more than 2^32 \
              granules is refused when it is made; and packed words are taken apart by casts"
)]
#![expect(
    clippy::inline_always,
    reason = "a request is one chain of dependent steps: in one piece it takes a fifth less time \
              than in calls (ARCHITECTURE.md has the figures)"
)]

mod address_index;
mod allocator;
#[cfg(feature = "alloc")]
mod bare;
mod block;
mod blocks;
mod buddies;
mod buddy_tree;
mod class;
mod config;
mod end;
mod error;
mod handle;
#[cfg(feature = "alloc")]
mod islands;
mod last_look;
mod need;
mod node;
mod query;
mod quick;
mod request;
mod resize;
mod runs;
mod size_index;
mod sort;
mod span;
mod spans;
mod storage;
mod table;
mod tolerance;
mod trie;
mod verify;
mod walk;

pub use allocator::OffsetAllocator;
#[cfg(feature = "alloc")]
pub(crate) use bare::{Part, PartKind};
pub use block::{Block, Piece, RangeStats, SpanExtent, Visits};
#[cfg(feature = "alloc")]
pub(crate) use config::Shape;
pub use config::{Placement, RangeConfig, Spans};
pub use error::{
    AllocError, ConfigError, EndError, HandleError, Metadata, ResizeError, VerifyError,
};
pub use handle::Handle;
#[cfg(feature = "alloc")]
pub(crate) use handle::{Generation, Slot};
#[cfg(feature = "alloc")]
pub(crate) use islands::{Rest, Stretch};
#[cfg(feature = "alloc")]
pub(crate) use need::Need;
pub use node::Node;
pub use request::{Options, Request};
#[cfg(feature = "alloc")]
pub use storage::Chunked;
pub use storage::{Borrowed, Storage};
#[cfg(feature = "alloc")]
pub(crate) use tolerance::Tolerance;
pub use walk::Cursor;
