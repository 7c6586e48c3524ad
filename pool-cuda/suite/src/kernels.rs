//! The kernels of the tests, launched by cust's macro on streams of a pool.

use core::ffi::c_int;
use core::mem::ManuallyDrop;

use cust::launch;
use cust::module::Module;
use pool_cuda::{CudaDevice, CudaStream, DeviceMut, DeviceRef, PoolStream};

use crate::raw::launch_kernel;

/// So many cycles of the clock are long: a tenth of a second or more.
pub(crate) const LONG: u64 = 200_000_000;

const TEXT: &str = include_str!("kernels.ptx");

/// Blocks of a launch, and threads of a block: any numbers do.
const GRID: u32 = 16;
const BLOCK: u32 = 256;

/// The kernels on one device.
pub(crate) struct Kernels {
    device: CudaDevice,
    module: ManuallyDrop<Module>,
}

impl Kernels {
    pub(crate) fn load(device: &CudaDevice) -> Self {
        let _current = device.enter().unwrap();
        let module = Module::from_ptx(TEXT, &[]).unwrap();
        // A driver may load a kernel when it is first asked for, and wait for all work then.
        for name in ["pool_mark", "pool_verify", "pool_spin"] {
            module.get_function(name).unwrap();
        }
        Self { device: device.clone(), module: ManuallyDrop::new(module) }
    }

    /// Lets time pass on a stream.
    pub(crate) fn spin(&self, stream: &PoolStream, spins: u64) {
        let module = &*self.module;
        // SAFETY: the kernel takes a number.
        unsafe { launch!(module.pool_spin<<<1, 1, 0, stream>>>(spins)) }.unwrap();
    }

    /// Writes a mark to every byte, after some time.
    pub(crate) fn mark(&self, bytes: DeviceMut<'_, u8>, mark: u8, spins: u64) {
        let (module, stream, len) = (&*self.module, bytes.stream(), bytes.len() as u64);
        // SAFETY: the kernel takes these, and stays within the length.
        unsafe { launch!(module.pool_mark<<<GRID, BLOCK, 0, stream>>>(bytes, len, mark, spins)) }
            .unwrap();
    }

    /// Writes a mark to bytes that are known by their address.
    pub(crate) fn mark_at(&self, stream: &PoolStream, address: u64, len: usize, mark: u8) {
        let (module, len, spins) = (&*self.module, len as u64, 0_u64);
        // SAFETY: the kernel takes these, and stays within the length; the caller has the bytes.
        unsafe { launch!(module.pool_mark<<<GRID, BLOCK, 0, stream>>>(address, len, mark, spins)) }
            .unwrap();
    }

    /// Queues on any stream of the device: a mark to be written to bytes that are known by their
    /// address, after some time. Gives the driver's code.
    pub(crate) fn mark_on(
        &self,
        stream: &CudaStream,
        address: u64,
        len: u64,
        mark: u8,
        spins: u64,
    ) -> c_int {
        let kernel = self.module.get_function("pool_mark").unwrap();
        let mut arguments = [
            (&raw const address).cast_mut().cast(),
            (&raw const len).cast_mut().cast(),
            (&raw const mark).cast_mut().cast(),
            (&raw const spins).cast_mut().cast(),
        ];
        let (raw, shape) = (kernel.to_raw().cast(), (GRID, BLOCK));
        // SAFETY: the kernel takes these, and stays within the length; the caller has the bytes.
        unsafe { launch_kernel(&self.device, raw, stream.as_raw(), shape, &mut arguments) }
    }

    /// Counts the bytes that are not the mark, on top of what was counted before.
    pub(crate) fn verify(
        &self,
        bytes: DeviceRef<'_, u8>,
        mark: u8,
        differences: DeviceMut<'_, u64>,
    ) {
        let (module, stream, len) = (&*self.module, bytes.stream(), bytes.len() as u64);
        assert_eq!(differences.len(), 1);
        // SAFETY: the kernel takes these, reads within the length and adds to the one number.
        unsafe {
            launch!(
                module.pool_verify<<<GRID, BLOCK, 0, stream>>>(bytes, len, mark, differences)
            )
        }
        .unwrap();
    }
}

impl Drop for Kernels {
    fn drop(&mut self) {
        let _current = self.device.enter().unwrap();
        // SAFETY: it is not used any more.
        unsafe { ManuallyDrop::drop(&mut self.module) };
    }
}
