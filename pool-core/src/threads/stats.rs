//! The books of a shared allocator.

/// The books of a shared allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct SharedStats {
    /// Bytes that the range manages.
    pub capacity_bytes: u64,
    /// Bytes of blocks that the program holds, each at its usable size.
    pub live_bytes: u64,
    /// The highest that `live_bytes` has been.
    pub peak_live_bytes: u64,
    /// Bytes of free blocks in caches and on their way between them.
    pub cached_bytes: u64,
    /// Bytes of free blocks in the range and its shards.
    pub free_bytes: u64,
    /// Blocks that the program holds.
    pub live_blocks: u64,
    /// Free blocks in caches and on their way between them.
    pub cached_blocks: u64,
    /// What was done where.
    pub work: Work,
}

/// Which layer did the work, counted from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Work {
    /// Requests served and blocks freed.
    pub operations: u64,
    /// Of these, those that a cache did alone.
    pub in_cache: u64,
    /// Magazines that went from cache to cache.
    pub magazines: u64,
    /// Locks taken at the centre.
    pub locks: u64,
    /// Of these, those that were held by another thread.
    pub lock_waits: u64,
    /// Atomic steps that another thread got in before, and were tried again.
    pub retries: u64,
    /// Times that all shards were merged to serve a request.
    pub recalls: u64,
    /// Times that all caches were emptied to serve a request.
    pub flushes: u64,
}
