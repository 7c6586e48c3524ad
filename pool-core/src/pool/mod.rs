//! The pool: memory of a device, given out in the order of its streams.
//!
//! | module | its one job |
//! | --- | --- |
//! | `allocator`, `streams`, `capture`, `config`, `stream`, `error`, `stats` | what programs hold, ask for and read |
//! | [`policy`] | what programs choose, as plain data |
//! | `upkeep`, `keeper` | what is done now and then, and a thread that does it |
//! | `advice` | what a run tells the next one, and what is kept for it |
//! | `company` | whether one stream asks for memory lately, or several |
//! | `plenty` | whether memory is short, so that it lies together |
//! | `shortage` | why there is no memory, and which setting would help |
//! | `asker`, `help` | whom a call is for, and what is tried when its own space has no block |
//! | `free`, `parcel`, `reclaim`, `waits` | blocks that wait, from the free until they are free |
//! | `cool` | blocks that rest, also from their own stream |
//! | `gather`, `hub` | memory that moves between streams, behind a fence |
//! | `order` | streams that the program puts in order |
//! | `stains`, `sources` | which parts of the hub wait for what |
//! | `grow`, `extend`, `ahead`, `arenas` | memory that comes from the device |
//! | `whereabouts` | which block a program's pointer is that of |
//! | `pages` | memory that comes and goes in pages, under addresses that stay |
//! | `giveback`, `decay`, `decline` | memory that goes back, on request and by itself |
//! | `movable`, `migrate` | buffers that may be moved, and how they are moved together |
//! | [`budget`], `tenant`, `vacate` | several pools on one device, and what one owes the others |
//! | `floor`, `release` | free memory that others on the device need |
//! | `notes`, `tags` | what there is to know of a block: uses, graphs, whom it is charged to |
//! | `inner`, `books`, `fence`, `calls` | the parts, what is known under one lock, the device's calls |
//! | `notice` | what happened off the way of a hit, told to who listens |
//! | `record` (feature `record`) | events, labels, figures |
//! | `verify`, `end` | checks, and the pool's end |
//!
//! # Who may use memory, and when
//!
//! A stream runs in order, so what is freed on it can serve it again at once; any other needs a
//! fence. Each known stream has a *space*: the stretches whose free memory waits for nothing but
//! this stream. What is common lies in the *hub*, where each part is known with what it waits for;
//! whoever takes it has waited for that. A block goes back to the space that it is of, and so do its waits: freed by
//! another stream, or used by others, it lies in a *parcel* until its own space's stream has
//! waited for them, or the host has seen them done.
//!
//! Memory changes spaces in four steps: it is taken, so that nobody can use it; a fence is
//! recorded in the stream that it comes from; the stream that it goes to waits; it is given. The
//! two calls are made with no lock held.

#![expect(
    clippy::cast_possible_truncation,
    reason = "spaces and notes are fewer than 2^32 by construction"
)]
#![expect(
    clippy::inline_always,
    reason = "a hit is a few dozen instructions, which calls would double"
)]

mod advice;
mod affinity;
mod ahead;
mod allocator;
mod arenas;
mod asker;
mod books;
pub mod budget;
mod calls;
mod capture;
mod company;
mod config;
mod cool;
mod decay;
mod decline;
mod end;
mod error;
mod extend;
mod fence;
mod first;
mod floor;
mod free;
mod gather;
mod giveback;
mod grow;
mod help;
mod hub;
mod inner;
#[cfg(feature = "std")]
mod keeper;
mod migrate;
#[cfg(all(test, loom))]
mod models;
mod movable;
mod notes;
mod notice;
mod order;
mod pages;
mod parcel;
mod plenty;
pub mod policy;
mod reclaim;
#[cfg(feature = "record")]
pub mod record;
mod release;
mod sabotage;
mod shelves;
mod shortage;
mod sources;
mod stains;
mod stats;
mod stream;
mod streams;
mod tags;
mod tenant;
mod upkeep;
mod vacate;
mod verify;
mod waits;
mod whereabouts;

pub use advice::{Advice, Evidence, Reason, TagPeak};
pub use ahead::Warmed;
pub use allocator::Pool;
pub use arenas::{Arena, Location};
pub use config::{OnShortage, PoolConfig};
pub use error::{Cause, DeviceError, PoolError};
pub use giveback::Trimmed;
#[cfg(feature = "std")]
pub use keeper::Keeper;
pub use movable::{Movable, MovableGuard};
pub use policy::{Affinity, Deferred, Lifetime};
#[cfg(pool_sabotage)]
pub(crate) use sabotage::NAMES as SWITCHES;
pub use shortage::{Remedy, Shortage, Tried};
pub use stats::{DeviceCalls, Latency, PoolStats};
pub use stream::{GraphId, On, StreamId, Tag};
pub use upkeep::Reclaimed;
