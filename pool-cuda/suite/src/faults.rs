//! Faults that other allocators had, by number, through buffers of a pool on the driver. A test's
//! name begins with the number of its fault. Those of processes that end or fork (P034, P125) are in
//! `child`.

pub(crate) mod capture;
pub(crate) mod default_stream;
pub(crate) mod event_leak;
pub(crate) mod ipc;
pub(crate) mod multi_device;
pub(crate) mod pinned_host;
pub(crate) mod stream_lifetime;
pub(crate) mod teardown;
pub(crate) mod vmm;
