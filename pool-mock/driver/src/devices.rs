//! What the simulated devices and their driver are like, and the numbers that devices are known by.

use core::ffi::{CStr, c_int};

use crate::code;

/// What a simulated device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimulatedDevice {
    /// Its name.
    pub name: &'static CStr,
    /// All its memory in bytes.
    pub total_bytes: usize,
    /// What of it is free at the start, in bytes; others use the rest.
    pub free_bytes: usize,
    /// The size of its pages in bytes, if it has virtual memory management.
    pub page_bytes: Option<usize>,
    /// Whether other processes can have its pages, by a file descriptor.
    pub shareable: bool,
    /// Whether it has memory pools of the driver's, and `cuMemAllocAsync`.
    pub pools: bool,
}

/// The devices: one with pages, one without; both with the driver's pools.
pub const DEVICES: [SimulatedDevice; 2] = [
    SimulatedDevice {
        name: c"Simulated device 0",
        total_bytes: 8 << 30,
        free_bytes: 7 << 30,
        page_bytes: Some(2 << 20),
        shareable: true,
        pools: true,
    },
    SimulatedDevice {
        name: c"Simulated device 1",
        total_bytes: 4 << 30,
        free_bytes: 3 << 30,
        page_bytes: None,
        shareable: false,
        pools: true,
    },
];

/// The devices of a simulation and what their driver has.
///
/// # Example
///
/// ```
/// use pool_mock_driver::{DEVICES, Simulation, SimulatedDevices, symbol};
///
/// let old = SimulatedDevices::new()
///     .devices(vec![DEVICES[1]])
///     .driver_version(11_040)
///     .without("cuCtxRecordEvent");
/// let simulation = Simulation::start_with(old);
/// assert!(symbol(c"cuCtxRecordEvent").is_null());
/// assert_eq!(simulation.device_number(1), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimulatedDevices {
    pub(crate) devices: Vec<SimulatedDevice>,
    pub(crate) driver_version: c_int,
    pub(crate) missing: Vec<&'static str>,
}

impl Default for SimulatedDevices {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedDevices {
    /// [`DEVICES`] under the driver of CUDA 12.4, with all functions, newer ones too.
    #[must_use]
    pub fn new() -> Self {
        Self { devices: DEVICES.to_vec(), driver_version: 12_040, missing: Vec::new() }
    }

    /// Other devices; `cuDeviceGet` knows them by their places here.
    #[must_use]
    pub fn devices(mut self, devices: Vec<SimulatedDevice>) -> Self {
        self.devices = devices;
        self
    }

    /// What `cuDriverGetVersion` says: a thousand times the major version and ten times the minor.
    #[must_use]
    pub const fn driver_version(mut self, version: c_int) -> Self {
        self.driver_version = version;
        self
    }

    /// A function that [`symbol`](crate::symbol) does not have, as in an older driver.
    #[must_use]
    pub fn without(mut self, function: &'static str) -> Self {
        self.missing.push(function);
        self
    }

    /// The number of the device with this ordinal.
    pub(crate) fn number(&self, ordinal: c_int) -> Result<c_int, i32> {
        let known = usize::try_from(ordinal).is_ok_and(|ordinal| ordinal < self.devices.len());
        if known { Ok(FIRST_NUMBER + ordinal) } else { Err(code::INVALID_DEVICE) }
    }

    /// The ordinal of the device with this number.
    pub(crate) fn ordinal(&self, number: c_int) -> Result<usize, i32> {
        number
            .checked_sub(FIRST_NUMBER)
            .and_then(|ordinal| usize::try_from(ordinal).ok())
            .filter(|&ordinal| ordinal < self.devices.len())
            .ok_or(code::INVALID_DEVICE)
    }
}

/// A device's number is its ordinal and this, so that one taken for the other is noticed.
const FIRST_NUMBER: c_int = 100;
