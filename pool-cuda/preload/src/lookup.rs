//! `dlsym`, which answers the names that are served and else is the real one.
//!
//! What a name means may depend on who asks: after whose library `RTLD_NEXT` looks, the loader sees by
//! the address that the call returns to. So the real function is not called but jumped to, with
//! everything as the caller left it.

use core::arch::naked_asm;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;

use crate::{loader, names};

/// What is to be done about a name: in two registers, which the wrapper reads.
#[repr(C)]
struct Answer {
    /// 0: the real function is to be asked.
    is_answered: usize,
    address: *mut c_void,
}

impl Answer {
    const PASSED_ON: Self = Self { is_answered: 0, address: ptr::null_mut() };

    const fn is(address: *mut c_void) -> Self {
        Self { is_answered: 1, address }
    }
}

/// Finds a function by its name, as the C library's function of this name does.
///
/// # Safety
///
/// As that.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    naked_asm!(
        "endbr64",
        "push rdi",
        "push rsi",
        // A call wants the stack at a multiple of 16.
        "sub rsp, 8",
        "call {answer}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jnz 2f",
        "mov rax, qword ptr [rip + {next}]",
        "test rax, rax",
        "jz 3f",
        "jmp rax",
        "2:",
        "mov rax, rdx",
        "3:",
        "ret",
        answer = sym answer,
        next = sym loader::NEXT,
    )
}

/// What this library says to a name. Allocates nothing, and needs nothing of std.
unsafe extern "C" fn answer(handle: *mut c_void, name: *const c_char) -> Answer {
    let Some(dlsym) = loader::dlsym() else { return Answer::PASSED_ON };
    // Who looks past itself means what comes after it, which may be this library or not.
    if handle == libc::RTLD_NEXT || name.is_null() {
        return Answer::PASSED_ON;
    }
    // SAFETY: a text, by the promise of who called.
    let name = unsafe { CStr::from_ptr(name) };
    let Some(served) = names::served(name) else { return Answer::PASSED_ON };
    // SAFETY: passed on.
    let found = unsafe { dlsym(handle, name.as_ptr()) };
    if found.is_null() {
        // The real one says so, to who calls.
        return Answer::PASSED_ON;
    }
    if !ptr::eq(found, served) {
        return Answer::is(served);
    }
    // Found here, since this library comes first: it counts if the library that it stands for is there.
    let is_there = !served_by_others(name).is_null();
    Answer::is(if is_there { served } else { ptr::null_mut() })
}

/// The function that one of this library's stands for, if the program has it.
fn served_by_others(name: &CStr) -> *mut c_void {
    if names::is_runtimes(name) {
        return loader::in_runtime(name);
    }
    let next = loader::after_this(name);
    if next.is_null() { loader::in_loaded_driver(name) } else { next }
}
