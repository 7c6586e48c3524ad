//! The pool on OpenCL devices: a [`Device`](pool_core::device::Device) over command queues, events and
//! buffers, in small files, as an example of a runtime that is not CUDA's.
//!
//! | module | its one job |
//! | --- | --- |
//! | `device` | [`ClDevice`]: the calls that a pool makes |
//! | `queue` | [`ClStream`]: command queues that run in order, and the list of them |
//! | `fence` | [`ClFence`]: events of markers |
//! | `range` | [`ClRange`], [`ClPart`]: buffers, and the sub-buffers that blocks are |
//! | `kernels` | [`Kernels`]: work that marks blocks and looks at them |
//! | `stress` | queues, threads and blocks in any order, checked byte by byte |
//! | `trial` | what the conformance suite of `pool_mock` tries the device with |
//! | `sabotage` | the same device without its waits, which a check has to notice |
//! | `handle`, `process`, `error` | references to objects of the runtime, forked children, errors |
//!
//! OpenCL is loaded when a device is opened: without it everything builds and starts, and opening
//! says that there is none.

#![deny(unsafe_op_in_unsafe_fn, missing_docs)]

mod device;
mod error;
mod fence;
mod handle;
mod kernels;
mod process;
mod queue;
mod range;
mod sabotage;
mod stress;
mod trial;

pub use device::ClDevice;
pub use error::ClError;
pub use fence::ClFence;
pub use kernels::Kernels;
pub use queue::ClStream;
pub use range::{ClPart, ClRange};
pub use sabotage::Unwaiting;
pub use stress::{Outcome, Plan, StressError, stress};
