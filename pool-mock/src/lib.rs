//! Recorded allocation logs, their replay, and reference models.

pub mod log;
pub mod oracle;
pub mod reference;
pub mod replay;

pub use log::{Action, BlockId, LogError, Operation, StreamId, ThreadId, Trace};
