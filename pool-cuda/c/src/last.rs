//! What went wrong last on each thread, for programs that ask why.

use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int};
use core::fmt::Display;
use core::ptr;
use std::ffi::CString;

use crate::code::{Code, Result};

#[derive(Debug)]
struct Last {
    /// What the call under way has met.
    met: Option<String>,
    code: c_int,
    message: Option<CString>,
}

thread_local! {
    static LAST: RefCell<Last> = const { RefCell::new(Last { met: None, code: 0, message: None }) };
}

/// Keeps the words of an error for which a code stands from here on.
pub(crate) fn note(error: &impl Display) {
    with(|last| last.met = Some(error.to_string()));
}

/// What a function answers; why it fails is kept.
pub(crate) fn answer(result: Result<()>) -> c_int {
    let Err(code) = result else { return 0 };
    with(|last| {
        let words = last.met.take().unwrap_or_else(|| code.words().into());
        last.code = code.number();
        last.message = CString::new(words).ok();
    });
    code.number()
}

/// A call begins: what an earlier one met is not its.
pub(crate) fn begin() {
    with(|last| last.met = None);
}

fn with<R>(work: impl FnOnce(&mut Last) -> R) -> Option<R> {
    // A thread that ends has none any more.
    LAST.try_with(|last| last.try_borrow_mut().ok().map(|mut last| work(&mut last))).ok().flatten()
}

/// The code of the last of this thread's calls that failed; 0 if none has. It stays until another fails.
#[unsafe(no_mangle)]
pub extern "C" fn poolLastError() -> c_int {
    with(|last| last.code).unwrap_or(0)
}

/// Why the last of this thread's calls that failed did: text for a person, of one line or several. Where
/// memory is short it says what was asked, what there is in which state, and what would help. It is valid
/// until another call of this thread fails; empty if none has.
#[unsafe(no_mangle)]
pub extern "C" fn poolLastErrorMessage() -> *const c_char {
    const NONE: &CStr = c"";
    let message = with(|last| last.message.as_ref().map_or(ptr::null(), |words| words.as_ptr()));
    message.filter(|words| !words.is_null()).unwrap_or(NONE.as_ptr())
}

impl Code {
    /// What it says where nothing more is known.
    fn words(self) -> &'static str {
        match self {
            Self::INVALID_VALUE => {
                "invalid value: a null pointer, or one that no live block of the pool begins at"
            }
            Self::MEMORY => "out of memory",
            Self::INITIALIZATION => "this is a forked child of a process that used CUDA",
            Self::UNLOADING => "the process is exiting",
            Self::INSUFFICIENT_DRIVER => "there is no CUDA driver, or it is too old",
            Self::NO_DEVICE => "there is no device",
            Self::INVALID_DEVICE => "there is no device with this number",
            Self::INVALID_CONTEXT => "the current context is not its device's primary one",
            Self::INVALID_HANDLE => "a stream of a context that is not its device's primary one",
            Self::NOT_SUPPORTED => "the device cannot do this",
            Self::CAPTURE => "a capture was not announced, or is not over",
            _ => "a call of the driver failed",
        }
    }
}
