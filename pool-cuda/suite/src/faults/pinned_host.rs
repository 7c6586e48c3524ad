//! Host memory that the driver has registered.

use crate::kernels::Kernels;
use crate::run::Test;
use crate::world::{MIB, World, assert_marked};

pub(crate) const TESTS: &[Test] = crate::tests![p118_memory_is_unpinned_before_it_goes];

/// Memory of the system's, at one address each time.
struct Mapped {
    start: *mut libc::c_void,
    bytes: usize,
}

impl Mapped {
    fn at(start: *mut libc::c_void, bytes: usize) -> Self {
        let fixed = if start.is_null() { 0 } else { libc::MAP_FIXED_NOREPLACE };
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed);
        // SAFETY: fresh memory, over nothing that is there.
        let start = unsafe { libc::mmap(start, bytes, protection, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: so many bytes are mapped, and borrowed as long.
        unsafe { core::slice::from_raw_parts_mut(self.start.cast(), self.bytes) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped so.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

fn p118_memory_is_unpinned_before_it_goes(world: &World) {
    let pool = world.pool();
    let device = pool.device().clone();
    let kernels = Kernels::load(&device);
    let stream = pool.create_stream().unwrap();
    let mut buffer = pool.alloc::<u8>(MIB, &stream).unwrap();
    let mut start = core::ptr::null_mut();
    for mark in 1..6 {
        let mut memory = Mapped::at(start, MIB);
        start = memory.start;
        {
            // SAFETY: it is dropped here, after the work that uses the memory.
            let mut pinned = unsafe { device.register_host(memory.bytes()) }.unwrap();
            world.slow(&kernels, &stream);
            kernels.mark(buffer.on_mut(&stream).unwrap(), mark, 0);
            buffer.on(&stream).unwrap().copy_to(pinned.memory()).unwrap();
            assert_marked(pinned.memory(), mark);
            // On a path that ends early, too.
            let attempt = || -> Result<(), pool_cuda::Error> {
                let mut other = vec![0_u8; 1 << 16];
                // SAFETY: as above.
                let _pinned = unsafe { device.register_host(&mut other) }?;
                buffer.on(&stream)?.slice(MIB + 1..)?;
                Ok(())
            };
            attempt().unwrap_err();
            if mark == 3 {
                // Memory that is pinned is not pinned again.
                let bytes = pinned.memory();
                // SAFETY: as above.
                assert!(unsafe { device.register_host(bytes) }.is_err());
            }
        }
        drop(memory);
    }
}
