//! Who used a buffer on streams other than its own, so that the next use waits for them.
//!
//! A buffer that is used on its own stream alone needs none of this: the stream's order is enough.
//! From its first use elsewhere on, each use is noted when its guard is made, before the work is
//! queued; so a guard that is leaked is noted too.

use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

use pool_core::device::Device as _;
use pool_core::{Handle, On, PoolError};

use super::error::Error;
use super::parts::{Parts, driver_error};
use super::stream::{Name, Named, PoolStream};
use crate::device::CudaStream;

/// The uses of one buffer. Empty as long as it is used on its own stream alone: one word, since most
/// buffers never need more.
#[derive(Debug, Default)]
pub(super) struct Travels {
    /// Null, or a box that this owns.
    log: AtomicPtr<Mutex<Log>>,
}

/// What the next use has to wait for.
#[derive(Debug)]
struct Log {
    /// The last write; all that read before it, it has waited for.
    writer: User,
    /// Who read since. Each has waited for the write.
    readers: Vec<User>,
    /// Streams that the pool knows by their handles alone: it records in them at the free, so they
    /// last until then.
    kept: Vec<PoolStream>,
}

impl Log {
    fn keep(&mut self, stream: &PoolStream, on: &Named) {
        if matches!(on, Named::Raw(_)) && !self.kept.iter().any(|kept| kept.is(stream)) {
            self.kept.push(stream.clone());
        }
    }
}

/// A stream as one thread names it.
#[derive(Clone, Debug)]
struct User {
    who: Who,
    /// Which stream its name means, if it means another on each thread.
    identity: u64,
}

#[derive(Clone, Debug)]
enum Who {
    /// The buffer's own stream, which may be gone.
    Home(Name),
    Other(PoolStream),
}

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

impl User {
    /// A stream, as this thread names it, that uses a buffer of a pool.
    fn here(parts: &Parts, home: Name, stream: &PoolStream) -> Result<Self, Error> {
        let is_home = stream.name() == home && core::ptr::eq(stream.parts(), parts);
        let who = if is_home { Who::Home(home) } else { Who::Other(stream.clone()) };
        Ok(Self { who, identity: stream.thread_identity()? })
    }

    fn is_home(&self) -> bool {
        matches!(self.who, Who::Home(_))
    }

    fn is(&self, other: &Self) -> bool {
        let same = match (&self.who, &other.who) {
            (Who::Home(_), Who::Home(_)) => true,
            (Who::Other(one), Who::Other(another)) => one.is(another),
            _ => false,
        };
        same && self.identity == other.identity
    }

    /// How to name it on this thread, to wait for it: another thread's default stream cannot be.
    fn named_here(&self, parts: &Parts) -> Result<Named, Error> {
        match &self.who {
            Who::Home(Name::Known(id) | Name::Lasting(id)) => Ok(Named::Known(*id)),
            Who::Home(Name::PerThread) => {
                let here = parts.core.device().stream_id(&CudaStream::PER_THREAD);
                let is_here = here.map_err(driver_error)? == self.identity;
                Ok(if is_here { Named::Raw(CudaStream::PER_THREAD) } else { Named::All })
            }
            Who::Other(stream) => {
                let is_here = stream.thread_identity()? == self.identity;
                if is_here { stream.named_to(parts) } else { Ok(Named::All) }
            }
        }
    }
}

impl Travels {
    /// The travels of a new buffer.
    pub(super) fn from(home: &PoolStream) -> Result<Self, Error> {
        let travels = Self::default();
        if home.name() == Name::PerThread {
            // Its own stream is this thread's, wherever it is named.
            let writer = User::here(home.parts(), home.name(), home)?;
            travels.begin(writer);
        }
        Ok(travels)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.log.load(Ordering::Relaxed).is_null()
    }

    /// The log, which is begun if there is none.
    fn begin(&self, writer: User) -> &Mutex<Log> {
        let mut log = self.log.load(Ordering::Acquire);
        if log.is_null() {
            let (readers, kept) = (Vec::new(), Vec::new());
            let fresh = Box::into_raw(Box::new(Mutex::new(Log { writer, readers, kept })));
            let won = self.log.compare_exchange(
                ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            log = won.map_or_else(
                |earlier| {
                    // SAFETY: nobody else has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    earlier
                },
                |_| fresh,
            );
        }
        // SAFETY: it is a box's, which lasts as long as `self`.
        unsafe { &*log }
    }

    /// Begins the log where it is not begun. What was done at home so far, and what is being done
    /// there by others right now, counts as the write: nobody at home waited for anything else. (A
    /// thread's default stream has begun its log with the buffer.)
    fn begin_at_home(&self, home: Name) -> &Mutex<Log> {
        self.begin(User { who: Who::Home(home), identity: 0 })
    }

    /// Has a stream wait for what a use has to wait for, and notes the use. If that fails, the
    /// stream may have waited, and nothing is noted.
    pub(super) fn join(
        &self,
        parts: &Parts,
        home: Name,
        stream: &PoolStream,
        what: Use,
        note: impl FnOnce(On<'_, CudaStream>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let user = User::here(parts, home, stream)?;
        let on = stream.named_to(parts)?;
        let mut log = self.begin_at_home(home).lock().unwrap_or_else(PoisonError::into_inner);
        let known = log.writer.is(&user) || log.readers.iter().any(|reader| reader.is(&user));
        // What a graph uses is noted each time: the block is the graph's from then on.
        let capturing = parts.core.is_capturing();
        match what {
            Use::Read if known && capturing => return note(on.on()),
            Use::Read if known => return Ok(()),
            Use::Read => order(parts, &log.writer, &on)?,
            Use::Write => {
                let before = log.readers.iter().chain([&log.writer]);
                for earlier in before.filter(|earlier| !earlier.is(&user)) {
                    order(parts, earlier, &on)?;
                }
            }
        }
        if !user.is_home() || home == Name::PerThread || capturing {
            note(on.on())?;
            log.keep(stream, &on);
        }
        match what {
            Use::Read => log.readers.push(user),
            Use::Write => {
                log.readers.clear();
                log.writer = user;
            }
        }
        Ok(())
    }
}

impl Travels {
    /// Notes a use that is ordered otherwise.
    pub(super) fn note<R>(
        &self,
        parts: &Parts,
        home: Name,
        stream: &PoolStream,
        note: impl FnOnce(On<'_, CudaStream>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let on = stream.named_to(parts)?;
        let noted = note(on.on())?;
        if let Named::Raw(_) = on {
            let mut log = self.begin_at_home(home).lock().unwrap_or_else(PoisonError::into_inner);
            log.keep(stream, &on);
        }
        Ok(noted)
    }
}

impl Drop for Travels {
    #[inline]
    fn drop(&mut self) {
        let log = *self.log.get_mut();
        if !log.is_null() {
            end(log);
        }
    }
}

#[cold]
fn end(log: *mut Mutex<Log>) {
    // SAFETY: it is a box's, and the last who has it gives it up.
    drop(unsafe { Box::from_raw(log) });
}

/// Has a stream wait for all that another has queued so far.
fn order(parts: &Parts, earlier: &User, on: &Named) -> Result<(), Error> {
    let after = earlier.named_here(parts)?;
    match parts.core.order(after.on(), on.on()) {
        // The buffer's own stream is gone; its work may still run.
        Err(PoolError::UnknownStream(_)) if earlier.is_home() => {
            Ok(parts.core.order(On::Nothing, on.on())?)
        }
        ordered => Ok(ordered?),
    }
}

/// The note of a use in the pool, for the free to come.
pub(super) fn note_in_pool(
    parts: &Parts,
    handle: Handle,
) -> impl FnOnce(On<'_, CudaStream>) -> Result<(), Error> {
    move |on| Ok(parts.core.record_use(handle, on)?)
}
