//! An allocator that counts, for tests of how much memory something takes.

use core::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
};
use std::alloc::System;

/// The system's allocator; counts what each thread holds.
pub(crate) struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to `System` unchanged; counting neither allocates (the cells
// are made at compile time and have no destructor) nor touches the memory. A block that
// grows is allocated anew and copied (the default of `realloc`), so that the peak counts
// both copies.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends is no longer counted.
        let _ = LIVE_BYTES.try_with(|live| {
            live.set(live.get().saturating_add_unsigned(layout.size()));
            let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(live.get())));
        });
        // SAFETY: the caller's promise about the layout is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let _ =
            LIVE_BYTES.try_with(|live| live.set(live.get().saturating_sub_unsigned(layout.size())));
        // SAFETY: the caller's promise about block and layout is handed on.
        unsafe { System.dealloc(block, layout) }
    }
}

/// The most bytes that the calling thread held during `work`, beyond those before.
pub(crate) fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE_BYTES.get();
    PEAK_BYTES.set(before);
    let result = work();
    let peak_bytes = PEAK_BYTES.get().saturating_sub(before);
    (result, usize::try_from(peak_bytes).unwrap_or(0))
}
