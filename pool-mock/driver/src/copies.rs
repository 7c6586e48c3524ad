//! Copies: between devices and the host, at once or in the order of a stream.
//!
//! A copy at once runs on the legacy default stream. The host's pageable memory is read before the
//! call returns, and written, too; of pinned memory only the stream knows when, unless both ends are
//! the host's.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use pool_mock::device::{Access, CaptureStatus, Violation};

use crate::bytes::{Bytes, HostBytes, Storage};
use crate::call::{Call, Handle, OnStream, functions};
use crate::code;
use crate::space::{FIRST_ADDRESS, Fault, Found, Span, User};
use crate::state::started;

/// Pieces of a copy.
const PIECE_BYTES: u64 = 64 << 10;

/// One end of a copy.
#[derive(Clone, Copy)]
enum Side {
    /// An address of a device, or whatever else the driver knows.
    Address(u64),
    /// The host's memory.
    Host(*mut u8),
}

impl Side {
    fn host(pointer: *const c_void) -> Self {
        Self::Host(pointer.cast_mut().cast())
    }

    /// Whichever an address is of.
    fn of(address: u64) -> Self {
        if address >= FIRST_ADDRESS {
            return Self::Address(address);
        }
        let address = usize::try_from(address).unwrap_or(0);
        Self::Host(ptr::with_exposed_provenance_mut(address))
    }

    const fn is_host(self) -> bool {
        matches!(self, Self::Host(_))
    }

    /// Whether it is the host's memory, by whatever kind of address.
    fn is_of_host(self) -> bool {
        match self {
            Self::Host(_) => true,
            Self::Address(address) => Self::of(address).is_host(),
        }
    }
}

/// When the call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Return {
    /// When the copy is done, if the host takes part in it.
    Done,
    /// As soon as the host's pageable memory is not needed any more.
    Queued,
}

/// The memory at one end of a copy, and whether it is pageable memory of the host's.
fn look_up(
    call: Call,
    on: &OnStream,
    side: Side,
    bytes: u64,
    access: Access,
) -> Result<(Found, bool), i32> {
    let (address, otherwise) = match side {
        Side::Address(address) => (address, None),
        Side::Host(pointer) if pointer.is_null() => return Err(code::INVALID_VALUE),
        Side::Host(pointer) => (pointer.expose_provenance() as u64, Some(pointer)),
    };
    let found = started()?.space.find(address, bytes, access, User::Driver);
    match (found, otherwise) {
        (Ok(found), _) => Ok((found, false)),
        (Err(_), Some(pointer)) => {
            // SAFETY: the caller says that the memory is valid for the copy, which ends before
            // the call does; or, in a capture, for every launch of the graph.
            let memory = unsafe { HostBytes::borrow(pointer) };
            let storage = Arc::new(Storage::Host(memory));
            let span = Span { storage, offset: 0, size: bytes };
            Ok((Found { spans: vec![span], uses: Vec::new() }, true))
        }
        (Err(Fault::Nothing), None) => Err(code::INVALID_VALUE),
        (Err(Fault::NoAccess), None) => Err(fault(call, on, "no device has access to an address")),
    }
}

/// Work used an address that it may not: from now on nothing in the context works.
pub(crate) fn fault(call: Call, on: &OnStream, words: &str) -> i32 {
    on.device.report(Violation::Other(format!("{}: {words}", call.name)));
    if let Ok(mut state) = started() {
        state.devices[on.ordinal].fatal = Some(code::ILLEGAL_ADDRESS);
    }
    code::ILLEGAL_ADDRESS
}

/// Copies bytes between memories.
fn copy(to: &[Span], from: &[Span]) {
    let mut buffer = vec![0; usize::try_from(PIECE_BYTES).unwrap_or(0)];
    let (mut to_place, mut from_place) = ((0, 0), (0, 0));
    while let (Some(target), Some(source)) = (to.get(to_place.0), from.get(from_place.0)) {
        let left = (target.size - to_place.1).min(source.size - from_place.1);
        let size = left.min(PIECE_BYTES);
        let piece = &mut buffer[..usize::try_from(size).unwrap_or(0)];
        source.storage.read(source.offset + from_place.1, piece);
        target.storage.write(target.offset + to_place.1, piece);
        for (place, span) in [(&mut to_place, target), (&mut from_place, source)] {
            place.1 += size;
            if place.1 == span.size {
                *place = (place.0 + 1, 0);
            }
        }
    }
}

/// The bytes of a memory as they are now.
fn staged(from: &[Span], bytes: usize) -> Vec<Span> {
    let mut now = vec![0; bytes];
    for span in from {
        span.storage.read(span.offset, &mut now);
    }
    let storage = Arc::new(Storage::Device(Bytes::of(&now)));
    vec![Span { storage, offset: 0, size: bytes as u64 }]
}

/// A copy in the order of a stream.
fn transfer(
    call: Call,
    stream: Handle,
    to: Side,
    from: Side,
    bytes: usize,
    returns: Return,
) -> Result<(), i32> {
    let on = call.stream(stream)?;
    if bytes == 0 {
        return Ok(());
    }
    let size = bytes as u64;
    let (target, is_target_pageable) = look_up(call, &on, to, size, Access::Write)?;
    let (mut source, is_source_pageable) = look_up(call, &on, from, size, Access::Read)?;
    let captured = on.device.capture_status(on.stream).map_err(code::of)? != CaptureStatus::None;
    let with_host = to.is_host() || from.is_host();
    // The host waits for a copy from its own memory to its own, even if both are pinned.
    let of_host = to.is_of_host() && from.is_of_host();
    let waits =
        !captured && (is_target_pageable || of_host || (returns == Return::Done && with_host));
    if is_source_pageable && !captured && !waits {
        source.spans = staged(&source.spans, bytes);
    }
    let uses: Vec<_> = source.uses.iter().chain(&target.uses).copied().collect();
    let (target, source) = (target.spans, source.spans);
    let task = Arc::new(move || copy(&target, &source));
    if waits {
        call.waited(on.device.run_task(on.stream, &uses, task).map_err(code::of)?);
        return Ok(());
    }
    on.device.queue_task(on.stream, &uses, task).map_err(code::of)
}

/// The legacy default stream.
const LEGACY: Handle = ptr::null_mut();

functions! {
    /// Copies from the host to a device, and waits for it.
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) |call| {
        transfer(call, LEGACY, Side::Address(to), Side::host(from), bytes, Return::Done)
    }

    /// Copies from the host to a device, in the order of a stream.
    fn cuMemcpyHtoDAsync_v2(
        to: u64, from: *const c_void, bytes: usize, stream: Handle
    ) |call| {
        transfer(call, stream, Side::Address(to), Side::host(from), bytes, Return::Queued)
    }

    /// Copies from a device to the host, and waits for it.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) |call| {
        transfer(call, LEGACY, Side::host(to), Side::Address(from), bytes, Return::Done)
    }

    /// Copies from a device to the host, in the order of a stream.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: Handle) |call| {
        transfer(call, stream, Side::host(to), Side::Address(from), bytes, Return::Queued)
    }

    /// Copies between devices or on one; the host does not wait for it.
    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) |call| {
        transfer(call, LEGACY, Side::Address(to), Side::Address(from), bytes, Return::Done)
    }

    /// Copies between devices or on one, in the order of a stream.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) |call| {
        transfer(call, stream, Side::Address(to), Side::Address(from), bytes, Return::Queued)
    }

    /// Copies between whatever the addresses are of, in the order of a stream.
    fn cuMemcpyAsync(to: u64, from: u64, bytes: usize, stream: Handle) |call| {
        transfer(call, stream, Side::of(to), Side::of(from), bytes, Return::Queued)
    }
}
