//! What exists in the driver.

use core::fmt;

use crate::space::Kind;
use crate::state::State;
use crate::virtual_memory::Pages;

/// What exists in the driver, beyond what is there from the start.
///
/// # Example
///
/// ```
/// use pool_mock_driver::{Simulation, cuDevicePrimaryCtxRetain, cuInit};
///
/// let simulation = Simulation::start();
/// assert!(simulation.balance().is_zero());
/// let mut context = core::ptr::null_mut();
/// // SAFETY: the pointer is to a local.
/// unsafe {
///     cuInit(0);
///     cuDevicePrimaryCtxRetain(&raw mut context, simulation.device_number(0).unwrap());
/// }
/// assert_eq!(simulation.balance().contexts, 1);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Balance {
    /// References to primary contexts, and contexts made by hand.
    pub contexts: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Blocks of `cuMemAlloc` and `cuMemAllocAsync`.
    pub allocations: usize,
    /// The bytes of those and of pages.
    pub bytes: u64,
    /// Pools of the driver's that were made.
    pub pools: usize,
    /// Reserved stretches of addresses.
    pub reservations: usize,
    /// Handles of pages.
    pub pages: usize,
    /// Mappings of pages.
    pub mappings: usize,
    /// Blocks of the host's memory.
    pub host_allocations: usize,
    /// Memory of the program's that devices may use.
    pub registrations: usize,
    /// Modules.
    pub modules: usize,
    /// Graphs, and what was made of them to be launched.
    pub graphs: usize,
    /// Open captures.
    pub captures: usize,
}

impl Balance {
    /// What exists now.
    pub(crate) fn of(state: &State) -> Self {
        let contexts: u64 = state.contexts.values().map(|one| u64::from(one.references)).sum();
        let default_pools = state.devices.iter().filter_map(|device| device.pool).count();
        let blocks = || state.space.blocks.values();
        let of_device = |kind: &Kind| matches!(kind, Kind::Plain { .. } | Kind::Pooled(_));
        let allocated: u64 = blocks().filter(|one| of_device(&one.kind)).map(|one| one.size).sum();
        let paged: u64 = state.pages.values().map(Pages::taken_bytes).sum();
        Self {
            contexts: usize::try_from(contexts).unwrap_or(usize::MAX),
            streams: state.streams.len(),
            events: state.events.len(),
            allocations: blocks().filter(|one| of_device(&one.kind)).count(),
            bytes: allocated + paged,
            pools: state.pools.len() - default_pools,
            reservations: state.space.reserved.len(),
            pages: state.page_handles.len(),
            mappings: state.space.mappings.len(),
            host_allocations: blocks().filter(|one| matches!(one.kind, Kind::Pinned)).count(),
            registrations: blocks().filter(|one| matches!(one.kind, Kind::Registered)).count(),
            modules: state.modules.len(),
            graphs: state.graphs.len() + state.executables.len(),
            captures: state.captures.len(),
        }
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
