//! Calls that come too late: while the process ends, or in the child of a fork.

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use parking_lot::Mutex;
use pool_mock::device::Violation;

use crate::code;
use crate::state::lock;

/// Calls may be made.
const IN_TIME: u8 = 0;
/// The process ends.
const EXITED: u8 = 1;
/// This is the child of a fork.
const FORKED: u8 = 2;

static SWITCH: AtomicU8 = AtomicU8::new(IN_TIME);
/// The process that the simulation was started in.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static LATE: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// A simulation starts in this process.
pub(crate) fn start() {
    SWITCH.store(IN_TIME, Ordering::SeqCst);
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    LATE.lock().clear();
}

/// The driver is initialized, where no simulation was started: a child of this process has none.
pub(crate) fn initialize() {
    let id = std::process::id();
    let _ = PROCESS.compare_exchange(0, id, Ordering::SeqCst, Ordering::SeqCst);
}

/// From now on every call comes too late.
pub(crate) fn exit() {
    SWITCH.store(EXITED, Ordering::SeqCst);
}

/// From now on every call is as one in the child of a fork.
pub(crate) fn fork() {
    SWITCH.store(FORKED, Ordering::SeqCst);
}

/// The calls that came too late.
pub(crate) fn calls() -> Vec<&'static str> {
    LATE.lock().clone()
}

/// Refuses a call that comes too late. In a child no lock is taken that another thread of the
/// parent's may have held.
pub(crate) fn check(name: &'static str) -> Result<(), i32> {
    let start = PROCESS.load(Ordering::SeqCst);
    let is_child = start != 0 && start != std::process::id();
    let switch = if is_child { FORKED } else { SWITCH.load(Ordering::SeqCst) };
    let (when, code) = match switch {
        IN_TIME => return Ok(()),
        EXITED => ("after the process had begun to end", code::DEINITIALIZED),
        _ => ("in the child of a fork", code::NOT_INITIALIZED),
    };
    if let Some(mut late) = LATE.try_lock() {
        late.push(name);
    }
    if !is_child {
        let device = lock().devices[0].sim.clone();
        device.report(Violation::Other(format!("{name} {when}")));
    }
    Err(code)
}
