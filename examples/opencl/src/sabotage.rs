//! The same device without its waits: what a check of contents must notice.

use core::time::Duration;

use pool_core::device::{Capabilities, Device, Failure, Severity};

use crate::device::ClDevice;
use crate::error::ClError;
use crate::fence::ClFence;
use crate::queue::ClStream;
use crate::range::ClRange;

/// A device whose streams wait for nothing. All else it does as the one under it.
///
/// # Example
///
/// ```
/// use pool_core::device::Device;
/// use pool_opencl::{ClDevice, Unwaiting};
///
/// # let Ok(device) = ClDevice::open(0) else { return };
/// let unwaiting = Unwaiting(device.clone());
/// assert_eq!(unwaiting.capabilities(), device.capabilities());
/// ```
#[derive(Clone, Debug)]
pub struct Unwaiting(pub ClDevice);

/// What the trait's calls give.
type Result<T> = core::result::Result<T, Failure<ClError>>;

impl Device for Unwaiting {
    type Range = ClRange;
    type Stream = ClStream;
    type Fence = ClFence;
    type Pages = ();
    type Error = ClError;

    /// The sabotage: the stream goes on at once.
    fn wait(&self, _: &ClStream, _: &ClFence) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, size_bytes: u64) -> Result<ClRange> {
        self.0.allocate(size_bytes)
    }

    fn free(&self, range: &ClRange) -> Result<()> {
        self.0.free(range)
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn granule_bytes(&self) -> u64 {
        self.0.granule_bytes()
    }

    fn most_range_bytes(&self) -> u64 {
        self.0.most_range_bytes()
    }

    fn total_bytes(&self) -> Option<u64> {
        Device::total_bytes(&self.0)
    }

    fn severity(&self, error: &ClError) -> Severity {
        self.0.severity(error)
    }

    fn is_alive(&self) -> bool {
        self.0.is_alive()
    }

    fn create_stream(&self) -> Result<ClStream> {
        Device::create_stream(&self.0)
    }

    fn destroy_stream(&self, stream: &ClStream) -> Result<()> {
        self.0.destroy_stream(stream)
    }

    fn stream_key(&self, stream: &ClStream) -> u64 {
        self.0.stream_key(stream)
    }

    fn stream_id(&self, stream: &ClStream) -> Result<u64> {
        self.0.stream_id(stream)
    }

    fn record(&self, stream: &ClStream) -> Result<ClFence> {
        self.0.record(stream)
    }

    fn streams(&self) -> Option<Vec<ClStream>> {
        self.0.streams()
    }

    fn is_done(&self, fence: &ClFence) -> Result<bool> {
        self.0.is_done(fence)
    }

    fn wait_on_host(&self, fence: &ClFence) -> Result<()> {
        self.0.wait_on_host(fence)
    }

    fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    fn copy(
        &self,
        stream: &ClStream,
        from: (&ClRange, u64),
        to: (&ClRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        self.0.copy(stream, from, to, size_bytes)
    }

    fn now(&self) -> Option<Duration> {
        self.0.now()
    }
}
