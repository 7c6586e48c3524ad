//! The simulated driver does what the real one does, and refuses what that refuses.

mod captures;
mod checks;
mod contexts;
mod copies;
mod driver_pools;
mod events;
mod kernels;
mod memory;
mod sharing;
mod simulation;
mod streams;
mod threads;
mod virtual_memory;
mod world;
