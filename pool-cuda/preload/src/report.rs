//! What the pool saved, said at the end of the process if the environment asks for it; and why there is none.

use core::ffi::CStr;
use core::fmt::Write as _;

use pool_cuda_c::{poolGetStats, poolStats};

use crate::pool::{self, SUCCESS};

/// The variable: `1` for the standard error output, or else a file that the lines are appended to.
const VARIABLE: &str = "POOL_PRELOAD_REPORT";

/// Says why there is no pool: a mistake in the environment, most likely. The driver serves then.
pub(crate) fn no_pool() {
    // SAFETY: it is a text, and no other call of this thread's comes between.
    let why = unsafe { CStr::from_ptr(pool_cuda_c::poolLastErrorMessage()) };
    eprintln!("pool-cuda-preload: no pool: {}", why.to_string_lossy());
}

/// Has it be said at the end, before the driver ends.
pub(crate) fn at_the_end() {
    if std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty()) {
        // SAFETY: the handler may run at any end of the process.
        unsafe { libc::atexit(say) };
    }
}

extern "C" fn say() {
    if !pool::is_there() {
        // A forked child of the process, or the context is gone.
        return;
    }
    let Some(value) = std::env::var_os(VARIABLE) else { return };
    let text = text();
    if value == "1" {
        eprint!("{text}");
    } else {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&value);
        // There is nobody to tell that it cannot be written.
        let _ = file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    }
}

/// A line for each device that was used.
fn text() -> String {
    let mut text = String::new();
    for device in 0.. {
        let mut figures = poolStats::default();
        // SAFETY: the pointer is to a local.
        if unsafe { poolGetStats(device, &raw mut figures) } != SUCCESS {
            break;
        }
        if figures.allocations > 0 {
            let _ = writeln!(text, "pool-cuda-preload: device {device}: {}", said(&figures));
        }
    }
    text
}

fn said(figures: &poolStats) -> String {
    let poolStats { allocations, frees, growths, peakLiveBytes, peakReservedBytes, .. } = figures;
    let saved = (allocations + frees).saturating_sub(*growths);
    format!(
        "{allocations} allocations, {frees} frees, {growths} times more memory from the driver: {saved} calls \
         saved; at most {} MiB live, {} MiB taken",
        mib(*peakLiveBytes),
        mib(*peakReservedBytes)
    )
}

fn mib(bytes: usize) -> usize {
    bytes.div_ceil(1 << 20)
}
