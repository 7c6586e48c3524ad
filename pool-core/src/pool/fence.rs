//! Fences, as the pool keeps them.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use crate::device::Device;
use crate::sync::{AtomicU32, Ordering};

/// A device, and whether it is lost: then it gets no call any more.
pub(crate) struct Port<D> {
    device: D,
    lost: AtomicU32,
}

impl<D: Device> Port<D> {
    pub(crate) fn new(device: D) -> Self {
        Self { device, lost: AtomicU32::new(0) }
    }

    pub(crate) fn lose(&self) {
        self.lost.store(1, Ordering::Release);
    }

    /// Whether it may be called.
    pub(crate) fn is_there(&self) -> bool {
        self.lost.load(Ordering::Acquire) == 0 && self.device.is_alive()
    }
}

impl<D> Deref for Port<D> {
    type Target = D;

    fn deref(&self) -> &D {
        &self.device
    }
}

/// What a fence is behind: work that was queued when a number was drawn, before it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// In one stream that the pool knows, or knew.
    Stream { number: u32, serial: u64 },
    /// In a stream that it does not know, but whose identity the device may.
    Raw { id: Option<u64>, serial: u64 },
    /// In all streams, together with the fences of the same serial.
    All { serial: u64 },
}

impl Behind {
    /// Whether it is behind all that an earlier one is behind.
    fn is_behind(self, earlier: Self) -> bool {
        match (self, earlier) {
            (
                Self::Stream { number, serial },
                Self::Stream { number: earlier_number, serial: earlier },
            ) => number == earlier_number && serial > earlier,
            (
                Self::Raw { id: Some(id), serial },
                Self::Raw { id: Some(earlier_id), serial: earlier },
            ) => id == earlier_id && serial > earlier,
            // Not those of single streams, which may be another device's.
            (Self::All { serial }, Self::All { serial: earlier }) => serial > earlier,
            _ => false,
        }
    }
}

/// A fence of the device, which gets it back when nobody needs it any more. Never dropped under a
/// lock: that is a call of the device.
pub(crate) struct Fence<D: Device> {
    behind: Behind,
    raw: Option<D::Fence>,
    device: Arc<Port<D>>,
}

/// A fence that several wait for.
pub(crate) type Shared<D> = Arc<Fence<D>>;

impl<D: Device> Fence<D> {
    pub(crate) fn new(raw: D::Fence, behind: Behind, device: &Arc<Port<D>>) -> Shared<D> {
        Arc::new(Self { behind, raw: Some(raw), device: device.clone() })
    }

    /// Whether it is behind all that an earlier one is behind.
    pub(crate) fn is_behind(&self, earlier: &Self) -> bool {
        self.behind.is_behind(earlier.behind)
    }

    pub(crate) fn raw(&self) -> Option<&D::Fence> {
        self.raw.as_ref()
    }
}

impl<D: Device> Drop for Fence<D> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take()
            && self.device.is_there()
        {
            self.device.discard(raw);
        }
    }
}

/// Whether a fence is among others.
pub(crate) fn has_fence<D: Device>(fences: &[Shared<D>], fence: &Shared<D>) -> bool {
    fences.iter().any(|other| Arc::ptr_eq(other, fence))
}

/// Adds a fence to others, in place of those that it is behind, which go to the garbage.
pub(crate) fn add_fence<D: Device>(
    fences: &mut Vec<Shared<D>>,
    fence: Shared<D>,
    garbage: &mut Vec<Shared<D>>,
) {
    let is_needless = |other: &Shared<D>| other.behind.is_behind(fence.behind);
    if has_fence(fences, &fence) || fences.iter().any(is_needless) {
        garbage.push(fence);
    } else {
        garbage.extend(fences.extract_if(.., |other| fence.behind.is_behind(other.behind)));
        fences.push(fence);
    }
}
