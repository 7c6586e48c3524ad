//! Buffers that may be moved: what programs do with them.

mod guard;
mod table;

pub use guard::MovableGuard;
pub use table::Movable;
pub(super) use table::{Copied, Entry, Hand, Movables};

use super::Pool;
use super::asker::Asker;
use super::error::PoolError;
use super::inner::Inner;
use super::stream::On;
use crate::device::Device;
use crate::range::{Block, Request};
use crate::sync::{nap, pause};
use crate::threads::Threads;

/// How often a thread looks whether another has let go of a buffer before it naps in between.
const SHORT_PAUSES: u32 = 1 << 10;

/// After how many naps it waits no longer: seconds; and where it may well be in the midst of the
/// other call itself, as threads have no numbers, a tenth of a second.
const MOST_NAPS: u32 = 1 << 11;
const MOST_BLIND_NAPS: u32 = 1 << 7;

impl<D: Device, T: Threads> Inner<D, T> {
    fn enter_movable(
        &self,
        asker: &Asker<D>,
        block: Block,
        align_bytes: u64,
    ) -> Result<Movable, PoolError<D::Error>> {
        let entry = Entry {
            block,
            align_bytes,
            home: asker.number(),
            guards: 0,
            in_hand: None,
            copied: None,
        };
        self.with_books(|books| books.movables.enter(entry)).ok_or_else(|| {
            self.refuse(asker, block.handle());
            self.notes.take(block.handle());
            PoolError::OutOfHostMemory
        })
    }

    /// Does something with a buffer that no call has in its hands, and waits for one that has.
    fn with_movable<R>(
        &self,
        movable: Movable,
        work: impl Fn(&mut Entry) -> Result<R, PoolError<D::Error>>,
    ) -> Result<R, PoolError<D::Error>> {
        let me = T::thread_number();
        let naps = if me.is_some() { MOST_NAPS } else { MOST_BLIND_NAPS };
        for pauses in 0..SHORT_PAUSES + naps {
            let done = self.with_books(|books| {
                let entry = books.movables.get_mut(movable);
                let entry = entry.ok_or(PoolError::UnknownMovable(movable))?;
                match entry.in_hand {
                    None => work(entry).map(Some),
                    // In the midst of its own call.
                    Some(hand) if me.is_some() && hand == Hand(me) => {
                        Err(PoolError::InHand(movable))
                    }
                    Some(_) => Ok(None),
                }
            })?;
            match done {
                Some(result) => return Ok(result),
                None if pauses < SHORT_PAUSES => pause(),
                None => nap(),
            }
        }
        Err(PoolError::InHand(movable))
    }

    /// Takes a buffer in hand, to be freed: where it is.
    fn take_movable(&self, movable: Movable) -> Result<Block, PoolError<D::Error>> {
        self.with_movable(movable, |entry| {
            if entry.guards > 0 {
                return Err(PoolError::Guarded(movable));
            }
            entry.in_hand = Some(Hand(T::thread_number()));
            Ok(entry.block)
        })
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Serves a request as [`allocate_on`](Self::allocate_on) does, with a buffer that the pool may
    /// move while no [guard](Self::guard) of it is held: when a request fits nowhere, though enough
    /// is free, buffers are copied together in the order of their streams
    /// ([`Growth::migrate_from_percent`](super::policy::Growth::migrate_from_percent)).
    ///
    /// A buffer stays where it is all the same if it is small, so that it lies in a span; if it was
    /// allocated on a stream that the pool does not know, on none, or in a capture; if a graph uses
    /// it, until that is released; once it was used on a stream that was not named; once its stream
    /// is retired; and on a device without fences or without copies.
    ///
    /// # Errors
    ///
    /// As [`allocate_on`](Self::allocate_on), and [`PoolError::OutOfHostMemory`].
    ///
    /// # Complexity
    ///
    /// That of [`allocate_on`](Self::allocate_on), and two locks.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let weights = pool.allocate_movable(stream, 100 << 20)?;
    /// {
    ///     let guard = pool.guard(weights, stream)?;
    ///     let address = guard.address();
    ///     // … work that uses this address is queued on the stream.
    ///     # assert!(address.is_some());
    /// }
    /// // From here on it may be somewhere else.
    /// pool.free_movable(weights, stream)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn allocate_movable<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        request: impl Into<Request>,
    ) -> Result<Movable, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        let (on, request) = (on.into(), request.into());
        let asker = self.inner().resolve(&on)?;
        let block = self.allocate_on(on, request)?;
        self.inner().enter_movable(&asker, block, request.align_bytes)
    }

    /// Holds a buffer where it is, to read its address and to queue work that uses it on a stream.
    /// The use is [noted](Self::record_use). The guard may be dropped as soon as the work is queued:
    /// the buffer is moved only behind it. A graph keeps the addresses that its capture saw, so that
    /// a buffer which it uses stays until it is released.
    ///
    /// If the pool has queued a copy of the buffer that may still run, work behind this call comes
    /// after it: on the buffer's own stream it does anyway; another is made to wait on the device;
    /// for [`On::Nothing`] the host waits, and the caller may read and write the buffer then as far
    /// as its own work allows. A stream that is captured cannot wait for a copy.
    ///
    /// # Errors
    ///
    /// - [`PoolError::UnknownMovable`] if there is no such buffer (any more), [`PoolError::Handle`]
    ///   if it was freed by the handle of its block.
    /// - [`PoolError::InHand`] from within a call of the device that moves the buffer.
    /// - [`PoolError::Captured`] if a copy has to be waited for, and a capture stands in the way.
    /// - [`PoolError::Device`] if a call of the device for that fails; and as
    ///   [`record_use`](Self::record_use).
    ///
    /// Each leaves the buffer without a guard more.
    ///
    /// # Complexity
    ///
    /// Two locks, and that of [`record_use`](Self::record_use). While the buffer is being moved the
    /// call waits for that: a few calls of the device.
    ///
    /// # Example
    ///
    /// See [`allocate_movable`](Self::allocate_movable).
    pub fn guard<'p, 'a>(
        &'p self,
        movable: Movable,
        on: impl Into<On<'a, D::Stream>>,
    ) -> Result<MovableGuard<'p, D, T>, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        self.inner().guard(movable, &on.into())
    }

    /// Frees a buffer on a stream, as [`free_on`](Self::free_on) does. If it is being moved, the call
    /// waits for that.
    ///
    /// # Errors
    ///
    /// [`PoolError::UnknownMovable`], [`PoolError::Guarded`] while a guard is held, and as
    /// [`guard`](Self::guard) and [`free_on`](Self::free_on).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig, PoolError};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// # let stream = pool.create_stream()?;
    /// let buffer = pool.allocate_movable(stream, 1 << 20)?;
    /// let guard = pool.guard(buffer, stream)?;
    /// assert!(matches!(pool.free_movable(buffer, stream), Err(PoolError::Guarded(_))));
    /// drop(guard);
    /// pool.free_movable(buffer, stream)?;
    /// assert!(matches!(pool.guard(buffer, stream), Err(PoolError::UnknownMovable(_))));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn free_movable<'a>(
        &self,
        movable: Movable,
        on: impl Into<On<'a, D::Stream>>,
    ) -> Result<Block, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        let inner = self.inner();
        let block = inner.take_movable(movable)?;
        let freed = self.free_on(on, block.handle());
        let is_gone = matches!(freed, Ok(_) | Err(PoolError::Handle(_)));
        inner.with_books(|books| {
            if is_gone {
                books.movables.remove(movable);
            } else if let Some(entry) = books.movables.get_mut(movable) {
                entry.in_hand = None;
            }
        });
        freed
    }
}
