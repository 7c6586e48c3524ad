//! What happened off the way of a hit, told to who listens: the recorder (feature `record`), and
//! subscribers of `tracing` (feature `tracing`). With neither nothing is left of it.

#[cfg(feature = "record")]
use alloc::vec::Vec;
use core::time::Duration;

use super::books::Books;
use super::error::PoolError;
use super::free::Waits;
use super::inner::Inner;
#[cfg(feature = "record")]
use super::record::{NOWHERE, What};
use super::stream::{On, StreamId};
use crate::device::{Call, Device};
use crate::range::{Block, Handle, HandleError, Request};
use crate::threads::{Aside, Threads};

/// Something that happened. No lock is held when it is told.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(any(feature = "record", feature = "tracing")),
    expect(dead_code, reason = "nobody listens")
)]
pub(super) enum Notice {
    /// Memory of one stream went to another.
    Stolen { size_bytes: u64, stream: Option<u32> },
    /// The device gave an arena, or more of one.
    Grown { offset_bytes: Option<u64>, size_bytes: u64, cost: Duration },
    /// Pages were mapped.
    Committed { offset_bytes: u64, size_bytes: u64, cost: Duration },
    /// Pages were unmapped.
    Decommitted { offset_bytes: u64, size_bytes: u64, cost: Duration },
    /// Pages that held no block serve elsewhere.
    PagesMoved { size_bytes: u64 },
    /// Memory went back to the device.
    Released { offset_bytes: Option<u64>, size_bytes: u64, cost: Duration },
    /// A block was copied.
    Moved { from_bytes: u64, offset_bytes: u64, size_bytes: u64 },
    /// A call of the device failed.
    CallFailed(Call),
}

/// The recorder, once there is one.
#[cfg(feature = "record")]
pub(super) type Listener<T> = crate::sync::Once<super::record::Recorder<T>>;
#[cfg(not(feature = "record"))]
pub(super) type Listener<T> = core::marker::PhantomData<fn() -> T>;

/// A time by the recorder's clock, in nanoseconds, while the pool records.
pub(super) type Stamp = Option<u64>;

/// Blocks that waited and are free, until that is noted: nothing is while the books are open.
#[derive(Debug, Default)]
pub(crate) struct Reclaims(#[cfg(feature = "record")] Vec<(u64, u64)>);

impl Reclaims {
    /// A block is free.
    #[inline]
    pub(super) fn note(&mut self, block: &Aside) {
        #[cfg(feature = "record")]
        self.0.push((block.offset_bytes, block.size_bytes));
        let _ = (self, block);
    }
}

impl Reclaims {
    /// All of them, if there are any.
    #[inline]
    pub(super) fn take(&mut self) -> Option<Self> {
        #[cfg(feature = "record")]
        if !self.0.is_empty() {
            return Some(core::mem::take(self));
        }
        let _ = self;
        None
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// The time, while the pool records.
    #[inline]
    pub(super) fn stamp(&self) -> Stamp {
        #[cfg(feature = "record")]
        if self.is_recording() {
            return self.recorder().map(super::record::Recorder::now);
        }
        let _ = self;
        None
    }

    /// How long ago that was; zero if it is not known.
    #[inline]
    pub(super) fn since(&self, began: Stamp) -> Duration {
        let spent = began.and_then(|began| self.stamp()?.checked_sub(began));
        spent.map_or(Duration::ZERO, Duration::from_nanos)
    }

    /// Tells of something.
    #[inline]
    pub(super) fn notice(&self, notice: Notice) {
        #[cfg(feature = "tracing")]
        trace(notice);
        #[cfg(feature = "record")]
        if self.is_recording() {
            self.note(notice);
        }
        let _ = (self, notice);
    }

    /// Tells of a free that was asked for at a time.
    #[inline]
    pub(super) fn notice_free(
        &self,
        on: &On<'_, D::Stream>,
        block: &Block,
        waits: Waits,
        asked: Stamp,
    ) {
        #[cfg(feature = "record")]
        if let Some(asked) = asked {
            self.note_free(on, block, waits != Waits::Nowhere, asked);
        }
        let _ = (self, on, block, waits, asked);
    }

    /// A hit of a pool that is not quiet, because it records.
    #[inline]
    pub(super) fn hit_aside(&self, on: &On<'_, D::Stream>, size_bytes: u64) -> Option<Block> {
        #[cfg(feature = "record")]
        let found = self.hit_recorded(on, &Request::new(size_bytes));
        #[cfg(not(feature = "record"))]
        let found = None;
        let _ = (self, on, size_bytes);
        found
    }

    /// The same of a free.
    #[inline]
    pub(super) fn free_aside(
        &self,
        stream: StreamId,
        handle: Handle,
    ) -> Result<Option<Block>, HandleError> {
        #[cfg(feature = "record")]
        let freed = self.free_recorded(&On::Stream(stream), handle);
        #[cfg(not(feature = "record"))]
        let freed = Ok(None);
        let _ = (self, stream, handle);
        freed
    }

    /// Tells subscribers of a request that is refused for want of memory; the recorder knows by its result.
    pub(super) fn trace_refusal(&self, request: &Request, error: &PoolError<D::Error>) {
        #[cfg(feature = "tracing")]
        if let PoolError::OutOfMemory { shortage, .. } = error {
            let (live_bytes, reserved_bytes) = (shortage.live_bytes, shortage.reserved_bytes);
            let (size_bytes, remedy) = (request.size_bytes, shortage.remedy);
            tracing::warn!(
                size_bytes,
                live_bytes,
                reserved_bytes,
                ?remedy,
                "a request was refused for want of memory"
            );
        }
        let _ = (self, request, error);
    }

    /// Puts a block back that waited, while the books are open.
    pub(super) fn put_back(&self, books: &mut Books<D>, block: Aside) {
        #[cfg(feature = "record")]
        if self.is_recording() {
            books.reclaimed.note(&block);
        }
        let _ = books;
        self.shared.put_back(block);
    }

    /// Has a block that was moved be noted under the label that it had; the books may be open.
    pub(super) fn hand_label_on(&self, old: Handle, new: Handle) {
        #[cfg(feature = "record")]
        if let Some(recorder) = self.recorder() {
            recorder.hand_label_on(old, new);
        }
        let _ = (self, old, new);
    }

    /// Tells of blocks that are free, once the books are closed.
    #[inline]
    pub(super) fn notice_reclaimed(&self, reclaimed: Reclaims) {
        #[cfg(feature = "record")]
        if let Some(recorder) = self.recorder().filter(|_| self.is_recording()) {
            for (offset_bytes, size_bytes) in &reclaimed.0 {
                recorder.note(&self.shared, What::Reclaimed, *offset_bytes, *size_bytes, 0);
            }
        }
        let _ = (self, reclaimed);
    }
}

#[cfg(feature = "record")]
impl<D: Device, T: Threads> Inner<D, T> {
    #[cold]
    fn note(&self, notice: Notice) {
        let Some(recorder) = self.recorder() else { return };
        let (what, offset_bytes, size_bytes, stream) = match notice {
            Notice::Stolen { size_bytes, stream } => {
                (What::Stolen, 0, size_bytes, stream.unwrap_or(0))
            }
            Notice::Grown { offset_bytes, size_bytes, cost } => {
                (What::Grown { cost }, offset_bytes.unwrap_or(NOWHERE), size_bytes, 0)
            }
            Notice::Committed { offset_bytes, size_bytes, cost } => {
                (What::Committed { cost }, offset_bytes, size_bytes, 0)
            }
            Notice::Decommitted { offset_bytes, size_bytes, cost } => {
                (What::Decommitted { cost }, offset_bytes, size_bytes, 0)
            }
            Notice::PagesMoved { size_bytes } => (What::PagesMoved, 0, size_bytes, 0),
            Notice::Released { offset_bytes, size_bytes, cost } => {
                (What::Released { cost }, offset_bytes.unwrap_or(NOWHERE), size_bytes, 0)
            }
            Notice::Moved { from_bytes, offset_bytes, size_bytes } => {
                (What::Moved { from_bytes }, offset_bytes, size_bytes, 0)
            }
            Notice::CallFailed(call) => (What::CallFailed(call), 0, 0, 0),
        };
        recorder.note(&self.shared, what, offset_bytes, size_bytes, stream);
    }
}

/// Tells subscribers: what costs time at `DEBUG`, what goes wrong at `WARN`.
#[cfg(feature = "tracing")]
fn trace(notice: Notice) {
    let micros = |cost: Duration| u64::try_from(cost.as_micros()).unwrap_or(u64::MAX);
    match notice {
        Notice::Stolen { size_bytes, stream } => {
            tracing::trace!(size_bytes, stream, "memory of one stream went to another");
        }
        Notice::Grown { offset_bytes, size_bytes, cost } => {
            let cost_us = micros(cost);
            tracing::debug!(offset_bytes, size_bytes, cost_us, "the pool grew");
        }
        Notice::Committed { offset_bytes, size_bytes, cost } => {
            let cost_us = micros(cost);
            tracing::debug!(offset_bytes, size_bytes, cost_us, "pages were mapped");
        }
        Notice::Decommitted { offset_bytes, size_bytes, cost } => {
            let cost_us = micros(cost);
            tracing::debug!(offset_bytes, size_bytes, cost_us, "pages were unmapped");
        }
        Notice::PagesMoved { size_bytes } => {
            tracing::debug!(size_bytes, "pages serve elsewhere");
        }
        Notice::Released { offset_bytes, size_bytes, cost } => {
            let cost_us = micros(cost);
            tracing::debug!(offset_bytes, size_bytes, cost_us, "memory went back to the device");
        }
        Notice::Moved { from_bytes, offset_bytes, size_bytes } => {
            tracing::trace!(from_bytes, offset_bytes, size_bytes, "a block was moved");
        }
        Notice::CallFailed(call) => tracing::warn!(%call, "a call of the device failed"),
    }
}
