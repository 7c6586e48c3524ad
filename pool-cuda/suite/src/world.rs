//! What a test works with.

use core::ffi::{CStr, c_void};
use std::sync::Arc;

use pool_core::PoolConfig;
use pool_core::policy::Growth;
use pool_cuda::{ArenaSource, CudaDevice, CudaPool, Driver, PoolBuffer, PoolStream};

use crate::bed::{Gate, Session, Simulated};
use crate::kernels::{Kernels, LONG};

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// A test's world: the driver, and what it does on demand.
pub struct World {
    session: Box<dyn Session>,
}

impl core::fmt::Debug for World {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("World")
    }
}

impl World {
    pub(crate) fn new(session: Box<dyn Session>) -> Self {
        Self { session }
    }

    pub(crate) fn end(self) -> Result<(), String> {
        self.session.end()
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> &'static Driver {
        self.session.driver()
    }

    /// What only a simulated driver can tell, if this is one.
    #[must_use]
    pub fn simulated(&self) -> Option<&dyn Simulated> {
        self.session.simulated()
    }

    /// What only a simulated driver can tell.
    ///
    /// # Panics
    ///
    /// If this is none: the test is listed as one for simulated drivers alone.
    #[must_use]
    pub fn simulation(&self) -> &dyn Simulated {
        self.simulated().expect("a test for simulated drivers alone")
    }

    /// What the test has broken so far.
    #[must_use]
    pub fn take_violations(&self) -> Vec<String> {
        self.session.take_violations()
    }

    /// A number of times that is large where the device is fast.
    pub(crate) fn times(&self, simulated: usize, real: usize) -> usize {
        if self.simulated().is_some() { simulated } else { real }
    }

    /// A device, opened by itself.
    ///
    /// # Panics
    ///
    /// If it cannot be.
    #[must_use]
    pub fn device(&self, ordinal: u32) -> CudaDevice {
        CudaDevice::open_on(self.driver(), ordinal).unwrap()
    }

    /// The first device with arenas of one piece each, of any size: where a test is about streams and
    /// blocks, and a page would be more than it has.
    pub(crate) fn whole_device(&self) -> CudaDevice {
        self.device(0).with_source(ArenaSource::DriverPool).unwrap()
    }

    /// A pool that grows as it needs.
    pub(crate) fn pool(&self) -> CudaPool {
        CudaPool::new(self.device(0), config()).unwrap()
    }

    /// A pool that has so much memory in one piece, and never more.
    pub(crate) fn fixed_pool(&self, bytes: usize) -> CudaPool {
        fixed_pool(self.whole_device(), bytes)
    }

    /// The driver's function of this name, or null.
    pub(crate) fn symbol(&self, name: &CStr) -> *const c_void {
        self.session.symbol(name)
    }

    /// The driver with functions of our own in place of some of its own; null leaves one out.
    pub(crate) fn driver_with(&self, others: &[(&CStr, *const c_void)]) -> &'static Driver {
        let lookup = |name: &CStr| {
            let other = others.iter().find(|(known, _)| *known == name);
            other.map_or_else(|| self.session.symbol(name), |&(_, function)| function)
        };
        // SAFETY: they are the driver's, or have the prototypes of those that they replace.
        Box::leak(Box::new(unsafe { Driver::from_symbols(lookup) }.unwrap()))
    }

    /// Queues something on a stream that takes long; what is queued after it waits.
    pub(crate) fn slow(&self, kernels: &Kernels, stream: &PoolStream) {
        self.session.gate().hold(stream.as_raw());
        kernels.spin(stream, LONG);
    }

    /// What holds work up.
    pub(crate) fn gate(&self) -> Arc<dyn Gate> {
        self.session.gate()
    }

    /// Lets everything run that [`slow`](Self::slow) stopped.
    pub(crate) fn go(&self) {
        self.session.gate().go();
    }
}

/// A pool's settings: it grows by need alone, so that figures are exact.
pub(crate) fn config() -> PoolConfig {
    let growth = Growth { ahead: None, ..Growth::new() };
    PoolConfig::new().growth(growth)
}

/// A pool that has so much memory, and never more.
pub(crate) fn fixed_pool(device: CudaDevice, bytes: usize) -> CudaPool {
    let bytes = bytes as u64;
    CudaPool::new(device, config().initial_bytes(bytes).limit_bytes(bytes)).unwrap()
}

/// Checks a pool's books.
#[track_caller]
pub(crate) fn verify(pool: &CudaPool) {
    // SAFETY: nothing is freed or retired by this.
    unsafe { pool.core() }.verify().unwrap();
}

/// A number on the device that kernels count in.
pub(crate) fn counter(pool: &CudaPool, stream: &PoolStream) -> PoolBuffer<u64> {
    pool.alloc_zeroed(1, stream).unwrap()
}

/// What a pool's buffer holds, as a stream sees it.
#[track_caller]
pub(crate) fn contents(buffer: &PoolBuffer<u8>, stream: &PoolStream) -> Vec<u8> {
    buffer.on(stream).unwrap().to_vec().unwrap()
}

/// Checks that every byte is the mark.
#[track_caller]
pub(crate) fn assert_marked(bytes: &[u8], mark: u8) {
    let wrong = bytes.iter().filter(|&&byte| byte != mark).count();
    assert_eq!(wrong, 0, "of {} bytes are not {mark}", bytes.len());
}

/// A mark that goes with a number.
pub(crate) fn mark_of(number: usize) -> u8 {
    u8::try_from(number % 251).unwrap_or(0)
}
