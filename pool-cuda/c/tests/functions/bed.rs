//! What a test works with: the simulated driver, a program's contexts and streams on it, and the
//! functions by their C names.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use pool_cuda::Driver;
use pool_cuda_c::{
    poolFreeAsync, poolGetStats, poolMallocAsync, poolStats, poolTrim, start_on, stop,
};
use pool_mock::device::Pacing;
use pool_mock_driver::*;

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// The codes that the tests meet.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const MEMORY: c_int = 2;
pub(crate) const INVALID_DEVICE: c_int = 101;
pub(crate) const INVALID_HANDLE: c_int = 400;
pub(crate) const CAPTURE: c_int = 900;

/// Default streams.
pub(crate) fn legacy() -> [Handle; 2] {
    [null_mut(), core::ptr::without_provenance_mut(1)]
}
pub(crate) fn per_thread() -> Handle {
    core::ptr::without_provenance_mut(2)
}

/// Makes a call of the driver that succeeds.
macro_rules! ok {
    ($call:expr) => {{
        // SAFETY: every pointer is null or to memory of the test's that outlives the work.
        let code = unsafe { $call };
        assert_eq!(code, 0, stringify!($call));
    }};
}
pub(crate) use ok;

/// The driver, in the hands of one test. At its end nothing may be left, and nothing wrong have been done.
pub(crate) struct Bed {
    contexts: Vec<(c_int, Handle)>,
    /// A device is lost, and what was on it with it.
    pub(crate) is_lost: bool,
    // Last, as other tests wait for it.
    pub(crate) simulation: Simulation,
}

impl Bed {
    /// With two devices, the first of which is current, and whose work runs late.
    pub(crate) fn new() -> Self {
        Self::with(SimulatedDevices::new())
    }

    /// With one device.
    pub(crate) fn single() -> Self {
        Self::with(SimulatedDevices::new().devices(vec![DEVICES[0]]))
    }

    pub(crate) fn with(devices: SimulatedDevices) -> Self {
        let simulation = Simulation::start_with(devices);
        // SAFETY: the simulated driver has the real one's prototypes, and is linked in.
        let driver = unsafe { Driver::from_symbols(pool_mock_driver::symbol) }.unwrap();
        start_on(Box::leak(Box::new(driver))).unwrap();
        simulation.device(0).set_pacing(Pacing::Idle);
        let mut bed = Self { contexts: Vec::new(), is_lost: false, simulation };
        bed.enter(0);
        bed
    }

    /// Makes a device's primary context current, as the runtime does.
    pub(crate) fn enter(&mut self, ordinal: c_int) -> Handle {
        let known = self.contexts.iter().find(|&&(known, _)| known == ordinal);
        let mut context = known.map_or(null_mut(), |&(_, context)| context);
        if context.is_null() {
            let device = self.simulation.device_number(ordinal).unwrap();
            ok!(cuDevicePrimaryCtxRetain(&raw mut context, device));
            self.contexts.push((ordinal, context));
        }
        ok!(cuCtxSetCurrent(context));
        context
    }

    /// A stream of the current context, which is not ordered with the legacy one.
    #[expect(clippy::unused_self, reason = "there is a driver as long as there is a bed")]
    pub(crate) fn stream(&self) -> Handle {
        let mut stream = null_mut();
        ok!(cuStreamCreate(&raw mut stream, 1));
        stream
    }

    /// All queued work runs.
    pub(crate) fn go(&self) {
        self.simulation.device(0).run_all();
    }

    /// Gives back what is idle. That it is, is seen by fences that pass only then.
    pub(crate) fn trim_all(&self) {
        for _ in 0..2 {
            assert_eq!(poolTrim(0, 0), SUCCESS);
            self.go();
        }
        assert_eq!(poolTrim(0, 0), SUCCESS);
    }

    /// How many calls of the driver something makes.
    pub(crate) fn calls(&self, work: impl FnOnce()) -> usize {
        let before = self.simulation.calls().len();
        work();
        self.simulation.calls().len() - before
    }

    /// Nothing was used out of order so far.
    pub(crate) fn assert_clean(&self) {
        self.simulation.device(0).assert_clean();
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // SAFETY: threads of the test that made calls have ended.
        unsafe { stop() };
        for &(ordinal, _) in &self.contexts {
            let device = self.simulation.device_number(ordinal).unwrap();
            // SAFETY: no pointers.
            unsafe { cuDevicePrimaryCtxRelease_v2(device) };
        }
        if !self.is_lost && !std::thread::panicking() {
            self.assert_clean();
            let balance = self.simulation.balance();
            assert_eq!(balance.allocations, 0, "{balance}");
            assert_eq!((balance.contexts, balance.pools, balance.events), (0, 0, 0), "{balance}");
        }
    }
}

/// Does something on a thread of its own, which has ended wholly when this returns.
pub(crate) fn on_a_thread(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

/// Asks for memory; the code if it is refused, and then the pointer is as it was.
pub(crate) fn try_malloc(size: usize, stream: Handle) -> Result<*mut c_void, c_int> {
    let untouched = core::ptr::without_provenance_mut(0xdead);
    let mut pointer: *mut c_void = untouched;
    // SAFETY: the pointer is to a local.
    match unsafe { poolMallocAsync(&raw mut pointer, size, stream) } {
        SUCCESS => Ok(pointer),
        code => {
            assert_eq!(pointer, untouched);
            Err(code)
        }
    }
}

pub(crate) fn malloc(size: usize, stream: Handle) -> *mut c_void {
    let pointer = try_malloc(size, stream).unwrap();
    assert!(!pointer.is_null());
    assert_eq!(pointer.addr() % 256, 0);
    pointer
}

pub(crate) fn try_free(pointer: *mut c_void, stream: Handle) -> c_int {
    // SAFETY: the stream is there.
    unsafe { poolFreeAsync(pointer, stream) }
}

pub(crate) fn free(pointer: *mut c_void, stream: Handle) {
    assert_eq!(try_free(pointer, stream), SUCCESS);
}

/// Queues work that writes.
pub(crate) fn write(pointer: *mut c_void, bytes: usize, stream: Handle) {
    ok!(cuMemsetD8Async(pointer.addr() as u64, 1, bytes, stream));
}

/// Memory that is given out, used and taken back on a stream.
pub(crate) fn pass(bytes: usize, stream: Handle) {
    let block = malloc(bytes, stream);
    write(block, bytes, stream);
    free(block, stream);
}

pub(crate) fn stats(device: c_int) -> poolStats {
    let mut stats = poolStats::default();
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { poolGetStats(device, &raw mut stats) }, SUCCESS);
    stats
}
