//! Whether what was done is what was claimed.

use core::fmt;

use pool_core::SharedAllocator;

/// Blocks that are live when all have been freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub blocks: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks are live after every block was freed", self.blocks)
    }
}

impl core::error::Error for Lost {}

/// Looks at an allocator's books after all threads are gone: no block is live, so that each
/// allocation was followed by a free that worked.
pub(super) fn check(shared: &SharedAllocator) -> Result<(), Box<dyn core::error::Error>> {
    shared.verify()?;
    match shared.stats().live_blocks {
        0 => Ok(()),
        blocks => Err(Lost { blocks }.into()),
    }
}
