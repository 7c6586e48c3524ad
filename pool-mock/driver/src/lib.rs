//! A CUDA driver that exists only in memory, for the tests of pool-cuda.
//!
//! It defines the `cu*` functions that pool-cuda and cust use (by the names that the real library
//! exports, so that code linked to the driver finds them here too) over simulated devices of
//! [`pool_mock::device`]: work is queued and runs late, memory has bytes, and whatever would be
//! undefined on a real device is noted as a violation. It checks what it is told, keeps account
//! of what exists, and fails the call it is told to fail. A package of its own, so that only a
//! test that names it has these symbols in it.
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
//!
//! | module | its one job |
//! | --- | --- |
//! | `call` | what every call goes through |
//! | `info`, `context`, `streams`, `events`, `capture` | the functions of these |
//! | `memory`, `driver_pools`, `virtual_memory` | the functions that give and take memory |
//! | `pointers`, `lookup` | what is said of addresses, and how functions are found by name |
//! | `sharing`, `shared_memory` | the functions that give pages to other processes, and what is behind them |
//! | `copies`, `fills`, `modules` | the functions that queue work on it |
//! | `kernels`, `ptx` | what kernels do, and which a text has |
//! | `space`, `bytes` | which memory is behind an address; what is in it |
//! | `state` | what the driver remembers, under one lock |
//! | `simulation`, `balance`, `devices` | a test's hold on it, what exists, what devices there are |
//! | `log`, `late` | calls that were made, that fail, or that come too late |
//! | `code` | result codes |

mod balance;
mod bytes;
mod call;
mod capture;
pub mod code;
mod context;
mod copies;
mod devices;
mod driver_pools;
mod events;
mod fills;
mod info;
mod kernels;
mod late;
mod log;
mod lookup;
mod memory;
mod modules;
mod pointers;
mod ptx;
mod shared_memory;
mod sharing;
mod simulation;
mod space;
mod state;
mod streams;
mod virtual_memory;

use core::ffi::{CStr, c_void};
use core::ptr;

pub use balance::Balance;
pub use call::Handle;
pub use capture::*;
pub use context::*;
pub use copies::*;
pub use devices::{DEVICES, SimulatedDevice, SimulatedDevices};
pub use driver_pools::*;
pub use events::*;
pub use fills::*;
pub use info::*;
pub use kernels::{KernelMemory, KernelWork, Launch};
pub use lookup::*;
pub use memory::*;
pub use modules::*;
pub use pointers::*;
pub use pool_mock::device::{Pacing, SimDevice, SimStream};
pub use sharing::*;
pub use simulation::Simulation;
pub use streams::*;
pub use virtual_memory::*;

/// Finds a function by its name, as the system's loader does in the real library; null for a name
/// that is not there, or that this simulation is [without](SimulatedDevices::without).
///
/// # Example
///
/// ```
/// assert!(!pool_mock_driver::symbol(c"cuInit").is_null());
/// assert!(pool_mock_driver::symbol(c"cuNoSuchThing").is_null());
/// ```
#[must_use]
pub fn symbol(name: &CStr) -> *const c_void {
    let Ok(name) = name.to_str() else { return ptr::null() };
    if state::lock().config.missing.contains(&name) {
        return ptr::null();
    }
    let finders = [
        info::find,
        context::find,
        streams::find,
        events::find,
        capture::find,
        memory::find,
        driver_pools::find,
        virtual_memory::find,
        sharing::find,
        copies::find,
        fills::find,
        modules::find,
        pointers::find,
        lookup::find,
    ];
    finders.iter().find_map(|look| look(name)).unwrap_or(ptr::null())
}

/// The first of the simulated devices, whoever has the driver in hand. (All are one world.)
///
/// # Example
///
/// ```
/// let _simulation = pool_mock_driver::Simulation::start();
/// pool_mock_driver::first_device().assert_clean();
/// ```
#[must_use]
pub fn first_device() -> SimDevice {
    state::lock().devices[0].sim.clone()
}

/// How often a function was called, whoever has the driver in hand.
///
/// # Example
///
/// ```
/// let simulation = pool_mock_driver::Simulation::start();
/// // SAFETY: no pointers.
/// unsafe { pool_mock_driver::cuInit(0) };
/// assert_eq!(pool_mock_driver::count("cuInit"), simulation.count("cuInit"));
/// ```
#[must_use]
pub fn count(name: &str) -> usize {
    state::lock().log.calls.iter().filter(|&&call| call == name).count()
}

/// The simulated stream that a handle means, whoever has the driver in hand. A default stream is that
/// of the calling thread's current context, or else of the first device.
///
/// # Example
///
/// ```
/// let simulation = pool_mock_driver::Simulation::start();
/// let legacy = core::ptr::null_mut();
/// assert_eq!(pool_mock_driver::stream(legacy), simulation.stream(legacy));
/// ```
#[must_use]
pub fn stream(handle: Handle) -> SimStream {
    let state = state::lock();
    let key = call::key(handle);
    let of = state.streams.get(&key).map(|known| known.context);
    let of = of.or_else(|| state.current().ok().map(|current| current.id));
    let context = of.and_then(|of| state.contexts.get(&of.handle));
    let device = context.map_or(&state.devices[0].sim, |context| &context.device);
    device.stream_with_key(key)
}

/// Lets the next calls of a function do nothing but answer `code`, so many of them, whoever has the
/// driver in hand.
///
/// # Example
///
/// ```
/// let _simulation = pool_mock_driver::Simulation::start();
/// pool_mock_driver::fail_next("cuInit", 1, 999);
/// // SAFETY: no pointers.
/// assert_eq!(unsafe { [pool_mock_driver::cuInit(0), pool_mock_driver::cuInit(0)] }, [999, 0]);
/// ```
pub fn fail_next(name: &str, times: u64, code: i32) {
    state::lock().log.fail_next(name, times, code);
}
