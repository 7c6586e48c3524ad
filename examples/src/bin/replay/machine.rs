//! What pools are made over.

use pool_core::Device;
use pool_mock::replay::Work;

/// A kind of device, and the work that is queued on it.
pub(crate) trait Machine {
    type Device: Device;
    type Work: Work<Self::Device> + Send;

    /// The names of the ways in which its devices run: a program is replayed in each.
    fn ways(&self) -> Vec<String>;

    /// A device that runs in one of these ways, with memory for so much.
    fn working(&self, way: usize, most_bytes: u64) -> Self::Device;

    /// A device for pools whose streams stay empty, with memory for so much.
    fn silent(&self, most_bytes: u64) -> Self::Device;

    /// The most that a pool can have at its start.
    fn room_bytes(&self) -> u64;

    /// Uses that must not be, as far as the device knows.
    fn violations(&self, device: &Self::Device) -> Vec<String>;
}
