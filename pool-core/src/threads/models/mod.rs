//! Models of everything that threads do to each other here, for the checkers loom and shuttle.
//!
//! - `--cfg loom`: small scenarios, each explored in every order that its bound allows and the
//!   checker tells apart (with the limits that `explore::Order` notes), and with
//!   every value that a relaxed load may see: `ring`, `depot`, `slots`, `words`, `starts` take
//!   the structures by themselves, `caches` and `shards` a whole allocator.
//! - `--cfg shuttle`: `crowd` has more threads on a whole allocator than can be explored, in
//!   many random orders.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p pool-core --release --lib --features alloc models` runs
//! the first, with `--nocapture` it prints what was explored; `--cfg shuttle` the others, of which
//! `SHUTTLE_SCHEDULES` sets the number of orders.
//!
//! The models use the crate's own types as they are, and know nothing of the switches in
//! `sabotage`; `pool-core/sabotage` shows that each switch makes one of them fail.
//!
//! What the checkers do not see: [`Counter`](crate::sync::Counter), which decides nothing that a
//! stale value could harm (whether anything was ever lent is read after the range's lock was
//! held), [`Once`](crate::sync::Once), so that a model makes the tables it needs before its
//! threads start, and the waiting loop of [`Yielding`](crate::sync::Yielding), which is a loop
//! around a foreign lock: that one is stressed, and run under `ThreadSanitizer`.

extern crate std;

/// Words of a model thread's stack, for a whole allocator to be made on; and the steps at which a
/// model's threads may be interrupted, past which it has no end.
#[cfg(loom)]
const STACK_WORDS: usize = 1 << 15;
#[cfg(loom)]
const MOST_BRANCHES: usize = 10_000;

#[cfg(all(shuttle, not(loom)))]
mod crowd;

#[cfg(loom)]
mod caches;
#[cfg(loom)]
mod depot;
#[cfg(loom)]
pub(crate) mod explore;
#[cfg(all(loom, feature = "record"))]
mod journal;
#[cfg(loom)]
mod memory;
#[cfg(loom)]
mod ring;
#[cfg(loom)]
mod shards;
#[cfg(loom)]
mod slots;
#[cfg(loom)]
mod starts;
#[cfg(loom)]
mod words;
