//! Guards: while one is held, a buffer stays where it is.

use core::fmt;

use super::{Copied, Movable, SHORT_PAUSES};
use crate::device::{Capabilities, Device};
use crate::pool::asker::Asker;
use crate::pool::error::PoolError;
use crate::pool::inner::Inner;
use crate::pool::sources::joined_epoch;
use crate::pool::stream::On;
use crate::range::Block;
use crate::sync::{is_left, pause};
use crate::threads::Threads;

/// Holds a [movable buffer](Movable) where it is; see [`Pool::guard`](crate::Pool::guard).
#[must_use = "the buffer may be moved as soon as it is dropped"]
pub struct MovableGuard<'p, D: Device, T: Threads> {
    inner: &'p Inner<D, T>,
    movable: Movable,
    block: Block,
}

impl<D: Device, T: Threads> MovableGuard<'_, D, T> {
    /// The buffer.
    #[must_use]
    pub fn movable(&self) -> Movable {
        self.movable
    }

    /// Where it is as long as this guard is held. To free it takes its own name, not the handle of
    /// this block.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// # let stream = pool.create_stream()?;
    /// let buffer = pool.allocate_movable(stream, 1 << 20)?;
    /// let guard = pool.guard(buffer, stream)?;
    /// let location = pool.location(guard.block().handle())?;
    /// assert!(location.offset_bytes + guard.block().size_bytes() <= location.arena.size_bytes());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn block(&self) -> Block {
        self.block
    }

    /// Its address as long as this guard is held, on a device that has addresses.
    #[must_use]
    pub fn address(&self) -> Option<u64> {
        if !self.inner.capabilities.contains(Capabilities::ADDRESSES) {
            return None;
        }
        self.inner.addresses.at(self.block.offset_bytes())
    }
}

impl<D: Device, T: Threads> Drop for MovableGuard<'_, D, T> {
    fn drop(&mut self) {
        if is_left() {
            return;
        }
        self.inner.with_books(|books| {
            if let Some(entry) = books.movables.get_mut(self.movable) {
                entry.guards = entry.guards.saturating_sub(1);
            }
        });
    }
}

impl<D: Device, T: Threads> fmt::Debug for MovableGuard<'_, D, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovableGuard")
            .field("movable", &self.movable)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    pub(super) fn guard(
        &self,
        movable: Movable,
        on: &On<'_, D::Stream>,
    ) -> Result<MovableGuard<'_, D, T>, PoolError<D::Error>> {
        let asker = self.resolve(on)?;
        let (block, copied) = self.with_movable(movable, |entry| {
            entry.guards += 1;
            Ok((entry.block, entry.copied))
        })?;
        // From here on it stays, until this is dropped, also if the rest fails.
        let guard = MovableGuard { inner: self, movable, block };
        self.shared.block(block.handle())?;
        if let Some(copied) = copied {
            self.follow(&asker, movable, copied)?;
            self.forget_copy(movable);
        }
        // Last: the owner of a stream that is not known may close it if this is refused.
        self.note_use(block.handle(), asker)?;
        Ok(guard)
    }

    /// Has work that an asker queues from now on come after a copy of a buffer.
    fn follow(
        &self,
        asker: &Asker<D>,
        movable: Movable,
        copied: Copied,
    ) -> Result<(), PoolError<D::Error>> {
        let Copied { stream, epoch } = copied;
        for _ in 0..SHORT_PAUSES {
            let mut joined = self.joined_by(asker);
            let is_behind = asker.number() == Some(stream) || epoch < joined_epoch(&joined, stream);
            if is_behind && !matches!(asker, Asker::Captured { .. }) || self.is_past(copied) {
                return Ok(());
            }
            let followed = match asker {
                Asker::Known { .. } | Asker::Raw { .. } => {
                    self.wait_for_source(asker, &mut joined, stream, epoch)?
                }
                Asker::Nobody => self.wait_for_copy(copied)?,
                // Nothing of before is waited for in a graph.
                Asker::Captured { graph, .. } => return Err(PoolError::Captured(*graph)),
            };
            if followed {
                return Ok(());
            }
            self.check_waits(asker)?;
            // The buffer's stream is being retired: what is left of it can be waited for.
            pause();
        }
        Err(PoolError::InHand(movable))
    }

    /// Has the host wait for a copy; false during a capture.
    fn wait_for_copy(&self, copied: Copied) -> Result<bool, PoolError<D::Error>> {
        let Some((_, fences)) = self.fences_of(copied.stream, copied.epoch)? else {
            return Ok(false);
        };
        for fence in &fences {
            if !self.wait_on_host(fence)? {
                return Ok(false);
            }
            self.settle(core::slice::from_ref(fence));
        }
        Ok(true)
    }

    /// Whether the host has seen that a copy is done.
    fn is_past(&self, copied: Copied) -> bool {
        self.with_books(|books| {
            let source = books.sources.get(copied.stream);
            source.is_none_or(|source| copied.epoch < source.done)
        })
    }

    /// Forgets a buffer's copy if that is done.
    fn forget_copy(&self, movable: Movable) {
        self.with_books(|books| {
            let Some(entry) = books.movables.get_mut(movable) else { return };
            let source =
                entry.copied.map(|copied| (copied.epoch, books.sources.get(copied.stream)));
            if let Some((epoch, source)) = source
                && source.is_none_or(|source| epoch < source.done)
            {
                entry.copied = None;
            }
        });
    }
}
