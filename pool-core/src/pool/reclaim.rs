//! Parcels: what is freed and has to wait, from the free to the day when it is free.

use alloc::vec::Vec;
use core::time::Duration;

use super::books::{Books, Holder};
use super::fence::{Shared, add_fence, has_fence};
use super::help::Plea;
use super::inner::{CLEAN, Failed, Inner, keep};
use super::parcel::{Needs, Parcel};
use super::policy::Deferred;
use super::sabotage::{
    COLLECTS_UNWAITED, FORGETS_RETIRED, IGNORES_FAILED_RECORD, LOSES_WAITS, PENDING_IS_DONE,
};
use crate::device::Device;
use crate::threads::{Aside, HUB, Owner, Threads};

/// What is asked of the device at a time, and how often in a row.
const MOST_QUERIES: usize = 64;
const MOST_POLLS: u32 = 64;

impl<D: Device, T: Threads> Inner<D, T> {
    /// Puts a block that the program gave back among those that wait for the same.
    pub(super) fn defer(&self, block: Aside, needs: Needs<D>) {
        let now = self.now();
        let mut needs = needs;
        let woken = self.with_books(|books| {
            if needs.rests {
                books.begin_rest(&block, &mut needs);
            }
            let gone = books.fences_of_gone(&mut needs.streams);
            needs.fences.extend(gone);
            books.undrained_blocks += 1;
            books.undrained_bytes += block.size_bytes;
            if needs.is_nothing() && !needs.rests {
                // What it waited for is done.
                self.put_back(books, block);
                return false;
            }
            let of_nobody = matches!(books.holder(block.space), Holder::Gone(_));
            let found = books.open.iter_mut().find(|parcel| parcel.takes(block.space, &needs));
            match found {
                Some(parcel) if !of_nobody => {
                    needs.fences.drain(..).for_each(|fence| parcel.add_fence(fence));
                    parcel.push(block);
                }
                _ => {
                    let mut parcel = Parcel::new(block.space, needs, now);
                    parcel.push(block);
                    books.enter(parcel);
                }
            }
            self.note_deferred(books);
            books.has_rested()
        });
        if woken {
            self.wake();
        }
    }

    /// Whether more was put into the queue than should be, since it was drained last.
    pub(super) fn is_over_bound(&self) -> bool {
        self.with_books(|books| {
            let Deferred::Queue { blocks, bytes } = books.reclaim.deferred else { return true };
            let most_bytes = self.most_undrained_bytes(books, bytes);
            books.undrained_blocks > u64::from(blocks) || books.undrained_bytes > most_bytes
        })
    }

    /// Closes what is open, and takes back what is done.
    pub(super) fn drain(&self, failure: &mut Option<Failed<D>>) -> bool {
        self.with_books(Books::begin_drain);
        let closed = self.close(|_| true, failure);
        let polled = self.poll_often(failure);
        closed || polled
    }

    /// Takes back what is done.
    pub(super) fn poll_often(&self, failure: &mut Option<Failed<D>>) -> bool {
        let mut polled = false;
        // As long as something is done; what is pending may be far behind it.
        for _ in 0..MOST_POLLS {
            if self.is_capturing() || !self.poll(failure) {
                break;
            }
            polled = true;
        }
        polled
    }

    /// Records the fences of open parcels: one in each stream, whatever waits for it. What cannot
    /// be recorded now stays open. False if nothing was closed.
    pub(super) fn close(
        &self,
        wanted: impl Fn(&Parcel<D>) -> bool,
        failure: &mut Option<Failed<D>>,
    ) -> bool {
        let capturing = self.is_capturing();
        let mut hands = self.with_books(|books| {
            let wanted = |parcel: &mut Parcel<D>| wanted(parcel) && !(capturing && parcel.all);
            let hands: Vec<Parcel<D>> = books.open.extract_if(.., wanted).collect();
            books.take_in_hand(&hands);
            hands
        });
        let mut recorded: Vec<(u32, Option<Shared<D>>)> = Vec::new();
        let mut of_all: Option<Option<Vec<Shared<D>>>> = None;
        for parcel in &mut hands {
            let mut left = Vec::new();
            for number in core::mem::take(&mut parcel.streams) {
                let known = recorded.iter().find(|(of, _)| *of == number);
                let fence = if let Some((_, fence)) = known {
                    fence.clone()
                } else {
                    let fence = self.record_in(number).map_err(|failed| keep(failure, failed));
                    let fence = fence.ok().flatten();
                    recorded.push((number, fence.clone()));
                    fence
                };
                match fence {
                    Some(fence) => parcel.fences.push(fence),
                    None if IGNORES_FAILED_RECORD.is_out() => {}
                    None => left.push(number),
                }
            }
            parcel.streams = left;
            if parcel.all {
                let all = of_all.get_or_insert_with(|| {
                    self.record_all().map_err(|failed| keep(failure, failed)).ok().flatten()
                });
                if let Some(fences) = all {
                    parcel.fences.extend(fences.iter().cloned());
                    parcel.all = false;
                }
            }
        }
        let now = self.now();
        let (closed, woken) = self.with_books(|books| {
            books.take_out_of_hand(&hands);
            let mut closed = false;
            for mut parcel in hands {
                for fence in books.fences_of_gone(&mut parcel.streams) {
                    parcel.add_fence(fence);
                }
                closed |= !parcel.is_open();
                books.enter(parcel);
            }
            (closed, closed && self.put_back_done(books, now))
        });
        if woken {
            self.wake();
        }
        closed
    }

    /// Asks for fences that are pending, and takes back what is done. False if nothing was.
    pub(super) fn poll(&self, failure: &mut Option<Failed<D>>) -> bool {
        let pending = self.with_books(|books| books.pending(MOST_QUERIES));
        let mut done = Vec::new();
        for fence in &pending {
            match self.is_done(fence) {
                Ok(true) => done.push(fence.clone()),
                Ok(false) if PENDING_IS_DONE.is_out() => done.push(fence.clone()),
                Ok(false) => {}
                Err(failed) => keep(failure, failed),
            }
        }
        !done.is_empty() && {
            self.settle(&done);
            true
        }
    }

    /// Takes fences that are done off everything that waits for them, and frees what then waits
    /// for nothing.
    pub(super) fn settle(&self, done: &[Shared<D>]) {
        let now = self.now();
        let woken = self.with_books(|books| {
            books.forget(done);
            self.put_back_done(books, now)
        });
        if woken {
            self.wake();
        }
        self.empty_gone_spaces();
    }

    /// Frees the blocks of closed parcels that wait for nothing. True if there are such that rest:
    /// those are to be [woken](Self::wake).
    fn put_back_done(&self, books: &mut Books<D>, now: Option<Duration>) -> bool {
        let done: Vec<Parcel<D>> = books
            .closed
            .extract_if(.., |parcel| parcel.fences.is_empty() && !parcel.rests)
            .collect();
        for parcel in done {
            self.counters.note_reclaim(parcel.since, now);
            for block in parcel.blocks {
                self.put_back(books, block);
            }
        }
        self.withhold(books);
        books.has_rested()
    }

    /// Has the asker's stream wait for the parcels of its own space: then they are free for it.
    pub(super) fn collect_own(&self, plea: &mut Plea<'_, D>) -> bool {
        let Some(number) = plea.asker.number() else { return false };
        let spaces = self.with_books(|books| books.spaces_of(number));
        spaces.into_iter().flatten().fold(false, |collected, space| {
            self.collect(number, space, &mut plea.failure) | collected
        })
    }

    /// Has a stream wait for the parcels of its space, which then are free for it; but what rests is
    /// not. False if there are none, or it cannot wait.
    pub(super) fn collect(
        &self,
        number: u32,
        space: Owner,
        failure: &mut Option<Failed<D>>,
    ) -> bool {
        let waits = |parcel: &Parcel<D>| parcel.home == space && !parcel.rests;
        self.close(waits, failure);
        let (hands, fences) = self.with_books(|books| {
            let hands: Vec<Parcel<D>> =
                books.closed.extract_if(.., |parcel| waits(parcel)).collect();
            books.take_in_hand(&hands);
            let mut fences: Vec<Shared<D>> = Vec::new();
            for fence in hands.iter().flat_map(|parcel| &parcel.fences) {
                // One wait for a stream: the latest fence is behind the others.
                add_fence(&mut fences, fence.clone(), &mut books.garbage);
            }
            (hands, fences)
        });
        if hands.is_empty() {
            return false;
        }
        let now = self.now();
        let waited =
            if COLLECTS_UNWAITED.is_out() { Ok(true) } else { self.wait_in(number, &fences) };
        self.with_books(|books| {
            books.take_out_of_hand(&hands);
            // The space may be another holder's by now; then nobody waited for that one.
            let waited = matches!(waited, Ok(true)) && books.stream_of(space) == Some(number);
            if waited {
                for parcel in hands {
                    self.counters.note_reclaim(parcel.since, now);
                    books.garbage.extend(parcel.fences);
                    parcel.blocks.into_iter().for_each(|block| self.put_back(books, block));
                }
            } else {
                for parcel in hands {
                    books.enter(parcel);
                }
            }
            books.garbage.extend(fences);
            waited
        }) || {
            if let Err(failed) = waited {
                keep(failure, failed);
            }
            false
        }
    }

    /// Has what waits in parcels of the hub, and of spaces that are gone, wait in the hub: their
    /// memory is stained by the parcels' fences from then on. Blocks in spans stay, unless the span
    /// is the hub's, and what rests does. False if there is nothing.
    pub(super) fn merge_parcels_of_nobody(
        &self,
        books: &mut Books<D>,
        of_clean: bool,
        now: Option<Duration>,
    ) -> bool {
        let (spaces, closed) = (&books.spaces, &mut books.closed);
        let of_nobody = closed.extract_if(.., |parcel| {
            let gone = matches!(spaces.get(parcel.home.0 as usize), Some(Holder::Gone(_)));
            !parcel.rests && (parcel.home == HUB || gone || (of_clean && parcel.home == CLEAN))
        });
        let of_nobody: Vec<Parcel<D>> = of_nobody.collect();
        let mut moved = false;
        for mut parcel in of_nobody {
            // Blocks in spans of others stay where they are.
            if parcel.home != HUB && parcel.blocks.iter().all(Aside::is_in_span) {
                books.closed.push(parcel);
                continue;
            }
            let fences = if LOSES_WAITS.is_out() { Vec::new() } else { parcel.fences.clone() };
            let source = books.sources.add_fences(fences, &mut books.garbage);
            // No source has number zero: what waits for nothing is clean.
            let source = source.unwrap_or(0);
            let home = parcel.home;
            let left = parcel.blocks.extract_if(.., |block| {
                let stretch = block.stretch(self.shared.shape());
                if home == HUB {
                    books.reclaimed.note(block);
                    self.shared.put_back(*block);
                    books.stain(stretch, source);
                    return false;
                }
                match self.shared.take_aside(block) {
                    Some(stretch) if self.shared.give(HUB, stretch) => {
                        books.reclaimed.note(block);
                        books.stain(stretch, source);
                        false
                    }
                    _ => true,
                }
            });
            let left: Vec<Aside> = left.collect();
            moved = true;
            self.counters.note_reclaim(parcel.since, now);
            if left.is_empty() {
                books.garbage.append(&mut parcel.fences);
            } else {
                parcel.size_bytes = left.iter().map(|block| block.size_bytes).sum();
                parcel.blocks = left;
                books.closed.push(parcel);
            }
        }
        moved
    }

    /// Moves the free memory of spaces whose holders are gone to the hub. Spaces that have nothing
    /// left are free for others.
    pub(super) fn empty_gone_spaces(&self) {
        self.with_books(|books| {
            for place in 0..books.spaces.len() {
                let space = Owner(place as u32);
                if !matches!(books.holder(space), Holder::Gone(_)) {
                    continue;
                }
                if books.keeps_addresses(space) {
                    self.bring_addresses_back(books);
                }
                self.empty_into_hub(books, space);
                if self.shared.use_of(space).owned_bytes == 0 && !books.keeps_addresses(space) {
                    books.set_holder(space, Holder::Nobody);
                }
            }
        });
    }
}

impl<D: Device> Books<D> {
    /// From now on it is counted anew what is put into parcels.
    pub(super) fn begin_drain(&mut self) {
        self.undrained_blocks = 0;
        self.undrained_bytes = 0;
    }

    pub(super) fn take_in_hand(&mut self, parcels: &[Parcel<D>]) {
        for parcel in parcels {
            self.in_hand_blocks += parcel.blocks.len() as u64;
            self.in_hand_bytes += parcel.size_bytes;
        }
    }

    pub(super) fn take_out_of_hand(&mut self, parcels: &[Parcel<D>]) {
        for parcel in parcels {
            self.in_hand_blocks -= parcel.blocks.len() as u64;
            self.in_hand_bytes -= parcel.size_bytes;
        }
    }

    /// Streams that were retired while a thread had a block in its hands cannot be recorded in any
    /// more: the last fence stands for them. Of one that has none left all is done.
    fn fences_of_gone(&self, streams: &mut Vec<u32>) -> Vec<Shared<D>> {
        let mut fences = Vec::new();
        streams.retain(|number| {
            let known = self.streams.contains_key(number);
            if !known && let Some(source) = self.sources.get(*number) {
                fences.extend(source.fences.iter().cloned());
            }
            known
        });
        if FORGETS_RETIRED.is_out() { Vec::new() } else { fences }
    }

    /// Fences that something waits for, at most so many at a time, in turn.
    pub(super) fn pending(&mut self, most: usize) -> Vec<Shared<D>> {
        let sources = self.sources.iter().flat_map(|(_, source)| &source.fences);
        let parcels = self.closed.iter().chain(&self.open).flat_map(|parcel| &parcel.fences);
        let held = self.graphs.values().flat_map(|graph| &graph.held);
        let held = held.flat_map(|held| &held.needs.fences);
        let all: Vec<&Shared<D>> = sources.chain(parcels).chain(held).collect();
        let first = self.polled.checked_rem(all.len()).unwrap_or(0);
        let mut pending: Vec<Shared<D>> = Vec::new();
        let mut seen = 0;
        for fence in all.iter().cycle().skip(first).take(all.len()) {
            if pending.len() == most {
                break;
            }
            seen += 1;
            if !has_fence(&pending, fence) {
                pending.push((*fence).clone());
            }
        }
        self.polled = first + seen;
        pending
    }

    /// Takes fences that are done off everything that waits for them.
    fn forget(&mut self, done: &[Shared<D>]) {
        for parcel in self.closed.iter_mut().chain(&mut self.open) {
            let fences = parcel.fences.extract_if(.., |fence| has_fence(done, fence));
            self.garbage.extend(fences);
        }
        for held in self.graphs.values_mut().flat_map(|graph| &mut graph.held) {
            let fences = held.needs.fences.extract_if(.., |fence| has_fence(done, fence));
            self.garbage.extend(fences);
        }
        self.sources.forget(|fence| has_fence(done, fence), &mut self.garbage);
        let sources = &self.sources;
        self.stains.clear(|stain| sources.is_done(stain));
    }
}
