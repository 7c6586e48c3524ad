//! Faults that other allocators had, as tests on one range: each by its number, for all of its kind.
//!
//! The numbers are those of a collection of public reports on allocators of device and host memory.
//! What a fault needs beyond one range is tested where that exists:
//!
//! | fault | what is not here | where it belongs |
//! | --- | --- | --- |
//! | P017 | an initial size against a maximum | growth of a pool |
//! | P022 | lists of free blocks for each stream | streams |
//! | P025 | the table of arenas and its holes | arenas |
//! | P029 | two allocations of the device that happen to be adjacent | arenas |
//! | P043, P101 | a pointer that is the driver's own; frees that name no stream | the C interface |
//! | P048 | pieces freed by another thread | thread caches |
//! | P059 | the alignment of an arena's base address | arenas |
//! | P092 | fences for each use of a block | streams |
//! | P105 | the driver's answer to a size of zero | arenas |

mod alignment;
mod bin_rounding;
mod capacity_shape;
mod coalesce;
mod config;
mod frag_oom;
mod huge;
mod invalid_free;
mod node_exhaustion;
mod overflow;
mod perf_cliff;
mod stale_handle;
mod support;
mod zero_size;
