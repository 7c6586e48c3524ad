//! A CUDA device as it is tried.

use core::ffi::c_int;
use core::time::Duration;
use std::sync::Arc;

use pool_core::device::{Capabilities, Device, Failure, MemoryInfo, Severity};
use pool_cuda::{CudaDevice, CudaError, CudaFence, CudaPages, CudaRange, CudaStream};
use pool_mock::conformance::{Pace, Trial};

use crate::bed::Gate;
use crate::kernels::{Kernels, LONG};
use crate::raw::peek;

type Result<T> = core::result::Result<T, Failure<CudaError>>;

/// A device, and the kernels that mark its bytes. A clone is the same.
#[derive(Clone)]
pub(super) struct Tried {
    device: CudaDevice,
    kernels: Arc<Kernels>,
    gate: Arc<dyn Gate>,
}

impl Tried {
    pub(super) fn new(device: CudaDevice, gate: Arc<dyn Gate>) -> Self {
        let kernels = Arc::new(Kernels::load(&device));
        Self { device, kernels, gate }
    }
}

/// A call of the driver's that a test made.
fn told(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(CudaError::Call { call, code }.into()) }
}

/// Every call is the device's.
impl Device for Tried {
    type Range = CudaRange;
    type Stream = CudaStream;
    type Fence = CudaFence;
    type Pages = CudaPages;
    type Error = CudaError;

    fn allocate(&self, size_bytes: u64) -> Result<CudaRange> {
        self.device.allocate(size_bytes)
    }

    fn free(&self, range: &CudaRange) -> Result<()> {
        self.device.free(range)
    }

    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn granule_bytes(&self) -> u64 {
        self.device.granule_bytes()
    }

    fn most_range_bytes(&self) -> u64 {
        self.device.most_range_bytes()
    }

    fn total_bytes(&self) -> Option<u64> {
        Device::total_bytes(&self.device)
    }

    fn severity(&self, error: &CudaError) -> Severity {
        self.device.severity(error)
    }

    fn is_alive(&self) -> bool {
        self.device.is_alive()
    }

    fn address(&self, range: &CudaRange) -> Option<u64> {
        Device::address(&self.device, range)
    }

    fn extend(&self, range: &CudaRange, from_bytes: u64, to_bytes: u64) -> Result<()> {
        self.device.extend(range, from_bytes, to_bytes)
    }

    fn page_sizes(&self) -> &[u64] {
        self.device.page_sizes()
    }

    fn reserve(&self, size_bytes: u64) -> Result<CudaRange> {
        self.device.reserve(size_bytes)
    }

    fn create_pages(&self, size_bytes: u64) -> Result<CudaPages> {
        self.device.create_pages(size_bytes)
    }

    fn destroy_pages(&self, pages: CudaPages) -> Result<()> {
        self.device.destroy_pages(pages)
    }

    fn commit(&self, range: &CudaRange, offset_bytes: u64, pages: &[&CudaPages]) -> Result<()> {
        self.device.commit(range, offset_bytes, pages)
    }

    fn decommit(&self, range: &CudaRange, offset_bytes: u64, pages: &CudaPages) -> Result<()> {
        self.device.decommit(range, offset_bytes, pages)
    }

    fn create_stream(&self) -> Result<CudaStream> {
        self.device.create_stream()
    }

    fn destroy_stream(&self, stream: &CudaStream) -> Result<()> {
        self.device.destroy_stream(stream)
    }

    fn stream_key(&self, stream: &CudaStream) -> u64 {
        self.device.stream_key(stream)
    }

    fn stream_id(&self, stream: &CudaStream) -> Result<u64> {
        self.device.stream_id(stream)
    }

    fn record(&self, stream: &CudaStream) -> Result<CudaFence> {
        self.device.record(stream)
    }

    fn streams(&self) -> Option<Vec<CudaStream>> {
        self.device.streams()
    }

    fn record_all(&self) -> Result<Vec<CudaFence>> {
        self.device.record_all()
    }

    fn is_done(&self, fence: &CudaFence) -> Result<bool> {
        self.device.is_done(fence)
    }

    fn wait(&self, stream: &CudaStream, fence: &CudaFence) -> Result<()> {
        self.device.wait(stream, fence)
    }

    fn wait_on_host(&self, fence: &CudaFence) -> Result<()> {
        self.device.wait_on_host(fence)
    }

    fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }

    fn discard(&self, fence: CudaFence) {
        self.device.discard(fence);
    }

    fn capture_id(&self, stream: &CudaStream) -> Result<Option<u64>> {
        self.device.capture_id(stream)
    }

    fn copy(
        &self,
        stream: &CudaStream,
        from: (&CudaRange, u64),
        to: (&CudaRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        self.device.copy(stream, from, to, size_bytes)
    }

    fn memory(&self) -> Result<MemoryInfo> {
        Device::memory(&self.device)
    }

    fn now(&self) -> Option<Duration> {
        self.device.now()
    }

    fn quarantine(&self, range: &CudaRange, offset_bytes: u64, size_bytes: u64) {
        self.device.quarantine(range, offset_bytes, size_bytes);
    }

    fn release(&self, range: &CudaRange, offset_bytes: u64, size_bytes: u64) {
        self.device.release(range, offset_bytes, size_bytes);
    }
}

impl Trial for Tried {
    fn mark(
        &self,
        stream: &CudaStream,
        range: &CudaRange,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<()> {
        let spins = match pace {
            Pace::Soon => 0,
            Pace::Slow => {
                self.gate.hold(stream.as_raw());
                LONG
            }
        };
        let address = range.address() + offset_bytes;
        let code = self.kernels.mark_on(stream, address, size_bytes, mark, spins);
        told("cuLaunchKernel", code)
    }

    fn read(&self, range: &CudaRange, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        told("cuMemcpyDtoH_v2", peek(&self.device, range.address() + offset_bytes, bytes))
    }

    fn hurry(&self) {
        self.gate.go();
    }

    fn fail_commit(&self) -> bool {
        self.gate.fail_next("cuMemSetAccess")
    }
}
