//! What a stress run came to.

use core::time::Duration;

use pool_core::SharedStats;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Requests that were served.
    pub allocations: u64,
    /// Blocks that were freed.
    pub frees: u64,
    /// Of these, those that another thread had allocated.
    pub remote_frees: u64,
    /// Requests that were refused.
    pub refusals: u64,
    /// Frees of a block that was freed already, each answered with an error.
    pub second_frees: u64,
    /// Bytes of the blocks that were served.
    pub bytes: u64,
}

impl Tally {
    /// Adds another thread's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.remote_frees += other.remote_frees;
        self.refusals += other.refusals;
        self.second_frees += other.second_frees;
        self.bytes += other.bytes;
    }

    /// Requests served and blocks freed.
    ///
    /// # Example
    ///
    /// ```
    /// assert_eq!(pool_mock::stress::Tally::default().operations(), 0);
    /// ```
    #[must_use]
    pub const fn operations(&self) -> u64 {
        self.allocations + self.frees
    }
}

/// What a run came to in which everything held.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// From the first thread's start to the last one's end.
    pub elapsed: Duration,
    /// What all threads did.
    pub tally: Tally,
    /// The allocator's own books, when the threads had ended and nothing was flushed yet.
    pub stats: SharedStats,
}
