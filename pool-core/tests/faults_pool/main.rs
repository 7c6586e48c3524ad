//! Faults that other pools had, as tests on a pool over the simulated device: each by its number,
//! for all of its kind.
//!
//! The numbers are those of a collection of public reports on allocators of device and host memory.
//! A program here declares what it uses and where, with an owner for each block; whether that was
//! right is for the device to say, which knows nothing of the pool. Every test is run under several
//! pacings of the device and bounds of what may wait, and ends with the books in order and
//! everything given back.
//!
//! What a fault needs beyond a pool and a device that exists only in memory is tested where that
//! exists:
//!
//! | fault | what is not here | where it belongs |
//! | --- | --- | --- |
//! | P020 | what a driver remembers of a failed call | the CUDA device |
//! | P023, P024, P122 | buffers that free themselves, and cannot be used without a note | the interface in Rust |
//! | P034 | hooks that run when a process ends | the interface in C |
//! | P036, P051, P077, P078 | which context is current during a call, and after it | the CUDA device |
//! | P043, P101 | addresses that are the driver's, and its two families of calls | the interface in C |
//! | P070, P071, P108 | every order of the steps of a hand-over | the models |
//! | P079 | a context that other libraries share | the CUDA device |
//! | P084 | allocations through a framework's plug-in | the interface in Python |
//! | P109 | a driver whose free waits for all devices | the CUDA device |
//! | P125 | a child process | the interface in C |

mod alignment;
mod capacity_shape;
mod capture;
mod config;
mod default_stream;
mod error_hygiene;
mod event_leak;
mod event_order;
mod frag_oom;
mod growth_retry;
mod invalid_free;
mod lock_free;
mod locks;
mod multi_device;
mod pages;
mod perf_cliff;
mod reclaim;
mod stale_handle;
mod stats;
mod stream_lifetime;
mod support;
mod teardown;
#[path = "../common/threads.rs"]
mod threads;
mod trim_threshold;
mod varying_shapes;
mod xstream_uaf;
mod zero_size;
