//! What a pool's handles, streams and buffers share, and how long it lasts.
//!
//! Handles and streams count each other by an `Arc` of an [`Owner`]. Buffers are made and dropped
//! far more often, and are counted without an atomic addition, by a [`Tally`]: the parts last until
//! the last owner and the last buffer are gone.

use core::ptr::NonNull;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use pool_core::device::Failure;
use pool_core::{Handle, Pool, PoolError, Request, StreamId};

use super::error::Error;
use super::sleep::Kept;
use super::stream::Name;
use crate::device::{CudaDevice, CudaStream};
use crate::error::CudaError;
use crate::lease::{self, Tally, Ticket};
use crate::process;
use crate::threads::CudaThreads;

/// The pool below, and what came back from drops.
pub(crate) struct Parts {
    pub(crate) core: Pool<CudaDevice, CudaThreads>,
    /// The buffers that are out.
    tally: Arc<Tally>,
    /// The legacy default stream, once somebody asked for it.
    pub(super) legacy: OnceLock<StreamId>,
    failure: Mutex<Option<Error>>,
    /// What the pool had, while it sleeps.
    pub(super) kept: Mutex<Option<Kept>>,
}

impl Parts {
    pub(super) fn new(core: Pool<CudaDevice, CudaThreads>) -> Self {
        let (tally, legacy, failure) = (Tally::new(), OnceLock::new(), Mutex::new(None));
        Self { core, tally, legacy, failure, kept: Mutex::new(None) }
    }

    /// Keeps what failed first where nobody could be told.
    #[cold]
    pub(super) fn note(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.get_or_insert(error);
    }

    pub(super) fn take_failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Memory that is there at the first look for a buffer on a stream: its handle and its address,
    /// in registers.
    #[inline]
    fn hit(&self, stream: StreamId, size_bytes: u64) -> (Option<Handle>, u64) {
        let Some(block) = self.core.hit_on(stream, size_bytes) else { return (None, 0) };
        // The device has addresses.
        (Some(block.handle()), self.core.address(&block).unwrap_or_default())
    }

    /// Memory for a buffer on a stream, after more than one look.
    #[inline(never)]
    fn take(&self, name: Name, request: Request) -> Result<(Handle, u64), Error> {
        process::check()?;
        let block = match name.id() {
            Some(id) => self.core.allocate_on(id, request),
            None => self.core.allocate_on(&CudaStream::PER_THREAD, request),
        };
        let block = block?;
        Ok((block.handle(), self.core.address(&block).unwrap_or_default()))
    }

    /// Takes a buffer's memory back, behind what is queued on a stream of this pool. If no fence can
    /// be recorded there, it serves again behind all work of the device; if none can be recorded in a
    /// foreign stream that used it, it stays until the pool ends.
    ///
    /// # Safety
    ///
    /// The block is the buffer's, which does nothing with it any more.
    #[inline]
    unsafe fn give_back_on(&self, stream: StreamId, handle: Handle) {
        // SAFETY: the block is one buffer's, so that nobody else can free it.
        if !unsafe { self.core.free_hit_on(stream, handle) } {
            self.give_back_slowly(Some(stream), handle);
        }
    }

    #[inline(never)]
    fn give_back_slowly(&self, stream: Option<StreamId>, handle: Handle) {
        let freed = match stream {
            Some(id) => self.core.free_on(id, handle),
            None => self.core.free_on(&CudaStream::PER_THREAD, handle),
        };
        if let Err(error) = freed {
            self.give_back_unordered(handle, error);
        }
    }

    /// What it takes to count a buffer of this pool.
    #[inline]
    pub(super) fn ticket(&self) -> Ticket {
        Ticket::of(&self.tally)
    }

    /// Takes memory back when no fence could be recorded on its stream: it serves again behind all
    /// work of the device.
    #[cold]
    pub(super) fn give_back_unordered(&self, handle: Handle, error: PoolError<CudaError>) {
        if !matches!(error, PoolError::Handle(_)) {
            let _ = self.core.free(handle);
        }
        // That nobody has the stream any more is no fault.
        if !matches!(error, PoolError::UnknownStream(_)) {
            self.note(error.into());
        }
    }
}

/// One of those who keep a pool: each of its handles and streams has one.
pub(crate) struct Owner {
    parts: Lent,
}

impl Owner {
    pub(super) fn new(core: Pool<CudaDevice, CudaThreads>) -> Arc<Self> {
        let parts = Box::leak(Box::new(Parts::new(core)));
        Arc::new(Self { parts: Lent(NonNull::from(parts)) })
    }

    #[inline]
    pub(super) fn lent(&self) -> Lent {
        self.parts
    }
}

impl core::ops::Deref for Owner {
    type Target = Parts;

    #[inline]
    fn deref(&self) -> &Parts {
        // SAFETY: the parts last as long as an owner.
        unsafe { self.parts.get() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if !process::is_usable() {
            // What is left is not touched.
            return;
        }
        let tally = Arc::clone(&self.tally);
        if tally.close() {
            // SAFETY: no owner is left, and no buffer.
            unsafe { self.parts.end() };
        }
    }
}

/// The parts of a pool, in the hands of a buffer that keeps them: it is counted as out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lent(NonNull<Parts>);

// SAFETY: parts are shared between threads by all owners, and are ended by whichever is last.
unsafe impl Send for Lent {}
// SAFETY: as above.
unsafe impl Sync for Lent {}

impl Lent {
    /// # Safety
    ///
    /// There is an owner, or a buffer that is counted as out, as long as the reference lasts.
    #[inline]
    pub(super) unsafe fn get<'a>(self) -> &'a Parts {
        // SAFETY: the parts are there, by the caller's promise, and nobody has them alone.
        unsafe { self.0.as_ref() }
    }

    /// # Safety
    ///
    /// Nobody has the parts any more.
    unsafe fn end(self) {
        // SAFETY: they come from a box, which is taken back once.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    /// A buffer that is there at the first look: it is counted as out.
    ///
    /// # Safety
    ///
    /// There is an owner meanwhile.
    #[inline(never)]
    pub(super) unsafe fn hit(self, stream: StreamId, size_bytes: u64) -> (Option<Handle>, u64) {
        // SAFETY: passed on to the caller.
        let parts = unsafe { self.get() };
        let hit = parts.hit(stream, size_bytes);
        if hit.0.is_some() {
            lease::gave(&parts.tally);
        }
        hit
    }

    /// A buffer, after more than one look: it is counted as out.
    ///
    /// # Safety
    ///
    /// There is an owner meanwhile.
    pub(super) unsafe fn take(self, name: Name, request: Request) -> Result<(Handle, u64), Error> {
        // SAFETY: passed on to the caller.
        let parts = unsafe { self.get() };
        let taken = parts.take(name, request)?;
        lease::gave(&parts.tally);
        Ok(taken)
    }

    /// Takes a buffer back, and ends the parts if nobody has them any more.
    ///
    /// # Safety
    ///
    /// The buffer is counted as out, and does nothing with the parts any more.
    #[inline]
    pub(super) unsafe fn give_back(self, name: Name, handle: Handle) {
        match name.id() {
            // SAFETY: passed on to the caller.
            Some(stream) => unsafe { self.give_back_on(stream, handle) },
            // SAFETY: as above.
            None => unsafe { self.give_back_here(handle) },
        }
    }

    /// # Safety
    ///
    /// As [`give_back`](Self::give_back).
    #[inline(never)]
    unsafe fn give_back_on(self, stream: StreamId, handle: Handle) {
        // SAFETY: the buffer is still out. The reference is not used once it is counted.
        let ticket = unsafe {
            let parts = self.get();
            parts.give_back_on(stream, handle);
            parts.ticket()
        };
        // SAFETY: passed on to the caller.
        unsafe { self.count(ticket) };
    }

    /// Takes a buffer back on this thread's default stream.
    ///
    /// # Safety
    ///
    /// As [`give_back`](Self::give_back).
    #[cold]
    unsafe fn give_back_here(self, handle: Handle) {
        // SAFETY: as in `give_back_on`.
        let ticket = unsafe {
            let parts = self.get();
            parts.give_back_slowly(None, handle);
            parts.ticket()
        };
        // SAFETY: passed on to the caller.
        unsafe { self.count(ticket) };
    }

    /// Counts a buffer whose memory was freed.
    ///
    /// # Safety
    ///
    /// As [`give_back`](Self::give_back).
    #[inline]
    pub(super) unsafe fn count(self, ticket: Ticket) {
        let over = lease::took(ticket).unwrap_or_else(|| {
            // SAFETY: it is not counted yet, so the parts are there.
            let tally = Arc::clone(unsafe { &self.get().tally });
            lease::took_slowly(&tally)
        });
        if over {
            // SAFETY: the tally says so to one, once.
            unsafe { self.end() };
        }
    }
}

/// The error of a call of the device that was made without the pool.
pub(super) fn driver_error(failure: Failure<CudaError>) -> Error {
    match failure {
        Failure::Device(error) => Error::Driver(error),
        // The device has the calls that are made.
        _ => PoolError::Poisoned.into(),
    }
}
