//! What every call of the driver goes through, and the macro that declares one.

use core::ffi::{c_int, c_void};
use core::ptr;

use pool_mock::device::{Action, SimDevice, SimStream, Violation};

use crate::code;
use crate::context::{ContextId, Current};
use crate::late;
use crate::state::{lock, started};

/// A handle of the driver's: a context, a stream, an event and so on.
pub type Handle = *mut c_void;

/// The number of a handle, by which it is looked up. Nobody reads through it.
pub(crate) fn key(handle: Handle) -> u64 {
    handle.addr() as u64
}

/// The handle with a number.
pub(crate) fn handle(key: u64) -> Handle {
    ptr::without_provenance_mut(usize::try_from(key).unwrap_or(0))
}

/// Writes a result where the caller wants it.
///
/// # Safety
///
/// `out` is null or valid for a write.
pub(crate) unsafe fn answer<T>(out: *mut T, value: T) -> Result<(), i32> {
    check(out)?;
    // SAFETY: not null, and valid by this function's contract.
    unsafe { ptr::write(out, value) };
    Ok(())
}

/// Writes a result where the caller wants it, if it does.
///
/// # Safety
///
/// `out` is null or valid for a write.
pub(crate) unsafe fn answer_if<T>(out: *mut T, value: T) {
    // SAFETY: passed on to the caller. That it is null is no error here.
    let _ = unsafe { answer(out, value) };
}

/// Reads what the caller points to.
///
/// # Safety
///
/// `from` is null or valid for a read.
pub(crate) unsafe fn ask<T: Copy>(from: *const T) -> Result<T, i32> {
    check(from)?;
    // SAFETY: not null, and valid by this function's contract.
    Ok(unsafe { ptr::read(from) })
}

/// Refuses a null pointer.
pub(crate) fn check<T>(pointer: *const T) -> Result<(), i32> {
    if pointer.is_null() { Err(code::INVALID_VALUE) } else { Ok(()) }
}

/// A call that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
}

/// A stream that a call names, and what it is of.
pub(crate) struct OnStream {
    pub(crate) context: ContextId,
    pub(crate) ordinal: usize,
    pub(crate) device: SimDevice,
    pub(crate) stream: SimStream,
}

impl Call {
    /// The stream that a handle means on the calling thread.
    pub(crate) fn stream(self, stream: Handle) -> Result<OnStream, i32> {
        let state = started()?;
        let current = state.current()?;
        let key = key(stream);
        if key <= 2 {
            let Current { id, ordinal, device } = current;
            let stream = device.stream_with_key(key);
            return Ok(OnStream { context: id, ordinal, device, stream });
        }
        let Some(known) = state.streams.get(&key) else {
            // On a real device this is the end of the process.
            current.device.report(Violation::DeadStream { action: self.action(), key });
            return Err(code::INVALID_HANDLE);
        };
        let context = state.live(known.context)?;
        let device = context.device.clone();
        let stream = device.stream_with_key(key);
        Ok(OnStream { context: known.context, ordinal: context.ordinal, device, stream })
    }

    /// Notes that the call had to wait for queued work, if it had to.
    pub(crate) fn waited(self, waited: bool) {
        if waited {
            lock().log.waited.push(self.name);
        }
    }

    /// The call, for a violation.
    pub(crate) const fn action(self) -> Action {
        Action::Program(self.name)
    }

    /// Adds a violation in words.
    pub(crate) fn violation(self, device: &SimDevice, words: &str) {
        device.report(Violation::Other(format!("{}: {words}", self.name)));
    }
}

/// Runs one call of the driver: notes it, fails it if it is told to, else does its work.
pub(crate) fn run(name: &'static str, work: impl FnOnce(Call) -> Result<(), i32>) -> c_int {
    let call = Call { name };
    let result = late::check(name).and_then(|()| begin(call)).and_then(|()| work(call));
    result.err().unwrap_or(code::SUCCESS)
}

/// What may keep a call from being made.
fn begin(call: Call) -> Result<(), i32> {
    let mut state = lock();
    if let Some(code) = state.log.begin(call.name) {
        return Err(code);
    }
    if SimDevice::is_in_callback() {
        state.devices[0].sim.report(Violation::InCallback(call.action()));
        return Err(code::NOT_PERMITTED);
    }
    if needs_working_device(call.name)
        && let Ok(current) = state.current()
        && let Some(code) = state.devices[current.ordinal].fatal
    {
        return Err(code);
    }
    Ok(())
}

/// Whether a call fails when earlier work has made its context unusable.
fn needs_working_device(name: &str) -> bool {
    let asks = ["cuInit", "cuDriver", "cuDevice", "cuGetError", "cuCtxGet"];
    let switches = ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuCtxSetCurrent"];
    !switches.contains(&name) && !asks.iter().any(|start| name.starts_with(start))
}

/// Declares functions of the driver, and `find`, which knows them by their names. Those with
/// `|call|` know which call they are.
macro_rules! functions {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(|$call:ident|)? $work:block
    )*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            ///
            /// Every pointer is null or valid for what the driver reads and writes through it.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($argument: $kind),*) -> core::ffi::c_int {
                $crate::call::run(stringify!($name), |made| {
                    let _ = made;
                    $(let $call = made;)?
                    $work
                })
            }
        )*

        /// The function of this file that has this name.
        pub(crate) fn find(name: &str) -> Option<*const core::ffi::c_void> {
            match name {
                $(stringify!($name) => Some($name as *const core::ffi::c_void),)*
                _ => None,
            }
        }
    };
}
pub(crate) use functions;
