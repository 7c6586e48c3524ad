//! Does what is drafted, call by call, with no lock held, and undoes what was done if one fails.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use super::draft::{Draft, Grant, Means, Victims};
use super::table::{Held, Paging};
use crate::device::{Call, Device};
use crate::pool::arenas::Kind;
use crate::pool::books::{Books, Holder};
use crate::pool::fence::Shared;
use crate::pool::grow::Wanted;
use crate::pool::help::Plea;
use crate::pool::inner::{Failed, Inner, keep};
use crate::pool::notice::Notice;
use crate::pool::policy::Way;
use crate::pool::stats::nanoseconds;
use crate::threads::{HUB, Threads};

/// What came of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// There is memory now.
    Done,
    /// There is no more of it than the pool has.
    Refused,
    /// What is to be moved is not done.
    Pending,
    /// A call failed.
    Failed,
}

/// A row of pages and the handles that it gets.
pub(super) struct Row<D: Device> {
    pub(super) pages: Range<u32>,
    pub(super) handles: Vec<Held<D>>,
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Has memory behind more addresses, for a request: new memory where there is room, else what
    /// holds no block elsewhere. If it may wait, also what work is still to be done on.
    pub(in crate::pool) fn grow_by_pages(&self, plea: &mut Plea<'_, D>, wait: bool) -> bool {
        if !self.may_grow() {
            return false;
        }
        let me = T::thread_number();
        if self.await_growth(me) {
            plea.again = true;
            return true;
        }
        if !self.may_grow() {
            self.end_growth(me);
            return false;
        }
        if self.keep_leaving() {
            // It is free again.
            self.end_growth(me);
            plea.again = true;
            return true;
        }
        let before = self.before_growth();
        let since = self.device.now();
        self.with_books(|books| {
            if let (Some(paging), Some(now)) = (&mut books.paging, since) {
                paging.moves.count(now);
            }
        });
        let helped = self.carry_drafts(plea, wait);
        if let (Some(since), Some(now)) = (since, self.device.now()) {
            let spent = nanoseconds(now.saturating_sub(since));
            self.counters.paging_nanoseconds.add_shared(spent);
        }
        self.end_growth(me);
        if helped && self.with_books(|books| books.reserved_bytes) > before.reserved_bytes() {
            self.note_growth(&before, Some(plea.request.size_bytes));
        }
        helped
    }

    fn carry_drafts(&self, plea: &mut Plea<'_, D>, wait: bool) -> bool {
        let spare = self.spare_pages();
        let helped = self.carry_draft(plea, wait);
        self.release_spare(spare, &mut plea.failure);
        helped
    }

    fn carry_draft(&self, plea: &mut Plea<'_, D>, wait: bool) -> bool {
        let grows = self.with_books(|books| books.growth.order.contains(&Way::Overflow));
        let means = [Means::Idle, Means::More, Means::New, Means::Old];
        for means in means.into_iter().filter(|&means| grows || means == Means::Old) {
            let Some(draft) = self.draft(plea, means) else { continue };
            let (grant, place) = (draft.grant, draft.place);
            let is_idle = means == Means::Idle;
            match self.carry(draft, wait && !is_idle, &mut plea.failure) {
                Outcome::Done => {
                    plea.place = place.map(|place| self.shared.shape().bytes(place));
                    plea.granted = grant.map(|grant| grant.space);
                    return true;
                }
                // What was made until then serves the next attempt.
                Outcome::Refused if !self.is_poisoned() => {}
                // New memory serves as well.
                Outcome::Pending | Outcome::Failed if is_idle && !self.is_poisoned() => {}
                Outcome::Refused | Outcome::Pending | Outcome::Failed => return false,
            }
        }
        false
    }

    /// Puts memory behind so many bytes of addresses before anyone asks, all together. False if the
    /// limit does not allow it, the device refuses, or there are not so many.
    pub(in crate::pool) fn map_ahead(&self, bytes: u64, failure: &mut Option<Failed<D>>) -> bool {
        if self.is_asleep() {
            return false;
        }
        let draft = self.with_books(|books| self.draft_ahead(books, bytes));
        let spare = self.spare_pages();
        let mapped = draft.is_some_and(|draft| self.carry(draft, false, failure) == Outcome::Done);
        self.release_spare(spare, failure);
        mapped
    }

    fn spare_pages(&self) -> u64 {
        self.with_books(|books| books.paging.as_ref().map_or(0, Paging::spare_pages))
    }

    /// Gives handles that are behind nothing back to the device, but for so many pages: the bytes that
    /// went.
    pub(super) fn release_spare(&self, keep_pages: u64, failure: &mut Option<Failed<D>>) -> u64 {
        let mut released_bytes = 0;
        while let Some(held) = self.with_books(|books| {
            let paging = books.paging.as_mut()?;
            let is_more = paging.spare_pages() > keep_pages;
            let held = paging.spare.pop_if(|_| is_more)?;
            paging.in_hand += u64::from(held.count);
            Some(held)
        }) {
            let bytes = self.bytes_of(&held);
            if !self.destroy(held, failure) {
                break;
            }
            released_bytes += bytes;
        }
        released_bytes
    }

    /// Carries a draft out.
    fn carry(&self, draft: Draft<D>, wait: bool, failure: &mut Option<Failed<D>>) -> Outcome {
        let Draft { rows, grant, victims, is_ahead, .. } = draft;
        if !self.see_done_or_wait(&victims, wait, failure) {
            self.with_books(|books| {
                self.put_victims_back(books, victims);
                unclaim(books, &rows);
            });
            return Outcome::Pending;
        }
        let needed = victims.handles.len();
        let mut stock = self.take_away(victims, failure);
        if stock.len() < needed {
            self.keep_stock(stock);
            self.with_books(|books| unclaim(books, &rows));
            return Outcome::Failed;
        }
        let moved: u64 = stock.iter().map(|held| u64::from(held.count)).sum();
        self.counters.moved_pages.add_shared(moved);
        if moved > 0 {
            let note = |books: &mut Books<D>| {
                let paging = books.paging.as_mut()?;
                paging.moves.spend(needed);
                Some(paging.page_bytes)
            };
            let page_bytes = self.with_books(note).unwrap_or(0);
            self.notice(Notice::PagesMoved { size_bytes: moved * page_bytes });
        }
        stock.extend(
            self.with_books(|books| books.paging.as_mut().map_or(Vec::new(), Paging::take_spare)),
        );
        let mut rows: Vec<Row<D>> =
            rows.into_iter().map(|pages| Row { pages, handles: Vec::new() }).collect();
        let outcome = self.fill(&mut rows, stock, is_ahead, failure);
        let mut mapped = Vec::new();
        let mut failed = outcome != Outcome::Done;
        for row in rows {
            if !failed && self.map(&row, failure) {
                mapped.push(row);
            } else {
                failed = true;
                self.undo_row(row);
            }
        }
        for row in mapped {
            failed |= !self.enter_row(row, grant);
        }
        match outcome {
            Outcome::Done if failed => Outcome::Failed,
            outcome => outcome,
        }
    }

    /// Whether the work on victims is done, as seen by the host, which waits for it if it may.
    fn see_done_or_wait(
        &self,
        victims: &Victims<D>,
        wait: bool,
        failure: &mut Option<Failed<D>>,
    ) -> bool {
        let fences = self.fences_behind_victims(victims, failure);
        fences.is_some_and(|fences| self.are_done(&fences, wait, failure))
    }

    /// The fences behind the work on victims. None if one cannot be recorded.
    pub(super) fn fences_behind_victims(
        &self,
        victims: &Victims<D>,
        failure: &mut Option<Failed<D>>,
    ) -> Option<Vec<Shared<D>>> {
        let mut behind = Vec::new();
        if victims.handles.is_empty() || !self.has_fences() {
            return Some(behind);
        }
        for &(source, epoch) in &victims.waits {
            match self.fences_of(source, epoch) {
                Ok(Some((_, fences))) => behind.extend(fences),
                Ok(None) => return None,
                Err(failed) => {
                    keep(failure, failed);
                    return None;
                }
            }
        }
        Some(behind)
    }

    /// Whether fences are done, which the host waits for if it may.
    pub(super) fn are_done(
        &self,
        fences: &[Shared<D>],
        wait: bool,
        failure: &mut Option<Failed<D>>,
    ) -> bool {
        for fence in fences {
            let done = match self.is_done(fence) {
                Ok(false) if wait => self.wait_on_host(fence),
                done => done,
            };
            match done {
                Ok(true) => self.settle(core::slice::from_ref(fence)),
                Ok(false) => return false,
                Err(failed) => {
                    keep(failure, failed);
                    return false;
                }
            }
        }
        true
    }

    /// Lets everybody have again what was to be taken away.
    pub(super) fn put_victims_back(&self, books: &mut Books<D>, victims: Victims<D>) {
        let Victims { handles, source, .. } = victims;
        for (page, held) in handles {
            let Some(paging) = &mut books.paging else { continue };
            let (stretch, keeper) = (paging.stretch_of(page, held.count), paging.keeper);
            paging.unclaim(&(page..page + held.count));
            paging.enter(page, held);
            // It was a piece of its own or more: the node that it took is spare.
            let back = self.shared.back(keeper, stretch);
            debug_assert!(back, "{stretch:?} is not bare");
            if keeper == HUB
                && let Some(source) = source
            {
                books.stain(stretch, source);
            }
        }
    }

    /// Takes the handles of victims from where they are: as many as the device lets go of. The others
    /// are as before.
    pub(super) fn take_away(
        &self,
        victims: Victims<D>,
        failure: &mut Option<Failed<D>>,
    ) -> Vec<Held<D>> {
        let Victims { handles, waits, source } = victims;
        let mut handles = handles.into_iter();
        let mut taken = Vec::new();
        while let Some((page, held)) = handles.next() {
            match self.unmap(page, &held) {
                Ok(true) => {
                    self.with_books(|books| {
                        let Some(paging) = &mut books.paging else { return };
                        let stretch = paging.stretch_of(page, held.count);
                        paging.unclaim(&(page..page + held.count));
                        // The host has seen done what they were used by.
                        books.stains.remove(stretch);
                    });
                    taken.push(held);
                }
                refused => {
                    if let Err(failed) = refused {
                        keep(failure, failed);
                    }
                    let handles = [(page, held)].into_iter().chain(handles).collect();
                    let left = Victims { handles, waits, source };
                    self.with_books(|books| self.put_victims_back(books, left));
                    break;
                }
            }
        }
        taken
    }

    /// Takes a handle from under addresses; false during a capture.
    pub(super) fn unmap(&self, page: u32, held: &Held<D>) -> Result<bool, Failed<D>> {
        let Some((range, at, offset_bytes)) = self.range_at(page) else { return Ok(false) };
        self.counters.decommits.add_shared(1);
        let began = self.stamp();
        let unmapped = self.call_outside_captures(Call::Decommit, |device| {
            device.decommit(&range, at, &held.pages)
        })?;
        if unmapped.is_some() {
            let (size_bytes, cost) = (self.bytes_of(held), self.since(began));
            self.notice(Notice::Decommitted { offset_bytes, size_bytes, cost });
        }
        Ok(unmapped.is_some())
    }

    /// Where pages begin: the range, and the offsets in it and in the pool's space.
    fn range_at(&self, page: u32) -> Option<(Arc<D::Range>, u64, u64)> {
        self.with_books(|books| {
            let paging = books.paging.as_ref()?;
            let offset_bytes = self.shared.shape().bytes(paging.stretch_of(page, 0).start.into());
            Some((paging.range.clone(), paging.offset_of(page), offset_bytes))
        })
    }

    /// Gives each row handles for all its pages: of the stock, and new ones. What is left of the stock
    /// is kept, or makes room.
    fn fill(
        &self,
        rows: &mut [Row<D>],
        mut stock: Vec<Held<D>>,
        is_ahead: bool,
        failure: &mut Option<Failed<D>>,
    ) -> Outcome {
        stock.sort_by_key(|held| held.count);
        let mut missing = Vec::new();
        for (number, row) in rows.iter_mut().enumerate() {
            let mut left = row.pages.end - row.pages.start;
            // The largest that fits: small ones fit elsewhere, too.
            while let Some(place) = stock.iter().rposition(|held| held.count <= left)
                && left > 0
            {
                let held = stock.remove(place);
                left -= held.count;
                row.handles.push(held);
            }
            if left > 0 {
                missing.push((number, left));
            }
        }
        let total: u64 = missing.iter().map(|&(_, pages)| u64::from(pages)).sum();
        while let Some(held) = self.with_books(|books| {
            let room_pages = self.room_bytes(books) / books.paging.as_ref()?.page_bytes;
            if room_pages < total { stock.pop() } else { None }
        }) {
            // It is too large for any row, and its memory is needed.
            self.destroy(held, failure);
        }
        self.keep_stock(stock);
        for (number, pages) in missing {
            let Some(row) = rows.get_mut(number) else { continue };
            for count in self.sizes_of(pages, is_ahead) {
                match self.create(count, failure) {
                    Some(held) => row.handles.push(held),
                    None => return Outcome::Refused,
                }
            }
        }
        Outcome::Done
    }

    /// Of what sizes new handles are.
    fn sizes_of(&self, pages: u32, is_ahead: bool) -> Vec<u32> {
        self.with_books(|books| {
            let room_bytes = self.room_bytes(books);
            let limit_bytes = self.most_bytes(books).filter(|_| !is_ahead);
            let paging = books.paging.as_ref();
            paging.map_or(Vec::new(), |paging| {
                let limit = limit_bytes.map(|bytes| bytes / paging.page_bytes);
                paging.sizes_for(pages, room_bytes / paging.page_bytes, limit)
            })
        })
    }

    /// A new handle, in hand.
    pub(super) fn create(&self, count: u32, failure: &mut Option<Failed<D>>) -> Option<Held<D>> {
        let page_bytes = self.with_books(|books| Some(books.paging.as_ref()?.page_bytes))?;
        let bytes = page_bytes.checked_mul(count.into())?;
        self.reserve(bytes, Wanted::exactly(bytes, Kind::Step))?;
        self.counters.creations.add_shared(1);
        let began = self.stamp();
        match self.call_growing(Call::CreatePages, |device| device.create_pages(bytes)) {
            Ok(Some(pages)) => {
                let (offset_bytes, size_bytes, cost) = (None, bytes, self.since(began));
                self.notice(Notice::Grown { offset_bytes, size_bytes, cost });
                self.with_books(|books| {
                    let paging = books.paging.iter_mut();
                    paging.for_each(|paging| paging.in_hand += u64::from(count));
                });
                Some(Held { pages, count })
            }
            refused => {
                self.unreserve(bytes);
                if let Err(failed) = refused {
                    keep(failure, failed);
                }
                None
            }
        }
    }

    /// Gives a handle in hand back to the device; during a capture it is kept. One that the device
    /// did not take cannot be named again: it is as gone.
    pub(super) fn destroy(&self, held: Held<D>, failure: &mut Option<Failed<D>>) -> bool {
        let Held { pages, count } = held;
        let mut pages = Some(pages);
        self.counters.destructions.add_shared(1);
        let began = self.stamp();
        let destroyed = self.call_outside_captures(Call::DestroyPages, |device| {
            pages.take().map_or(Ok(()), |pages| device.destroy_pages(pages))
        });
        let bytes = self.with_books(|books| {
            let paging = books.paging.as_mut()?;
            if let Some(pages) = pages {
                paging.keep(Held { pages, count });
                return None;
            }
            paging.in_hand -= u64::from(count);
            Some(paging.page_bytes * u64::from(count))
        });
        let is_gone = bytes.is_some();
        if let Some(size_bytes) = bytes {
            self.unreserve(size_bytes);
            let cost = self.since(began);
            self.notice(Notice::Released { offset_bytes: None, size_bytes, cost });
        }
        if let Err(failed) = destroyed {
            keep(failure, failed);
        }
        is_gone
    }

    /// Keeps handles that are behind nothing.
    fn keep_stock(&self, stock: Vec<Held<D>>) {
        self.with_books(|books| {
            if let Some(paging) = &mut books.paging {
                for held in stock {
                    paging.keep(held);
                }
            }
        });
    }

    /// Maps a row; false if it is not.
    pub(super) fn map(&self, row: &Row<D>, failure: &mut Option<Failed<D>>) -> bool {
        let Some((range, at, offset_bytes)) = self.range_at(row.pages.start) else { return false };
        let pages: Vec<&D::Pages> = row.handles.iter().map(|held| &held.pages).collect();
        self.counters.commits.add_shared(1);
        let began = self.stamp();
        match self.call_growing(Call::Commit, |device| device.commit(&range, at, &pages)) {
            Ok(Some(())) => {
                let size_bytes = row.handles.iter().map(|held| self.bytes_of(held)).sum();
                let cost = self.since(began);
                self.notice(Notice::Committed { offset_bytes, size_bytes, cost });
                true
            }
            Ok(None) => false,
            Err(failed) => {
                keep(failure, failed);
                false
            }
        }
    }

    /// Keeps the handles of a row that is not mapped.
    fn undo_row(&self, row: Row<D>) {
        self.keep_stock(row.handles);
        self.with_books(|books| unclaim(books, &[row.pages]));
    }

    /// Enters a row that is mapped: it is free, for one space or for that which keeps the addresses.
    /// False if the host has no room to note it: then it is of no use.
    fn enter_row(&self, row: Row<D>, grant: Option<Grant>) -> bool {
        self.with_books(|books| {
            // Its holder may have gone meanwhile.
            let grant = grant.filter(|grant| books.holder(grant.space) == grant.holder);
            let Some(paging) = &mut books.paging else { return false };
            let stretch = paging.grid.stretch(&row.pages);
            let mut page = row.pages.start;
            for held in row.handles {
                let count = held.count;
                paging.enter(page, held);
                page += count;
            }
            let entered = match grant {
                Some(grant) => self.shared.give_bare(grant.space, stretch, grant.apart),
                None => self.shared.back(paging.keeper, stretch),
            };
            if entered {
                paging.unclaim(&row.pages);
                books.stains.remove(stretch);
                if let Some(Grant { holder: Holder::Stream(number), .. }) = grant
                    && let Some(known) = books.streams.get_mut(&number)
                {
                    known.front = Some(stretch.end());
                }
                books.note_taken();
            } else {
                // It stays claimed.
                paging.stranded += row.pages.end - row.pages.start;
            }
            entered
        })
    }
}

fn unclaim<D: Device>(books: &mut Books<D>, rows: &[Range<u32>]) {
    if let Some(paging) = &mut books.paging {
        for row in rows {
            paging.unclaim(row);
        }
    }
}
