//! The tests of [`pool_cuda`], for whatever driver runs them: the simulated one, or that of a GPU.
//!
//! A [`Bed`] is where they run. Each test begins afresh there, and when it ends the bed says what
//! it left behind or broke. This package names no driver: it calls the functions that the
//! program has which it is linked into.
//!
//! | module | its one job |
//! | --- | --- |
//! | [`bed`] | what tests need of the driver that runs them |
//! | [`run`] | the list of tests, and how it is run |
//! | `world`, `kernels`, `graphs`, `raw`, `row` | what tests work with |
//! | `device`, `contexts`, `streams`, ... | the tests, by what they are about |
//! | `conformance` | what every device has to do, by `pool_mock::conformance` |
//! | `faults` | faults that others met, by number |
//! | [`integrity`] | every byte of many buffers, under work on many streams |
//! | [`stress`] | many threads, and many allocations |
//! | `child` | what only another process can show: its end, and a fork |

mod access;
pub mod bed;
mod buffers;
mod captures;
mod child;
mod conformance;
mod contexts;
mod copies;
mod device;
mod events;
mod faults;
mod graphs;
pub mod integrity;
mod kernels;
mod movable;
mod order;
mod pages;
mod per_thread;
mod pinned;
mod raw;
mod row;
pub mod run;
mod sleep;
mod sources;
mod streams;
pub mod stress;
mod sweep;
mod world;

pub use bed::{Bed, Gate, Session, Simulated};
pub use world::World;
