//! Streams: made, adopted, retired.

use alloc::vec::Vec;

use super::Pool;
use super::affinity::LIFETIMES_APART;
use super::books::{Books, Holder, Known};
use super::error::PoolError;
use super::fence::Shared;
use super::inner::Inner;
use super::parcel::Parcel;
use super::sabotage::{IGNORES_BUSY_STREAM, KNOWS_BY_HANDLE, NAMES_EARLY, RETIRES_UNFENCED};
use super::sources::Joined;
use super::stream::StreamId;
use crate::device::{Call, Device};
use crate::sync::{pause, unique_number};
use crate::threads::Threads;

/// Fences that are asked for when a stream is retired, beside its own.
const MOST_PRUNED: usize = 16;

impl<D: Device, T: Threads> Inner<D, T> {
    fn enter(&self, handle: D::Stream, own: bool) -> Result<StreamId, PoolError<D::Error>> {
        let key = self.device.stream_key(&handle);
        if let Some(known) = self.with_books(|books| books.known_by(key)) {
            return Err(PoolError::KnownStream(known));
        }
        let number = unique_number().ok_or(PoolError::OutOfHostMemory)?;
        // Without a space of its own a stream is served from the hub.
        let space = self.new_space(Holder::Stream(number));
        let id = StreamId::new(number, space);
        self.with_books(|books| {
            if let Some(known) = books.known_by(key) {
                // Another thread was faster.
                if let Some(space) = space {
                    books.set_holder(space, Holder::Nobody);
                }
                return Err(PoolError::KnownStream(known));
            }
            books.keys.insert(key, number);
            let joined = Joined::new();
            let apart = [None; LIFETIMES_APART];
            // From here on others find it, by a name that is the same for good.
            let (space, front) = (space.filter(|_| !NAMES_EARLY.is_out()), None);
            let known =
                Known { handle, space, apart, own, front, joined, busy: 0, retiring: false };
            books.streams.insert(number, known);
            books.sources.add_stream(number);
            books.company.enter(number);
            self.counters.kept.streams.raise_to(books.streams.len() as u64);
            if let Some(space) = space {
                self.set_slot(space, number);
            }
            Ok(())
        })?;
        if NAMES_EARLY.is_out() {
            // A moment in which models let others run.
            pause();
            self.with_books(|books| {
                if let Some(known) = books.streams.get_mut(&number) {
                    known.space = space;
                }
            });
        }
        Ok(id)
    }

    fn create_stream(&self) -> Result<StreamId, PoolError<D::Error>> {
        self.check_alive()?;
        let handle = self.call(Call::CreateStream, Device::create_stream)?;
        self.enter(handle.clone(), true).inspect_err(|_| {
            // It was made just now, and nobody knows it.
            let _ = self.device.destroy_stream(&handle);
        })
    }

    /// Ends the use of a stream, which may be gone already: then no call names it.
    fn retire(&self, id: StreamId, is_gone: bool) -> Result<(), PoolError<D::Error>> {
        self.check_alive()?;
        let unknown = || PoolError::UnknownStream(id);
        let key = self.key_of(id).ok_or_else(unknown)?;
        // From here on no call begins to name it; those under way end first.
        let mut marked = false;
        let (handle, space, own) = loop {
            let found = self.with_books(|books| {
                let known = books.streams.get_mut(&id.number).ok_or_else(unknown)?;
                if known.retiring && !marked {
                    return Err(unknown());
                }
                if let Some(capture) = books.captures.iter().find(|capture| capture.key == key) {
                    // Also before the device begins it, and until its end is announced.
                    known.retiring = false;
                    return Err(PoolError::Captured(capture.graph));
                }
                known.retiring = true;
                marked = true;
                if known.busy > 0 && !IGNORES_BUSY_STREAM.is_out() {
                    return Ok(None);
                }
                if let Some(space) = known.space {
                    self.set_slot(space, 0);
                }
                Ok(Some((known.handle.clone(), known.space, known.own)))
            })?;
            match found {
                Some(found) => break found,
                None => pause(),
            }
        };
        let fences = self.last_fences(id, &handle, is_gone);
        let fences = match fences {
            Ok(fences) => fences,
            Err(error) => {
                self.with_books(|books| {
                    if let Some(known) = books.streams.get_mut(&id.number) {
                        known.retiring = false;
                    }
                    if let Some(space) = space {
                        self.set_slot(space, id.number);
                    }
                });
                return Err(error);
            }
        };
        // Its blocks that caches have go to its space.
        self.shared.flush();
        if self.has_fences() {
            self.notes.replace(id.number, &fences);
            self.prune_notes();
        }
        self.with_books(|books| {
            if KNOWS_BY_HANDLE.is_out() {
                return;
            }
            let spaces = books.spaces_of(id.number).into_iter().flatten();
            books.streams.remove(&id.number);
            books.keys.remove(&key);
            let mut left: Vec<Shared<D>> = fences.clone();
            if RETIRES_UNFENCED.is_out() {
                left.clear();
            }
            let earlier = books.sources.end_stream(id.number, left);
            books.garbage.extend(earlier);
            for space in spaces.clone() {
                self.clear_shelves_in(books, Some(space));
                books.set_holder(space, Holder::Gone(id.number));
            }
            let open: Vec<Parcel<D>> = books.open.drain(..).collect();
            for mut parcel in open {
                if let Ok(place) = parcel.streams.binary_search(&id.number) {
                    parcel.streams.remove(place);
                    for fence in &fences {
                        parcel.add_fence(fence.clone());
                    }
                }
                books.enter(parcel);
            }
            for space in spaces {
                books.enter_again(space);
            }
        });
        self.empty_gone_spaces();
        if own && !is_gone {
            self.call(Call::DestroyStream, |device| device.destroy_stream(&handle))?;
        }
        Ok(())
    }

    /// The key of a stream's handle.
    fn key_of(&self, id: StreamId) -> Option<u64> {
        let known =
            |books: &mut Books<D>| books.streams.get(&id.number).map(|known| known.handle.clone());
        self.with_books(known).map(|handle| self.device.stream_key(&handle))
    }

    /// Takes fences of streams that are gone, and that are done, off the notes on blocks: a block
    /// that lives long may be used by many such.
    fn prune_notes(&self) {
        let fences = self.notes.fences(MOST_PRUNED);
        let done: Vec<Shared<D>> =
            fences.into_iter().filter(|fence| self.is_done(fence).unwrap_or(false)).collect();
        if !done.is_empty() {
            self.notes.forget_fences(&done);
        }
    }

    /// Fences behind all that a stream is retired with; none on a device with one queue. A stream
    /// that is captured is refused: nothing can be recorded in it. What is left of one that is gone is
    /// behind all work of the device.
    fn last_fences(
        &self,
        id: StreamId,
        handle: &D::Stream,
        is_gone: bool,
    ) -> Result<Vec<Shared<D>>, PoolError<D::Error>> {
        if !self.has_fences() {
            return Ok(Vec::new());
        }
        if is_gone {
            let capture = || self.with_books(|books| books.open_capture());
            let refused = || capture().map_or(PoolError::UnknownStream(id), PoolError::Captured);
            return self.record_all()?.ok_or_else(refused);
        }
        if self.is_capturing()
            && let Some(graph) = self.graph_of(handle)?
        {
            return Err(PoolError::Captured(graph));
        }
        Ok(alloc::vec![self.record(id.number, handle)?])
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Makes a stream of the pool's own. It lasts until it is [retired](Self::retire), or as long
    /// as the pool.
    ///
    /// # Errors
    ///
    /// [`PoolError::Device`] if the device refuses or has no such call.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let handle = pool.stream(stream);
    /// assert!(handle.is_some(), "work is queued with the device's own handle");
    /// pool.retire(stream)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn create_stream(&self) -> Result<StreamId, PoolError<D::Error>> {
        self.inner().create_stream()
    }

    /// Makes a stream of the program's known to the pool, which from then on serves it as cheaply
    /// as its own. A handle that is known already is refused.
    ///
    /// # Errors
    ///
    /// [`PoolError::KnownStream`], or [`PoolError::OutOfHostMemory`] if 2^31 streams were made in
    /// this process.
    ///
    /// # Safety
    ///
    /// The stream must stay what it is until it is [retired](Self::retire): the pool records
    /// fences in it whenever its memory is wanted elsewhere, which on a stream that was destroyed
    /// is undefined behaviour on some devices.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice, StreamKind};
    /// # let device = SimDevice::new(SimConfig::new());
    /// # let pool = Pool::new(device.clone(), PoolConfig::new())?;
    /// let handle = device.open_stream(StreamKind::NonBlocking);
    /// // SAFETY: it is retired before it is closed.
    /// let stream = unsafe { pool.adopt(handle)? };
    /// pool.retire(stream)?;
    /// device.close_stream(handle);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[expect(unsafe_code, reason = "what the caller promises, the compiler cannot check")]
    pub unsafe fn adopt(&self, stream: D::Stream) -> Result<StreamId, PoolError<D::Error>> {
        self.inner().check_alive()?;
        self.inner().enter(stream, false)
    }

    /// Ends the pool's use of a stream: its memory is free for all once its work so far is done.
    /// A stream of the pool's own is destroyed. Its number is never used again, and no call may
    /// name it from when this one begins.
    ///
    /// # Errors
    ///
    /// [`PoolError::UnknownStream`], [`PoolError::Captured`] while it is captured, or
    /// [`PoolError::Device`] if no fence could be recorded: then it is as before. If the device
    /// fails to destroy it, it is retired nevertheless.
    ///
    /// # Example
    ///
    /// See [`create_stream`](Self::create_stream).
    pub fn retire(&self, stream: StreamId) -> Result<(), PoolError<D::Error>> {
        self.inner().retire(stream, false)
    }

    /// Ends the pool's use of a stream that is gone: its owner destroyed it, and did not
    /// [retire](Self::retire) it before, which is a fault of the program. Its handle may be another
    /// stream's by now, and no call of the device names it here; what it had is free for all once all
    /// work of the device so far is done.
    ///
    /// What the pool did before it was told is not made good by this: a program whose streams end should
    /// retire them.
    ///
    /// # Errors
    ///
    /// As [`retire`](Self::retire); and [`PoolError::Captured`] while any stream is captured, since a
    /// fence for all work cannot be recorded then.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice, StreamKind};
    /// # let device = SimDevice::new(SimConfig::new());
    /// # let pool = Pool::new(device.clone(), PoolConfig::new())?;
    /// let handle = device.open_stream(StreamKind::NonBlocking);
    /// // SAFETY: the pool is not used between its end and the call that says so.
    /// let stream = unsafe { pool.adopt(handle)? };
    /// pool.free_on(stream, pool.allocate_on(stream, 4096)?.handle())?;
    /// device.close_stream(handle);
    /// pool.forget_stream(stream)?;
    /// # device.assert_clean();
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn forget_stream(&self, stream: StreamId) -> Result<(), PoolError<D::Error>> {
        self.inner().retire(stream, true)
    }

    /// The device's handle of a stream that the pool knows.
    ///
    /// # Example
    ///
    /// See [`create_stream`](Self::create_stream).
    #[must_use]
    pub fn stream(&self, stream: StreamId) -> Option<D::Stream> {
        self.inner().with_books(|books| {
            let known = books.streams.get(&stream.number)?;
            (!known.retiring).then(|| known.handle.clone())
        })
    }

    /// The stream that the pool knows by a handle of the device.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let handle = pool.stream(stream).unwrap();
    /// assert_eq!(pool.find_stream(&handle), Some(stream));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn find_stream(&self, handle: &D::Stream) -> Option<StreamId> {
        let inner = self.inner();
        let key = inner.device.stream_key(handle);
        inner.with_books(|books| {
            let known = books.known_by(key)?;
            let retires = books.streams.get(&known.number).is_none_or(|known| known.retiring);
            (!retires).then_some(known)
        })
    }
}

impl<D: Device> Books<D> {
    /// The name of the stream that is known by a key.
    fn known_by(&self, key: u64) -> Option<StreamId> {
        let number = *self.keys.get(&key)?;
        Some(StreamId::new(number, self.streams.get(&number)?.space))
    }
}
