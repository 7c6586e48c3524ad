//! Whether anything of a pool is still out: without an atomic addition for each buffer.
//!
//! | module | its one job |
//! | --- | --- |
//! | `tally` | what was given out and what came back, and who notices that all is back |
//! | `here` | this thread's part of each tally |

mod here;
mod tally;

#[cfg(all(test, loom))]
mod models;

pub(crate) use here::{Ticket, gave, took, took_slowly};
pub(crate) use tally::Tally;
