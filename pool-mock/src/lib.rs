//! A simulated device, and what any device has to do; recorded allocation logs, their replay,
//! reference models, and threads that put a shared allocator under stress.

pub mod conformance;
pub mod device;
pub mod log;
pub mod oracle;
pub mod program;
pub mod reference;
pub mod replay;
pub mod stress;

pub use log::{Action, BlockId, LogError, Operation, StreamId, ThreadId, Trace};
