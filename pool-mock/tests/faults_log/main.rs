//! Faults that readers of recorded logs have had elsewhere, by their numbers, and
//! properties that hold for any input.

mod convert;
mod helpers;
mod labels;
mod large;
mod memory;
mod order;
mod pickle;
mod properties;
mod rows;
mod snapshot;
mod viewers;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;
