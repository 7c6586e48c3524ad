//! A test's hold on the driver.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use pool_mock::device::{CaptureMode, SimDevice, SimStream};

use crate::balance::Balance;
use crate::call::Handle;
use crate::code;
use crate::context::with_stack;
use crate::devices::SimulatedDevices;
use crate::kernels::{KernelWork, Launch};
use crate::late;
use crate::state::{lock, restart};
use crate::virtual_memory;

static ONE_TEST: Mutex<()> = Mutex::new(());

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
        Self::start_with(SimulatedDevices::new())
    }

    /// As [`start`](Self::start), with other devices.
    pub fn start_with(devices: SimulatedDevices) -> Self {
        let one_test = ONE_TEST.lock();
        let simulation = Self { _one_test: one_test };
        simulation.restart_with(devices);
        simulation
    }

    /// Starts the driver afresh once more, in the hands of the same test. What the test has of it
    /// is to be gone.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, SimulatedDevices, cuInit};
    ///
    /// let simulation = Simulation::start();
    /// // SAFETY: no pointers.
    /// unsafe { cuInit(0) };
    /// simulation.restart_with(SimulatedDevices::new());
    /// assert!(simulation.calls().is_empty());
    /// ```
    pub fn restart_with(&self, devices: SimulatedDevices) {
        late::start();
        restart(devices);
        SimDevice::exchange_capture_mode(CaptureMode::Global);
    }

    /// The simulated device behind a device of the driver, and its primary context: when work
    /// runs, and what must not have happened. (All devices of a simulation are one world.)
    ///
    /// # Panics
    ///
    /// There is no such device.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::Pacing;
    ///
    /// let simulation = pool_mock_driver::Simulation::start();
    /// simulation.device(0).set_pacing(Pacing::Idle);
    /// simulation.device(1).assert_clean();
    /// ```
    #[must_use]
    pub fn device(&self, ordinal: usize) -> SimDevice {
        lock().devices[ordinal].sim.clone()
    }

    /// The simulated stream that a handle means, to hold it and let it go. A default stream is
    /// that of the current context, or else of the first device.
    ///
    /// # Example
    ///
    /// ```
    /// let simulation = pool_mock_driver::Simulation::start();
    /// let legacy = simulation.stream(core::ptr::null_mut());
    /// simulation.device(0).hold(legacy)?;
    /// # Ok::<(), pool_mock::device::SimError>(())
    /// ```
    #[must_use]
    pub fn stream(&self, handle: Handle) -> SimStream {
        crate::stream(handle)
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
        lock().log.fail_at(index, code);
    }

    /// Lets the next calls of a function do nothing but answer `code`, so many of them.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, cuInit};
    ///
    /// let simulation = Simulation::start();
    /// simulation.fail_next("cuInit", 2, 999);
    /// // SAFETY: no pointers.
    /// assert_eq!(unsafe { [cuInit(0), cuInit(0), cuInit(0)] }, [999, 999, 0]);
    /// assert_eq!(simulation.count("cuInit"), 3);
    /// ```
    pub fn fail_next(&self, name: &str, times: u64, code: i32) {
        crate::fail_next(name, times, code);
    }

    /// Lets every call on a device answer that a kernel has used an address that it may not.
    ///
    /// # Panics
    ///
    /// There is no such device.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, code, cuCtxPushCurrent_v2, cuCtxSynchronize};
    /// use pool_mock_driver::{cuDevicePrimaryCtxRetain, cuInit};
    ///
    /// let simulation = Simulation::start();
    /// let device = simulation.device_number(0).unwrap();
    /// let mut context = core::ptr::null_mut();
    /// simulation.make_fatal(0);
    /// // SAFETY: the pointer is to a local.
    /// let code = unsafe {
    ///     cuInit(0);
    ///     cuDevicePrimaryCtxRetain(&raw mut context, device);
    ///     cuCtxPushCurrent_v2(context);
    ///     cuCtxSynchronize()
    /// };
    /// assert_eq!(code, code::ILLEGAL_ADDRESS);
    /// ```
    pub fn make_fatal(&self, ordinal: usize) {
        lock().devices[ordinal].fatal = Some(code::ILLEGAL_ADDRESS);
    }

    /// The process ends now: every call is a violation, and answers that the driver is gone.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, code, cuCtxSynchronize};
    ///
    /// let simulation = Simulation::start();
    /// simulation.exit();
    /// // SAFETY: no pointers.
    /// assert_eq!(unsafe { cuCtxSynchronize() }, code::DEINITIALIZED);
    /// assert_eq!(simulation.late_calls(), ["cuCtxSynchronize"]);
    /// assert_eq!(simulation.device(0).violations().len(), 1);
    /// ```
    pub fn exit(&self) {
        late::exit();
    }

    /// The process is the child of a fork now: every call is a violation, and answers that the
    /// driver is not started. In a real child that is so without this.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock_driver::{Simulation, code, cuInit};
    ///
    /// let simulation = Simulation::start();
    /// simulation.forked();
    /// // SAFETY: no pointers.
    /// assert_eq!(unsafe { cuInit(0) }, code::NOT_INITIALIZED);
    /// assert_eq!(simulation.late_calls(), ["cuInit"]);
    /// ```
    pub fn forked(&self) {
        late::fork();
    }

    /// The calls that came after [`exit`](Self::exit), or in the child of a fork. A real child
    /// finds them here, but not among its violations, whose lock another thread of its parent may
    /// have held.
    #[must_use]
    pub fn late_calls(&self) -> Vec<&'static str> {
        late::calls()
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
        lock().log.calls.clone()
    }

    /// How often a function was called.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        crate::count(name)
    }

    /// The calls that had to wait for queued work, each as often as it had to.
    ///
    /// # Example
    ///
    /// ```
    /// let simulation = pool_mock_driver::Simulation::start();
    /// assert!(simulation.waited().is_empty());
    /// ```
    #[must_use]
    pub fn waited(&self) -> Vec<&'static str> {
        lock().log.waited.clone()
    }

    /// What exists in the driver.
    #[must_use]
    pub fn balance(&self) -> Balance {
        let mut state = lock();
        virtual_memory::sweep(&mut state);
        Balance::of(&state)
    }

    /// Says what the kernel of a name does. A function gets each launch, says which memory it
    /// will use, and gives what runs when the stream comes there.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::device::Access;
    /// use pool_mock_driver::{KernelWork, Simulation};
    ///
    /// let simulation = Simulation::start();
    /// // __global__ void increment(uint64_t* number)
    /// simulation.define_kernel("increment", |launch| {
    ///     let number = launch.number(0);
    ///     KernelWork::new(move |memory| memory.add(number, 1)).using(number, 8, Access::Update)
    /// });
    /// ```
    pub fn define_kernel(
        &self,
        name: &str,
        kernel: impl Fn(&Launch) -> KernelWork + Send + Sync + 'static,
    ) {
        lock().kernels.insert(name.to_owned(), Arc::new(kernel));
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
        let state = lock();
        let primary = state.devices.get(ordinal)?.primary;
        state.contexts.get(&primary).map(|context| context.references)
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
        let state = lock();
        let stack = with_stack(state.epoch, |stack| stack.clone());
        let known = stack.iter().filter_map(|context| state.contexts.get(context));
        known.map(|context| context.ordinal).collect()
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
        lock().config.number(device).ok()
    }
}
