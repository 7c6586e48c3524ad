//! Models of what threads do to each other in a pool, for the checkers loom and shuttle: the real
//! pool over the simulated device, whose detector judges every order.
//!
//! - `--cfg loom`: small scenarios of two threads, each explored in every order that its bound
//!   allows: `steal`, `gather`, `reclaim`, `retire`, `notes`, `growth`, `capture`,
//!   `end`.
//! - `--cfg shuttle`: `crowd` has more threads than can be explored, in many random orders.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pool-core --test pool_models --features alloc` runs the
//! first, with `--nocapture` it prints what was explored; `--cfg shuttle` the others, of which
//! `SHUTTLE_SCHEDULES` sets the number of orders.
//!
//! The models know nothing of the switches that take a protection out; `pool-core/sabotage` shows
//! that each switch makes one of them fail.
//!
//! A pool holds no lock where it calls its device, so that is where orders matter: each call, and
//! each piece of work that a model queues, is a step that the checker sees (`world::World::turn`).
//! It does not see the device's own lock, which is never held across a step.

#![cfg(any(loom, shuttle))]

// By the name that `explore` has for it, which is a crate without it too.
use ::std;

/// Words of a model thread's stack, for a whole pool to be made on; and the steps at which a
/// model's threads may be interrupted, past which it has no end.
#[cfg(loom)]
const STACK_WORDS: usize = 1 << 16;
#[cfg(loom)]
const MOST_BRANCHES: usize = 50_000;

#[cfg(all(shuttle, not(loom)))]
mod crowd;

#[cfg(loom)]
mod adopt;
#[cfg(loom)]
mod capture;
#[cfg(loom)]
mod end;
#[cfg(loom)]
#[path = "../../src/threads/models/explore.rs"]
mod explore;
#[cfg(loom)]
mod gather;
#[cfg(loom)]
mod growth;
#[cfg(loom)]
mod notes;
#[cfg(loom)]
mod reclaim;
#[cfg(loom)]
mod retire;
#[cfg(loom)]
mod steal;
mod world;
