//! What tests need of the driver that runs them.

use core::ffi::{CStr, c_void};
use std::sync::Arc;

use pool_cuda::Driver;

/// A driver that tests run on, one test at a time.
pub trait Bed: Sync {
    /// The ways in which work runs there (late, at once, ...), by name. Every test runs in each.
    fn ways(&self) -> &'static [&'static str];

    /// Whether its driver is a simulated one.
    fn is_simulated(&self) -> bool;

    /// How many devices there are.
    fn devices(&self) -> u32;

    /// Begins a test, with nothing left of the one before, in one of the ways.
    fn begin(&self, way: usize) -> Box<dyn Session>;
}

/// A test's time on a bed.
pub trait Session: Sync {
    /// The driver, started.
    fn driver(&self) -> &'static Driver;

    /// The driver's function of this name, or null: for tables with others in place of some.
    fn symbol(&self, name: &CStr) -> *const c_void;

    /// What holds work up. It may be used from any thread, as long as the session lasts.
    fn gate(&self) -> Arc<dyn Gate>;

    /// What only a simulated driver can tell, if this is one.
    fn simulated(&self) -> Option<&dyn Simulated>;

    /// What the test has broken so far: each thing is told once.
    fn take_violations(&self) -> Vec<String>;

    /// Ends the test.
    ///
    /// # Errors
    ///
    /// What the test left behind, or broke, in words.
    fn end(self: Box<Self>) -> Result<(), String>;
}

/// What holds work up where it would run at once. A real device needs none: work on it takes its time by
/// itself.
pub trait Gate: Send + Sync {
    /// Keeps what is queued on a stream from running before [`go`](Self::go), but for what the
    /// host waits for.
    fn hold(&self, stream: *mut c_void);

    /// Ends all that is held, and has it run.
    fn go(&self);

    /// Has the next call of a driver's function fail; whether that can be had.
    fn fail_next(&self, name: &str) -> bool;
}

/// What only a simulated driver can tell.
pub trait Simulated: Sync {
    /// The names of all calls since the test began.
    fn calls(&self) -> Vec<&'static str>;

    /// How many calls of a function there were.
    fn count(&self, name: &str) -> usize;

    /// The calls so far that had to wait for queued work.
    fn waited(&self) -> Vec<&'static str>;

    /// Starts the driver afresh, as at the test's beginning. What the test has of it is to be gone;
    /// what exists then, or was broken, is no fault.
    fn restart(&self);

    /// Has the call with this index, counted from 0 since the test began, fail with a code.
    fn fail_call(&self, index: usize, code: i32);

    /// What exists in the driver, in words, if there is anything.
    fn left_behind(&self) -> Option<String>;

    /// How many references there are to a device's primary context.
    fn references(&self, ordinal: u32) -> u32;

    /// How many contexts this thread has under its current one, and that.
    fn stack(&self) -> usize;

    /// Has the next calls of a function fail with a code, so many of them, and no other of it.
    fn fail_next(&self, name: &str, times: u64, code: i32);

    /// Has all calls on a device fail from now on, as after a kernel that used a bad address.
    fn make_fatal(&self, ordinal: u32);

    /// Takes any call from now on for one that must not be made: the process ends.
    fn exit(&self);

    /// The calls that came after [`exit`](Self::exit), or in a forked child. Takes no lock.
    fn late_calls(&self) -> Vec<&'static str>;
}
