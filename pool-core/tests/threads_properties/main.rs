//! One thread on a shared allocator with several caches on several shards: random operations and
//! every short sequence of them, against a simple model.
//!
//! With one thread nothing is in flight between two steps, so everything that the allocator
//! promises holds exactly, and each case can be repeated.

mod check;
mod exhaustive;
mod model;
mod random;
mod setting;
mod step;
