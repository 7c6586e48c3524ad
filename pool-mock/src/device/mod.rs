//! A device that exists only in memory: streams that run late and out of step, fences, pages,
//! captures, faults on demand; it proves that no two uses of the same bytes can race.
//!
//! Work is queued and runs in virtual time, in any order that the rules allow
//! ([`Pacing`]). Programs declare which bytes their work uses; what orders two uses is derived
//! from the calls alone, never from when things happened to run, so that a missing wait is found
//! however lucky the run was.
//!
//! | module | its one job |
//! | --- | --- |
//! | `device` | [`SimDevice`]: what a pool calls |
//! | `program` | what a program queues |
//! | `host` | what a program's host asks and waits for |
//! | `lent` | memory of the program's own, that is only looked after |
//! | `control` | what a test sets and asks |
//! | `config` | [`SimConfig`], [`Pacing`]: how a device is made |
//! | `world` | the lock around the state; callbacks and hooks outside of it |
//! | `state` | everything that the devices of a world know |
//! | `stream`, `fence`, `memory`, `pages`, `capture` | the objects: handles and what is known of them |
//! | `schedule` | runs what is queued |
//! | `clock` | vector clocks |
//! | `detector` | finds uses that nothing orders |
//! | `intervals` | a map from stretches of bytes to values |
//! | `faults`, `calls` | which calls fail, which were made |
//! | `violation`, `error` | what must not happen, and what a call says when it refuses |
//! | `thread` | which thread calls |

mod calls;
mod capture;
mod clock;
mod config;
mod control;
mod detector;
// The device itself has the name of its module.
#[expect(clippy::module_inception, reason = "the file of the type that the module is about")]
mod device;
mod error;
mod faults;
mod fence;
mod host;
mod intervals;
mod lent;
mod memory;
mod pages;
mod program;
mod schedule;
mod state;
mod stream;
mod thread;
mod violation;
mod world;

pub use calls::{CallCounts, CallRecord};
pub use capture::{CaptureMode, CaptureStatus, GraphHandle};
pub use config::{Pacing, SimConfig};
pub use control::Balance;
pub use device::SimDevice;
pub use error::SimError;
pub use faults::Fault;
pub use fence::SimFence;
pub use memory::SimRange;
pub use pages::SimPages;
pub use program::TaskUse;
pub use stream::{SimStream, StreamKind};
pub use violation::{Access, Action, Owner, StreamName, Use, Violation};
