//! Memory that comes from the device: as an arena, or as more of one.

use alloc::sync::Arc;

use super::arenas::{Arena, Claim, Kind, WINDOW_BYTES, stretch_of};
use super::books::Books;
use super::budget::Taken;
use super::error::PoolError;
use super::grow::Wanted;
use super::inner::{Failed, Inner, keep};
use super::notice::Notice;
use crate::device::{Call, Capabilities, Device};
use crate::range::Stretch;
use crate::threads::{HUB, Owner, Threads};

impl<D: Device, T: Threads> Inner<D, T> {
    /// Memory that the pool is to have before anyone asks, as an arena of its own, or as many as the
    /// device makes of it.
    pub(super) fn preallocate(&self, size_bytes: u64) -> Result<(), PoolError<D::Error>> {
        let limit = self.with_books(|books| self.most_bytes(books)).unwrap_or(u64::MAX);
        let size_bytes = size_bytes.min(limit);
        if self.is_paged() {
            return self.preallocate_pages(size_bytes);
        }
        let mut left_bytes = size_bytes;
        while left_bytes > 0 {
            let part_bytes = left_bytes.min(self.most_range_bytes());
            let wanted = Wanted::exactly(part_bytes, Kind::Base);
            if self.reserve(part_bytes, wanted).is_none() {
                break;
            }
            if !self.add_arena(part_bytes, HUB, Kind::Base)? {
                return Err(PoolError::OutOfHostMemory);
            }
            self.counters.kept.initial_bytes.add_shared(part_bytes);
            left_bytes -= part_bytes;
        }
        Ok(())
    }

    /// The most bytes to ask of the device at once, unless a request needs more.
    pub(super) fn most_range_bytes(&self) -> u64 {
        // In less no span has a place.
        self.device.most_range_bytes().max(WINDOW_BYTES)
    }

    /// The same in pages: as many as it takes, within the limit.
    fn preallocate_pages(&self, size_bytes: u64) -> Result<(), PoolError<D::Error>> {
        let mut failure = None;
        let added = size_bytes > 0 && self.map_ahead(size_bytes, &mut failure);
        if let (Some(failed), false) = (failure, added) {
            return Err(failed.into());
        }
        self.counters.kept.initial_bytes.add_shared(self.with_books(|books| books.reserved_bytes));
        Ok(())
    }

    /// Sets bytes aside that the limit allows, and the budget: as many as wanted, at least so many.
    /// None if they do not allow those.
    pub(super) fn reserve(&self, wanted_bytes: u64, wanted: Wanted) -> Option<u64> {
        match self.set_aside(wanted_bytes, wanted.least_bytes, false) {
            Taken::Bytes(bytes) => Some(bytes),
            Taken::Due if wanted.is_needed => self.call_in(wanted_bytes, wanted.least_bytes),
            Taken::Due | Taken::Refused => None,
        }
    }

    /// The same without what others have to give back first; at a `last` attempt as much as there
    /// is.
    pub(super) fn set_aside(&self, wanted_bytes: u64, least_bytes: u64, last: bool) -> Taken {
        self.with_books(|books| {
            let bytes = wanted_bytes.min(books.room_bytes());
            if bytes < least_bytes {
                return Taken::Refused;
            }
            let bytes = match self.seat.as_ref().map(|seat| seat.take(bytes, least_bytes, last)) {
                None => bytes,
                Some(Taken::Bytes(bytes)) => bytes,
                Some(refused) => return refused,
            };
            books.reserved_bytes += bytes;
            Taken::Bytes(bytes)
        })
    }

    pub(super) fn unreserve(&self, bytes: u64) {
        self.with_books(|books| {
            books.reserved_bytes -= bytes;
            if let Some(seat) = &self.seat {
                seat.give(bytes);
            }
        });
    }

    /// Takes an arena, of half the bytes each time that the device refuses, down to the least.
    pub(super) fn add_arenas_down_from(
        &self,
        wanted: Wanted,
        space: Owner,
        failure: &mut Option<Failed<D>>,
    ) -> bool {
        let Wanted { bytes, least_bytes, kind, .. } = wanted;
        let mut bytes = bytes.min(self.most_range_bytes()).max(least_bytes);
        while let Some(reserved_bytes) = self.reserve(bytes, wanted) {
            let has_place =
                self.with_books(|books| books.arenas.place(reserved_bytes, 0)).is_some();
            if has_place {
                match self.add_arena(reserved_bytes, space, kind) {
                    Ok(added) => return added,
                    Err(failed) => keep(failure, failed),
                }
            } else {
                // Better not asked of the device than given back.
                self.unreserve(reserved_bytes);
            }
            if reserved_bytes <= least_bytes || self.is_poisoned() {
                return false;
            }
            bytes = (reserved_bytes / 2).max(least_bytes);
        }
        false
    }

    /// Makes an arena longer, by half the bytes each time that the device refuses, down to what
    /// is missing. False if it cannot, or no arena has the offsets behind it to itself.
    pub(super) fn extend_by(&self, wanted: Wanted, failure: &mut Option<Failed<D>>) -> bool {
        if !self.capabilities.contains(Capabilities::EXTEND) || self.rounds() {
            return false;
        }
        let granule = self.shared.shape().bytes(1);
        let mut bytes = wanted.bytes;
        while let Some((arena, behind_bytes, least_bytes)) = self.extensible(wanted) {
            // What a request larger than a step needs is exactly that.
            let bytes_here = if wanted.kind == Kind::Single { least_bytes } else { bytes };
            let most_bytes = bytes_here.max(least_bytes).min(behind_bytes) & !(granule - 1);
            let wanted_here = Wanted { least_bytes, ..wanted };
            let Some(reserved_bytes) = self.reserve(most_bytes, wanted_here) else { break };
            let more_bytes = reserved_bytes & !(granule - 1);
            if reserved_bytes > more_bytes {
                self.unreserve(reserved_bytes - more_bytes);
            }
            if more_bytes < least_bytes || !self.claim_behind(&arena, more_bytes) {
                self.unreserve(more_bytes);
                break;
            }
            match self.extend(&arena, more_bytes) {
                Ok(extended) => return extended,
                Err(failed) => keep(failure, failed),
            }
            if more_bytes <= least_bytes || self.is_poisoned() {
                break;
            }
            bytes = (more_bytes / 2).max(least_bytes);
        }
        false
    }

    /// The arena of those that can be longer with most that is free at its end; how much room is
    /// behind it, and how much more is needed.
    fn extensible(&self, wanted: Wanted) -> Option<(Arc<Arena<D>>, u64, u64)> {
        let shape = self.shared.shape();
        let granule = shape.bytes(1);
        self.with_books(|books| {
            // What was there before anyone asked, and only that, is more of the same.
            let is_base = wanted.kind == Kind::Base;
            let still = books.arenas.iter().filter(|arena| {
                arena.claim == Claim::Nothing
                    && !books.vacating.has(arena.origin_bytes)
                    && (!is_base || arena.kind == Kind::Base)
            });
            let (arena, _, behind_bytes, least_bytes) = still
                .filter_map(|arena| {
                    // With it a request has room; who just wants more wants so much more.
                    let is_request = wanted.is_needed && !is_base;
                    let tail = || self.shared.free_before(HUB, arena.stretch.end());
                    let tail_bytes = if is_request { shape.bytes(tail()) } else { 0 };
                    let least_bytes = wanted.least_bytes.saturating_sub(tail_bytes).max(granule);
                    let least_bytes = least_bytes.checked_next_multiple_of(granule)?;
                    let behind_bytes = books.arenas.room_behind(arena);
                    let has_room = behind_bytes >= least_bytes;
                    has_room.then_some((arena, tail_bytes, behind_bytes, least_bytes))
                })
                .max_by_key(|&(_, tail_bytes, ..)| tail_bytes)?;
            Some((arena.clone(), behind_bytes, least_bytes))
        })
    }

    /// Claims the offsets behind an arena; false if something else came of it meanwhile.
    fn claim_behind(&self, arena: &Arc<Arena<D>>, more_bytes: u64) -> bool {
        self.with_books(|books| {
            let same = books.arenas.at(arena.origin_bytes).is_some_and(|now| {
                Arc::ptr_eq(now, arena)
                    && !books.vacating.has(arena.origin_bytes)
                    && books.arenas.room_behind(now) >= more_bytes
            });
            if same {
                books.arenas.replace(arena.claimed(Claim::Longer(more_bytes)));
            }
            same
        })
    }

    /// Makes an arena longer by what was claimed and set aside for it.
    fn extend(&self, arena: &Arena<D>, more_bytes: u64) -> Result<bool, Failed<D>> {
        self.counters.extensions.add_shared(1);
        let began = self.stamp();
        let to_bytes = arena.size_bytes + more_bytes;
        let extended = self.call_growing(Call::Extend, |device| {
            device.extend(&arena.range, arena.size_bytes, to_bytes)
        });
        if !matches!(extended, Ok(Some(()))) {
            self.unreserve(more_bytes);
            self.with_books(|books| books.arenas.replace(arena.claimed(Claim::Nothing)));
            return extended.map(|_| false);
        }
        self.notice(Notice::Grown {
            offset_bytes: Some(arena.origin_bytes + arena.size_bytes),
            size_bytes: more_bytes,
            cost: self.since(began),
        });
        let address = self.device.address(&arena.range).unwrap_or(0);
        Ok(self.with_books(|books| {
            books.note_taken();
            let shape = self.shared.shape();
            let stretch = stretch_of(shape, arena.origin_bytes, to_bytes).unwrap_or(arena.stretch);
            let more = stretch.len - arena.stretch.len;
            // Without metadata the arena is longer, and what is new lies idle until it goes back.
            let behind = Stretch { start: arena.stretch.end() as u32, len: more };
            let entered = more > 0 && self.shared.lengthen(behind);
            let stretch = if entered { stretch } else { arena.stretch };
            books.arenas.replace(arena.with(to_bytes, stretch, Claim::Nothing));
            if entered && self.capabilities.contains(Capabilities::ADDRESSES) {
                self.addresses.note(arena.origin_bytes, to_bytes, address);
            }
            entered
        }))
    }

    /// Makes a call that takes memory of the device; none during a capture, unless the device can.
    pub(super) fn call_growing<R>(
        &self,
        call: Call,
        make: impl FnOnce(&D) -> Result<R, crate::device::Failure<D::Error>>,
    ) -> Result<Option<R>, Failed<D>> {
        if self.capabilities.contains(Capabilities::GROWS_IN_CAPTURE) {
            self.call(call, make).map(Some)
        } else {
            self.call_outside_captures(call, make)
        }
    }

    /// Takes an arena of so many bytes, which are set aside for it, from the device, and gives it
    /// to a space. False if the host or the space of offsets has no room for it.
    pub(super) fn add_arena(
        &self,
        size_bytes: u64,
        space: Owner,
        kind: Kind,
    ) -> Result<bool, Failed<D>> {
        self.counters.allocations.add_shared(1);
        let began = self.stamp();
        let range = match self.call_growing(Call::Allocate, |device| device.allocate(size_bytes)) {
            Ok(Some(range)) => Arc::new(range),
            Ok(None) => {
                self.unreserve(size_bytes);
                return Ok(false);
            }
            Err(failed) => {
                self.unreserve(size_bytes);
                return Err(failed);
            }
        };
        let cost = self.since(began);
        let address = self.device.address(&range).unwrap_or(0);
        let entered = self.with_books(|books| {
            books.note_taken();
            let shape = self.shared.shape();
            let origin_bytes = books.arenas.place(size_bytes, address)?;
            let stretch = stretch_of(shape, origin_bytes, size_bytes)?;
            let (range, claim) = (range.clone(), Claim::Nothing);
            let arena = Arena { range, size_bytes, origin_bytes, stretch, kind, claim };
            self.enter_arena(books, arena, address, space).then_some(origin_bytes)
        });
        if entered.is_some() {
            self.notice(Notice::Grown { offset_bytes: entered, size_bytes, cost });
            return Ok(true);
        }
        match self.give_back(&range, size_bytes) {
            Ok(true) => Ok(false),
            refused => {
                self.notice(Notice::Grown { offset_bytes: None, size_bytes, cost });
                self.with_books(|books| books.strays.push((range, size_bytes)));
                refused
            }
        }
    }

    /// Enters an arena; false if there is no room.
    fn enter_arena(
        &self,
        books: &mut Books<D>,
        arena: Arena<D>,
        address: u64,
        space: Owner,
    ) -> bool {
        let Arena { size_bytes, origin_bytes, stretch, .. } = arena;
        books.is_misaligned |= !address.is_multiple_of(self.shared.shape().bytes(1));
        books.is_askew |= !address.is_multiple_of(WINDOW_BYTES);
        if !books.arenas.enter(Arc::new(arena)) {
            return false;
        }
        if !self.give_arena(space, stretch) {
            books.arenas.remove(origin_bytes);
            return false;
        }
        if self.capabilities.contains(Capabilities::ADDRESSES) {
            self.addresses.note(origin_bytes, size_bytes, address);
        }
        true
    }

    fn give_arena(&self, space: Owner, stretch: Stretch) -> bool {
        if space == HUB {
            self.shared.add_to_hub(stretch)
        } else {
            self.shared.add_lent(space, stretch)
        }
    }
}

impl<D: Device> Books<D> {
    /// What was set aside has come from the device: only then it counts for the peak.
    pub(super) fn note_taken(&mut self) {
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes);
    }

    /// How much more the limit allows.
    pub(super) fn room_bytes(&self) -> u64 {
        self.limit_bytes.unwrap_or(u64::MAX).saturating_sub(self.reserved_bytes)
    }
}
