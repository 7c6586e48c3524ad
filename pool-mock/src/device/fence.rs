//! Fences: points in streams.

use super::clock::{Clock, Point};

/// A fence of a simulated device. It is one of the objects that a device counts, until it is
/// [discarded](pool_core::device::Device::discard): to drop the value is to leak the fence.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct SimFence {
    pub(super) id: u64,
}

/// What the device knows of a fence.
#[derive(Debug)]
pub(super) struct FenceState {
    pub(super) device: u32,
    pub(super) place: Place,
}

/// Where a fence is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Behind real work.
    Stream {
        at: Point,
        /// What is before it elsewhere.
        clock: Clock,
    },
    /// In a capture, behind these nodes of it.
    Capture { capture: u64, nodes: Vec<u32> },
}
