//! What each policy of a pool does, in figures, on the simulated device.

mod advice;
mod affinity;
mod cool_down;
mod decay;
mod floor;
mod growth;
#[cfg(feature = "std")]
mod keeper;
mod migration;
mod preallocation;
mod reuse;
#[path = "../faults_pool/support.rs"]
#[expect(dead_code, reason = "other tests use more of it")]
mod support;
mod tenants;
#[path = "../common/threads.rs"]
mod threads;
