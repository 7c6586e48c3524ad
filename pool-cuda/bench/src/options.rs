//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::timing::Effort;

/// Measures the pool on a GPU, beside the driver's own calls.
///
/// Each figure is a median of many runs, after some that do not count. Only ratios within one run
/// count: absolute times differ between machines.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Options {
    /// The device's number, from 0
    #[arg(long, default_value_t = 0)]
    pub(crate) device: u32,

    /// Which tables to make; all, if none is named
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Table>,

    /// Writes the figures to this file, too
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// The most milliseconds that a figure is worked on, unless a few runs take longer
    #[arg(long, value_name = "MS", default_value_t = 500)]
    budget_ms: u64,

    /// Threads of the table `threads`
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,

    /// Allocations of each of these threads; as many buffers are dropped
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000)]
    pub(crate) operations: u64,

    /// Decides sizes and orders
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Options {
    /// The tables to make.
    pub(crate) fn tables(&self) -> impl Iterator<Item = Table> + '_ {
        let asked = |table: &Table| self.only.is_empty() || self.only.contains(table);
        Table::value_variants().iter().copied().filter(asked)
    }

    /// How long a figure is worked on.
    pub(crate) fn effort(&self) -> Effort {
        Effort::new(core::time::Duration::from_millis(self.budget_ms))
    }
}

/// A table of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Table {
    /// Allocations that free memory serves, and drops
    Hits,
    /// Allocations that take more: a split, another stream's memory, an arena
    Misses,
    /// The driver's own calls, and what the pool is to them
    Driver,
    /// Frees while the device works
    Frees,
    /// Pages: a start, a growth, pages that move, and giving back
    Pages,
    /// Steps as a training has them
    Training,
    /// Many threads
    Threads,
    /// Events
    Events,
}
