//! Pages that go back to the device.

use alloc::vec::Vec;

use super::draft::{Candidate, Victims};
use super::table::{Held, Leaving, Paging};
use super::window::Holes;
use crate::device::{Call, Device};
use crate::pool::books::Books;
use crate::pool::inner::{Failed, Inner};
use crate::threads::Threads;

/// How many bytes go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Amount {
    /// Handles that are no more together.
    AtMost(u64),
    /// Handles that are no fewer together.
    AtLeast(u64),
}

impl Amount {
    /// Whether a handle of so many bytes is of it.
    fn takes(self, bytes: u64) -> bool {
        match self {
            Self::AtMost(left) => bytes <= left,
            Self::AtLeast(left) => left > 0,
        }
    }

    /// What is left of it when so many bytes have gone.
    fn less(self, bytes: u64) -> Self {
        match self {
            Self::AtMost(left) => Self::AtMost(left.saturating_sub(bytes)),
            Self::AtLeast(left) => Self::AtLeast(left.saturating_sub(bytes)),
        }
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Whether memory comes and goes in pages.
    pub(in crate::pool) fn is_paged(&self) -> bool {
        self.with_books(|books| books.paging.is_some())
    }

    /// Gives handles that hold no block back to the device. Work that is still to be done on them is
    /// waited for if it may; else they go by a later call, unless they are needed before.
    pub(in crate::pool) fn release_pages(
        &self,
        amount: Amount,
        wait: bool,
        failure: &mut Option<Failed<D>>,
    ) -> u64 {
        if self.is_capturing() {
            return 0;
        }
        let mut released_bytes = 0;
        while let Some((held, bytes)) =
            self.with_books(|books| take_spare(books, amount.less(released_bytes)))
        {
            if !self.destroy(held, failure) {
                return released_bytes;
            }
            released_bytes += bytes;
        }
        // What is behind live addresses, and what was, is for the pool to wake with.
        if self.is_asleep() {
            return released_bytes;
        }
        released_bytes += self.release_awaited(amount.less(released_bytes), wait, failure);
        let victims = self.with_books(|books| {
            if self.is_asleep() {
                return None;
            }
            let mut candidates = self.idle_handles(books);
            let paging = books.paging.as_ref()?;
            let mut left = amount.less(released_bytes).less(paging.leaving_bytes());
            if let Amount::AtLeast(_) = left {
                candidates.sort_by_key(|candidate| candidate.count);
            }
            let mut chosen: Vec<&Candidate> = Vec::new();
            for candidate in &candidates {
                let bytes = u64::from(candidate.count) * paging.page_bytes;
                if left.takes(bytes) && (wait || Self::is_due(books, candidate)) {
                    left = left.less(bytes);
                    chosen.push(candidate);
                }
            }
            Some(self.take_victims(books, &chosen))
        });
        let Some(victims) = victims else { return released_bytes };
        match self.fences_behind_victims(&victims, failure) {
            Some(fences) if self.are_done(&fences, wait, failure) => {
                released_bytes += self.release_victims(victims, failure);
            }
            // It is asked again by the next call, unless the memory is needed before.
            Some(fences) if !self.is_poisoned() => self.with_books(|books| {
                if let Some(paging) = &mut books.paging {
                    paging.leaving.push(Leaving { victims, fences });
                }
            }),
            _ => self.with_books(|books| self.put_victims_back(books, victims)),
        }
        released_bytes
    }

    /// Gives back what was only waited for; what is more than the amount stays.
    fn release_awaited(&self, amount: Amount, wait: bool, failure: &mut Option<Failed<D>>) -> u64 {
        let (mut released_bytes, mut left) = (0, amount);
        for Leaving { victims, fences } in self.with_books(Books::take_leaving) {
            let goes = self.with_books(|books| {
                let page_bytes = books.paging.as_ref().map_or(0, Paging::page_bytes);
                let (goes, stays) = victims.divide(|held| {
                    let bytes = u64::from(held.count) * page_bytes;
                    let goes = left.takes(bytes);
                    left = if goes { left.less(bytes) } else { left };
                    goes
                });
                self.put_victims_back(books, stays);
                goes
            });
            if goes.handles.is_empty() {
                continue;
            }
            if self.are_done(&fences, wait, failure) {
                released_bytes += self.release_victims(goes, failure);
            } else {
                self.with_books(|books| {
                    if let Some(paging) = &mut books.paging {
                        paging.leaving.push(Leaving { victims: goes, fences });
                    }
                });
            }
        }
        released_bytes
    }

    fn release_victims(&self, victims: Victims<D>, failure: &mut Option<Failed<D>>) -> u64 {
        let mut released_bytes = 0;
        for held in self.take_away(victims, failure) {
            let bytes = self.bytes_of(&held);
            released_bytes += if self.destroy(held, failure) { bytes } else { 0 };
        }
        released_bytes
    }

    /// Lets everybody have again what was about to go back; false if there is nothing.
    pub(in crate::pool) fn keep_leaving(&self) -> bool {
        self.with_books(|books| self.keep_leaving_of(books))
    }

    /// The same with the books at hand.
    pub(super) fn keep_leaving_of(&self, books: &mut Books<D>) -> bool {
        let leaving = books.take_leaving();
        let any = !leaving.is_empty();
        for Leaving { victims, fences } in leaving {
            self.put_victims_back(books, victims);
            books.garbage.extend(fences);
        }
        any
    }

    pub(super) fn bytes_of(&self, held: &Held<D>) -> u64 {
        let page_bytes = |books: &mut Books<D>| books.paging.as_ref().map_or(0, Paging::page_bytes);
        self.with_books(page_bytes) * u64::from(held.count)
    }

    /// Whether a handle may be taken away without a wait, as far as is known: in a stream's own space
    /// only the stream's fence says so, which is then asked for.
    fn is_due(books: &Books<D>, candidate: &Candidate) -> bool {
        let is_own =
            books.paging.as_ref().is_some_and(|paging| books.keeps_addresses(paging.keeper));
        is_own || candidate.waits.is_empty()
    }

    /// The handles that hold no block.
    fn idle_handles(&self, books: &Books<D>) -> Vec<Candidate> {
        let Some(paging) = &books.paging else { return Vec::new() };
        let mut holes = Holes::default();
        self.shared.walk(paging.keeper, |part| holes.add(&paging.grid, part, &paging.claimed));
        Self::candidates(books, &holes)
    }

    /// Bytes of handles that hold no block.
    pub(in crate::pool) fn idle_page_bytes(&self) -> u64 {
        self.with_books(|books| {
            let idle = self.idle_handles(books);
            let pages: u64 = idle.iter().map(|idle| u64::from(idle.count)).sum();
            let paging = books.paging.as_ref();
            paging.map_or(0, |paging| paging.page_bytes * pages + paging.leaving_bytes())
        })
    }

    /// Takes everything away, at the pool's end: what fails twice is lost.
    pub(in crate::pool) fn end_pages(&self) {
        self.keep_leaving();
        let Some((range, handles, spare)) = self.with_books(|books| {
            let paging = books.paging.as_mut()?;
            let mapped = core::mem::take(&mut paging.mapped);
            let offsets = mapped.into_iter().map(|(page, held)| (paging.offset_of(page), held));
            let handles: Vec<(u64, Held<D>)> = offsets.collect();
            Some((paging.range.clone(), handles, core::mem::take(&mut paging.spare)))
        }) else {
            return;
        };
        for (offset_bytes, held) in handles {
            let unmap = || {
                self.call(Call::Decommit, |device| {
                    device.decommit(&range, offset_bytes, &held.pages)
                })
            };
            if unmap().or_else(|_| unmap()).is_ok() {
                self.end_handle(held);
            }
        }
        for held in spare {
            self.end_handle(held);
        }
    }

    fn end_handle(&self, held: Held<D>) {
        let bytes = self.bytes_of(&held);
        // It cannot be named again, whatever the device says.
        let _ = self.call(Call::DestroyPages, |device| device.destroy_pages(held.pages));
        self.unreserve(bytes);
    }
}

impl<D: Device> Books<D> {
    fn take_leaving(&mut self) -> Vec<Leaving<D>> {
        self.paging.as_mut().map_or(Vec::new(), |paging| core::mem::take(&mut paging.leaving))
    }
}

/// A handle that is behind nothing, in hand, if it is of the amount; and its bytes.
fn take_spare<D: Device>(books: &mut Books<D>, amount: Amount) -> Option<(Held<D>, u64)> {
    let paging = books.paging.as_mut()?;
    let bytes = |held: &Held<D>| u64::from(held.count) * paging.page_bytes;
    let place = paging.spare.iter().position(|held| amount.takes(bytes(held)))?;
    let held = paging.spare.swap_remove(place);
    paging.in_hand += u64::from(held.count);
    let bytes = u64::from(held.count) * paging.page_bytes;
    Some((held, bytes))
}
