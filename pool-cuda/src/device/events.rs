//! Events, used again and again: one context's, for its streams alone.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::CudaDevice;
use super::context::Context;
use crate::driver::Driver;
use crate::error::CudaError;
use crate::sys::{EVENT_DISABLE_TIMING, RawEvent};

/// So many events at most are kept for later.
const MOST_SPARE: usize = 1024;

/// A fence: an event that was recorded.
#[derive(Debug)]
pub struct CudaFence {
    pub(super) event: RawEvent,
    /// The device whose event it is, if not that which recorded it.
    pub(super) of: Option<CudaDevice>,
}

/// How many events a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// All that exist.
    pub live: usize,
    /// Those of them that nothing uses: the next fences take them.
    pub spare: usize,
}

/// The events of a context.
#[derive(Debug)]
pub(super) struct Events {
    spare: Mutex<Vec<RawEvent>>,
    live: AtomicUsize,
}

impl Events {
    pub(super) const fn new() -> Self {
        Self { spare: Mutex::new(Vec::new()), live: AtomicUsize::new(0) }
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<RawEvent>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An event that nothing uses.
    pub(super) fn take(&self, driver: &Driver, context: &Context) -> Result<RawEvent, CudaError> {
        if let Some(event) = self.spare().pop() {
            return Ok(event);
        }
        context.within(|| {
            let mut event = RawEvent::NULL;
            // SAFETY: the pointer is to a local.
            unsafe { driver.functions.create_event(&raw mut event, EVENT_DISABLE_TIMING) }?;
            self.live.fetch_add(1, Ordering::Relaxed);
            Ok(event)
        })
    }

    /// Takes an event back that nothing uses any more. It may be pending: what waits for it waits
    /// for what was recorded then.
    pub(super) fn give_back(&self, driver: &Driver, context: &Context, event: RawEvent) {
        {
            let mut spare = self.spare();
            if spare.len() < MOST_SPARE {
                spare.push(event);
                return;
            }
        }
        // Nobody is there to tell of a failure.
        let _ = context.within(|| {
            self.destroy(driver, event);
            Ok(())
        });
    }

    /// Destroys an event; the context is current.
    fn destroy(&self, driver: &Driver, event: RawEvent) {
        // SAFETY: the event is the context's, and nobody else knows it.
        // One that cannot be destroyed is the driver's loss: nobody is there to tell.
        let _ = unsafe { driver.functions.destroy_event(event) };
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Destroys all that nothing uses; the context is current.
    pub(super) fn clear(&self, driver: &Driver) {
        let spare = core::mem::take(&mut *self.spare());
        for event in spare {
            self.destroy(driver, event);
        }
    }

    pub(super) fn counts(&self) -> EventCounts {
        let spare = self.spare().len();
        EventCounts { live: self.live.load(Ordering::Relaxed), spare }
    }
}
