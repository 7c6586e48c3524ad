//! Who used a buffer on streams other than its own, so that the next use waits for them.
//!
//! A buffer that is used on its own stream alone needs none of this: the stream's order is enough.
//! From its first use elsewhere on, each use is noted when its guard is made, before the work is
//! queued; so a guard that is leaked is noted too.

use std::sync::{Mutex, OnceLock, PoisonError};

use pool_core::{Handle, On};

use super::error::Error;
use super::parts::Parts;
use super::stream::{Named, PoolStream};

/// The uses of one buffer. Empty as long as it is used on its own stream alone.
#[derive(Debug, Default)]
pub(super) struct Travels {
    log: OnceLock<Box<Mutex<Log>>>,
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
    stream: PoolStream,
    /// Which stream its name means, if it means another on each thread.
    identity: u64,
}

/// What is done with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Read,
    Write,
}

impl User {
    fn here(stream: &PoolStream) -> Result<Self, Error> {
        Ok(Self { stream: stream.clone(), identity: stream.thread_identity()? })
    }

    fn is(&self, other: &Self) -> bool {
        self.identity == other.identity && self.stream.is(&other.stream)
    }

    /// How to name it on this thread, to wait for it: another thread's default stream cannot be.
    fn named_here(&self, parts: &Parts) -> Result<Named, Error> {
        if self.stream.thread_identity()? == self.identity {
            Ok(self.stream.named_to(parts))
        } else {
            Ok(Named::All)
        }
    }
}

impl Travels {
    /// The travels of a new buffer.
    pub(super) fn from(home: &PoolStream) -> Result<Self, Error> {
        let travels = Self::default();
        if home.is_per_thread() {
            // Its own stream is this thread's, wherever it is named.
            travels.log(home)?;
        }
        Ok(travels)
    }

    fn log(&self, home: &PoolStream) -> Result<&Mutex<Log>, Error> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        // What was done at home so far, and what is being done there by others right now, counts
        // as the write: nobody at home waited for anything else.
        let writer = User::here(home)?;
        let fresh = || Box::new(Mutex::new(Log { writer, readers: Vec::new(), kept: Vec::new() }));
        Ok(self.log.get_or_init(fresh))
    }

    /// Whether a use on a stream needs no note.
    #[inline]
    pub(super) fn is_at_home(&self, home: &PoolStream, stream: &PoolStream) -> bool {
        self.log.get().is_none() && home.is(stream)
    }

    /// Has a stream wait for what a use has to wait for, and notes the use. If that fails, the
    /// stream may have waited, and nothing is noted.
    pub(super) fn join(
        &self,
        parts: &Parts,
        home: &PoolStream,
        stream: &PoolStream,
        what: Use,
        note: impl FnOnce(On<'_, crate::device::CudaStream>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let user = User::here(stream)?;
        let on = stream.named_to(parts);
        let log = self.log(home)?;
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let known = log.writer.is(&user) || log.readers.iter().any(|reader| reader.is(&user));
        match what {
            Use::Read if known => return Ok(()),
            Use::Read => order(parts, &log.writer, &on)?,
            Use::Write => {
                // Readers have waited for the write: who waits for them all waits for that, too.
                let before = log.readers.iter().chain([&log.writer]);
                for earlier in before.filter(|earlier| !earlier.is(&user)) {
                    order(parts, earlier, &on)?;
                }
            }
        }
        if !home.is(stream) || home.is_per_thread() {
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
        home: &PoolStream,
        stream: &PoolStream,
        note: impl FnOnce(On<'_, crate::device::CudaStream>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let on = stream.named_to(parts);
        if !matches!(on, Named::Raw(_)) {
            return note(on.on());
        }
        let log = self.log(home)?;
        let noted = note(on.on())?;
        log.lock().unwrap_or_else(PoisonError::into_inner).keep(stream, &on);
        Ok(noted)
    }
}

/// Has a stream wait for all that another has queued so far.
fn order(parts: &Parts, earlier: &User, on: &Named) -> Result<(), Error> {
    let after = earlier.named_here(parts)?;
    parts.core.order(after.on(), on.on())?;
    Ok(())
}

/// The note of a use in the pool, for the free to come.
pub(super) fn note_in_pool(
    parts: &Parts,
    handle: Handle,
) -> impl FnOnce(On<'_, crate::device::CudaStream>) -> Result<(), Error> {
    move |on| Ok(parts.core.record_use(handle, on)?)
}
