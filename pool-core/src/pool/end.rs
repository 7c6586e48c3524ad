//! The pool's end.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::arenas::Kind;
use super::fence::Shared;
use super::inner::Inner;
use super::sabotage::ENDS_EARLY;
use crate::device::{Call, Device};
use crate::sync::is_left;
use crate::threads::Threads;

impl<D: Device, T: Threads> Drop for Inner<D, T> {
    /// Waits for all work of the device and gives everything back. Without a call if the device is
    /// gone for good, or the process ends; then, and if it cannot be waited for, as during a
    /// capture, the arenas stay the device's. Without a lock, too, when the process ends, or is a
    /// forked child: another thread may have been stopped in the midst of anything.
    fn drop(&mut self) {
        if is_left() || !self.device.is_alive() {
            core::mem::forget(self.seat.take());
            return;
        }
        let (streams, ranges) = self.with_books(|books| {
            let own = books.streams.values().filter(|known| known.own);
            let streams: Vec<D::Stream> = own.map(|known| known.handle.clone()).collect();
            let arenas = books.arenas.every().map(|arena| {
                let held_bytes = if arena.kind == Kind::Pages { 0 } else { arena.size_bytes };
                (arena.range.clone(), held_bytes)
            });
            let ranges = arenas.chain(books.strays.iter().cloned());
            (streams, ranges.collect::<Vec<(Arc<D::Range>, u64)>>())
        });
        if !self.device.is_there() {
            return;
        }
        let done = ENDS_EARLY.is_out() || ranges.is_empty() || self.wait_for_all();
        if done {
            self.release_resting();
        }
        if done {
            self.end_pages();
        }
        for (range, size_bytes) in ranges.iter().filter(|_| done) {
            // A call that failed once may succeed; what fails twice is lost.
            let free = || self.call(Call::Free, |device| device.free(range));
            if free().or_else(|_| free()).is_ok() {
                self.unreserve(*size_bytes);
            }
        }
        for stream in &streams {
            // One that could not be destroyed may be gone or not: it is not named again.
            let _ = self.call(Call::DestroyStream, |device| device.destroy_stream(stream));
        }
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Waits on the host for all work of the device so far; false if that cannot be done.
    pub(super) fn wait_for_all(&self) -> bool {
        if !self.has_fences() {
            return true;
        }
        let done = match self.record_all() {
            Ok(Some(fences)) => self.streams_of_others_have_passed() && self.have_passed(&fences),
            Ok(None) | Err(_) => false,
        };
        done || matches!(
            self.call_outside_captures(Call::Synchronize, Device::synchronize),
            Ok(Some(()))
        )
    }

    /// Waits for the streams that are not the pool's own, which may be another device's.
    fn streams_of_others_have_passed(&self) -> bool {
        let others = self.with_books(|books| {
            let adopted = books.streams.iter().filter(|(_, known)| !known.own);
            adopted.map(|(&number, _)| number).collect::<Vec<u32>>()
        });
        others.into_iter().all(|number| match self.record_in(number) {
            Ok(Some(fence)) => matches!(self.wait_on_host(&fence), Ok(true)),
            _ => false,
        })
    }

    /// Waits on the host for fences, and for those that memory waits for, which may be of other
    /// devices' streams. False if one cannot be waited for.
    fn have_passed(&self, fences: &[Shared<D>]) -> bool {
        let others = self.with_books(|books| books.pending(usize::MAX));
        fences.iter().chain(&others).all(|fence| matches!(self.wait_on_host(fence), Ok(true)))
    }
}
