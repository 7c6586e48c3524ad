//! Which thread calls.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

use super::capture::CaptureMode;

thread_local! {
    static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// Numbers from here on are drawn; below are those that tests choose.
static NEXT: AtomicU64 = AtomicU64::new(1 << 32);

/// The calling thread's number.
pub(super) fn number() -> u64 {
    NUMBER.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(Some(number));
        number
    })
}

/// Runs `work` as the thread of this number.
pub(super) fn with_number<R>(number: u64, work: impl FnOnce() -> R) -> R {
    let _before = Restore { cell: &NUMBER, value: NUMBER.replace(Some(number)) };
    work()
}

/// What the calling thread has captures forbid it.
pub(super) fn mode() -> CaptureMode {
    MODE.get()
}

/// Changes it; gives what it was.
pub(super) fn exchange_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// Whether the calling thread is inside a callback.
pub(super) fn is_in_callback() -> bool {
    IN_CALLBACK.get()
}

/// Runs `work` as a callback.
pub(super) fn in_callback(work: impl FnOnce()) {
    let _before = Restore { cell: &IN_CALLBACK, value: IN_CALLBACK.replace(true) };
    work();
}

/// Puts a value back, also when a panic passes.
struct Restore<T: Copy + 'static> {
    cell: &'static std::thread::LocalKey<Cell<T>>,
    value: T,
}

impl<T: Copy + 'static> Drop for Restore<T> {
    fn drop(&mut self) {
        self.cell.set(self.value);
    }
}
