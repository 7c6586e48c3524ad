//! What a device is tried with.

use pool_core::device::{Device, Failure};

/// How long a mark takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As short as it may be.
    Soon,
    /// Long enough for a few dozen calls of the device to be made meanwhile: a tenth of a second will
    /// do. It ends by itself: nobody has to wait for it.
    ///
    /// In a simulation, which has no time, it lasts until the host waits for it in any way, or
    /// until [`hurry`](Trial::hurry).
    Slow,
}

/// What a device's author writes beside [`Device`], so that the [suite](super) can see what
/// the device's work did, and when.
///
/// # Example
///
/// The simulated device has one:
///
/// ```
/// use pool_core::device::Device;
/// use pool_mock::conformance::{Pace, Trial};
/// use pool_mock::device::{SimConfig, SimDevice};
///
/// let device = SimDevice::new(SimConfig::new());
/// let (range, stream) = (device.allocate(4096)?, device.begin_stream()?);
/// device.mark(&stream, &range, 0, 4096, 7, Pace::Slow)?;
/// let mut bytes = [0; 2];
/// device.read(&range, 100, &mut bytes)?;
/// assert_eq!(bytes, [0, 0], "the work has not run");
/// device.synchronize()?;
/// device.read(&range, 100, &mut bytes)?;
/// assert_eq!(bytes, [7, 7]);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub trait Trial: Device {
    /// A stream of the program's own. With [`FENCES`](pool_core::device::Capabilities::FENCES), each
    /// call gives another, whose work nothing orders with that of the others; without, it is the one
    /// queue. By default the device [makes](Device::create_stream) it.
    ///
    /// # Errors
    ///
    /// The device's own.
    fn begin_stream(&self) -> Result<Self::Stream, Failure<Self::Error>> {
        self.create_stream()
    }

    /// Takes such a stream back. What is queued in it still runs.
    ///
    /// # Errors
    ///
    /// The device's own.
    fn end_stream(&self, stream: &Self::Stream) -> Result<(), Failure<Self::Error>> {
        self.destroy_stream(stream)
    }

    /// Queues on a stream: some time, and then `mark` written to each of so many bytes of a range.
    /// The call itself waits for nothing.
    ///
    /// # Errors
    ///
    /// The device's own.
    fn mark(
        &self,
        stream: &Self::Stream,
        range: &Self::Range,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<(), Failure<Self::Error>>;

    /// Copies bytes of a range to the host, as they are now. With
    /// [`FENCES`](pool_core::device::Capabilities::FENCES) it waits for no work that is queued in any
    /// stream, for else nothing that is done too early could be told (a stream of its own will do);
    /// without, it comes after all that is in the one queue.
    ///
    /// # Errors
    ///
    /// The device's own.
    fn read(
        &self,
        range: &Self::Range,
        offset_bytes: u64,
        bytes: &mut [u8],
    ) -> Result<(), Failure<Self::Error>>;

    /// Has slow work that still lasts end soon. Only a simulation needs it.
    fn hurry(&self) {}

    /// More bytes than the device could ever give in one range, so that it says
    /// [`OutOfMemory`](pool_core::device::Severity::OutOfMemory); `None` if nobody knows. By default
    /// a little more than its [total memory](Device::memory).
    fn too_many_bytes(&self) -> Option<u64> {
        let total_bytes = self.memory().ok()?.total_bytes;
        total_bytes.checked_next_multiple_of(1 << 21)?.checked_add(1 << 21)
    }

    /// Has the next commit of two handles fail at the second; false if nobody can.
    fn fail_commit(&self) -> bool {
        false
    }
}
