//! Allocators that others wrote, each under the name of its crate.

mod host;
mod offset;
mod range;

pub use host::{MiMalloc, MiMallocInGranules, Object};
pub use offset::Offset;
pub use range::Range;

/// A capacity that an allocator cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge {
    /// The capacity asked for.
    pub granules: u64,
}

impl core::fmt::Display for TooLarge {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a capacity of {} granules is past 32 bits", self.granules)
    }
}

impl core::error::Error for TooLarge {}
