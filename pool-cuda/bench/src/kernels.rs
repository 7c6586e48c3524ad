//! Kernels that take time, compiled by the driver from the text that the tests use.

use core::ffi::{CStr, c_void};
use core::time::Duration;
use std::time::Instant;

use pool_cuda::{LaunchShape, PoolStream};

use crate::Result;
use crate::calls::Calls;

/// The text of the kernels, as the driver takes it.
const PTX: &str = concat!(include_str!("../../suite/src/kernels.ptx"), "\0");

/// Cycles that pass while the clock is measured.
const TRIAL_CYCLES: u64 = 20_000_000;

/// Kernels, and how fast the device's clock is.
pub(crate) struct Kernels {
    spin: *mut c_void,
    mark: *mut c_void,
    cycles_a_ns: f64,
}

impl Kernels {
    /// Loads them, and measures the device's clock with them on a stream.
    pub(crate) fn load(calls: &Calls, stream: &PoolStream) -> Result<Self> {
        let ptx = CStr::from_bytes_with_nul(PTX.as_bytes())?;
        let [spin, mark] = calls.kernels(ptx, [c"pool_spin", c"pool_mark"])?;
        let mut this = Self { spin, mark, cycles_a_ns: 1.0 };
        // The first one wakes the device.
        for cycles in [TRIAL_CYCLES, 4 * TRIAL_CYCLES] {
            stream.synchronize()?;
            let start = Instant::now();
            this.spin_cycles(stream, cycles)?;
            stream.synchronize()?;
            let cycles = Duration::from_nanos(cycles).as_secs_f64();
            this.cycles_a_ns = cycles / start.elapsed().as_secs_f64().max(f64::EPSILON);
        }
        Ok(this)
    }

    /// Cycles of the device's clock in so long a time.
    pub(crate) fn cycles(&self, time: Duration) -> u64 {
        time.mul_f64(self.cycles_a_ns).as_nanos().try_into().unwrap_or(u64::MAX)
    }

    /// Lets time pass on a stream.
    pub(crate) fn spin(&self, stream: &PoolStream, time: Duration) -> Result<()> {
        self.spin_cycles(stream, self.cycles(time))
    }

    fn spin_cycles(&self, stream: &PoolStream, cycles: u64) -> Result<()> {
        let arguments = [(&raw const cycles).cast_mut().cast()];
        let one = LaunchShape { grid: [1; 3], block: [1; 3], shared_bytes: 0 };
        // SAFETY: the kernel takes one number of 64 bits, and uses no memory.
        Ok(unsafe { stream.launch_raw(self.spin, one, &arguments) }?)
    }

    /// Writes to so many bytes on a stream, after so many cycles.
    ///
    /// # Safety
    ///
    /// The bytes are memory of the device until the kernel is done, and nothing else uses them
    /// that the stream does not order.
    pub(crate) unsafe fn mark(
        &self,
        stream: &PoolStream,
        address: u64,
        bytes: u64,
        cycles: u64,
    ) -> Result<()> {
        let mark = 0x5a_u8;
        let arguments = [
            (&raw const address).cast_mut().cast(),
            (&raw const bytes).cast_mut().cast(),
            (&raw const mark).cast_mut().cast(),
            (&raw const cycles).cast_mut().cast(),
        ];
        let shape = LaunchShape { grid: [4, 1, 1], block: [256, 1, 1], shared_bytes: 0 };
        // SAFETY: the kernel takes an address, a count, a byte and a number; the rest is passed on
        // to the caller.
        Ok(unsafe { stream.launch_raw(self.mark, shape, &arguments) }?)
    }
}
