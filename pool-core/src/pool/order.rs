//! Order between streams, and between a stream and the host, as programs ask for it.

use alloc::vec::Vec;

use super::Pool;
use super::asker::Asker;
use super::error::PoolError;
use super::fence::Shared;
use super::inner::{Failed, Inner};
use super::sabotage::ORDERS_NOTHING;
use super::stream::On;
use crate::device::{Call, Device};
use crate::sync::pause;
use crate::threads::Threads;

impl<D: Device, T: Threads> Inner<D, T> {
    fn order(
        &self,
        after: &On<'_, D::Stream>,
        on: &On<'_, D::Stream>,
    ) -> Result<(), PoolError<D::Error>> {
        if matches!(on, On::Nothing) {
            return self.wait_for_work(after);
        }
        while !self.try_order(after, on)? {
            // What stood in the way, a capture or a stream's end, is over.
            pause();
        }
        Ok(())
    }

    /// Puts two streams in order; false if that is to be tried again.
    fn try_order(
        &self,
        after: &On<'_, D::Stream>,
        on: &On<'_, D::Stream>,
    ) -> Result<bool, PoolError<D::Error>> {
        let (before, waiting) = (self.resolve(after)?, self.resolve(on)?);
        match (&before, &waiting) {
            // One queue.
            _ if !self.has_fences() => return Ok(true),
            (Asker::Captured { .. }, Asker::Captured { .. }) => {
                return self.order_in_capture(after, on);
            }
            (Asker::Captured { graph, .. }, _) | (_, Asker::Captured { graph, .. }) => {
                return Err(PoolError::Captured(*graph));
            }
            _ => {}
        }
        if self.are_one(&before, &waiting)
            || ORDERS_NOTHING.is_out()
            || self.have_wait(&before, &waiting)?
        {
            return Ok(true);
        }
        self.check_waits(&before)?;
        self.check_waits(&waiting)?;
        Ok(false)
    }

    /// Whether two askers are the same stream.
    fn are_one(&self, one: &Asker<D>, other: &Asker<D>) -> bool {
        match (one, other) {
            (Asker::Known { number, .. }, Asker::Known { number: other, .. }) => number == other,
            (Asker::Raw { handle }, Asker::Raw { handle: other }) => {
                self.device.stream_key(handle) == self.device.stream_key(other)
            }
            _ => false,
        }
    }

    /// Has an asker's stream wait for all that is queued on another's so far. False if nothing can
    /// be recorded in the one, or waited for in the other.
    fn have_wait(&self, before: &Asker<D>, waiting: &Asker<D>) -> Result<bool, Failed<D>> {
        let fences = match before {
            Asker::Known { number, .. } => {
                // Noted, so that what the one frees up to here serves the other without a wait.
                let mut joined = self.joined_by(waiting);
                let epoch = self.epoch_of(*number);
                return self.wait_for_source(waiting, &mut joined, *number, epoch);
            }
            // Nobody keeps the fence, so nobody asks in which stream it is.
            Asker::Raw { handle } => self.record_raw(handle, None)?.map(|fence| alloc::vec![fence]),
            Asker::Nobody | Asker::Captured { .. } => self.fences_behind(before)?,
        };
        fences.map_or(Ok(false), |fences| self.wait_as(waiting, &fences))
    }

    /// What a stream frees now has this epoch: no fence that was recorded before is behind it.
    fn epoch_of(&self, number: u32) -> u64 {
        self.with_books(|books| books.sources.epoch(number))
    }

    /// Fences behind all that is queued on an asker's stream so far, or on any for nobody. None if
    /// nothing can be recorded there.
    fn fences_behind(&self, asker: &Asker<D>) -> Result<Option<Vec<Shared<D>>>, Failed<D>> {
        match asker {
            Asker::Known { number, .. } => {
                let fences = self.fences_of(*number, self.epoch_of(*number))?;
                Ok(fences.map(|(_, fences)| fences))
            }
            Asker::Raw { handle } => {
                let fence = self.record_raw(handle, self.identity_of(handle)?)?;
                Ok(fence.map(|fence| alloc::vec![fence]))
            }
            Asker::Nobody => self.record_all(),
            Asker::Captured { .. } => Ok(None),
        }
    }

    /// Orders two captured streams, which have to be in one capture: the order is the graph's, and
    /// its fence is never asked for, nor waited for on the host. False if neither is captured any more.
    fn order_in_capture(
        &self,
        after: &On<'_, D::Stream>,
        on: &On<'_, D::Stream>,
    ) -> Result<bool, PoolError<D::Error>> {
        self.with_stream(after, |before| {
            self.with_stream(on, |waiting| {
                let capture_of =
                    |handle| self.call(Call::CaptureId, |device| device.capture_id(handle));
                let (first, second) = (capture_of(before)?, capture_of(waiting)?);
                if first != second {
                    let either = if first.is_some() { before } else { waiting };
                    return self
                        .graph_of(either)?
                        .map_or(Ok(false), |graph| Err(PoolError::Captured(graph)));
                }
                let same = self.device.stream_key(before) == self.device.stream_key(waiting);
                if first.is_some() && !same && !ORDERS_NOTHING.is_out() {
                    let fence = self.record_captured(before)?;
                    self.wait(waiting, &fence)?;
                }
                Ok(first.is_some())
            })
        })
    }

    /// Does something with a stream that a call names, which stays meanwhile.
    fn with_stream<R>(
        &self,
        on: &On<'_, D::Stream>,
        work: impl FnOnce(&D::Stream) -> Result<R, PoolError<D::Error>>,
    ) -> Result<R, PoolError<D::Error>> {
        let On::Stream(id) = on else { return work(&self.handle_of(on)?) };
        let handle = self.begin_use(id.number).ok_or(PoolError::UnknownStream(*id))?;
        let result = work(&handle);
        self.end_use(id.number);
        result
    }

    fn wait_for_work(&self, on: &On<'_, D::Stream>) -> Result<(), PoolError<D::Error>> {
        let asker = self.resolve(on)?;
        if !self.has_fences() {
            return Ok(());
        }
        if let Asker::Captured { graph, .. } = asker {
            return Err(PoolError::Captured(graph));
        }
        loop {
            // Also while another stream is captured: the host must not wait then.
            self.check_waits(&asker)?;
            if let Some(fences) = self.fences_behind(&asker)?
                && self.see_done(&fences)?
            {
                break;
            }
            pause();
        }
        if matches!(asker, Asker::Nobody) {
            // Of all that waits, whatever was recorded for it.
            self.poll_often(&mut None);
        }
        Ok(())
    }

    /// Waits on the host for fences, and settles what waits for them or for earlier ones of the same
    /// streams. False if that cannot be done during a capture.
    fn see_done(&self, fences: &[Shared<D>]) -> Result<bool, Failed<D>> {
        for fence in fences {
            if !self.wait_on_host(fence)? {
                return Ok(false);
            }
        }
        let mut done = self.with_books(|books| books.pending(usize::MAX));
        done.retain(|earlier| fences.iter().any(|fence| fence.is_behind(earlier)));
        done.extend(fences.iter().cloned());
        self.settle(&done);
        Ok(true)
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Puts two streams in order: what is queued on `on` from now on comes after all that is queued
    /// on `after` so far. The host does not wait. On a device with one queue, and if both are the
    /// same stream, there is nothing to do.
    ///
    /// A handle means what it means on the calling thread: of a default stream of each thread, the
    /// calling thread's (see [`stream_identity`](Self::stream_identity)). [`On::Nothing`] as `after`
    /// is all work of the device so far, and as `on` the host, which then
    /// [waits](Self::wait_for).
    ///
    /// Two streams that are captured have to be in the same capture; then the order is the graph's.
    ///
    /// # Errors
    ///
    /// - [`PoolError::Captured`] if one of them is captured and the other is not, or elsewhere; and
    ///   during any capture for all work of the device, or for the host.
    /// - [`PoolError::UnknownStream`], [`PoolError::UnannouncedCapture`], [`PoolError::Poisoned`].
    /// - [`PoolError::Device`] from a call of the device; the streams are as before.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{Access, SimConfig, SimDevice};
    /// # let device = SimDevice::new(SimConfig::new());
    /// # let pool = Pool::new(device.clone(), PoolConfig::new())?;
    /// let (compute, copies) = (pool.create_stream()?, pool.create_stream()?);
    /// let block = pool.allocate_on(compute, 4096)?;
    /// # let at = pool.location(block.handle())?;
    /// # let (owner, size_bytes) = (device.new_owner(), block.size_bytes());
    /// # let queue = |stream, access| {
    /// #     let stream = pool.stream(stream).unwrap();
    /// #     device.queue_use(stream, at.arena.range(), at.offset_bytes, size_bytes, owner, access)
    /// # };
    /// # queue(compute, Access::Write)?;
    /// // … the block is written on one stream, and then read on the other:
    /// pool.order(compute, copies)?;
    /// pool.record_use(block.handle(), copies)?;
    /// # queue(copies, Access::Read)?;
    /// # device.assert_clean();
    /// pool.free_on(copies, block.handle())?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn order<'a, 'b>(
        &self,
        after: impl Into<On<'a, D::Stream>>,
        on: impl Into<On<'b, D::Stream>>,
    ) -> Result<(), PoolError<D::Error>>
    where
        D::Stream: 'a + 'b,
    {
        self.inner().order(&after.into(), &on.into())
    }

    /// Has the host wait for all that is queued on a stream so far; for [`On::Nothing`], for all
    /// work of the device. Blocks that waited for no more than that are free afterwards.
    ///
    /// # Errors
    ///
    /// - [`PoolError::Captured`] while a stream is captured, this or another: the host must not
    ///   wait then.
    /// - [`PoolError::UnknownStream`], [`PoolError::UnannouncedCapture`], [`PoolError::Poisoned`].
    /// - [`PoolError::Device`] from a call of the device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{Pacing, SimConfig, SimDevice};
    /// # let device = SimDevice::new(SimConfig::new().pacing(Pacing::Idle));
    /// # let pool = Pool::new(device, PoolConfig::new())?;
    /// let (compute, copies) = (pool.create_stream()?, pool.create_stream()?);
    /// let block = pool.allocate_on(compute, 4096)?;
    /// pool.record_use(block.handle(), copies)?;
    /// pool.free_on(compute, block.handle())?;
    /// assert_eq!(pool.stats().deferred_bytes, 4096);
    /// pool.reclaim()?; // a fence is recorded; the work behind it still runs
    /// pool.wait_for(copies)?;
    /// assert_eq!(pool.stats().deferred_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn wait_for<'a>(&self, on: impl Into<On<'a, D::Stream>>) -> Result<(), PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner().wait_for_work(&on.into())
    }

    /// The identity of the stream that a handle means on the calling thread, which no other stream
    /// ever had; none if the device has no identities, or the stream is captured. So who kept a handle knows whether it still
    /// names the same stream, here and now: a handle can be that of a new stream, and that of a
    /// default stream of each thread means another one on another thread.
    ///
    /// # Errors
    ///
    /// [`PoolError::Poisoned`], or [`PoolError::Device`] from the device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let device = SimDevice::new(SimConfig::new());
    /// # let pool = Pool::new(device.clone(), PoolConfig::new())?;
    /// let handle = device.per_thread_stream();
    /// let here = pool.stream_identity(&handle)?;
    /// let there = SimDevice::as_thread(7, || pool.stream_identity(&handle))?;
    /// assert_ne!(here, there);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn stream_identity(&self, handle: &D::Stream) -> Result<Option<u64>, PoolError<D::Error>> {
        self.inner().check_alive()?;
        Ok(self.inner().identity_of(handle)?)
    }
}
