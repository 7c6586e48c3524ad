//! Work of a stream that needs no kernel: copies, fills, and the host's wait for it.

use core::ffi::c_void;

use super::{CudaDevice, CudaStream};
use crate::error::CudaError;
use crate::process;
use crate::sys::RawStream;

impl CudaDevice {
    fn queue(
        &self,
        stream: &CudaStream,
        work: impl FnOnce(RawStream) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        process::check()?;
        self.within(|| work(stream.raw()))
    }

    /// Has the host wait for all that is queued on a stream.
    pub(crate) fn synchronize_stream(&self, stream: &CudaStream) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        self.queue(stream, |raw| unsafe { self.driver().functions.synchronize_stream(raw) })
    }

    /// Copies bytes of the device to the host.
    ///
    /// # Safety
    ///
    /// The stream is alive, and both places have so many bytes until it has passed.
    pub(crate) unsafe fn copy_to_host(
        &self,
        stream: &CudaStream,
        from: u64,
        to: *mut c_void,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe {
            self.driver().functions.copy_to_host(to, from, bytes, raw)
        })
    }

    /// Copies bytes of the host to the device.
    ///
    /// # Safety
    ///
    /// As [`copy_to_host`](Self::copy_to_host).
    pub(crate) unsafe fn copy_from_host(
        &self,
        stream: &CudaStream,
        from: *const c_void,
        to: u64,
        bytes: usize,
    ) -> Result<(), CudaError> {
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe {
            self.driver().functions.copy_to_device(to, from, bytes, raw)
        })
    }

    /// Copies bytes from one place of the device, or of a peer, to another.
    ///
    /// # Safety
    ///
    /// As [`copy_to_host`](Self::copy_to_host).
    pub(crate) unsafe fn copy_between(
        &self,
        stream: &CudaStream,
        from: u64,
        to: u64,
        bytes: usize,
    ) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe { self.driver().functions.copy(to, from, bytes, raw) })
    }

    /// Sets bytes of the device.
    ///
    /// # Safety
    ///
    /// As [`copy_to_host`](Self::copy_to_host).
    pub(crate) unsafe fn fill(
        &self,
        stream: &CudaStream,
        address: u64,
        byte: u8,
        bytes: usize,
    ) -> Result<(), CudaError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: passed on to the caller.
        self.queue(stream, |raw| unsafe { self.driver().functions.fill(address, byte, bytes, raw) })
    }
}
