//! Faults that other allocators had when threads met, as tests on a shared allocator: each by its
//! number, for all of its kind.
//!
//! The numbers are those of a collection of public reports on allocators of device and host memory.
//! What a fault needs beyond threads on one range is tested where that exists:
//!
//! | fault | what is not here | where it belongs |
//! | --- | --- | --- |
//! | P001, P019 | fences to wait for; a limit below what the device has | streams, growth of a pool |
//! | P018 | asking the device for less after a refusal | growth of a pool |
//! | P033, P070, P108 | every order of the steps of a hand-over, and numbers that come round again | the depot's models |
//! | P043 | an address that is the driver's own | the C interface |
//! | P047 | another thread's growth while one waits for the device | growth of a pool |
//! | P073 | a device call that comes back into the pool | the device layer |
//! | P074 | a free from a callback of the device | streams |
//! | P109 | a give-back that waits for all devices | the device layer |

mod invalid_free;
mod lock_free;
mod locks;
mod refusal;
mod stats;
mod support;
mod thread_cache;
#[path = "../common/threads.rs"]
mod threads;
