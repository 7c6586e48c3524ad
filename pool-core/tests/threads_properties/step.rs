//! What can be done to a shared allocator.

use pool_core::{Options, Request};

use crate::setting::GRANULE;

/// How many caches a case has.
pub(crate) const CACHES: usize = 3;

/// Through which door a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// The allocator itself.
    Shared,
    /// One of the caches.
    Cache(usize),
}

/// How much is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Size {
    Bytes(u64),
    /// So many 16ths of the capacity.
    Sixteenths(u64),
    /// The largest free block and so many granules more or fewer.
    Largest(i64),
    /// Exactly so much below the end of all numbers.
    BelowTheMost(u64),
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Allocate {
        door: Door,
        owner: u32,
        size: Size,
        align_bytes: u64,
        options: Options,
        limit: bool,
    },
    /// Frees the live block of that number, counted around.
    Free {
        door: Door,
        owner: u32,
        pick: usize,
    },
    /// Frees a block that was freed before.
    FreeAgain {
        door: Door,
        pick: usize,
    },
    /// Frees a handle of these bits, unless it is a live one.
    FreeForeign {
        door: Door,
        bits: u64,
    },
    /// Empties one door's cache, or all.
    Flush(Door),
    /// Drops a cache and makes another in its place, on a shard.
    Renew {
        cache: usize,
        shard: u32,
    },
    UseShard {
        cache: usize,
        shard: u32,
    },
    ResetPeak,
}

impl Step {
    /// A plain request of whole granules.
    pub(crate) const fn granules(door: Door, granules: u64) -> Self {
        Self::Allocate {
            door,
            owner: 0,
            size: Size::Bytes(granules * GRANULE),
            align_bytes: 1,
            options: Options::empty(),
            limit: false,
        }
    }

    pub(crate) const fn free(door: Door, pick: usize) -> Self {
        Self::Free { door, owner: 0, pick }
    }
}

/// A request with its parts, which the model needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) size_bytes: u64,
    pub(crate) align_bytes: u64,
    pub(crate) options: Options,
    pub(crate) limit: bool,
}

impl Demand {
    pub(crate) fn request(&self) -> Request {
        let request =
            Request::new(self.size_bytes).align_bytes(self.align_bytes).options(self.options);
        if self.limit { request.never_split_above(4 * GRANULE) } else { request }
    }

    /// Whether any free block of the size serves it.
    pub(crate) fn is_plain(&self) -> bool {
        !self.limit && self.align() == 1 && !self.options.contains(Options::OUTSIDE_SPANS)
    }

    /// The size in granules.
    pub(crate) fn granules(&self) -> u64 {
        self.size_bytes.div_ceil(GRANULE)
    }

    /// The alignment in granules.
    pub(crate) fn align(&self) -> u64 {
        (self.align_bytes / GRANULE).max(1)
    }
}
