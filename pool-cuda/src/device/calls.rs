//! The calls that a pool makes.

use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant;

use pool_core::device::{Call, Capabilities, Device, Failure, MemoryInfo, Severity};

use super::memory::Memory;
use super::pages::Paging;
use super::{CudaDevice, CudaFence, CudaPages, CudaRange, CudaStream};
use crate::error::{CudaError, host_size};
use crate::process;
use crate::sys::{NOT_READY, RawStream, STREAM_NON_BLOCKING};

/// What the trait's calls give.
type Result<T> = core::result::Result<T, Failure<CudaError>>;

/// The driver's code for what a device does not have.
const NOT_SUPPORTED: i32 = 801;

impl CudaDevice {
    /// Does something with a stream: its device's context is current where its name alone does not
    /// say which stream it is, and wherever else the driver may ask for one.
    fn with_stream<R>(
        &self,
        stream: &CudaStream,
        work: impl FnOnce(&Self, RawStream) -> core::result::Result<R, CudaError>,
    ) -> Result<R> {
        process::check()?;
        let of = stream.device(self);
        Ok(of.within(|| work(of, stream.raw())).map_err(|error| self.told_of(of, error))?)
    }

    /// An error of a call that concerned a device, as this one tells it: that another is lost must
    /// not count as its own loss.
    fn told_of(&self, of: &Self, error: CudaError) -> CudaError {
        match error {
            CudaError::Call { call, code }
                if !self.is_same(of) && error.severity() == Severity::Fatal =>
            {
                CudaError::Elsewhere { call, code }
            }
            error => error,
        }
    }

    /// The device whose event a fence is.
    fn device_of<'a>(&'a self, fence: &'a CudaFence) -> &'a Self {
        fence.of.as_ref().unwrap_or(self)
    }

    /// Records with a call that is given the event; a failed one leaves the event for others.
    fn record_by(
        &self,
        of: &Self,
        record: impl FnOnce(crate::sys::RawEvent) -> core::result::Result<(), CudaError>,
    ) -> core::result::Result<CudaFence, CudaError> {
        let core = of.core();
        let event = core.events.take(core.driver, &core.context)?;
        if let Err(error) = record(event) {
            core.events.give_back(core.driver, &core.context, event);
            return Err(error);
        }
        let of = (!self.is_same(of)).then(|| of.clone());
        Ok(CudaFence { event, of })
    }

    /// Whether a stream's handle is another's by now. A captured one is taken for what it was: it was
    /// there when the capture was announced, and nobody can destroy it meanwhile.
    fn is_gone(
        &self,
        stream: &CudaStream,
        raw: RawStream,
    ) -> core::result::Result<bool, CudaError> {
        let Some(known) = stream.id() else { return Ok(false) };
        // SAFETY: the handle is a stream's, and no default one has a number.
        let number = unsafe { self.driver().number_of(raw) }?;
        Ok(number.is_some_and(|number| number != known))
    }

    /// A fence for all work of the context, which is current; none where the driver has none, once
    /// that is done.
    fn record_context(&self) -> core::result::Result<Option<CudaFence>, CudaError> {
        let context = self.core().context.raw();
        let recorded = self.record_by(self, |event| {
            // SAFETY: context and event live as long as `self`.
            let made = unsafe { self.driver().functions.record_context(context, event) };
            let absent = CudaError::Call { call: "cuCtxRecordEvent", code: NOT_SUPPORTED };
            made.unwrap_or(Err(absent))
        });
        match recorded {
            Ok(fence) => Ok(Some(fence)),
            Err(error) if error.code() == Some(NOT_SUPPORTED) => {
                self.synchronize_context()?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Has the host wait for all work of the context.
    fn synchronize_context(&self) -> core::result::Result<(), CudaError> {
        // SAFETY: no pointers.
        let wait = || unsafe { self.driver().functions.synchronize_context() };
        self.within(|| self.driver().relaxed(wait))
    }
}

impl Device for CudaDevice {
    type Range = CudaRange;
    type Stream = CudaStream;
    type Fence = CudaFence;
    type Pages = CudaPages;
    type Error = CudaError;

    fn allocate(&self, size_bytes: u64) -> Result<CudaRange> {
        process::check()?;
        let bytes = host_size("cuMemAlloc_v2", size_bytes)?;
        let core = self.core();
        let allocate = || self.inner.memory.allocate(core.driver, &core.context, bytes);
        Ok(core.driver.relaxed(allocate)?)
    }

    fn free(&self, range: &CudaRange) -> Result<()> {
        process::check()?;
        if range.reserved_bytes > 0 {
            return Ok(self.with_pages(|paging| paging.free(range))?);
        }
        let core = self.core();
        let free = || self.inner.memory.free(core.driver, &core.context, range);
        Ok(core.driver.relaxed(free)?)
    }

    fn capabilities(&self) -> Capabilities {
        let all = Capabilities::FENCES
            | Capabilities::STREAMS
            | Capabilities::ADDRESSES
            | Capabilities::CLOCK
            | Capabilities::STREAM_IDS
            | Capabilities::CAPTURE
            | Capabilities::GROWS_IN_CAPTURE;
        let memory = &self.inner.memory;
        let free =
            if memory.free_waits() { Capabilities::FREE_WAITS } else { Capabilities::empty() };
        // How much the host has is not the driver's to say, and the host waits for a copy from its
        // own memory to its own, whatever the call.
        let known = if matches!(memory, Memory::Host) {
            Capabilities::empty()
        } else {
            Capabilities::MEMORY | Capabilities::COPY
        };
        let pages =
            self.inner.pages.as_ref().map_or(Capabilities::empty(), |_| Capabilities::PAGES);
        all | free | known | pages
    }

    fn severity(&self, error: &CudaError) -> Severity {
        error.severity()
    }

    fn is_alive(&self) -> bool {
        process::is_usable()
    }

    fn address(&self, range: &CudaRange) -> Option<u64> {
        Some(range.address())
    }

    fn page_sizes(&self) -> &[u64] {
        self.inner.pages.as_ref().map_or(&[], Paging::sizes)
    }

    fn reserve(&self, size_bytes: u64) -> Result<CudaRange> {
        process::check()?;
        Ok(self.with_pages(|paging| paging.reserve(size_bytes))?)
    }

    fn create_pages(&self, size_bytes: u64) -> Result<CudaPages> {
        process::check()?;
        Ok(self.with_pages(|paging| paging.create(size_bytes))?)
    }

    fn destroy_pages(&self, pages: CudaPages) -> Result<()> {
        process::check()?;
        Ok(self.with_pages(|paging| paging.destroy(pages))?)
    }

    fn commit(&self, range: &CudaRange, offset_bytes: u64, pages: &[&CudaPages]) -> Result<()> {
        process::check()?;
        Ok(self.with_pages(|paging| paging.commit(range, offset_bytes, pages))?)
    }

    fn decommit(&self, range: &CudaRange, offset_bytes: u64, pages: &CudaPages) -> Result<()> {
        process::check()?;
        Ok(self.with_pages(|paging| paging.decommit(range, offset_bytes, pages))?)
    }

    fn create_stream(&self) -> Result<CudaStream> {
        process::check()?;
        let driver = self.driver();
        let create = || {
            let mut stream = RawStream::NULL;
            // SAFETY: the pointer is to a local.
            unsafe { driver.functions.create_stream(&raw mut stream, STREAM_NON_BLOCKING) }?;
            Ok(CudaStream::of_handle(stream.0))
        };
        Ok(self.within(|| driver.relaxed(create))?)
    }

    fn destroy_stream(&self, stream: &CudaStream) -> Result<()> {
        // SAFETY: a pool destroys what it made, once.
        self.with_stream(stream, |of, raw| unsafe { of.driver().functions.destroy_stream(raw) })
    }

    fn stream_key(&self, stream: &CudaStream) -> u64 {
        stream.key()
    }

    fn stream_id(&self, stream: &CudaStream) -> Result<u64> {
        // The driver is not asked for what is known without it, also while the stream is captured.
        if let Some(id) = stream.special_id() {
            process::check()?;
            return Ok(id);
        }
        self.with_stream(stream, |of, raw| {
            let mut id = 0;
            // SAFETY: the pointer is to a local, and the stream is alive.
            let asked = unsafe { of.driver().functions.stream_id(raw, &raw mut id) };
            // The driver counts in each context.
            let id = asked.map(|asked| asked.map(|()| id));
            id.unwrap_or_else(|| Ok(super::stream::next_id()))
        })
    }

    fn record(&self, stream: &CudaStream) -> Result<CudaFence> {
        self.with_stream(stream, |of, raw| {
            if of.is_gone(stream, raw)?
                && let Some(fence) = of.record_context()?
            {
                let of = (!self.is_same(of)).then(|| of.clone());
                return Ok(CudaFence { of, ..fence });
            }
            // SAFETY: the event is the context's, and the stream is alive.
            self.record_by(of, |event| unsafe { of.driver().functions.record_event(event, raw) })
        })
    }

    fn record_all(&self) -> Result<Vec<CudaFence>> {
        process::check()?;
        let fence = self.within(|| self.record_context())?;
        Ok(fence.into_iter().collect())
    }

    fn is_done(&self, fence: &CudaFence) -> Result<bool> {
        process::check()?;
        let of = self.device_of(fence);
        // SAFETY: the event exists as long as the fence.
        let query = || unsafe { of.driver().functions.query_event(fence.event) };
        match of.within(|| of.driver().relaxed(query)) {
            Ok(()) => Ok(true),
            Err(error) if error.code() == Some(NOT_READY) => Ok(false),
            Err(error) => Err(self.told_of(of, error).into()),
        }
    }

    fn wait(&self, stream: &CudaStream, fence: &CudaFence) -> Result<()> {
        self.with_stream(stream, |of, raw| {
            // SAFETY: the event exists as long as the fence, and the stream is alive.
            unsafe { of.driver().functions.stream_wait(raw, fence.event, 0) }
        })
    }

    fn wait_on_host(&self, fence: &CudaFence) -> Result<()> {
        process::check()?;
        let of = self.device_of(fence);
        // SAFETY: the event exists as long as the fence.
        let wait = || unsafe { of.driver().functions.synchronize_event(fence.event) };
        Ok(of.within(|| of.driver().relaxed(wait)).map_err(|error| self.told_of(of, error))?)
    }

    fn synchronize(&self) -> Result<()> {
        process::check()?;
        Ok(self.synchronize_context()?)
    }

    fn discard(&self, fence: CudaFence) {
        if process::is_usable() {
            let core = self.device_of(&fence).core();
            core.events.give_back(core.driver, &core.context, fence.event);
        }
    }

    fn capture_id(&self, stream: &CudaStream) -> Result<Option<u64>> {
        // SAFETY: the stream is alive, and its context current.
        self.with_stream(stream, |of, raw| unsafe { of.driver().capture_of(raw) })
    }

    fn copy(
        &self,
        stream: &CudaStream,
        from: (&CudaRange, u64),
        to: (&CudaRange, u64),
        size_bytes: u64,
    ) -> Result<()> {
        if !self.capabilities().contains(Capabilities::COPY) {
            return Err(Failure::Unsupported(Call::Copy));
        }
        let bytes = host_size("cuMemcpyAsync", size_bytes)?;
        self.with_stream(stream, |of, raw| {
            let from = from.0.address + from.1;
            let to = to.0.address + to.1;
            // SAFETY: both lie in ranges that the pool has, and the stream is alive.
            unsafe { of.driver().functions.copy(to, from, bytes, raw) }
        })
    }

    fn memory(&self) -> Result<MemoryInfo> {
        if !self.capabilities().contains(Capabilities::MEMORY) {
            return Err(Failure::Unsupported(Call::Memory));
        }
        Ok(self.memory()?)
    }

    fn now(&self) -> Option<Duration> {
        static START: OnceLock<Instant> = OnceLock::new();
        Some(START.get_or_init(Instant::now).elapsed())
    }
}
