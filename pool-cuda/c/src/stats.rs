//! The figures that C programs read.

/// A device's figures. Bytes are those of blocks as they were given out: requests rounded up.
#[expect(non_snake_case, reason = "C's names")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct poolStats {
    /// Held by the program, each block at the size that it was given.
    pub liveBytes: usize,
    /// The most of them at once: exact while one thread uses the device, else off by as many MiB for each
    /// thread as there are threads, and by 4 at most.
    pub peakLiveBytes: usize,
    /// Taken from the device.
    pub reservedBytes: usize,
    /// The most of them at once.
    pub peakReservedBytes: usize,
    /// Freed, and waiting for work of the device.
    pub deferredBytes: usize,
    /// The most that may be taken from the device; 0: as much as there is.
    pub limitBytes: usize,
    /// Blocks given out.
    pub allocations: u64,
    /// Blocks freed.
    pub frees: u64,
    /// Of the allocations, those that memory at hand served at once.
    pub hits: u64,
    /// Times that more was taken from the device.
    pub growths: u64,
    /// Calls of `poolTrim` that succeeded.
    pub trims: u64,
}
