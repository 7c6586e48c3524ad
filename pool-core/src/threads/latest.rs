//! The block that a shard served last, for a program that frees it and asks for the same again.
//!
//! Programs take a buffer, use it, free it, and take one as long in the next step. To merge it with
//! what is free beside it, and to cut it off again, would be most of the work. If nothing else
//! happened in the shard since it was served, then its free leads back to what there was before, and
//! the same request to the same block: so neither is done, until something else wants to look. What
//! is placed where is as if both had been.

use crate::range::{Handle, Stretch};

/// The block outside spans that was served last, while nothing has changed since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latest {
    /// By which the range knows it.
    pub(super) handle: Handle,
    pub(super) stretch: Stretch,
    /// Whether the program has freed it. To the range it is live, by a handle that nobody else has.
    pub(super) is_free: bool,
}

impl Latest {
    /// A block that was served just now.
    pub(super) fn served(handle: Handle, stretch: Stretch) -> Self {
        Self { handle, stretch, is_free: false }
    }

    /// Serves a request of a length by it, if that is the same once more.
    #[inline(always)]
    pub(super) fn serve(&mut self, len: u64) -> Option<(Handle, Stretch)> {
        if !self.is_free || self.stretch.len != len {
            return None;
        }
        self.is_free = false;
        Some((self.handle, self.stretch))
    }

    /// Whether a free by this handle is the one that undoes its request.
    #[inline(always)]
    pub(super) fn is_of(&self, handle: Handle) -> bool {
        !self.is_free && self.handle == handle
    }
}
