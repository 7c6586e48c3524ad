//! The measurements, a file for each table.

mod driver;
mod events;
mod frees;
mod hits;
mod misses;
mod pages;
mod threads;
mod training;

use crate::Result;
use crate::figures::Section;
use crate::options::{Options, Table};
use crate::rig::Rig;

/// Sizes of blocks that are measured.
const SIZES: [u64; 5] = [64, 4 << 10, 1 << 20, 64 << 20, 1 << 30];

/// Makes one table.
pub(crate) fn section(table: Table, rig: &Rig, options: &Options) -> Result<Section> {
    let effort = options.effort();
    let (name, title, figures) = match table {
        Table::Hits => (
            "hits",
            "a buffer allocated and dropped, on one stream, served by free memory",
            hits::figures(rig, effort, options.seed)?,
        ),
        Table::Misses => (
            "misses",
            "allocations that no free block of their size and stream serves",
            misses::figures(rig, effort)?,
        ),
        Table::Driver => (
            "driver",
            "the driver's own calls, allocated and freed, and the pool in the same loop",
            driver::figures(rig, effort)?,
        ),
        Table::Frees => (
            "frees",
            "64 MiB freed while 100 ms of work run on another stream",
            frees::figures(rig)?,
        ),
        Table::Pages => (
            "pages",
            "physical memory made, mapped, moved and given back",
            pages::figures(rig, effort)?,
        ),
        Table::Training => (
            "training",
            "a step of 200 kernels and 300 allocations, with the wait for its end",
            training::figures(rig, effort, options.seed)?,
        ),
        Table::Threads => (
            "threads",
            "threads that allocate and drop mixed sizes, each on its own stream",
            threads::figures(rig, options)?,
        ),
        Table::Events => ("events", "what fences are made of", events::figures(rig, effort)?),
    };
    Ok(Section { name, title, figures })
}
