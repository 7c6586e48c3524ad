//! Fills: bytes, or numbers of two or four bytes, over memory of a device.

use core::ffi::{c_uchar, c_uint, c_ushort};
use core::ptr;
use std::sync::Arc;

use pool_mock::device::Access;

use crate::call::{Call, Handle, functions};
use crate::code;
use crate::copies::fault;
use crate::space::{Fault, Span, User};
use crate::state::started;

/// Fills memory with so many times the same bytes, in the order of a stream.
fn fill(call: Call, stream: Handle, address: u64, pattern: &[u8], count: usize) -> Result<(), i32> {
    let on = call.stream(stream)?;
    let unit = pattern.len() as u64;
    let bytes = (count as u64).checked_mul(unit).ok_or(code::INVALID_VALUE)?;
    if !address.is_multiple_of(unit) {
        return Err(code::INVALID_VALUE);
    }
    if bytes == 0 {
        return Ok(());
    }
    let found = started()?.space.find(address, bytes, Access::Write, User::Driver);
    let found = found.map_err(|error| match error {
        Fault::Nothing => code::INVALID_VALUE,
        Fault::NoAccess => fault(call, &on, "no device has access to an address"),
    })?;
    let (spans, pattern) = (found.spans, pattern.to_vec());
    let task = move || {
        for span in &spans {
            fill_span(span, &pattern);
        }
    };
    on.device.queue_task(on.stream, &found.uses, Arc::new(task)).map_err(code::of)
}

/// Fills the memory of a span, which holds whole numbers.
fn fill_span(span: &Span, pattern: &[u8]) {
    let bytes = span.offset..span.offset + span.size;
    if let [value, rest @ ..] = pattern
        && rest.iter().all(|other| other == value)
    {
        span.storage.fill(bytes, *value);
        return;
    }
    let mut at = bytes.start;
    while at < bytes.end {
        let size = (bytes.end - at).min(PIECE_BYTES);
        let count = usize::try_from(size).unwrap_or(0) / pattern.len();
        span.storage.write(at, &pattern.repeat(count));
        at += size;
    }
}

/// Whole numbers are written at once up to this size.
const PIECE_BYTES: u64 = 64 << 10;

/// The legacy default stream.
const LEGACY: Handle = ptr::null_mut();

functions! {
    /// Fills memory with bytes; the host does not wait for it.
    fn cuMemsetD8_v2(address: u64, value: c_uchar, count: usize) |call| {
        fill(call, LEGACY, address, &value.to_le_bytes(), count)
    }

    /// Fills memory with bytes, in the order of a stream.
    fn cuMemsetD8Async(address: u64, value: c_uchar, count: usize, stream: Handle) |call| {
        fill(call, stream, address, &value.to_le_bytes(), count)
    }

    /// Fills memory with numbers of two bytes; the host does not wait for it.
    fn cuMemsetD16_v2(address: u64, value: c_ushort, count: usize) |call| {
        fill(call, LEGACY, address, &value.to_le_bytes(), count)
    }

    /// Fills memory with numbers of two bytes, in the order of a stream.
    fn cuMemsetD16Async(address: u64, value: c_ushort, count: usize, stream: Handle) |call| {
        fill(call, stream, address, &value.to_le_bytes(), count)
    }

    /// Fills memory with numbers of four bytes; the host does not wait for it.
    fn cuMemsetD32_v2(address: u64, value: c_uint, count: usize) |call| {
        fill(call, LEGACY, address, &value.to_le_bytes(), count)
    }

    /// Fills memory with numbers of four bytes, in the order of a stream.
    fn cuMemsetD32Async(address: u64, value: c_uint, count: usize, stream: Handle) |call| {
        fill(call, stream, address, &value.to_le_bytes(), count)
    }
}
