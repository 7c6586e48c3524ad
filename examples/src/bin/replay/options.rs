//! The command line.

use std::path::PathBuf;

use bytesize::ByteSize;
use clap::{Parser, ValueEnum};
use pool_core::Placement;

/// The trace that the repository carries.
const BUNDLED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/multi_stream.csv.gz");

/// Replays what a recorded program allocated and freed, and says how much memory it would have
/// needed.
///
/// A trace is a CSV log of RMM or a memory snapshot of PyTorch (a pickle), plain or gzipped.
/// Sizes are bytes, or numbers with a unit: 24GiB, 1.5MiB, 500MB.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Options {
    /// The logs to replay; without any, one that the repository carries
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,

    /// Which free block serves a request
    #[arg(long, value_enum, default_value_t)]
    pub(crate) placement: PlacementChoice,

    /// The size of the range; without it, 1.25 times the most that is live at once
    #[arg(long, value_name = "SIZE")]
    pub(crate) capacity: Option<ByteSize>,

    /// Also find the smallest range that serves every request
    ///
    /// A capacity counts only if 1, 2 and 5 % more serve every request too.
    #[arg(long)]
    pub(crate) find_capacity: bool,

    /// Replay through the shared allocator and its caches, instead of a bare range
    #[arg(long)]
    pub(crate) shared: bool,

    /// With --shared, so many copies of the program at once, each on a thread and a cache of its own
    ///
    /// Copy i works on shard i modulo the number of shards. Only the time comes from real threads,
    /// which start together. How much is reserved and the smallest capacity come from the copies
    /// in lockstep: one thread takes the first step of each copy, then the second of each, and so
    /// on, which gives the same in every run. What is live, reserved and refused is that of all
    /// copies together; the time is from the first thread's start to the last one's end, over the
    /// operations of one copy.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "shared")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,

    /// With --shared, the most parts that the range is worked on in at once (1 to 32)
    #[arg(long, value_name = "N", default_value_t = 16, requires = "shared")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(crate) shards: u32,

    /// With --shared, the most free bytes that each cache keeps; 0 for no caches
    #[arg(long, value_name = "SIZE", default_value = "1MiB", requires = "shared")]
    pub(crate) cache_bytes: ByteSize,

    /// The unit of sizes and offsets, a power of two from 16 bytes
    #[arg(long, value_name = "SIZE", default_value = "256", value_parser = granule)]
    granule: ByteSize,

    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// The paths of the traces to replay.
    pub(crate) fn traces(&self) -> Vec<PathBuf> {
        if self.traces.is_empty() { vec![BUNDLED.into()] } else { self.traces.clone() }
    }

    /// The granule, a power of two.
    pub(crate) fn granule_bytes(&self) -> u64 {
        self.granule.as_u64()
    }
}

/// What `--placement` takes.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum PlacementChoice {
    /// The smallest free block that fits
    #[default]
    BestFit,
    /// The lowest free block that fits
    FirstFit,
    /// Powers of two that merge with their buddies
    Buddy,
    /// Each of them in turn
    All,
}

impl PlacementChoice {
    /// The placements it stands for.
    pub(crate) fn placements(self) -> &'static [Placement] {
        match self {
            Self::BestFit => &[Placement::BestFit],
            Self::FirstFit => &[Placement::FirstFit],
            Self::Buddy => &[Placement::Buddy],
            Self::All => &[Placement::BestFit, Placement::FirstFit, Placement::Buddy],
        }
    }
}

fn granule(text: &str) -> Result<ByteSize, String> {
    let granule: ByteSize = text.parse()?;
    if granule.as_u64().is_power_of_two() && granule.as_u64() >= 16 {
        Ok(granule)
    } else {
        Err("a granule is a power of two from 16 bytes".to_owned())
    }
}
