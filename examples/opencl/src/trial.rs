//! What the conformance suite tries the device with.

use pool_core::device::Failure;
use pool_mock::conformance::{Pace, Trial};

use crate::device::ClDevice;
use crate::error::ClError;
use crate::kernels::Kernels;
use crate::queue::ClStream;
use crate::range::{ClPart, ClRange};
use crate::sabotage::Unwaiting;

/// Rounds that take a tenth of a second on a processor, and longer on a GPU.
const SLOW_ROUNDS: u32 = 80_000_000;

/// What the trait's calls give.
type Result<T> = core::result::Result<T, Failure<ClError>>;

impl Trial for ClDevice {
    fn mark(
        &self,
        stream: &ClStream,
        range: &ClRange,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<()> {
        let mut kernels = Kernels::of(self)?;
        if pace == Pace::Slow {
            kernels.dawdle(stream, &ClPart::apart(self.context(), 4)?, SLOW_ROUNDS)?;
        }
        let (part, first) = part_around(range, offset_bytes, size_bytes)?;
        kernels.fill(stream, &part, first..part.size_bytes(), mark)?;
        // Nobody else tells the device to begin.
        Ok(stream.flush()?)
    }

    fn read(&self, range: &ClRange, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        // A queue of its own waits for no other.
        let stream = ClStream::create(self.context(), self.raw())?;
        let (part, first) = part_around(range, offset_bytes, bytes.len() as u64)?;
        for (to, from) in bytes.iter_mut().zip(part.read(&stream)?.into_iter().skip(first)) {
            *to = from;
        }
        Ok(())
    }

    fn too_many_bytes(&self) -> Option<u64> {
        self.total_bytes().checked_add(1 << 21)
    }
}

/// As the device that it stands for.
impl Trial for Unwaiting {
    fn mark(
        &self,
        stream: &ClStream,
        range: &ClRange,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<()> {
        self.0.mark(stream, range, offset_bytes, size_bytes, mark, pace)
    }

    fn read(&self, range: &ClRange, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        self.0.read(range, offset_bytes, bytes)
    }

    fn too_many_bytes(&self) -> Option<u64> {
        self.0.too_many_bytes()
    }
}

/// The part that ends where some bytes do, and where in it they begin: parts begin at granules alone.
fn part_around(range: &ClRange, offset_bytes: u64, size_bytes: u64) -> Result<(ClPart, usize)> {
    let first = offset_bytes % range.granule_bytes();
    let size_bytes = size_bytes.saturating_add(first);
    let part = range.part(offset_bytes - first, size_bytes)?;
    // What is less than a part's size is one of the host's.
    Ok((part, usize::try_from(first).unwrap_or(0)))
}
