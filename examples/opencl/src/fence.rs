//! Fences: events of markers.

use cl3::command_queue;
use cl3::event::{self, CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS};

use crate::error::ClError;
use crate::handle::{Event, Owned};
use crate::queue::ClStream;

/// A fence. It lasts longer than its stream, as an event does.
#[derive(Debug)]
pub struct ClFence {
    event: Owned<Event>,
}

impl ClFence {
    /// A marker behind all that is queued in a stream now. Another queue that waits for it, or who asks
    /// for it again and again, would do so for ever if the stream was not flushed: OpenCL need not
    /// begin with anything before.
    pub(crate) fn record(stream: &ClStream) -> Result<Self, ClError> {
        // Without a list it waits for all that is before it.
        // SAFETY: the queue lives as long as the stream, and there is no list.
        let event = unsafe {
            command_queue::enqueue_marker_with_wait_list(stream.queue(), 0, core::ptr::null())
        }
        .map_err(ClError::of("clEnqueueMarkerWithWaitList"))?;
        // SAFETY: the reference was made just now.
        let fence = Self { event: unsafe { Owned::new(event) } };
        stream.flush()?;
        Ok(fence)
    }

    /// Whether what is before it is done. An event that has come to a bad end is an error.
    pub(crate) fn is_done(&self) -> Result<bool, ClError> {
        let status = event::get_event_info(self.event.raw(), CL_EVENT_COMMAND_EXECUTION_STATUS)
            .map_err(ClError::of("clGetEventInfo"))?;
        match i32::from(status) {
            CL_COMPLETE => Ok(true),
            code if code < 0 => Err(ClError::Work { code }),
            _ => Ok(false),
        }
    }

    /// Has a stream wait for it. What waits for work that has failed fails too, so that is told here
    /// where it is known already.
    pub(crate) fn have_wait(&self, stream: &ClStream) -> Result<(), ClError> {
        if self.is_done()? {
            return Ok(());
        }
        let list = [self.event.raw()];
        // SAFETY: the queue and the list's event live, and the list has one.
        let waits = unsafe {
            command_queue::enqueue_barrier_with_wait_list(stream.queue(), 1, list.as_ptr())
        }
        .map_err(ClError::of("clEnqueueBarrierWithWaitList"))?;
        // SAFETY: the reference was made just now. Nobody asks for this event.
        drop(unsafe { Owned::<Event>::new(waits) });
        Ok(())
    }

    /// Has the host wait for it.
    pub(crate) fn wait(&self) -> Result<(), ClError> {
        let waited = event::wait_for_events(&[self.event.raw()]);
        // The code of the wait says less than the event's.
        self.is_done()?;
        waited.map_err(ClError::of("clWaitForEvents"))
    }
}
