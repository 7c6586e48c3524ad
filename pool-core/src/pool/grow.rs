//! Arenas: taken from the device, and given back.

use alloc::sync::Arc;

use super::arenas::{Arena, WINDOW_BYTES, stretch_of};
use super::asker::Asker;
use super::books::Books;
use super::error::PoolError;
use super::help::Plea;
use super::inner::{Failed, Inner, keep};
use super::sabotage::RELEASES_EARLY;
use crate::device::{Call, Capabilities, Device};
use crate::sync::pause;
use crate::threads::{HUB, Owner, Threads};

/// How often a thread lets others run before it no longer waits for their growth.
const MOST_PAUSES: u32 = 1 << 14;

/// What a [`trim`](crate::Pool::trim) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// Given back to the device.
    pub released_bytes: u64,
    /// Free, but in arenas of which a part waits for work of the device.
    pub pending_bytes: u64,
}

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

    fn unreserve(&self, bytes: u64) {
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

    /// Gives a range back to the device, and what was set aside for it. On failure, and during a
    /// capture (false), the device still has it, and nobody else.
    fn give_back(&self, range: &D::Range, size_bytes: u64) -> Result<bool, Failed<D>> {
        self.counters.frees.add_shared(1);
        let freed = self.call_outside_captures(Call::Free, |device| device.free(range))?;
        if freed.is_some() {
            self.unreserve(size_bytes);
        }
        Ok(freed.is_some())
    }

    /// Bytes of an arena that certainly holds a request.
    fn need_of(&self, plea: &Plea<'_, D>) -> Option<u64> {
        let granule = self.shared.shape().bytes(1);
        let size_bytes = plea.request.size_bytes.checked_next_multiple_of(granule)?;
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
        let mut wanted = self.arena_bytes.max(page);
        let space = match plea.asker {
            // Memory that nothing was ever queued for.
            Asker::Captured { .. } | Asker::Nobody => plea.space,
            Asker::Known { .. } | Asker::Raw { .. } => HUB,
        };
        if self.await_growth() {
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
        self.with_books(|books| books.growing -= 1);
        if grown {
            self.counters.growths.add_shared(1);
        }
        grown
    }

    /// Waits for an arena that another thread is getting, which may be enough for this one too.
    /// If there is none (false), this thread is the one from now on that others wait for. So does
    /// one that has waited for long: it may have been called in the midst of the other's call.
    fn await_growth(&self) -> bool {
        for pauses in 0..MOST_PAUSES {
            let mine = self.with_books(|books| {
                let mine = books.growing == 0 && pauses == 0;
                books.growing += u32::from(mine);
                if mine { Some(true) } else { (books.growing == 0).then_some(false) }
            });
            match mine {
                Some(mine) => return !mine,
                None => pause(),
            }
        }
        self.with_books(|books| books.growing += 1);
        false
    }

    /// Gives idle arenas back, all that there are, and takes one that fits the request.
    pub(super) fn exchange(&self, plea: &mut Plea<'_, D>) -> bool {
        if self.need_of(plea).is_none() {
            return false;
        }
        self.gather_all(&mut plea.failure, true);
        self.fence_hub(&mut plea.failure);
        self.wait_for_hub(&mut plea.failure);
        let trimmed = self.release_idle(0, &mut plea.failure);
        trimmed.released_bytes > 0 && self.grow(plea)
    }

    /// Gives arenas back that are wholly in the hub and free, while more than so many bytes stay.
    /// Nothing is, while the hub's memory waits for work.
    pub(super) fn release_idle(&self, keep_bytes: u64, failure: &mut Option<Failed<D>>) -> Trimmed {
        let mut trimmed = Trimmed::default();
        loop {
            let taken = self.with_books(|books| {
                if books.is_capturing() {
                    return None;
                }
                let idle = books.arenas.iter().find(|arena| {
                    books.reserved_bytes.saturating_sub(arena.size_bytes) >= keep_bytes
                        && (Self::is_clean(books, arena) || RELEASES_EARLY)
                        && self.shared.take_from_hub(arena.stretch)
                })?;
                // It keeps its place until it is gone, so that no other gets it.
                let idle = idle.clone();
                books.stains.remove(idle.stretch);
                Some(idle)
            });
            let Some(arena) = taken else { break };
            let given_back = self.give_back(&arena.range, arena.size_bytes);
            let is_gone = matches!(given_back, Ok(true));
            self.with_books(|books| {
                if is_gone {
                    books.arenas.remove(arena.origin_bytes);
                } else {
                    // It is still the device's range, and idle.
                    self.shared.add_to_hub(arena.stretch);
                }
            });
            if !is_gone {
                if let Err(failed) = given_back {
                    keep(failure, failed);
                }
                break;
            }
            trimmed.released_bytes += arena.size_bytes;
        }
        trimmed.pending_bytes = self.pending_bytes(keep_bytes);
        trimmed
    }

    /// Whether nothing of an arena in the hub waits for work.
    fn is_clean(books: &Books<D>, arena: &Arena<D>) -> bool {
        books.stains.of(arena.stretch).all(|stain| books.sources.is_done(&stain))
    }

    /// Bytes of idle arenas that would go back if nothing waited.
    fn pending_bytes(&self, keep_bytes: u64) -> u64 {
        self.with_books(|books| {
            let capturing = books.is_capturing();
            let idle = books.arenas.iter().filter(|arena| {
                (capturing || !Self::is_clean(books, arena))
                    && self.shared.is_idle_in_hub(arena.stretch)
            });
            let bytes: u64 = idle.map(|arena| arena.size_bytes).sum();
            bytes.min(books.reserved_bytes.saturating_sub(keep_bytes))
        })
    }

    /// Takes arenas back to the device by whole ones, as far as nothing has to be waited for.
    pub(super) fn trim(
        &self,
        keep_bytes: u64,
        wait: bool,
        failure: &mut Option<Failed<D>>,
    ) -> Trimmed {
        if self.is_capturing() {
            return Trimmed { released_bytes: 0, pending_bytes: self.pending_bytes(keep_bytes) };
        }
        self.close(|_| true, failure);
        self.poll(failure);
        if wait {
            self.wait_for_parcels(failure);
        }
        self.shared.flush();
        self.gather_all(failure, true);
        self.fence_hub(failure);
        self.poll(failure);
        if wait {
            self.wait_for_hub(failure);
        }
        self.release_idle(keep_bytes, failure)
    }

    /// Waits on the host for all closed parcels.
    fn wait_for_parcels(&self, failure: &mut Option<Failed<D>>) {
        let fences = self.with_books(|books| {
            books.closed.iter().flat_map(|parcel| parcel.fences.clone()).collect()
        });
        self.wait_for(fences, failure);
    }

    /// Waits on the host for all fences that the hub's memory waits for.
    fn wait_for_hub(&self, failure: &mut Option<Failed<D>>) {
        let fences = self.with_books(|books| {
            let sources = books.sources.iter();
            sources.flat_map(|(_, source)| source.fences.clone()).collect()
        });
        self.wait_for(fences, failure);
    }

    fn wait_for(
        &self,
        fences: alloc::vec::Vec<super::fence::Shared<D>>,
        failure: &mut Option<Failed<D>>,
    ) {
        for fence in fences {
            match self.wait_on_host(&fence) {
                Ok(true) => self.settle(core::slice::from_ref(&fence)),
                Ok(false) => return,
                Err(failed) => keep(failure, failed),
            }
        }
    }
}
