//! Replays of recorded programs on any allocator of offsets, and the smallest range that serves
//! one.
//!
//! A [`Trace`](crate::Trace) is compiled once into a [`Script`], a flat list that a replay reads
//! from front to back, so that the time of a [`Pass`] is the allocator's own. An allocator takes
//! part by implementing [`Placer`]; pool-core's [`OffsetAllocator`](pool_core::OffsetAllocator)
//! does, and [`survey`] and [`smallest_capacity`] judge all that do by the same code.
//!
//! Several copies of a program on one [`SharedAllocator`](pool_core::SharedAllocator) replay on a
//! [`Cached`] each: with [`pass_together`] on threads of their own, which gives the time, and with
//! [`Script::copies`] and [`Lockstep`] from one thread, which gives the same in every run.
//!
//! A [`Plan`] places every block of a script whose lifetimes are known, and [`Planned`] serves a
//! program from it as long as that does the same again.
//!
//! A [`Pool`](pool_core::Pool) replays a [`Program`]: the same trace with its streams and threads,
//! or a generated [`Pipeline`]. [`Pooled`] queues work for it on the simulated device, whose
//! detector is the judge, or [`Work`] of another kind on any device; [`Cost`] says what the pool
//! asked of the device.
//!
//! [`observe`] and [`Pooled::observe`] tell an [`Observer`] of each call, and where each block lies.
//!
//! What is counted, wherever a replay is reported:
//!
//! - *operations*: the allocations and frees of the program. Requests that failed when they were
//!   recorded and frees of unknown pointers are not attempted, and counted apart by the trace.
//! - *peak live*: the most granules live at once if every request is served, each block rounded
//!   up to a granule. No range can be smaller.
//! - *peak reserved*: the highest end of a live block.
//! - *failures*: requests that this replay refused. The frees of their blocks are skipped.
//!
//! # Example
//!
//! ```
//! use pool_core::{OffsetAllocator, RangeConfig};
//! use pool_mock::{Trace, replay::{Script, smallest_capacity, survey}};
//!
//! let log = "Thread,Time,Action,Pointer,Size,Stream\n\
//!            1,10:00:00.000001,allocate,0x100,1000,0\n\
//!            1,10:00:00.000002,allocate,0x900,5000,0\n\
//!            1,10:00:00.000003,free,0x100,1000,0\n\
//!            1,10:00:00.000004,allocate,0x100,2000,0\n";
//! let script = Script::new(&Trace::read(log.as_bytes())?, 256);
//! assert_eq!(script.operations(), 4);
//! assert_eq!(script.peak_live_granules(), 20 + 8);
//!
//! let range = |granules: u64| OffsetAllocator::new(&RangeConfig::new(granules * 256));
//! let seen = survey(&script, &mut range(64)?);
//! assert_eq!((seen.failures, seen.peak_reserved_granules), (0, 4 + 20 + 8));
//!
//! // The third block does not fit the hole that the first one left.
//! assert_eq!(smallest_capacity(&script, range)?, Some(32));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod capacity;
mod cost;
mod lockstep;
mod observe;
mod perturb;
mod pipeline;
mod placer;
mod plan;
mod planned;
mod pooled;
mod program;
mod range;
mod script;
mod shared;
mod survey;
mod timing;
mod together;
mod turns;

pub use capacity::{is_sufficient, roomy_capacity, smallest_capacity, smallest_that_serves};
pub use cost::Cost;
pub use lockstep::Lockstep;
pub use observe::{Observer, Sight, observe};
pub use pipeline::Pipeline;
pub use placer::{Extent, Locate, Placer};
pub use plan::Plan;
pub use planned::{Planned, PlannedBlock};
pub use pooled::{Idle, Pooled, Queued, Stopped, Work};
pub use program::{Call, Deed, Program};
pub use script::{Script, Step};
pub use shared::Cached;
pub use survey::{Survey, Waste, survey};
pub use timing::{Best, Pass, Stage};
pub use together::{pass_pooled_together, pass_together};
