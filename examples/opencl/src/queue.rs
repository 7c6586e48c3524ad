//! Streams: command queues that run in order.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cl3::command_queue;
use cl3::types::{cl_command_queue, cl_context, cl_device_id};

use crate::error::ClError;
use crate::fence::ClFence;
use crate::handle::{Owned, Queue};

/// A stream. A clone is the same one; the queue is given back with the last of them, and what is
/// queued in it then still runs.
#[derive(Clone)]
pub struct ClStream {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Owned<Queue>,
    id: u64,
}

impl ClStream {
    /// A new one, in which commands run in the order in which they were queued.
    pub(crate) fn create(context: cl_context, device: cl_device_id) -> Result<Self, ClError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // The call of OpenCL 1, which every version since has.
        // SAFETY: the device is one of the context.
        let queue = unsafe { command_queue::create_command_queue(context, device, 0) }
            .map_err(ClError::of("clCreateCommandQueue"))?;
        // SAFETY: it was made just now.
        let queue = unsafe { Owned::new(queue) };
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Self { inner: Arc::new(Inner { queue, id }) })
    }

    /// The queue, to queue work in: a `cl_command_queue`.
    ///
    /// # Example
    ///
    /// ```
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return Ok(()) };
    /// let stream = device.create_stream()?;
    /// assert!(!stream.queue().is_null());
    /// # Ok::<(), pool_opencl::ClError>(())
    /// ```
    #[must_use]
    pub fn queue(&self) -> cl_command_queue {
        self.inner.queue.raw()
    }

    /// A number that no other stream of the process had.
    pub(crate) fn id(&self) -> u64 {
        self.inner.id
    }

    /// A value that no other stream has at the same time.
    pub(crate) fn key(&self) -> u64 {
        self.inner.queue.raw().addr() as u64
    }

    /// Has the device begin with what is queued.
    pub(crate) fn flush(&self) -> Result<(), ClError> {
        command_queue::flush(self.queue()).map_err(ClError::of("clFlush"))
    }

    /// Has the host wait for all that is queued so far.
    ///
    /// # Errors
    ///
    /// [`ClError::Call`].
    ///
    /// # Example
    ///
    /// ```
    /// # let Ok(device) = pool_opencl::ClDevice::open(0) else { return Ok(()) };
    /// device.create_stream()?.finish()?;
    /// # Ok::<(), pool_opencl::ClError>(())
    /// ```
    pub fn finish(&self) -> Result<(), ClError> {
        command_queue::finish(self.queue()).map_err(ClError::of("clFinish"))
    }
}

impl PartialEq for ClStream {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for ClStream {}

impl fmt::Debug for ClStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClStream({})", self.inner.id)
    }
}

/// All streams of a device: OpenCL has no call that waits for all of its queues, nor one that lists
/// them.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    all: Mutex<Vec<Listed>>,
}

#[derive(Debug)]
struct Listed {
    stream: ClStream,
    /// Behind all its work, once nobody else has the stream any more.
    last: Option<ClFence>,
}

impl Listed {
    /// Whether it is of no use any more: the program has let go of it, and its work is done.
    fn is_over(&mut self) -> Result<bool, ClError> {
        if Arc::strong_count(&self.stream.inner) > 1 {
            return Ok(false);
        }
        let last = match self.last.take() {
            Some(last) => last,
            None => ClFence::record(&self.stream)?,
        };
        let done = last.is_done();
        self.last = Some(last);
        done
    }
}

impl Streams {
    pub(crate) fn add(&self, stream: &ClStream) {
        let listed = Listed { stream: stream.clone(), last: None };
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(listed);
    }

    /// Those that the program has, and those that it has not any more, until their work is done.
    pub(crate) fn list(&self) -> Vec<ClStream> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        // What cannot be told is taken as not done.
        all.retain_mut(|listed| !listed.is_over().unwrap_or(false));
        all.iter().map(|listed| listed.stream.clone()).collect()
    }
}
