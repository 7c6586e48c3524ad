//! One range of `pool-core` for programs in C: no `std`, no `alloc`, no operating system. The
//! header, `include/pool_core.h`, says what each function does; the package `pool-core-library`
//! makes `libpool_core.a` of this crate.
//!
//! | module | its one job |
//! | --- | --- |
//! | `begin` | a range in the caller's storage: how much, and where each part lies |
//! | `calls` | the functions that change a range, and those that ask it |
//! | `state` | the head of that storage, and who may use it when |
//! | `config`, `block` | what is told and what is asked, in C's types |
//! | `error` | what went wrong, as a number and in words |
//! | `end` | what happens where nothing can go on |

#![no_std]

mod begin;
mod block;
mod calls;
mod config;
mod end;
mod error;
mod state;

pub use begin::*;
pub use block::*;
pub use calls::*;
pub use config::*;
pub use end::*;
pub use error::*;
pub use state::Range;
