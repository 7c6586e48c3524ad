//! Streams, as programs name them.

use core::ffi::c_void;

use pool_cuda::{CudaDevice, CudaStream};

/// A `cudaStream_t`. The legacy default stream has one name here, though programs have two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamHandle(usize);

impl StreamHandle {
    /// The legacy default stream of the current context.
    pub(crate) const LEGACY: Self = Self(1);
    /// The default stream of the calling thread in the current context.
    pub(crate) const PER_THREAD: Self = Self(2);

    #[inline]
    pub(crate) fn of(raw: *mut c_void) -> Self {
        Self(raw.expose_provenance().max(Self::LEGACY.0))
    }

    /// Whether which stream it is depends on the current context.
    pub(crate) fn is_default(self) -> bool {
        self.0 <= Self::PER_THREAD.0
    }

    /// The name of a default stream among those of all contexts. A context's address has room for it,
    /// and is no stream's.
    pub(crate) fn in_context(self, context: *mut c_void) -> Self {
        Self(self.0 | context.addr())
    }

    pub(crate) fn raw(self) -> *mut c_void {
        core::ptr::with_exposed_provenance_mut(self.0)
    }

    /// As pools know it.
    pub(crate) fn stream(self) -> CudaStream {
        // SAFETY: a program names streams that are there, as each function says.
        unsafe { CudaStream::from_raw(self.raw()) }
    }

    /// The same, to be named to pools of other devices than its own.
    pub(crate) fn stream_of(self, device: &CudaDevice) -> CudaStream {
        self.stream().of(device)
    }

    /// A number of so many bits, from all of the handle's: handles are addresses, alike in their
    /// lowest and highest bits.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "few bits are left")]
    pub(crate) fn scattered(self, bits: u32) -> usize {
        // 2^64 over the golden ratio.
        let scattered = (self.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (scattered >> (64 - bits)) as usize
    }
}
