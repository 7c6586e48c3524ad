//! The pool for programs that were not built for it: a library to be named in `LD_PRELOAD`, which has
//! the functions of the driver and of the runtime that give and take memory of a device.
//!
//! A program finds them by any of the ways that there are: linked, by `dlsym`, by `cuGetProcAddress` (as
//! the runtime does) and by `cudaGetDriverEntryPoint`. What a function cannot serve it passes on to the
//! driver, whose functions it calls by addresses that come from the driver's own handle.
//!
//! | module | its one job |
//! | --- | --- |
//! | `names` | the functions that are served, by their names |
//! | `lookup` | `dlsym` |
//! | `loader` | the real `dlsym`, the driver, the runtime |
//! | `entry` | `cuGetProcAddress` and `cudaGetDriverEntryPoint` |
//! | `foreign`, `real` | functions of other libraries; the driver's |
//! | `memory`, `stream`, `queries`, `others` | the functions that are served in the driver's place |
//! | `runtime` | those in the runtime's |
//! | `captures`, `kept`, `large` | which streams are captured; blocks that stay; where long blocks are |
//! | `pool` | whether there is a pool |
//! | `report` | what it saved, at the end |

// The wrapper of `dlsym` is written for this machine.
#![cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]

mod captures;
mod entry;
mod foreign;
mod kept;
mod large;
mod loader;
mod lookup;
mod memory;
mod names;
mod others;
mod pool;
mod queries;
mod real;
mod report;
mod runtime;
mod stream;
