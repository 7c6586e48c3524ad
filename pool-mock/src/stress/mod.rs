//! Many threads on one shared allocator, and a map of every granule that says who holds it.
//!
//! A [`Plan`] says how many threads allocate how much of what; [`run`] lets them. Each thread
//! holds some blocks, frees them in random order, and gives every third one to another thread to
//! free. Every granule of a live block carries the block's mark, put there only where there was
//! none and looked for before the block is freed: two blocks that overlap, or a block that is not
//! its holder's any more, are a [`Finding`]. At the end everything is free again and the books say
//! so.
//!
//! # Example
//!
//! ```
//! use pool_core::RangeConfig;
//! use pool_mock::stress::{Plan, run};
//!
//! let plan = Plan { threads: 4, allocations: 1000, ..Plan::new(RangeConfig::new(16 << 20)) };
//! let outcome = run(&plan)?;
//! assert_eq!(outcome.tally.frees, 4 * 1000);
//! # Ok::<(), pool_mock::stress::Finding>(())
//! ```

mod door;
mod finding;
mod outcome;
mod plan;
mod run;
mod shadow;
mod sizes;
mod worker;

pub use finding::Finding;
pub use outcome::{Outcome, Tally};
pub use plan::{Caches, Plan};
pub use run::run;
pub use shadow::{Mark, Shadow};
