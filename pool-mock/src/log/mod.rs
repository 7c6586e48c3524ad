//! Recorded allocation logs: RMM's CSV and PyTorch's memory snapshot, read into one
//! [`Trace`].

mod error;
mod report;
mod source;
mod trace;

pub use error::LogError;
pub use report::{Location, Oddity, Report};
pub use trace::{Action, BlockId, Operation, StreamId, ThreadId, Trace};
