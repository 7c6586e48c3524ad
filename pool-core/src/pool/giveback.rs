//! Arenas that go back to the device.

use super::arenas::Arena;
use super::books::Books;
use super::gather::Gathered;
use super::help::Plea;
use super::inner::{Failed, Inner, keep};
use super::sabotage::RELEASES_EARLY;
use crate::device::{Call, Device};
use crate::threads::Threads;

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
    /// Gives a range back to the device, and what was set aside for it. On failure, and during a
    /// capture (false), the device still has it, and nobody else.
    pub(super) fn give_back(&self, range: &D::Range, size_bytes: u64) -> Result<bool, Failed<D>> {
        self.counters.frees.add_shared(1);
        let freed = self.call_outside_captures(Call::Free, |device| device.free(range))?;
        if freed.is_some() {
            self.unreserve(size_bytes);
        }
        Ok(freed.is_some())
    }

    /// Gives idle arenas back, all that there are, and takes one that fits the request.
    pub(super) fn exchange(&self, plea: &mut Plea<'_, D>) -> bool {
        if self.need_of(plea).is_none() {
            return false;
        }
        self.gather_all(&mut plea.failure, true, Gathered::All);
        self.fence_hub(&mut plea.failure);
        self.wait_for_hub(&mut plea.failure);
        let trimmed = self.release_idle(0, &mut plea.failure);
        trimmed.released_bytes > 0 && self.grow(plea)
    }

    /// Gives arenas back that are wholly in the hub and free, while more than so many bytes stay.
    /// One of which a part waits for work stays.
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
                        && self.shared.take_arena(arena.stretch)
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
        self.flush();
        self.gather_all(failure, true, Gathered::All);
        self.fence_hub(failure);
        self.poll(failure);
        if wait {
            self.wait_for_hub(failure);
        }
        self.release_idle(keep_bytes, failure)
    }
}
