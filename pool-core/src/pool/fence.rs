//! Fences, as the pool keeps them.

use alloc::sync::Arc;
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

/// A fence of the device, which gets it back when nobody needs it any more. Never dropped under a
/// lock: that is a call of the device.
pub(crate) struct Fence<D: Device> {
    raw: Option<D::Fence>,
    device: Arc<Port<D>>,
}

/// A fence that several wait for.
pub(crate) type Shared<D> = Arc<Fence<D>>;

impl<D: Device> Fence<D> {
    pub(crate) fn new(raw: D::Fence, device: &Arc<Port<D>>) -> Shared<D> {
        Arc::new(Self { raw: Some(raw), device: device.clone() })
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
