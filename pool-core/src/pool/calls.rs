//! The device's calls, as the pool makes them: counted, with no lock held, none once the device is
//! lost, and none that a capture forbids while there is one.

use alloc::vec::Vec;

use super::books::Books;
use super::error::DeviceError;
use super::fence::{Behind, Fence, Shared};
use super::inner::{Failed, Inner};
use super::notice::Notice;
use super::sabotage::{QUERIES_IN_CAPTURE, RECORDS_IN_CAPTURE};
use crate::device::{Call, Capabilities, Device, Failure, Severity};
use crate::threads::Threads;

impl<D: Device, T: Threads> Inner<D, T> {
    /// Makes a call. After one that ends all, the pool makes no more.
    pub(super) fn call<R>(
        &self,
        call: Call,
        make: impl FnOnce(&D) -> Result<R, Failure<D::Error>>,
    ) -> Result<R, Failed<D>> {
        if !self.device.is_there() {
            // Also where it is no more without a call that said so, as when the process ends.
            self.poison();
            return Err(DeviceError { call, failure: Failure::Lost });
        }
        make(&self.device).map_err(|failure| {
            if let Failure::Device(error) = &failure
                && self.device.severity(error) == Severity::Fatal
            {
                self.poison();
            }
            self.notice(Notice::CallFailed(call));
            DeviceError { call, failure }
        })
    }

    /// Makes a call that breaks a capture, unless there is one. A capture that is announced
    /// meanwhile begins when it has ended.
    pub(super) fn call_outside_captures<R>(
        &self,
        call: Call,
        make: impl FnOnce(&D) -> Result<R, Failure<D::Error>>,
    ) -> Result<Option<R>, Failed<D>> {
        let may = self.with_books(|books| {
            let may = !books.is_capturing() || QUERIES_IN_CAPTURE.is_out();
            books.uncapturable += u32::from(may);
            may
        });
        if !may {
            return Ok(None);
        }
        let result = self.call(call, make);
        self.with_books(|books| books.uncapturable -= 1);
        result.map(Some)
    }

    /// The identity of a stream that the pool does not know, where the device has them; none of one
    /// that is captured, which it would break to ask.
    pub(super) fn identity_of(&self, handle: &D::Stream) -> Result<Option<u64>, Failed<D>> {
        if !self.capabilities.contains(Capabilities::STREAM_IDS) {
            return Ok(None);
        }
        let ask = || self.call(Call::StreamId, |device| device.stream_id(handle));
        self.unless_captured(handle, ask)
    }

    /// Makes a call about a stream that the pool does not know, unless that is captured. A capture
    /// that is announced meanwhile begins when the call has ended.
    fn unless_captured<R>(
        &self,
        handle: &D::Stream,
        make: impl FnOnce() -> Result<R, Failed<D>>,
    ) -> Result<Option<R>, Failed<D>> {
        self.with_books(|books| books.uncapturable += 1);
        let result = match self.is_captured(handle) {
            Ok(true) => Ok(None),
            Ok(false) => make().map(Some),
            Err(failed) => Err(failed),
        };
        self.with_books(|books| books.uncapturable -= 1);
        result
    }

    /// Records a fence in a stream that the pool knows by this number.
    pub(super) fn record(&self, number: u32, handle: &D::Stream) -> Result<Shared<D>, Failed<D>> {
        self.record_as(handle, |serial| Behind::Stream { number, serial })
    }

    /// Records a fence in a stream that the pool does not know; none if it is captured.
    pub(super) fn record_raw(
        &self,
        handle: &D::Stream,
        id: Option<u64>,
    ) -> Result<Option<Shared<D>>, Failed<D>> {
        let record = || self.record_as(handle, |serial| Behind::Raw { id, serial });
        self.unless_captured(handle, record)
    }

    /// Records a fence in a captured stream, which is the capture's.
    pub(super) fn record_captured(&self, handle: &D::Stream) -> Result<Shared<D>, Failed<D>> {
        self.record_as(handle, |serial| Behind::Raw { id: None, serial })
    }

    fn record_as(
        &self,
        handle: &D::Stream,
        behind: impl FnOnce(u64) -> Behind,
    ) -> Result<Shared<D>, Failed<D>> {
        self.counters.records.add_shared(1);
        let behind = behind(self.draw_serial());
        let fence = self.call(Call::Record, |device| device.record(handle))?;
        Ok(Fence::new(fence, behind, &self.device))
    }

    /// A number that is larger than all before, for a fence that is about to be recorded.
    fn draw_serial(&self) -> u64 {
        self.with_books(|books| {
            books.serial += 1;
            books.serial
        })
    }

    /// Has a stream of the program wait for a fence.
    pub(super) fn wait(&self, handle: &D::Stream, fence: &Shared<D>) -> Result<(), Failed<D>> {
        let Some(raw) = fence.raw() else { return Ok(()) };
        self.counters.device_waits.add_shared(1);
        self.call(Call::Wait, |device| device.wait(handle, raw))
    }

    /// Fences behind all work of the device; none at all during a capture.
    pub(super) fn record_all(&self) -> Result<Option<Vec<Shared<D>>>, Failed<D>> {
        let serial = self.draw_serial();
        let recorded = self.call_outside_captures(Call::RecordAll, Device::record_all)?;
        let Some(fences) = recorded else { return Ok(None) };
        if fences.is_empty() {
            self.counters.host_waits.add_shared(1);
        } else {
            self.counters.records.add_shared(fences.len() as u64);
        }
        let behind = Behind::All { serial };
        let new = |fence| Fence::new(fence, behind, &self.device);
        Ok(Some(fences.into_iter().map(new).collect()))
    }

    /// Whether a fence is done, as far as can be asked.
    pub(super) fn is_done(&self, fence: &Shared<D>) -> Result<bool, Failed<D>> {
        let Some(raw) = fence.raw() else { return Ok(true) };
        self.counters.queries.add_shared(1);
        let done = self.call_outside_captures(Call::IsDone, |device| device.is_done(raw))?;
        Ok(done.unwrap_or(false))
    }

    /// Waits for a fence. False if that cannot be done during a capture.
    pub(super) fn wait_on_host(&self, fence: &Shared<D>) -> Result<bool, Failed<D>> {
        let Some(raw) = fence.raw() else { return Ok(true) };
        self.counters.host_waits.add_shared(1);
        let waited =
            self.call_outside_captures(Call::WaitOnHost, |device| device.wait_on_host(raw))?;
        Ok(waited.is_some())
    }

    /// The handle of a known stream, kept alive until [`end_use`](Self::end_use): whoever retires
    /// it waits for that. None if it is gone, or about to be.
    pub(super) fn begin_use(&self, number: u32) -> Option<D::Stream> {
        self.with_books(|books| {
            let known = books.streams.get_mut(&number).filter(|known| !known.retiring)?;
            known.busy += 1;
            Some(known.handle.clone())
        })
    }

    pub(super) fn end_use(&self, number: u32) {
        self.with_books(|books| {
            if let Some(known) = books.streams.get_mut(&number) {
                known.busy = known.busy.saturating_sub(1);
            }
        });
    }

    /// Does something with a known stream that is neither gone nor captured; else nothing.
    fn use_in<R>(
        &self,
        number: u32,
        work: impl FnOnce(&D::Stream) -> Result<R, Failed<D>>,
    ) -> Result<Option<R>, Failed<D>> {
        let Some(handle) = self.begin_use(number) else { return Ok(None) };
        let result = match self.is_captured(&handle) {
            Ok(true) => Ok(None),
            Ok(false) => work(&handle).map(Some),
            Err(failed) => Err(failed),
        };
        self.end_use(number);
        result
    }

    /// Whether a stream is captured now. While nothing is, the device is not asked.
    pub(super) fn is_captured(&self, handle: &D::Stream) -> Result<bool, Failed<D>> {
        if !self.is_capturing() || RECORDS_IN_CAPTURE.is_out() {
            return Ok(false);
        }
        // From its announcement on: the device may not know yet.
        let key = self.device.stream_key(handle);
        let announced =
            |books: &mut Books<D>| books.captures.iter().any(|capture| capture.key == key);
        if self.with_books(announced) {
            return Ok(true);
        }
        let capture = self.call(Call::CaptureId, |device| device.capture_id(handle))?;
        Ok(capture.is_some())
    }

    /// Records a fence in a known stream; none if that is gone, or captured.
    pub(super) fn record_in(&self, number: u32) -> Result<Option<Shared<D>>, Failed<D>> {
        self.use_in(number, |handle| self.record(number, handle))
    }

    /// Has a known stream wait for fences; false if it is gone, or captured.
    pub(super) fn wait_in(&self, number: u32, fences: &[Shared<D>]) -> Result<bool, Failed<D>> {
        let waited = self
            .use_in(number, |handle| fences.iter().try_for_each(|fence| self.wait(handle, fence)));
        waited.map(|done| done.is_some())
    }
}
