//! The functions that PyTorch and its shim call, as they call them.

mod graphs;
mod memory;
mod sweep;

use core::ffi::{CStr, c_int, c_void};

use pool_cuda_c::{
    pool_torch_allocate, pool_torch_list_streams, pool_torch_release, pool_torch_stats,
    poolLastError, poolLastErrorMessage, poolTorchStats,
};
use pool_mock_driver::Handle;

use crate::bed::*;

/// Asks for memory; the code if there is none.
fn ask(size: usize, device: c_int, stream: Handle) -> Result<*mut c_void, c_int> {
    // SAFETY: the stream is there.
    let block = unsafe { pool_torch_allocate(size, device, stream) };
    if block.is_null() { Err(poolLastError()) } else { Ok(block) }
}

fn take(size: usize, stream: Handle) -> *mut c_void {
    let block = ask(size, 0, stream).unwrap();
    assert_eq!(block.addr() % 256, 0);
    block
}

fn give(block: *mut c_void, stream: Handle) -> c_int {
    // SAFETY: the stream is there.
    unsafe { pool_torch_release(block, 0, stream) }
}

fn list(device: c_int, streams: &[Handle]) -> c_int {
    // SAFETY: a slice, of streams that no test destroys while the library runs.
    unsafe { pool_torch_list_streams(device, streams.as_ptr(), streams.len()) }
}

fn message() -> String {
    // SAFETY: it ends with a zero, and no other call comes between.
    unsafe { CStr::from_ptr(poolLastErrorMessage()) }.to_string_lossy().into_owned()
}

fn figures(device: c_int) -> poolTorchStats {
    let mut figures = poolTorchStats::default();
    // SAFETY: the pointer is to a local.
    assert_eq!(unsafe { pool_torch_stats(device, &raw mut figures) }, SUCCESS);
    figures
}
