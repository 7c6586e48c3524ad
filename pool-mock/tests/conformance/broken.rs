//! A device that breaks one rule.

use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use pool_core::device::{Call, Capabilities, Device, Failure, MemoryInfo, Severity};
use pool_mock::conformance::{Pace, Trial};
use pool_mock::device::{
    Access, Owner, SimDevice, SimError, SimFence, SimPages, SimRange, SimStream,
};

use crate::fault::Fault;

type Result<T> = core::result::Result<T, Failure<SimError>>;

/// A simulated device with a fault.
pub(crate) struct Broken {
    device: SimDevice,
    fault: Option<Fault>,
    notes: Mutex<Notes>,
    thread: ThreadId,
}

/// What faults need to know.
#[derive(Default)]
struct Notes {
    /// By fence, its stream.
    streams: HashMap<SimFenceKey, SimStream>,
    records: u32,
    /// The range that was given out last, with its size.
    last: Option<(SimRange, u64)>,
    /// How often a range was given out, where it was more than once.
    twice: Vec<SimRange>,
    longer: Vec<SimRange>,
    /// Where pages are mapped.
    places: Vec<(SimRange, u64)>,
    /// Where the first of handles in a row ends.
    ends: Vec<(SimRange, u64)>,
    /// By handle of pages, how long it is.
    sizes: HashMap<String, u64>,
    fails_commit: bool,
    asked: u32,
    reserved: u32,
    was_refused: bool,
    first: Option<SimRange>,
    made: Option<SimStream>,
    /// The last work of each stream.
    last_work: HashMap<SimStream, (SimRange, u64, u64)>,
    /// Streams that wait for fences, with nothing behind that.
    waiting: Vec<SimStream>,
    spare: Vec<SimFence>,
}

/// A fence has no name of its own but its text.
type SimFenceKey = String;

fn key(fence: &SimFence) -> SimFenceKey {
    format!("{fence:?}")
}

impl Broken {
    pub(crate) fn new(device: SimDevice, fault: Option<Fault>) -> Self {
        Self { device, fault, notes: Mutex::default(), thread: thread::current().id() }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap()
    }

    /// The size of every page of these tests.
    fn page(&self) -> u64 {
        self.device.page_sizes().first().copied().unwrap_or(1)
    }

    /// Empties some bytes, at once.
    fn wipe(&self, range: &SimRange, offset_bytes: u64, size_bytes: u64) -> Result<()> {
        let stream = self.device.legacy_stream();
        self.device.queue_use(stream, range, offset_bytes, size_bytes, Owner(0), Access::Write)?;
        self.device.host_wait_stream(stream)?;
        Ok(())
    }

    /// A fence that is behind nothing.
    fn empty_fence(&self) -> Result<SimFence> {
        let empty = self.device.create_stream()?;
        let fence = self.device.record(&empty);
        self.device.destroy_stream(&empty)?;
        fence
    }

    /// Copies at once, whatever is queued.
    fn copy_now(
        &self,
        from: (&SimRange, u64),
        to: (&SimRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        let other = self.device.legacy_stream();
        self.device.copy(&other, from, to, size_bytes)?;
        self.device.host_wait_stream(other)?;
        Ok(())
    }

    /// The streams that are there.
    fn fences(&self) -> Result<Vec<SimFence>> {
        let streams = self.device.streams().unwrap_or_default();
        streams.iter().map(|stream| self.device.record(stream)).collect()
    }
}

impl Device for Broken {
    type Range = SimRange;
    type Stream = SimStream;
    type Fence = SimFence;
    type Pages = SimPages;
    type Error = SimError;

    fn allocate(&self, size_bytes: u64) -> Result<SimRange> {
        if self.is(Fault::RangesOverlap) {
            let mut notes = self.notes();
            if let Some((range, last_bytes)) = notes.last
                && size_bytes <= last_bytes
                && self.device.owners(&range, 0..1).is_ok()
            {
                notes.twice.push(range);
                notes.last = None;
                return Ok(range);
            }
        }
        let mut notes = self.notes();
        if self.is(Fault::OneThreadOnly) && thread::current().id() != self.thread
            || self.is(Fault::NothingAfterRefusal) && notes.was_refused
        {
            return Err(SimError::Invalid("nothing is served any more").into());
        }
        let made = self.device.allocate(size_bytes);
        notes.was_refused |= made.is_err();
        match &made {
            Ok(range) => {
                notes.first = notes.first.or(Some(*range));
                notes.last = Some((*range, size_bytes));
            }
            Err(_) if self.is(Fault::RefusalKeepsMemory) => {
                let free_bytes = self.device.memory()?.free_bytes;
                let _ = self.device.allocate(free_bytes / 2);
            }
            Err(_) if self.is(Fault::TooMuchIsServed) => return self.device.allocate(64 << 10),
            Err(_) => {}
        }
        made
    }

    fn free(&self, range: &SimRange) -> Result<()> {
        if self.is(Fault::FreeFreesNothing) {
            return Ok(());
        }
        if self.is(Fault::FreeWaits) {
            self.device.synchronize()?;
        }
        let mut notes = self.notes();
        if let Some(place) = notes.twice.iter().position(|twice| twice == range) {
            notes.twice.swap_remove(place);
            return Ok(());
        }
        let first = notes.first.filter(|first| first != range);
        drop(notes);
        self.device.free(range)?;
        match first {
            Some(first) if self.is(Fault::FreeWipesOthers) => self.wipe(&first, 0, 4096),
            _ => Ok(()),
        }
    }

    fn capabilities(&self) -> Capabilities {
        let all = self.device.capabilities();
        let mut notes = self.notes();
        match self.fault {
            Some(Fault::CapabilitiesChange) => {
                notes.asked += 1;
                if notes.asked > 2 { all - Capabilities::EXTEND } else { all }
            }
            _ => all,
        }
    }

    fn severity(&self, error: &SimError) -> Severity {
        match self.device.severity(error) {
            Severity::OutOfMemory if self.is(Fault::OutOfMemoryIsFatal) => Severity::Fatal,
            Severity::OutOfMemory if self.is(Fault::OutOfMemoryIsAnyFailure) => Severity::Call,
            other => other,
        }
    }

    fn is_alive(&self) -> bool {
        !self.is(Fault::NotAlive)
    }

    fn quarantine(&self, range: &SimRange, offset_bytes: u64, size_bytes: u64) {
        if self.is(Fault::NoticesWipe) {
            self.wipe(range, offset_bytes, size_bytes).unwrap();
        }
        self.device.quarantine(range, offset_bytes, size_bytes);
    }

    fn release(&self, range: &SimRange, offset_bytes: u64, size_bytes: u64) {
        self.device.release(range, offset_bytes, size_bytes);
    }

    fn address(&self, range: &SimRange) -> Option<u64> {
        if self.is(Fault::AddressesCoincide) {
            return Some(1 << 40);
        }
        let address = self.device.address(range)?;
        let is_longer = self.notes().longer.contains(range);
        let odd = self.is(Fault::OddAddresses) || self.is(Fault::LongerElsewhere) && is_longer;
        Some(address + if odd { 256 } else { 0 })
    }

    fn extend(&self, range: &SimRange, from_bytes: u64, to_bytes: u64) -> Result<()> {
        self.device.extend(range, from_bytes, to_bytes)?;
        self.notes().longer.push(*range);
        if self.is(Fault::LongerAndEmpty) { self.wipe(range, 0, from_bytes) } else { Ok(()) }
    }

    fn page_sizes(&self) -> &[u64] {
        if self.is(Fault::LargestPageFirst) {
            &[32 << 20, 2 << 20]
        } else {
            self.device.page_sizes()
        }
    }

    fn reserve(&self, size_bytes: u64) -> Result<SimRange> {
        let mut notes = self.notes();
        notes.reserved += 1;
        if self.is(Fault::AddressesRunOut) && notes.reserved > 40 {
            return Err(SimError::Invalid("there are no more addresses").into());
        }
        self.device.reserve(size_bytes)
    }

    fn create_pages(&self, size_bytes: u64) -> Result<SimPages> {
        if self.is(Fault::FewSizes) && !(size_bytes / self.page()).is_power_of_two() {
            return Err(SimError::Invalid("there are no such handles").into());
        }
        let pages = self.device.create_pages(size_bytes);
        if self.is(Fault::PagesFailAnyhow) {
            return pages.map_err(|_| SimError::Invalid("there are no pages").into());
        }
        let pages = pages?;
        self.notes().sizes.insert(format!("{pages:?}"), size_bytes);
        Ok(pages)
    }

    fn destroy_pages(&self, pages: SimPages) -> Result<()> {
        if self.is(Fault::PagesAreKept) { Ok(()) } else { self.device.destroy_pages(pages) }
    }

    fn commit(&self, range: &SimRange, offset_bytes: u64, pages: &[&SimPages]) -> Result<()> {
        if core::mem::take(&mut self.notes().fails_commit) {
            self.device.commit(range, offset_bytes, &pages[..1])?;
            return Err(SimError::Invalid("the second handle").into());
        }
        self.device.commit(range, offset_bytes, pages)?;
        let page = self.page();
        if self.is(Fault::CommitLosesContents) {
            return self.wipe(range, offset_bytes, page);
        }
        if self.is(Fault::CommitTakesMore) && offset_bytes >= page {
            self.wipe(range, offset_bytes - page, page)?;
        }
        let mut notes = self.notes();
        notes.places.push((*range, offset_bytes));
        let first_bytes = notes.sizes.get(&format!("{:?}", pages[0])).copied();
        notes.ends.push((*range, offset_bytes + first_bytes.unwrap_or(page)));
        Ok(())
    }

    fn decommit(&self, range: &SimRange, offset_bytes: u64, pages: &SimPages) -> Result<()> {
        if self.is(Fault::DecommitWaits) {
            self.device.synchronize()?;
        }
        self.notes().places.retain(|place| *place != (*range, offset_bytes));
        self.device.decommit(range, offset_bytes, pages)?;
        if self.is(Fault::DecommitTakesMore) {
            self.wipe(range, offset_bytes + self.page(), self.page())?;
        }
        Ok(())
    }

    fn create_stream(&self) -> Result<SimStream> {
        let made = self.notes().made;
        if self.is(Fault::MadeStreamsAreOne)
            && let Some(stream) = made
        {
            return Ok(stream);
        }
        let stream = self.device.create_stream()?;
        self.notes().made = Some(stream);
        Ok(stream)
    }

    fn destroy_stream(&self, stream: &SimStream) -> Result<()> {
        if self.is(Fault::EndOfAStreamWaits) {
            self.device.host_wait_stream(*stream)?;
        }
        if self.is(Fault::EndOfAStreamDropsWork) {
            self.device.host_wait_stream(*stream)?;
            let last = self.notes().last_work.remove(stream);
            if let Some((range, offset_bytes, size_bytes)) = last {
                self.wipe(&range, offset_bytes, size_bytes)?;
            }
        }
        self.device.destroy_stream(stream)
    }

    fn stream_key(&self, stream: &SimStream) -> u64 {
        if self.is(Fault::KeysCoincide) { 7 } else { self.device.stream_key(stream) }
    }

    fn stream_id(&self, stream: &SimStream) -> Result<u64> {
        if self.is(Fault::IdentitiesRepeat) {
            return Ok(self.device.stream_key(stream));
        }
        self.device.stream_id(stream)
    }

    fn record(&self, stream: &SimStream) -> Result<SimFence> {
        let mut notes = self.notes();
        notes.records += 1;
        if self.is(Fault::FencesRunOut) && notes.records > 1000 {
            return Err(SimError::Invalid("there are no more fences").into());
        }
        if self.is(Fault::FenceOfAnEmptyQueue) {
            return self.empty_fence();
        }
        if self.is(Fault::FenceForgetsWaits) && notes.waiting.contains(stream) {
            return self.empty_fence();
        }
        if self.is(Fault::DiscardedIsReused)
            && let Some(fence) = notes.spare.pop()
        {
            return Ok(fence);
        }
        let fence = self.device.record(stream)?;
        notes.streams.insert(key(&fence), *stream);
        Ok(fence)
    }

    fn streams(&self) -> Option<Vec<SimStream>> {
        self.device.streams()
    }

    fn record_all(&self) -> Result<Vec<SimFence>> {
        match self.fault {
            Some(Fault::RecordAllIsNone) => Ok(Vec::new()),
            Some(Fault::RecordAllMissesStreams) => self.fences(),
            _ => self.device.record_all(),
        }
    }

    fn is_done(&self, fence: &SimFence) -> Result<bool> {
        match self.fault {
            Some(Fault::FenceDoneTooEarly) => return Ok(true),
            Some(Fault::FenceNeverDone) => return Ok(false),
            Some(Fault::AskingWaits) => self.device.wait_on_host(fence)?,
            Some(Fault::FailureIsDone) => {
                let stream = self.notes().streams.get(&key(fence)).copied();
                if stream.is_some_and(|stream| !self.device.exists(stream)) {
                    return Ok(true);
                }
            }
            _ => {}
        }
        self.device.is_done(fence)
    }

    fn wait(&self, stream: &SimStream, fence: &SimFence) -> Result<()> {
        match self.fault {
            Some(Fault::WaitIsNone) => Ok(()),
            Some(Fault::WaitOfTheHost) => self.device.wait_on_host(fence),
            Some(Fault::NoWaitForItself)
                if self.notes().streams.get(&key(fence)) == Some(stream) =>
            {
                Err(SimError::Invalid("its own fence").into())
            }
            Some(Fault::CopyForgetsWaits | Fault::FenceForgetsWaits) => {
                self.notes().waiting.push(*stream);
                self.device.wait(stream, fence)
            }
            _ => self.device.wait(stream, fence),
        }
    }

    fn wait_on_host(&self, fence: &SimFence) -> Result<()> {
        match self.fault {
            Some(Fault::HostGoesOn) => Ok(()),
            Some(Fault::HostWaitsForEver) => loop {
                thread::park();
            },
            _ => self.device.wait_on_host(fence),
        }
    }

    fn synchronize(&self) -> Result<()> {
        if !self.is(Fault::SynchronizeMissesStreams) {
            return self.device.synchronize();
        }
        for fence in self.fences()? {
            self.device.wait_on_host(&fence)?;
            self.device.discard(fence);
        }
        Ok(())
    }

    fn discard(&self, fence: SimFence) {
        if self.is(Fault::DiscardedIsReused) {
            self.notes().spare.push(fence);
            return;
        }
        self.device.discard(fence);
    }

    fn capture_id(&self, stream: &SimStream) -> Result<Option<u64>> {
        if self.is(Fault::CapturedForNothing) {
            return Ok(Some(0));
        }
        self.device.capture_id(stream)
    }

    fn copy(
        &self,
        stream: &SimStream,
        from: (&SimRange, u64),
        to: (&SimRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        match self.fault {
            Some(Fault::CopyToTheStart) => self.device.copy(stream, from, (to.0, 0), size_bytes),
            Some(Fault::CopyGoesBack) => self.device.copy(stream, to, from, size_bytes),
            Some(Fault::CopyElsewhere) => self.copy_now(from, to, size_bytes),
            Some(Fault::CopyForgetsWaits) if self.notes().waiting.contains(stream) => {
                self.copy_now(from, to, size_bytes)
            }
            Some(Fault::CopyBehindTheFence) => {
                let (other, fence) = (self.device.create_stream()?, self.device.record(stream)?);
                self.device.wait(&other, &fence)?;
                self.device.discard(fence);
                self.device.hold(other)?;
                self.device.copy(&other, from, to, size_bytes)
            }
            Some(Fault::CopyHoldsUpTheHost) => {
                self.device.copy(stream, from, to, size_bytes)?;
                self.device.host_wait_stream(*stream)?;
                Ok(())
            }
            Some(Fault::SilentCopy) => Ok(()),
            _ => self.device.copy(stream, from, to, size_bytes),
        }
    }

    fn memory(&self) -> Result<MemoryInfo> {
        let info = self.device.memory()?;
        let same = self.is(Fault::MemoryStaysTheSame);
        Ok(if same { MemoryInfo { free_bytes: info.total_bytes, ..info } } else { info })
    }

    fn now(&self) -> Option<Duration> {
        let now = self.device.now()?;
        let back = || Duration::from_mins(1).saturating_sub(now);
        Some(if self.is(Fault::ClockGoesBack) { back() } else { now })
    }
}

impl Trial for Broken {
    fn begin_stream(&self) -> Result<SimStream> {
        self.device.begin_stream()
    }

    fn end_stream(&self, stream: &SimStream) -> Result<()> {
        self.device.end_stream(stream)
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
        match self.fault {
            Some(Fault::StreamOutOfOrder) if pace == Pace::Soon => {
                let other = self.device.legacy_stream();
                self.device.mark(&other, range, offset_bytes, size_bytes, mark, pace)?;
                self.device.host_wait_stream(other)?;
                return Ok(());
            }
            Some(Fault::SlowIsQuick) => {
                let soon = Pace::Soon;
                self.device.mark(stream, range, offset_bytes, size_bytes, mark, soon)?;
                self.device.host_wait_stream(*stream)?;
                return Ok(());
            }
            Some(Fault::CommitMapsTheFirst) => {
                let end = self.notes().ends.iter().find(|(row, _)| row == range).copied();
                let (_, end_bytes) = end.unwrap_or((*range, u64::MAX));
                let size_bytes = size_bytes.min(end_bytes.saturating_sub(offset_bytes));
                return self.device.mark(stream, range, offset_bytes, size_bytes, mark, pace);
            }
            _ => self.device.mark(stream, range, offset_bytes, size_bytes, mark, pace)?,
        }
        self.notes().last_work.insert(*stream, (*range, offset_bytes, size_bytes));
        let at = (*range, offset_bytes);
        let notes = self.notes();
        if self.is(Fault::SamePagesTwice) && notes.places.contains(&at) && size_bytes <= self.page()
        {
            let others = notes.places.iter().filter(|other| **other != at);
            for (other, offset_bytes) in others {
                self.device.mark(stream, other, *offset_bytes, size_bytes, mark, pace)?;
            }
        }
        Ok(())
    }

    fn read(&self, range: &SimRange, offset_bytes: u64, bytes: &mut [u8]) -> Result<()> {
        self.device.read(range, offset_bytes, bytes)
    }

    fn hurry(&self) {
        self.device.hurry();
    }

    fn too_many_bytes(&self) -> Option<u64> {
        self.device.too_many_bytes()
    }

    fn fail_commit(&self) -> bool {
        if self.is(Fault::CommitMapsHalf) {
            self.notes().fails_commit = true;
        } else {
            self.device.fail_next(Call::Commit, 1);
        }
        true
    }
}
