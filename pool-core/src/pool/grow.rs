//! Arenas: taken from the device, and given back.

use alloc::sync::Arc;
use core::num::NonZeroUsize;

use super::arenas::{Arena, WINDOW_BYTES, stretch_of};
use super::asker::Asker;
use super::books::Books;
use super::error::PoolError;
use super::help::Plea;
use super::inner::{Failed, Inner};
use crate::device::{Call, Capabilities, Device};
use crate::range::Placement;
use crate::sync::{nap, pause};
use crate::threads::{HUB, Owner, Threads};

/// How often a thread looks whether another's growth is over before it naps in between.
const SHORT_PAUSES: u32 = 1 << 10;

/// After how many naps it waits no longer: seconds, as a driver may take for a call; and where it
/// may well be in the midst of that call itself, as threads have no numbers, a tenth of a second.
const MOST_NAPS: u32 = 1 << 11;
const MOST_BLIND_NAPS: u32 = 1 << 7;

impl<D: Device, T: Threads> Inner<D, T> {
    /// The arena that a pool starts with.
    pub(super) fn preallocate(&self, size_bytes: u64) -> Result<(), PoolError<D::Error>> {
        let limit = self.with_books(|books| books.limit_bytes).unwrap_or(u64::MAX);
        let size_bytes = size_bytes.min(limit);
        if size_bytes == 0 || self.reserve(size_bytes, size_bytes).is_none() {
            return Ok(());
        }
        if self.add_arena(size_bytes, HUB)? { Ok(()) } else { Err(PoolError::OutOfHostMemory) }
    }

    /// Sets bytes aside that the limit allows: as many as wanted, at least so many. None if it
    /// does not allow those.
    fn reserve(&self, wanted_bytes: u64, least_bytes: u64) -> Option<u64> {
        self.with_books(|books| {
            let room = match books.limit_bytes {
                Some(limit) => limit.saturating_sub(books.reserved_bytes),
                None => u64::MAX - books.reserved_bytes,
            };
            let bytes = wanted_bytes.min(room);
            if bytes < least_bytes {
                return None;
            }
            books.reserved_bytes += bytes;
            books.peak_reserved_bytes = books.peak_reserved_bytes.max(books.reserved_bytes);
            Some(bytes)
        })
    }

    pub(super) fn unreserve(&self, bytes: u64) {
        self.with_books(|books| books.reserved_bytes -= bytes);
    }

    /// Takes an arena of so many bytes, which are set aside for it, from the device, and gives it
    /// to a space. False if the host or the space of offsets has no room for it.
    fn add_arena(&self, size_bytes: u64, space: Owner) -> Result<bool, Failed<D>> {
        self.counters.allocations.add_shared(1);
        let growable = self.capabilities.contains(Capabilities::GROWS_IN_CAPTURE);
        let range = if growable {
            self.call(Call::Allocate, |device| device.allocate(size_bytes)).map(Some)
        } else {
            self.call_outside_captures(Call::Allocate, |device| device.allocate(size_bytes))
        };
        let range = match range {
            Ok(Some(range)) => range,
            Ok(None) => {
                self.unreserve(size_bytes);
                return Ok(false);
            }
            Err(failed) => {
                self.unreserve(size_bytes);
                return Err(failed);
            }
        };
        let address = self.device.address(&range).unwrap_or(0);
        // By value until it is entered, so that it can go back.
        let refused =
            self.with_books(|books| self.enter_arena(books, range, address, size_bytes, space));
        let Some(range) = refused else { return Ok(true) };
        // If that fails, nobody knows it: it is lost, and what was set aside for it with it.
        self.give_back(&range, size_bytes)?;
        Ok(false)
    }

    /// Enters an arena; the range again if there is no room.
    fn enter_arena(
        &self,
        books: &mut Books<D>,
        range: D::Range,
        address: u64,
        size_bytes: u64,
        space: Owner,
    ) -> Option<D::Range> {
        let Some(origin_bytes) = books.arenas.place(size_bytes, address) else {
            return Some(range);
        };
        let Some(stretch) = stretch_of(self.shared.shape(), origin_bytes, size_bytes) else {
            return Some(range);
        };
        let arena = Arc::new(Arena { range, size_bytes, origin_bytes, stretch });
        books.is_misaligned |= !address.is_multiple_of(self.shared.shape().bytes(1));
        books.is_askew |= !address.is_multiple_of(WINDOW_BYTES);
        let entered = books.arenas.enter(arena) && {
            if space == HUB {
                self.shared.add_to_hub(stretch)
            } else {
                self.shared.add_lent(space, stretch)
            }
        };
        if !entered {
            let arena = books.arenas.remove(origin_bytes)?;
            return Arc::into_inner(arena).map(|arena| arena.range);
        }
        if self.capabilities.contains(Capabilities::ADDRESSES) {
            self.addresses.note(origin_bytes, size_bytes, address);
        }
        None
    }

    /// Whether every block is a buddy, aligned to its size.
    pub(super) fn rounds(&self) -> bool {
        self.reuse.placement == Placement::Buddy
    }

    /// Bytes of an arena that certainly holds a request.
    pub(super) fn need_of(&self, plea: &Plea<'_, D>) -> Option<u64> {
        let granule = self.shared.shape().bytes(1);
        let size_bytes = plea.request.size_bytes.checked_next_multiple_of(granule)?;
        if self.rounds() {
            let buddy_bytes =
                size_bytes.max(plea.request.align_bytes).checked_next_power_of_two()?;
            // Before the first one in an arena something may be lost, though no more than a window.
            let askew = self.with_books(|books| books.is_askew);
            let lost_bytes = if askew { buddy_bytes.min(WINDOW_BYTES) } else { 0 };
            return buddy_bytes.checked_add(lost_bytes);
        }
        // The range may begin anywhere, unless its address says otherwise.
        let slack = plea.request.align_bytes.max(1) - 1;
        let slack = if slack < granule { 0 } else { slack };
        let misaligned = self.with_books(|books| books.is_misaligned);
        let slack = slack + if misaligned { granule } else { 0 };
        size_bytes.checked_add(slack)
    }

    /// Takes more from the device: as much as the policy says, and less if it refuses, down to
    /// what the request needs.
    pub(super) fn grow(&self, plea: &mut Plea<'_, D>) -> bool {
        if self.is_capturing() && !self.capabilities.contains(Capabilities::GROWS_IN_CAPTURE) {
            return false;
        }
        let Some(need) = self.need_of(plea) else { return false };
        let page = need.checked_next_multiple_of(WINDOW_BYTES).unwrap_or(need);
        let mut wanted = self.with_books(|books| books.growth.floor_bytes).max(page);
        let space = match plea.asker {
            // Memory that nothing was ever queued for.
            Asker::Captured { .. } | Asker::Nobody => plea.space,
            Asker::Known { .. } | Asker::Raw { .. } => HUB,
        };
        let me = T::thread_number();
        if self.await_growth(me) {
            plea.again = true;
            return true;
        }
        let grown = loop {
            let Some(bytes) = self.reserve(wanted, need) else { break false };
            // Better not asked of the device than given back.
            if self.with_books(|books| books.arenas.place(bytes, 0)).is_none() {
                self.unreserve(bytes);
                break false;
            }
            let added = self.add_arena(bytes, space);
            match plea.note(added) {
                Some(true) => break true,
                None if bytes > need && !self.is_poisoned() => wanted = (bytes / 2).max(need),
                Some(false) | None => break false,
            }
        };
        self.end_growth(me);
        if grown {
            self.counters.growths.add_shared(1);
        }
        grown
    }

    /// Waits for an arena that another thread is getting, which may be enough for this one too.
    /// If there is none (false), this thread is one from now on that others wait for. So does one
    /// that is called in the midst of its own call, and one that has waited for long: it may have
    /// been called in the midst of the other's.
    fn await_growth(&self, me: Option<NonZeroUsize>) -> bool {
        let naps = if me.is_some() { MOST_NAPS } else { MOST_BLIND_NAPS };
        for pauses in 0..SHORT_PAUSES + naps {
            let mine = self.with_books(|books| {
                let inside = me.is_some() && books.growers.contains(&me);
                let nobody = books.growers.is_empty();
                let mine = inside || (nobody && pauses == 0);
                if mine {
                    books.growers.push(me);
                }
                (mine || nobody).then_some(mine)
            });
            match mine {
                Some(mine) => return !mine,
                None if pauses < SHORT_PAUSES => pause(),
                None => nap(),
            }
        }
        self.with_books(|books| books.growers.push(me));
        false
    }

    /// Says that what [`await_growth`](Self::await_growth) began is over.
    fn end_growth(&self, me: Option<NonZeroUsize>) {
        self.with_books(|books| {
            if let Some(place) = books.growers.iter().position(|&grower| grower == me) {
                books.growers.swap_remove(place);
            }
        });
    }
}
