//! Blocks that were given out while something was captured, by calls that name no stream. A graph may
//! have their addresses for as long as it is there, which nobody says; so they stay until the process ends.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Whether each was freed by the program.
static KEPT: OnceLock<Mutex<HashMap<u64, bool>>> = OnceLock::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn kept() -> MutexGuard<'static, HashMap<u64, bool>> {
    KEPT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block stays.
pub(crate) fn keep(address: u64) {
    kept().insert(address, false);
    COUNT.fetch_add(1, Ordering::Release);
}

/// What the program's free of a block is, if that stays: true the first time.
pub(crate) fn free(address: u64) -> Option<bool> {
    if COUNT.load(Ordering::Acquire) == 0 {
        return None;
    }
    let mut kept = kept();
    let was_freed = kept.get_mut(&address)?;
    Some(!core::mem::replace(was_freed, true))
}
