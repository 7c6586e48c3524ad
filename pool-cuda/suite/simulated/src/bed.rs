//! The bed.

use core::ffi::{CStr, c_void};
use std::sync::{Arc, OnceLock};

use pool_cuda::Driver;
use pool_cuda_suite::{Bed, Gate, Session, Simulated};
use pool_mock::device::Pacing;
use pool_mock_driver::{DEVICES, SimulatedDevices, Simulation};

/// The simulated driver.
#[derive(Clone, Copy, Debug)]
pub struct SimulatedBed;

/// A code that no version of CUDA has.
const FOREIGN_CODE: i32 = 54_321;

/// When work runs: as late as it may, at once, some steps later, in a random order.
const WAYS: [&str; 4] = ["idle", "eager", "lag", "random"];
const PACINGS: [Pacing; 4] = [Pacing::Idle, Pacing::Eager, Pacing::Lag(3), Pacing::Random(11)];

impl Bed for SimulatedBed {
    fn ways(&self) -> &'static [&'static str] {
        &WAYS
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn devices(&self) -> u32 {
        DEVICES.len().try_into().unwrap_or(u32::MAX)
    }

    fn begin(&self, way: usize) -> Box<dyn Session> {
        let simulation = Simulation::start();
        let driver = start(&simulation, way);
        Box::new(SimulatedSession { simulation, driver, way })
    }
}

/// Starts the driver.
fn start(simulation: &Simulation, way: usize) -> &'static Driver {
    simulation.device(0).set_pacing(PACINGS[way]);
    driver()
}

/// One table for all tests. The driver is started anew for each, as a process starts it.
fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
    let started = || unsafe { Driver::from_symbols(pool_mock_driver::symbol) }.unwrap();
    let fresh = started();
    DRIVER.get_or_init(|| fresh)
}

/// The driver is one for the whole process, and the session's as long as that lasts.
struct SimulatedGate;

impl Gate for SimulatedGate {
    fn hold(&self, stream: *mut c_void) {
        pool_mock_driver::first_device().hold(pool_mock_driver::stream(stream)).unwrap();
    }

    fn go(&self) {
        pool_mock_driver::first_device().run_all();
    }

    fn fail_next(&self, name: &str) -> bool {
        pool_mock_driver::fail_next(name, 1, FOREIGN_CODE);
        true
    }
}

struct SimulatedSession {
    simulation: Simulation,
    driver: &'static Driver,
    way: usize,
}

impl Session for SimulatedSession {
    fn driver(&self) -> &'static Driver {
        self.driver
    }

    fn symbol(&self, name: &CStr) -> *const c_void {
        pool_mock_driver::symbol(name)
    }

    fn gate(&self) -> Arc<dyn Gate> {
        Arc::new(SimulatedGate)
    }

    fn simulated(&self) -> Option<&dyn Simulated> {
        Some(self)
    }

    fn take_violations(&self) -> Vec<String> {
        // Those of all devices: they are one world.
        let violations = self.simulation.device(0).take_violations();
        violations.iter().map(ToString::to_string).collect()
    }

    fn end(self: Box<Self>) -> Result<(), String> {
        let violations = self.take_violations();
        if !violations.is_empty() {
            return Err(violations.join("\n"));
        }
        self.left_behind().map_or(Ok(()), Err)
    }
}

impl Simulated for SimulatedSession {
    fn calls(&self) -> Vec<&'static str> {
        self.simulation.calls()
    }

    fn count(&self, name: &str) -> usize {
        self.simulation.count(name)
    }

    fn waited(&self) -> Vec<&'static str> {
        self.simulation.waited()
    }

    fn restart(&self) {
        self.simulation.restart_with(SimulatedDevices::new());
        start(&self.simulation, self.way);
    }

    fn fail_call(&self, index: usize, code: i32) {
        self.simulation.fail_call(index, code);
    }

    fn left_behind(&self) -> Option<String> {
        let balance = self.simulation.balance();
        (!balance.is_zero()).then(|| format!("left behind: {balance}"))
    }

    fn references(&self, ordinal: u32) -> u32 {
        self.simulation.retained(ordinal as usize).unwrap_or(0)
    }

    fn stack(&self) -> usize {
        self.simulation.contexts().len()
    }

    fn fail_next(&self, name: &str, times: u64, code: i32) {
        self.simulation.fail_next(name, times, code);
    }

    fn make_fatal(&self, ordinal: u32) {
        self.simulation.make_fatal(ordinal as usize);
    }

    fn exit(&self) {
        self.simulation.exit();
    }

    fn late_calls(&self) -> Vec<&'static str> {
        self.simulation.late_calls()
    }
}
