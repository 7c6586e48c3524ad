//! Programs that drive a pool over a simulated device, by any calls in any order that a program
//! may make, and notice what the pool must not do.
//!
//! A [`Program`] is a pool, a device and a list of operations, decoded from [any bytes](decode).
//! The program keeps the rules that the pool's interface has, and no others: it uses a block while
//! it is live, on streams that it put in order behind the allocation; it tells the pool of those
//! that are not the block's own before it frees; a stream that it adopted it retires before it
//! closes it. What is right then is judged by the device, which proves that no two uses of the
//! same bytes can race, and by the program's own list of what is live: never by what the pool says.
//!
//! | module | its one job |
//! | --- | --- |
//! | `operation` | [`Program`], [`Operation`]: what is done |
//! | `generate` | [`decode`]: from bytes to programs |
//! | `run` | [`check`], [`check_threads`]: from the first step to the last look |
//! | `act` | each operation, and what it is about |
//! | `blocks`, `movables`, `streams`, `graphs` | each call, made as a program may |
//! | `world` | what a program knows of its streams, blocks and graphs |
//! | `recorded` (feature `record`) | what a pool says that it did, against its books |
//! | `platform`, `turns` | threads of which one runs at a time, and where its turn may pass |
//! | `finding` | [`Finding`]: what a pool must not do, and did |

mod act;
mod blocks;
mod finding;
mod generate;
mod graphs;
mod movables;
mod operation;
mod orders;
mod platform;
#[cfg(feature = "record")]
mod recorded;
mod run;
mod streams;
mod turns;
mod world;

pub use finding::{Fault, Finding};
pub use generate::{HEADER_BYTES, RECORD_BYTES, decode};
pub use operation::{Operation, Pace, Pick, Program, Release, Shape, Where};
pub use platform::{ProgramThreads, TurnGuard, TurnLock};
pub use run::{Tally, check, check_threads};
#[cfg(feature = "record")]
pub use run::{check_recorded, check_threads_recorded, check_watched};
