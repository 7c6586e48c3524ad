//! What the tests begin with: a device whose work runs late, its context, and short names.

use core::ffi::{CStr, c_void};
use core::ptr::null_mut;

use pool_mock::device::{Pacing, SimDevice, Violation};
use pool_mock_driver::*;

/// Makes a call of the driver.
macro_rules! call {
    ($call:expr) => {{
        // SAFETY: every pointer is null or to memory of the test's that outlives the work.
        unsafe { $call }
    }};
}
pub(crate) use call;

/// Makes a call of the driver that succeeds.
macro_rules! ok {
    ($call:expr) => {
        assert_eq!($crate::world::call!($call), pool_mock_driver::code::SUCCESS)
    };
}
pub(crate) use ok;

/// Makes a call of the driver that gives something by its first argument.
macro_rules! made {
    ($function:ident($($argument:expr),*)) => {{
        let mut made = Default::default();
        $crate::world::ok!($function(&raw mut made $(, $argument)*));
        made
    }};
}
pub(crate) use made;

/// Makes a call of the driver that gives a handle by its first argument.
macro_rules! handle {
    ($function:ident($($argument:expr),*)) => {{
        let mut made: pool_mock_driver::Handle = core::ptr::null_mut();
        $crate::world::ok!($function(&raw mut made $(, $argument)*));
        made
    }};
}
pub(crate) use handle;

/// The legacy default stream.
pub(crate) const LEGACY: Handle = null_mut();
/// Flags of a stream that is not ordered with it, and of one that is.
pub(crate) const NON_BLOCKING: u32 = 1;
pub(crate) const BLOCKING: u32 = 0;
/// The flag of an event without times.
pub(crate) const UNTIMED: u32 = 2;
/// Sizes.
pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;
pub(crate) const PAGE: usize = 2 << 20;

/// A module with the kernels that every simulation knows.
pub(crate) const KERNELS: &CStr = c"
    .version 7.0
    .target sm_70
    .address_size 64
    .visible .entry pool_mark(.param .u64 dst, .param .u64 n, .param .u8 mark, .param .u64 spins) { ret; }
    .visible .entry pool_verify(.param .u64 src, .param .u64 n, .param .u8 mark, .param .u64 out) { ret; }
    .visible .entry pool_spin(.param .u64 spins) { ret; }
    .visible .entry stranger() { ret; }
";

/// A simulation with the first device's context current, and work that waits to be run.
pub(crate) struct World {
    pub(crate) simulation: Simulation,
    pub(crate) context: Handle,
    pub(crate) number: i32,
    module: Option<Handle>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(SimulatedDevices::new())
    }

    pub(crate) fn with(devices: SimulatedDevices) -> Self {
        let simulation = Simulation::start_with(devices);
        simulation.device(0).set_pacing(Pacing::Idle);
        let number = simulation.device_number(0).unwrap();
        ok!(cuInit(0));
        let context = handle!(cuDevicePrimaryCtxRetain(number));
        ok!(cuCtxPushCurrent_v2(context));
        Self { simulation, context, number, module: None }
    }

    pub(crate) fn device(&self) -> SimDevice {
        self.simulation.device(0)
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.device().take_violations()
    }

    /// Checks that these violations are there, by words of theirs in order, and no other.
    #[track_caller]
    pub(crate) fn assert_violations(&self, words: &[&str]) {
        let found: Vec<String> = self.violations().iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), words.len(), "{found:#?}");
        for (found, words) in found.iter().zip(words) {
            assert!(found.contains(words), "{found:?} without {words:?}");
        }
    }

    pub(crate) fn run_all(&self) {
        self.device().run_all();
    }

    /// Loads the kernels if they are not there; gives the one with a name.
    pub(crate) fn kernel(&mut self, name: &CStr) -> Handle {
        let module =
            *self.module.get_or_insert_with(|| handle!(cuModuleLoadData(KERNELS.as_ptr().cast())));
        handle!(cuModuleGetFunction(module, name.as_ptr()))
    }

    /// Launches `pool_mark`; gives the code.
    pub(crate) fn mark(&mut self, stream: Handle, address: u64, bytes: usize, mark: u8) -> i32 {
        let kernel = self.kernel(c"pool_mark");
        let (bytes, spins) = (bytes as u64, 1_u64);
        launch(
            kernel,
            stream,
            &[
                (&raw const address).cast(),
                (&raw const bytes).cast(),
                (&raw const mark).cast(),
                (&raw const spins).cast(),
            ],
        )
    }

    /// Launches `pool_verify`; gives the code.
    pub(crate) fn verify(
        &mut self,
        stream: Handle,
        address: u64,
        bytes: usize,
        mark: u8,
        differences: u64,
    ) -> i32 {
        let kernel = self.kernel(c"pool_verify");
        let bytes = bytes as u64;
        launch(
            kernel,
            stream,
            &[
                (&raw const address).cast(),
                (&raw const bytes).cast(),
                (&raw const mark).cast(),
                (&raw const differences).cast(),
            ],
        )
    }
}

/// Launches a kernel with one thread.
pub(crate) fn launch(kernel: Handle, stream: Handle, arguments: &[*const c_void]) -> i32 {
    let arguments = arguments.as_ptr().cast_mut().cast();
    call!(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, null_mut()))
}

/// The bytes at an address, as the legacy default stream finds them.
pub(crate) fn read(address: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    ok!(cuMemcpyDtoH_v2(read.as_mut_ptr().cast(), address, bytes));
    read
}

/// Two streams that nothing orders.
pub(crate) fn two_streams() -> [Handle; 2] {
    [handle!(cuStreamCreate(NON_BLOCKING)), handle!(cuStreamCreate(NON_BLOCKING))]
}

/// Has one stream wait for another.
pub(crate) fn order(after: Handle, stream: Handle) {
    let event = handle!(cuEventCreate(UNTIMED));
    ok!(cuEventRecord(event, after));
    ok!(cuStreamWaitEvent(stream, event, 0));
    ok!(cuEventDestroy_v2(event));
}
