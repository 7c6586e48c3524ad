//! The simulated device.

use pool_core::device::Capabilities;
use pool_mock::{
    device::{Pacing, SimConfig, SimDevice},
    replay::Queued,
};

use crate::{machine::Machine, options::Options};

/// Simulated devices, as the options want them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated<'o>(pub(crate) &'o Options);

impl Simulated<'_> {
    /// A device with memory for so much.
    pub(crate) fn device(self, config: SimConfig, most_bytes: u64) -> SimDevice {
        let config = config.memory_bytes(most_bytes);
        SimDevice::new(if self.0.in_place { config } else { config.without(Capabilities::EXTEND) })
    }
}

impl Machine for Simulated<'_> {
    type Device = SimDevice;
    type Work = Queued;

    fn ways(&self) -> Vec<String> {
        self.0.pacing.iter().map(|choice| choice.name.clone()).collect()
    }

    fn working(&self, way: usize, most_bytes: u64) -> SimDevice {
        let pacing = self.0.pacing.get(way).map_or(Pacing::Idle, |choice| choice.pacing);
        self.device(SimConfig::new().pacing(pacing), most_bytes)
    }

    fn silent(&self, most_bytes: u64) -> SimDevice {
        self.device(SimConfig::new().detector(false).marks(false), most_bytes)
    }

    fn room_bytes(&self) -> u64 {
        u64::MAX
    }

    fn violations(&self, device: &SimDevice) -> Vec<String> {
        device.violations().iter().map(ToString::to_string).collect()
    }
}
