//! Faults that other allocators had.

mod default_stream;
mod event_order;
mod stream_lifetime;
mod support;
mod xstream_uaf;
