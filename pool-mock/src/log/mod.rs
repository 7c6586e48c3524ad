//! Recorded allocation logs, read into one kind of [`Trace`], written, and made into each other.
//!
//! Two kinds of log are read, each plain or gzipped, told apart by their bytes:
//!
//! - [`rmm`]: the CSV log of RMM, in all its published forms, row by row or whole;
//! - [`snapshot`]: the memory snapshot of PyTorch, a pickle.
//!
//! What a trace takes from each:
//!
//! | in the trace | CSV | snapshot |
//! | --- | --- | --- |
//! | allocation | `allocate` | `alloc` |
//! | free: when the program gave the block back | `free` | `free_requested` |
//! | failure | `allocate failure` | `oom` (its size is rounded) |
//! | thread | column `Thread`, or 0 | always 0 |
//! | blocks live at the start | not recorded | in the segments, or by their free |
//! | order | of the lines | of the list |
//! | labels | none | the line of each allocation's stack that says the most, the program's notes |
//!
//! A free is taken at `free_requested`, not at `free_completed`: that is the moment that
//! a CSV row records, and what a pool has to answer; when the memory can serve again is
//! the pool's own affair. So the two logs of one run give the same trace, but for the
//! names of the streams and the blocks that were live before.
//!
//! A [`Recording`] is a trace with the address and time of each operation, so that it can be
//! written again as either kind; [`convert`] does so from a reader to a writer and says what was
//! lost. [`rmm::Writer`] and [`snapshot::Writer`] write row by row and entry by entry.

mod builder;
mod convert;
mod details;
mod entry;
mod error;
mod labels;
mod locations;
mod numbers;
mod puzzle;
mod recording;
mod report;
pub mod rmm;
pub mod snapshot;
mod source;
mod strings;
mod trace;

pub use convert::{Conversion, ConvertError, Format, Loss, convert};
pub use entry::{Entry, Step};
pub use error::{LogError, Progress};
pub use labels::LabelId;
pub use recording::Recording;
pub use report::{Location, Oddity, Report};
pub use trace::{Action, BlockId, Operation, StreamId, ThreadId, Trace};
