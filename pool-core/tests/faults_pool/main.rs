//! Faults that other allocators had.

mod alignment;
mod capacity_shape;
mod capture;
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
mod perf_cliff;
mod reclaim;
mod stale_handle;
mod stats;
mod stream_lifetime;
mod support;
mod teardown;
mod trim_threshold;
mod xstream_uaf;
mod zero_size;
