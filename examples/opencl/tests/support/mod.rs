//! A device to test on, where there is one.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::sync::Once;

use cl3::command_queue::{self, CL_QUEUE_CONTEXT};
use cl3::event;
use cl3::types::{cl_context, cl_event};
use pool_opencl::{ClDevice, ClError, ClStream};

/// Says that there has to be OpenCL: then a test that finds none fails.
pub(crate) const REQUIRED: &str = "POOL_OPENCL_REQUIRED";

/// How many threads PoCL has: as many as the machine's by default, and with two of them a look at
/// memory may have to wait until slow work is done that has nothing to do with it.
const POCL_THREADS: &str = "POCL_MAX_PTHREAD_COUNT";

/// The first device; none, and a word about it, where there is no OpenCL.
pub(crate) fn device() -> Option<ClDevice> {
    static SET: Once = Once::new();
    SET.call_once(|| {
        if std::env::var_os(POCL_THREADS).is_none() {
            // SAFETY: no runtime is loaded yet that would read it, and the rest reads by std alone.
            unsafe { std::env::set_var(POCL_THREADS, "8") };
        }
    });
    match ClDevice::open(0) {
        Ok(device) => Some(device),
        Err(error @ ClError::NoPlatform { .. }) if std::env::var_os(REQUIRED).is_none() => {
            eprintln!("{error}: the test is passed over");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A gate in a stream: what is queued behind it waits until the gate is opened.
pub(crate) struct Gate {
    event: cl_event,
    /// The barrier's own, kept until it is over.
    waits: cl_event,
}

impl Gate {
    /// One behind what is queued in a stream now.
    pub(crate) fn shut(stream: &ClStream) -> Self {
        let context = command_queue::get_command_queue_info(stream.queue(), CL_QUEUE_CONTEXT);
        let context = isize::from(context.unwrap()) as cl_context;
        let event = event::create_user_event(context).unwrap();
        // SAFETY: the queue lives, and the list has one event, which does.
        let waits = unsafe {
            command_queue::enqueue_barrier_with_wait_list(stream.queue(), 1, [event].as_ptr())
        };
        Self { event, waits: waits.unwrap() }
    }

    /// Lets what is behind it run.
    pub(crate) fn open(self) {
        self.end_with(0);
    }

    /// Has what is behind it fail.
    pub(crate) fn fail(self) {
        self.end_with(-5);
    }

    fn end_with(self, status: i32) {
        event::set_user_event_status(self.event, status).unwrap();
        for event in [self.event, self.waits] {
            // SAFETY: both references are the gate's own, and this is their last use.
            unsafe { event::release_event(event).unwrap() };
        }
    }
}
