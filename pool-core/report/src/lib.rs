//! A report to look at: what a memory pool did, as one HTML file.
//!
//! A [`History`] takes what happened, event by event, in a few bytes each: blocks handed out and
//! given back, growth, pages, failures, with streams and labels. [`write()`] makes the page of it:
//! live, deferred, cached and reserved bytes over time, the map of addresses at any moment, who
//! holds the memory, how much of what is free is in pieces too small, the figures of the policies,
//! and the moments of the peak and of each failure. The page has everything in it, and may reach
//! nothing: its own policy forbids the browser any request.
//!
//! It knows no pool. Whatever can say what it did can be shown: a recorder, a log, a replay. With the
//! feature `live` there is one that it knows: the pool of `pool-core`, at work, in `live`.
//!
//! # Example
//!
//! ```
//! use pool_report::{Event, Figure, History, Kind, Policy, Unit};
//!
//! let mut history = History::new("a first look");
//! let (compute, weights) = (history.stream("compute"), history.label("weights"));
//! history.push(Event::new(0, Kind::Growth).at(0, 64 << 20));
//! history.push(Event::new(1, Kind::Allocate).at(0, 40 << 20).on(compute).under(weights));
//! history.push(Event::new(2, Kind::Failure).at(0, 32 << 20).on(compute));
//! history.push(Event::new(3, Kind::Free).at(0, 40 << 20));
//! history.figure(Figure::new(Policy::Growth, "growths", 1.0, Unit::Count));
//!
//! let mut page = Vec::new();
//! pool_report::write(&history, &mut page)?;
//! assert!(page.starts_with(b"<!DOCTYPE html>"));
//! assert_eq!(history.peak_live().bytes, 40 << 20);
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod columns;
mod event;
mod figure;
mod fragments;
mod history;
#[cfg(feature = "live")]
pub mod live;
mod names;
mod open;
mod pack;
mod page;
mod stretches;
mod thin;

pub use event::{Event, Kind, LabelId, StreamId};
pub use figure::{Figure, Policy, Unit};
pub use history::{Clock, History, Peak};
pub use page::write;
