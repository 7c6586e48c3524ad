//! The simulated device as it is tried.

use pool_core::device::{Call, Capabilities, Device, Failure};

use super::trial::{Pace, Trial};
use crate::device::{Access, Owner, SimDevice, SimError, SimRange, SimStream, StreamKind};

type Result<T> = core::result::Result<T, Failure<SimError>>;

impl Trial for SimDevice {
    fn begin_stream(&self) -> Result<SimStream> {
        let one_queue = !self.capabilities().contains(Capabilities::FENCES);
        let another = || self.open_stream(StreamKind::NonBlocking);
        Ok(if one_queue { self.legacy_stream() } else { another() })
    }

    fn end_stream(&self, stream: &SimStream) -> Result<()> {
        if *stream != self.legacy_stream() {
            self.close_stream(*stream)?;
        }
        Ok(())
    }

    fn mark(
        &self,
        stream: &SimStream,
        range: &SimRange,
        offset_bytes: u64,
        size_bytes: u64,
        mark: u8,
        pace: Pace,
    ) -> Result<()> {
        if pace == Pace::Slow {
            self.hold(*stream)?;
        }
        let owner = Owner(mark.into());
        Ok(self.queue_use(*stream, range, offset_bytes, size_bytes, owner, Access::Write)?)
    }

    fn read(&self, range: &SimRange, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        if !self.capabilities().contains(Capabilities::FENCES) {
            self.host_wait_all()?;
        }
        let end_bytes = offset_bytes.saturating_add(bytes.len() as u64);
        bytes.fill(0);
        for (place, owner) in self.owners(range, offset_bytes..end_bytes)? {
            let [start, end] = [place.start, place.end]
                .map(|at| usize::try_from(at - offset_bytes).unwrap_or(usize::MAX));
            bytes[start..end].fill(u8::try_from(owner.0).unwrap_or(u8::MAX));
        }
        Ok(())
    }

    fn hurry(&self) {
        self.run_all();
    }

    fn fail_commit(&self) -> bool {
        self.fail_next(Call::Commit, 1);
        true
    }
}
