//! How a pool grows.

/// How much is taken from the device at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Steps {
    /// The floor, each time.
    #[default]
    Fixed,
    /// As much again as there is, within floor and ceiling.
    Doubling,
    /// What the request needs, within floor and ceiling.
    AsRequested,
}

/// A way to have room for a request that no free memory serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Way {
    /// An arena is made longer where it is, on a device that can do that.
    InPlace,
    /// Another arena.
    Overflow,
    /// Movable blocks are copied together, so that what is free between them is one piece: if
    /// more than a set share of the free bytes serves no usual request.
    Migration,
    /// No way: it takes the place of one that is not to be used.
    Never,
}

/// Growth before memory is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Ahead {
    /// From this part of the reserved memory on that is in use, in hundredths.
    pub from_percent: u8,
    /// By so many bytes at most.
    pub most_bytes: u64,
}

impl Default for Ahead {
    /// From 80 % on, by 64 MiB at most.
    fn default() -> Self {
        Self { from_percent: 80, most_bytes: 64 << 20 }
    }
}

/// How a pool grows. It can be changed while the pool runs.
///
/// # Example
///
/// ```
/// use pool_core::{PoolConfig, policy::{Growth, Steps}};
///
/// let doubling = Growth { steps: Steps::Doubling, ceiling_bytes: 4 << 30, ..Growth::default() };
/// let config = PoolConfig::new().growth(doubling);
/// # let _ = config;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Growth {
    /// How much at a time. A device that refuses is asked for half of it, down to what the request
    /// needs.
    pub steps: Steps,
    /// The least that is taken at a time: 64 MiB by default, and 2 MiB at least.
    pub floor_bytes: u64,
    /// The most that is taken at a time, 1 GiB by default. A larger request gets an arena of its
    /// own size, which goes back once it is free, if the pool has more than its
    /// [watermark](super::Reclaim::watermark_bytes).
    pub ceiling_bytes: u64,
    /// What is tried, in order: by default in place, overflow, migration.
    pub order: [Way; 3],
    /// Growth before memory is needed: at 80 % by default; `None` for none. It is off once the limit
    /// is reserved.
    pub ahead: Option<Ahead>,
    /// If more than this share of the free bytes serves no usual request, in hundredths, movable
    /// blocks are migrated: 30 by default.
    pub migrate_from_percent: u8,
}

impl Growth {
    /// The defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            steps: Steps::Fixed,
            floor_bytes: 64 << 20,
            ceiling_bytes: 1 << 30,
            order: [Way::InPlace, Way::Overflow, Way::Migration],
            ahead: Some(Ahead { from_percent: 80, most_bytes: 64 << 20 }),
            migrate_from_percent: 30,
        }
    }
}

impl Default for Growth {
    fn default() -> Self {
        Self::new()
    }
}
