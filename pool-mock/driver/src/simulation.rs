//! What the simulated driver remembers, and a test's hold on it.

use core::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::code;
use crate::devices::{DEVICES, number, ordinal};

/// The state of the driver in this process.
pub(crate) struct State {
    pub(crate) initialized: bool,
    pub(crate) retained: [u32; DEVICES.len()],
    calls: Vec<&'static str>,
    faults: Vec<(usize, i32)>,
}

impl State {
    const FRESH: Self = Self {
        initialized: false,
        retained: [0; DEVICES.len()],
        calls: Vec::new(),
        faults: Vec::new(),
    };

    /// Refuses what may not come before `cuInit`.
    pub(crate) fn initialized(&self) -> Result<(), i32> {
        if self.initialized { Ok(()) } else { Err(code::NOT_INITIALIZED) }
    }

    /// The ordinal of a device that a call names by its number.
    pub(crate) fn device(&self, number: i32) -> Result<usize, i32> {
        self.initialized()?;
        ordinal(number)
    }
}

static STATE: Mutex<State> = Mutex::new(State::FRESH);
static ONE_TEST: Mutex<()> = Mutex::new(());

thread_local! {
    /// The current contexts of this thread by their devices' ordinals, the newest last.
    static CONTEXTS: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that failed leaves its state behind; the next one starts afresh anyway.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one call of the driver: notes it, fails it if it is told to, else does its work.
pub(crate) fn call(
    name: &'static str,
    work: impl FnOnce(&mut State, &mut Vec<usize>) -> Result<(), i32>,
) -> i32 {
    let mut state = lock(&STATE);
    let index = state.calls.len();
    state.calls.push(name);
    let fault = state.faults.iter().find(|&&(at, _)| at == index).map(|&(_, code)| code);
    let result = match fault {
        Some(code) => Err(code),
        None => CONTEXTS.with_borrow_mut(|contexts| work(&mut state, contexts)),
    };
    result.err().unwrap_or(code::SUCCESS)
}

/// The driver in the hands of one test: fresh at the start, and no other test's until the end.
#[derive(Debug)]
#[must_use = "other tests share the driver when the simulation ends"]
pub struct Simulation {
    _one_test: MutexGuard<'static, ()>,
}

impl Simulation {
    /// Waits for other simulations to end, then starts the driver afresh.
    ///
    /// # Example
    ///
    /// ```
    /// let simulation = pool_mock_driver::Simulation::start();
    /// assert!(simulation.calls().is_empty());
    /// ```
    pub fn start() -> Self {
        let one_test = lock(&ONE_TEST);
        *lock(&STATE) = State::FRESH;
        CONTEXTS.with_borrow_mut(Vec::clear);
        Self { _one_test: one_test }
    }

    /// Lets the call with this index (from 0, since the start) do nothing but answer `code`.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, cuInit};
    ///
    /// let simulation = Simulation::start();
    /// simulation.fail_call(0, 999);
    /// // SAFETY: no pointers.
    /// assert_eq!(unsafe { [cuInit(0), cuInit(0)] }, [999, 0]);
    /// ```
    pub fn fail_call(&self, index: usize, code: i32) {
        lock(&STATE).faults.push((index, code));
    }

    /// The calls so far, from all threads.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, cuInit};
    ///
    /// let simulation = Simulation::start();
    /// // SAFETY: no pointers.
    /// unsafe { cuInit(0) };
    /// assert_eq!(simulation.calls(), ["cuInit"]);
    /// ```
    #[must_use]
    pub fn calls(&self) -> Vec<&'static str> {
        lock(&STATE).calls.clone()
    }

    /// How often the primary context of a device is retained; `None` past the last device.
    ///
    /// # Example
    ///
    /// ```
    /// let simulation = pool_mock_driver::Simulation::start();
    /// assert_eq!([simulation.retained(0), simulation.retained(2)], [Some(0), None]);
    /// ```
    #[must_use]
    pub fn retained(&self, ordinal: usize) -> Option<u32> {
        lock(&STATE).retained.get(ordinal).copied()
    }

    /// The ordinals of the devices whose contexts are on this thread's stack, the current last.
    ///
    /// # Example
    ///
    /// ```
    /// let simulation = pool_mock_driver::Simulation::start();
    /// assert!(simulation.contexts().is_empty());
    /// ```
    #[must_use]
    pub fn contexts(&self) -> Vec<usize> {
        CONTEXTS.with_borrow(Vec::clone)
    }

    /// The driver's number for a device; `None` past the last.
    ///
    /// # Example
    ///
    /// ```
    /// let simulation = pool_mock_driver::Simulation::start();
    /// assert_ne!(simulation.device_number(0), Some(0));
    /// assert_eq!(simulation.device_number(2), None);
    /// ```
    #[must_use]
    pub fn device_number(&self, device: i32) -> Option<i32> {
        number(device).ok()
    }
}
