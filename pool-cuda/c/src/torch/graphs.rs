//! Pools that graphs are captured into, as PyTorch tells of them.

use core::ffi::{c_int, c_void};

use crate::calls::guarded;
use crate::code::Result;
use crate::device::DevicePool;
use crate::handle::StreamHandle;
use crate::library::{Library, library};

/// The pools, and that of the device.
fn with(
    device: c_int,
    work: impl FnOnce(&'static Library, &'static DevicePool) -> Result<()>,
) -> c_int {
    guarded(|| {
        let library = library()?;
        work(library, library.pool(library.ordinal(device)?)?)
    })
}

/// Opens a pool, by a number of two parts that the program chooses, made if there is none: a stream is
/// about to be captured into a graph whose memory it is. Several graphs may share one, if they do not run at
/// once. Each call is one use, which `pool_torch_release_pool` gives back.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_begin_pool(
    device: c_int,
    first: u64,
    second: u64,
    stream: *mut c_void,
) -> c_int {
    with(device, |library, pool| {
        library.torch().pools.begin(pool, (first, second), StreamHandle::of(stream))
    })
}

/// Closes a pool that was opened once more than closed: the capture of the stream is over, well or not. 1: it
/// is not open.
///
/// # Safety
///
/// The stream is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pool_torch_end_pool(
    device: c_int,
    first: u64,
    second: u64,
    stream: *mut c_void,
) -> c_int {
    with(device, |library, pool| {
        library.torch().pools.end(pool, (first, second), StreamHandle::of(stream))
    })
}

/// Makes a pool if there is none, and counts one use more.
#[unsafe(no_mangle)]
pub extern "C" fn pool_torch_hold_pool(device: c_int, first: u64, second: u64) -> c_int {
    with(device, |library, pool| {
        library.torch().pools.hold(pool, (first, second));
        Ok(())
    })
}

/// Gives a use of a pool back. After the last one its graphs are launched no more: what is theirs serves
/// again once all work of the device so far is done. 1: there is no such pool.
#[unsafe(no_mangle)]
pub extern "C" fn pool_torch_release_pool(device: c_int, first: u64, second: u64) -> c_int {
    with(device, |library, pool| library.torch().pools.release(pool, (first, second)))
}

/// How many uses of a pool there are; none of one that is not there.
#[unsafe(no_mangle)]
pub extern "C" fn pool_torch_pool_uses(device: c_int, first: u64, second: u64) -> u64 {
    let mut uses = 0;
    with(device, |library, pool| {
        uses = library.torch().pools.uses(pool, (first, second));
        Ok(())
    });
    uses
}
