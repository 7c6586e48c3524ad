//! The command line.

use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use pool_core::{Placement, RangeConfig, SharedConfig};
use pool_mock::stress::{Caches, Plan};

/// Puts a shared range under stress: threads that allocate and free mixed sizes, a third of the
/// blocks freed by another thread, with a map of every granule that finds any overlap.
///
/// A second run without the map shows what of the time is the pool's own. Sizes are bytes, or
/// numbers with a unit: 256MiB, 16KiB.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Options {
    /// How many threads
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub(crate) threads: u32,

    /// Allocations of each thread; as many blocks are freed
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub(crate) operations: u64,

    /// Decides the sizes and the order of frees
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// The size of the range
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    capacity: ByteSize,

    /// Which free block serves a request
    #[arg(long, value_enum, default_value_t)]
    placement: PlacementChoice,

    /// In how many parts the range is worked on at most
    #[arg(long, default_value_t = 16)]
    shards: u32,

    /// What one thread's cache keeps at most; 0: no caches
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    cache: ByteSize,

    /// How many blocks a thread holds at most
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    live: usize,

    /// The largest size asked for; most are of at most 16 KiB
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    largest: ByteSize,

    /// How many owner numbers the blocks are for
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    owners: u32,

    /// Each thread makes its cache itself, in place of the one that it gets by itself
    #[arg(long)]
    explicit: bool,
}

impl Options {
    /// The run that they stand for.
    pub(crate) fn plan(&self, shadow: bool) -> Plan {
        let range = RangeConfig::new(self.capacity.as_u64()).placement(self.placement.placement());
        let shared = SharedConfig::new(range).shards(self.shards).cache_bytes(self.cache.as_u64());
        Plan {
            threads: self.threads,
            allocations: self.operations,
            seed: self.seed,
            live_blocks: self.live,
            largest_bytes: self.largest.as_u64(),
            owners: self.owners,
            caches: if self.explicit { Caches::Explicit } else { Caches::ByItself },
            shadow,
            ..Plan::new(shared)
        }
    }
}

/// What `--placement` takes.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum PlacementChoice {
    /// The smallest free block that fits
    #[default]
    BestFit,
    /// The lowest free block that fits
    FirstFit,
    /// Powers of two that merge with their buddies
    Buddy,
}

impl PlacementChoice {
    fn placement(self) -> Placement {
        match self {
            Self::BestFit => Placement::BestFit,
            Self::FirstFit => Placement::FirstFit,
            Self::Buddy => Placement::Buddy,
        }
    }
}
