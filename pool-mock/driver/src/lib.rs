//! A CUDA driver that exists only in memory, for the tests of pool-cuda.
//!
//! It defines the `cu*` functions that pool-cuda uses (by the names that the real library
//! exports, so that code linked to the driver finds them here too) over [two devices](DEVICES).
//! It checks what it is told, keeps account of what is retained, and fails the call it is told
//! to fail. A package of its own, so that only a test that names it has these symbols in it.
//!
//! ```
//! use pool_mock_driver::{Simulation, code, cuDeviceGetCount, cuInit};
//!
//! let simulation = Simulation::start();
//! simulation.fail_call(1, code::NO_DEVICE);
//! let mut count = 0;
//! // SAFETY: the pointer is to a local.
//! let codes = unsafe { [cuInit(0), cuDeviceGetCount(&raw mut count)] };
//! assert_eq!(codes, [code::SUCCESS, code::NO_DEVICE]);
//! assert_eq!(simulation.calls(), ["cuInit", "cuDeviceGetCount"]);
//! ```

pub mod code;
mod devices;
mod functions;
mod simulation;

pub use devices::{DEVICES, SimulatedDevice};
pub use functions::*;
pub use simulation::Simulation;
