//! The head of a range's storage, and who may use it when.

use core::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use pool_core::{Borrowed, OffsetAllocator};

use crate::config::Lock;
use crate::error::{Error, Result};

/// A range in the caller's storage: at its start.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Range {
    /// Its own address, mixed: that a range is here, and was not moved.
    pub(crate) mark: usize,
    pub(crate) lock: Lock,
    /// A call is under way.
    pub(crate) busy: AtomicBool,
    /// How many entries the storage has.
    pub(crate) entries: u32,
    pub(crate) offsets: Offsets,
}

/// The range itself. It lives as long as the storage, which the caller promises to leave alone.
pub(crate) type Offsets = OffsetAllocator<Borrowed<'static>>;

/// The mark of a range at an address.
pub(crate) fn mark(range: *const Range) -> usize {
    range.addr() ^ 0x6f70_6c6f
}

/// What a pointer leads to, if it can be read or written at all.
pub(crate) fn checked<T>(pointer: *mut T) -> Result<*mut T> {
    if pointer.is_null() || !pointer.is_aligned() { Err(Error::Pointer) } else { Ok(pointer) }
}

/// What a pointer leads to that only is read.
///
/// # Safety
///
/// It is null or leads to a value.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T> {
    let pointer = checked(pointer.cast_mut())?;
    // SAFETY: it is neither null nor misaligned, so it leads to a value.
    Ok(unsafe { *pointer })
}

/// A call that is under way: the lock is held, and nobody else is in the range.
pub(crate) struct Call(*mut Range);

impl Call {
    /// Begins a call.
    ///
    /// # Safety
    ///
    /// The pointer is null or leads to as many bytes as a `Range` has, which nobody but these
    /// calls writes to while a range is there.
    pub(crate) unsafe fn begin(range: *mut Range) -> Result<Self> {
        let range = checked(range)?;
        // Only these fields are looked at, and no reference is made, before the range is ours.
        // SAFETY: the bytes are there, and any bits are a number.
        if unsafe { (*range).mark } != mark(range) {
            return Err(Error::NoRange);
        }
        // SAFETY: a range is here, whose lock does not change.
        let Lock { take, context, .. } = unsafe { (*range).lock };
        if let Some(take) = take {
            // SAFETY: the caller's function, with what it is to be told.
            unsafe { take(context) };
        }
        // SAFETY: a range is here.
        let busy = unsafe { &(*range).busy };
        if busy.load(Ordering::Relaxed) {
            // SAFETY: this call took it.
            unsafe { give(range) };
            return Err(Error::Busy);
        }
        // Two loads and stores, and no exchange, which small machines lack: the lock keeps other
        // cores out, and an interrupt is over before what it came into goes on.
        busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Ok(Self(range))
    }

    /// The range, which is this call's alone.
    pub(crate) fn offsets(&mut self) -> &mut Offsets {
        // SAFETY: a range is here, and no other call is under way.
        unsafe { &mut (*self.0).offsets }
    }

    /// How many entries the storage has.
    pub(crate) fn entries(&self) -> u32 {
        // SAFETY: a range is here.
        unsafe { (*self.0).entries }
    }

    /// From now on no range is here.
    pub(crate) fn end(self) {
        // SAFETY: a range is here, and no other call is under way.
        unsafe { (*self.0).mark = 0 };
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: a range is here, whose lock this call holds.
        unsafe {
            (*self.0).busy.store(false, Ordering::Relaxed);
            give(self.0);
        }
    }
}

/// Gives a range's lock back.
///
/// # Safety
///
/// A range is here, whose lock the caller holds.
unsafe fn give(range: *mut Range) {
    // SAFETY: a range is here, whose lock does not change.
    let Lock { give, context, .. } = unsafe { (*range).lock };
    if let Some(give) = give {
        // SAFETY: the caller's function, with what it is to be told.
        unsafe { give(context) };
    }
}
