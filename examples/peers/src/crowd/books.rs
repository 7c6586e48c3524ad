//! Whether what was done is what was claimed.

use core::{error::Error, fmt};

use pool_core::SharedAllocator;

use super::Pass;

/// Books that show other work than was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Blocks are live though every block was freed.
    Lost {
        /// How many.
        blocks: u64,
    },
    /// Fewer allocations and frees were done than are claimed.
    Idle {
        /// How many were done.
        done: u64,
        /// How many are claimed.
        claimed: u64,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { blocks } => {
                write!(f, "{blocks} blocks are live after every block was freed")
            }
            Self::Idle { done, claimed } => {
                write!(f, "{done} operations were done where {claimed} are claimed")
            }
        }
    }
}

impl Error for Wrong {}

/// Looks at the books of a pass's allocators, after all its threads are gone. No block is live, so
/// that each allocation was followed by a free that worked; and as many operations were done as
/// the pass claims, at least: what comes before and after it counts there too.
pub(super) fn check(pass: &Pass, allocators: &[SharedAllocator]) -> Result<(), Box<dyn Error>> {
    let (mut done, claimed) = (0, pass.operations);
    for shared in allocators {
        shared.verify()?;
        let stats = shared.stats();
        if stats.live_blocks > 0 {
            return Err(Wrong::Lost { blocks: stats.live_blocks }.into());
        }
        done += stats.work.operations;
    }
    if done < claimed { Err(Wrong::Idle { done, claimed }.into()) } else { Ok(()) }
}
