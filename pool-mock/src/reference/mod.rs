//! Allocators that are simple enough to be right at a glance, to measure others by.

mod best_fit;

pub use best_fit::BestFit;
