//! Arenas that go back to the device.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::arenas::{Arena, Claim};
use super::books::Books;
use super::gather::Gathered;
use super::help::Plea;
use super::inner::{Failed, Inner, keep};
use super::notice::Notice;
use super::pages::Amount;
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
        if self.is_paged() {
            return self.exchange_pages(plea);
        }
        self.call_back();
        self.gather_all(&mut plea.failure, true, Gathered::All);
        self.fence_hub(&mut plea.failure);
        self.wait_for_hub(&mut plea.failure);
        let trimmed = self.release_idle(0, &mut plea.failure);
        trimmed.released_bytes > 0 && self.grow(plea)
    }

    /// The same in pages: takes those that hold no block, of wherever, once their work is done.
    fn exchange_pages(&self, plea: &mut Plea<'_, D>) -> bool {
        self.fence_hub(&mut plea.failure);
        if self.grow_by_pages(plea, true) {
            return true;
        }
        // What came to a stream's space from elsewhere is one with the rest only in the hub.
        let kept = self.with_books(|books| self.bring_addresses_back(books));
        let gathered = self.gather_all(&mut plea.failure, true, Gathered::All);
        if !(kept || gathered) {
            return false;
        }
        self.fence_hub(&mut plea.failure);
        self.grow_by_pages(plea, true) || gathered
    }

    /// Gives arenas back that are wholly in the hub and free, while more than so many bytes stay.
    /// One of which a part waits for work stays.
    pub(super) fn release_idle(&self, keep_bytes: u64, failure: &mut Option<Failed<D>>) -> Trimmed {
        self.release_where(
            |reserved_bytes, size_bytes| reserved_bytes.saturating_sub(size_bytes) >= keep_bytes,
            keep_bytes,
            failure,
        )
    }

    /// The same while more is reserved than so many bytes, though less stays then.
    pub(super) fn release_above(&self, most_bytes: u64, failure: &mut Option<Failed<D>>) {
        if self.is_paged() {
            let reserved_bytes = self.with_books(|books| books.reserved_bytes);
            let over_bytes = reserved_bytes.saturating_sub(most_bytes);
            self.release_pages(Amount::AtLeast(over_bytes), false, failure);
            return;
        }
        self.release_where(|reserved_bytes, _| reserved_bytes > most_bytes, most_bytes, failure);
    }

    /// Gives arenas back that may go, given what is reserved and their size.
    fn release_where(
        &self,
        may_go: impl Fn(u64, u64) -> bool,
        keep_bytes: u64,
        failure: &mut Option<Failed<D>>,
    ) -> Trimmed {
        self.give_strays_back(failure);
        let mut released_bytes = 0;
        while let Some(arena) = self.with_books(|books| {
            let reserved_bytes = books.reserved_bytes;
            let arenas = books.arenas.iter();
            let arenas = arenas.filter(|arena| may_go(reserved_bytes, arena.size_bytes));
            let arenas = arenas.cloned().collect();
            self.take_idle(books, arenas)
        }) {
            if !self.give_arena_back(&arena, failure) {
                break;
            }
            released_bytes += arena.size_bytes;
        }
        Trimmed { released_bytes, pending_bytes: self.pending_bytes(keep_bytes) }
    }

    /// Tries again to give back what could be neither entered nor given back before.
    fn give_strays_back(&self, failure: &mut Option<Failed<D>>) {
        while let Some((range, size_bytes)) = self.with_books(|books| books.strays.pop()) {
            let given_back = self.give_back(&range, size_bytes);
            let is_gone = matches!(given_back, Ok(true));
            if is_gone {
                let cost = Duration::ZERO;
                self.notice(Notice::Released { offset_bytes: None, size_bytes, cost });
            }
            if let Err(failed) = given_back {
                keep(failure, failed);
            }
            if !is_gone {
                self.with_books(|books| books.strays.push((range, size_bytes)));
                break;
            }
        }
    }

    /// Takes the first of some arenas out of the hub that is all there, free, and waits for nothing.
    /// It is about to go, and keeps its place until then, so that no other gets that.
    pub(super) fn take_idle(
        &self,
        books: &mut Books<D>,
        arenas: Vec<Arc<Arena<D>>>,
    ) -> Option<Arc<Arena<D>>> {
        if books.is_capturing() {
            return None;
        }
        let idle = arenas.into_iter().find(|arena| {
            arena.claim == Claim::Nothing
                && (Self::is_clean(books, arena) || RELEASES_EARLY.is_out())
                && self.shared.take_arena(arena.stretch)
        })?;
        books.stains.remove(idle.stretch);
        books.arenas.replace(idle.claimed(Claim::Gone));
        Some(idle)
    }

    /// Gives an arena back that is in no space. If the device refuses it is in the hub again, and
    /// idle.
    pub(super) fn give_arena_back(
        &self,
        arena: &Arena<D>,
        failure: &mut Option<Failed<D>>,
    ) -> bool {
        let began = self.stamp();
        let given_back = self.give_back(&arena.range, arena.size_bytes);
        let is_gone = matches!(given_back, Ok(true));
        if is_gone {
            // Before its place can be another's.
            let &Arena { origin_bytes, size_bytes, .. } = arena;
            let (offset_bytes, cost) = (Some(origin_bytes), self.since(began));
            self.notice(Notice::Released { offset_bytes, size_bytes, cost });
        }
        self.with_books(|books| {
            if is_gone {
                books.arenas.remove(arena.origin_bytes);
                books.vacating.forget(arena.origin_bytes);
            } else {
                // Without metadata it stays in no space, and is tried again.
                let entered = self.shared.add_to_hub(arena.stretch);
                let claim = if entered { Claim::Nothing } else { Claim::Leaving };
                books.arenas.replace(arena.claimed(claim));
            }
        });
        if let Err(failed) = given_back {
            keep(failure, failed);
        }
        is_gone
    }

    /// Takes idle arenas that are wanted out of the hub, so that nobody gets what is to go back
    /// once its work is done. How many bytes are about to go.
    pub(super) fn see_off(&self, is_wanted: impl Fn(&Arena<D>, u64) -> bool) -> u64 {
        self.with_books(|books| {
            let mut leaving_bytes = 0;
            let idle = books.arenas.iter().filter(|arena| {
                let leaves = arena.claim == Claim::Nothing
                    && is_wanted(arena, leaving_bytes)
                    && self.shared.take_arena(arena.stretch);
                leaving_bytes += if leaves { arena.size_bytes } else { 0 };
                leaves
            });
            let idle: Vec<_> = idle.cloned().collect();
            for arena in idle {
                books.arenas.replace(arena.claimed(Claim::Leaving));
            }
            leaving_bytes
        })
    }

    /// Sees to it that what arenas wait for that are leaving is seen once it is done: a fence that
    /// could not be recorded when they were seen off is recorded now.
    pub(super) fn fence_leaving(&self, failure: &mut Option<Failed<D>>) {
        let needs = self.with_books(|books| {
            let leaving = books.arenas.iter().filter(|arena| arena.claim == Claim::Leaving);
            let stains = leaving.flat_map(|arena| books.stains.of(arena.stretch));
            let pending = stains.filter(|stain| !books.sources.is_done(stain));
            pending.map(|stain| (stain.source, stain.epoch)).collect::<Vec<_>>()
        });
        for &(source, epoch) in &needs {
            if let Err(failed) = self.fences_of(source, epoch) {
                keep(failure, failed);
            }
        }
        if !needs.is_empty() {
            self.poll(failure);
        }
    }

    /// Gives arenas back that are leaving, as far as what they wait for is done.
    pub(super) fn release_leaving(&self, failure: &mut Option<Failed<D>>) {
        while let Some(arena) = self.with_books(|books| {
            if books.is_capturing() {
                return None;
            }
            let arena = books.arenas.iter().find(|arena| {
                arena.claim == Claim::Leaving
                    && (Self::is_clean(books, arena) || RELEASES_EARLY.is_out())
            });
            let arena = arena.cloned()?;
            books.stains.remove(arena.stretch);
            books.arenas.replace(arena.claimed(Claim::Gone));
            Some(arena)
        }) {
            if !self.give_arena_back(&arena, failure) {
                break;
            }
        }
    }

    /// Puts arenas that are leaving into the hub again: they are needed. False if there are none.
    pub(super) fn call_back(&self) -> bool {
        self.with_books(|books| {
            let leaving = books.arenas.iter().filter(|arena| arena.claim == Claim::Leaving);
            let leaving: Vec<_> = leaving.cloned().collect();
            for arena in &leaving {
                if self.shared.add_to_hub(arena.stretch) {
                    books.arenas.replace(arena.claimed(Claim::Nothing));
                }
            }
            !leaving.is_empty()
        })
    }

    /// Whether nothing of an arena in the hub waits for work.
    pub(super) fn is_clean(books: &Books<D>, arena: &Arena<D>) -> bool {
        books.stains.of(arena.stretch).all(|stain| books.sources.is_done(&stain))
    }

    /// Bytes of idle arenas that would go back if nothing waited.
    pub(super) fn pending_bytes(&self, keep_bytes: u64) -> u64 {
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
            let pending_bytes = if self.is_paged() {
                let reserved_bytes = self.with_books(|books| books.reserved_bytes);
                self.idle_page_bytes().min(reserved_bytes.saturating_sub(keep_bytes))
            } else {
                self.pending_bytes(keep_bytes)
            };
            return Trimmed { released_bytes: 0, pending_bytes };
        }
        // Memory of arenas that are vacated is as free as any.
        self.end_vacating();
        self.close(|_| true, failure);
        self.poll(failure);
        if wait {
            self.wait_for_parcels(failure);
        }
        self.call_back();
        self.flush();
        self.gather_all(failure, true, Gathered::All);
        self.fence_hub(failure);
        self.poll(failure);
        if wait {
            self.wait_for_hub(failure);
        }
        if self.is_paged() {
            let reserved_bytes = self.with_books(|books| books.reserved_bytes);
            let most_bytes = reserved_bytes.saturating_sub(keep_bytes);
            let amount = Amount::AtMost(most_bytes);
            let released_bytes = self.release_pages(amount, wait, failure);
            let left_bytes = most_bytes.saturating_sub(released_bytes);
            let pending_bytes = self.idle_page_bytes().min(left_bytes);
            return Trimmed { released_bytes, pending_bytes };
        }
        self.release_idle(keep_bytes, failure)
    }
}
