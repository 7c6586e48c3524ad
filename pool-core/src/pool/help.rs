//! What is tried for a request that its own space does not serve, in order, each followed by a
//! new search.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::asker::Asker;
use super::books::{Books, Holder};
use super::error::{Cause, PoolError};
use super::gather::Gathered;
use super::inner::{CLEAN, Failed, Inner, keep};
use super::sabotage::{ASKS_LATE, QUERIES_IN_CAPTURE};
use super::shortage::{Remedy, Shortage, Tried};
use super::sources::Joined;
use super::stream::StreamId;
use super::tenant::remedy_of;
use crate::device::Device;
use crate::range::{AllocError, Block, Request};
use crate::sync::pause;
use crate::threads::{HUB, Owner, Threads};

/// The steps, in the order in which they are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Put back what is on the shelves of the asker's space.
    Shelves,
    /// Take back what is done.
    Poll,
    /// Take back what the asker's own space waits for, where it would grow next.
    PollOwn,
    /// Take more from the device where that is better than to wait.
    GrowFirst,
    /// Have the asker's stream wait for the blocks of its own space.
    OwnParcels,
    /// Have it wait for what is common.
    Join,
    /// Have it wait for one other stream, and take a free stretch of that.
    Steal,
    /// Empty the caches of all threads, and all shelves.
    Caches,
    /// Steal what came out of them.
    StealAgain,
    /// Put all that is free together, with all the waits that takes.
    Gather,
    /// Take more from the device, or move blocks together that may be moved.
    Grow,
    /// Take of what is kept apart for other lifetimes.
    Mix,
    /// Wait on the host.
    WaitOnHost,
    /// Give idle arenas back, and take one that fits.
    Exchange,
}

const ORDER: [Step; 14] = [
    Step::Shelves,
    Step::Poll,
    Step::PollOwn,
    Step::GrowFirst,
    Step::OwnParcels,
    Step::Join,
    Step::Steal,
    Step::Caches,
    Step::StealAgain,
    Step::Gather,
    Step::Grow,
    Step::Mix,
    Step::WaitOnHost,
    Step::Exchange,
];

/// How often the program is asked to free something for one request.
const MOST_APPEALS: u32 = 16;

/// How often all steps are taken before a request is refused.
const MOST_ROUNDS: u32 = 5;

/// How often other threads may be faster, and take what was got for a request, without a round less.
const MOST_LOST: u32 = 50;

/// A request on its way through the steps.
#[expect(clippy::struct_excessive_bools, reason = "each is what one step needs to know")]
pub(super) struct Plea<'a, D: Device> {
    pub(super) asker: &'a Asker<D>,
    pub(super) request: Request,
    /// A space that got memory for it, which nothing was queued for.
    pub(super) granted: Option<Owner>,
    /// Where pages were put for it.
    pub(super) place: Option<u64>,
    /// Where it is served from.
    pub(super) space: Owner,
    /// What the asker's stream waited for.
    pub(super) joined: Joined,
    /// Whether the pool has all that it may have: then memory is worth more than waits.
    pub(super) tight: bool,
    /// Whether memory is taken wherever it is, whatever the lifetime that it is kept for.
    pub(super) mixes: bool,
    /// Whether it grows for itself alone, before it waits for what others have.
    pub(super) is_first: bool,
    /// Whether the device gave memory for it.
    has_grown: bool,
    /// Whether it was not served where there was room for it: others were faster, or have it in hand.
    pub(super) has_missed: bool,
    /// Whether a step waited for another thread, and is to be taken again.
    pub(super) again: bool,
    /// The last call of the device that failed on the way.
    pub(super) failure: Option<Failed<D>>,
}

impl<'a, D: Device> Plea<'a, D> {
    /// One for which nothing was tried yet.
    pub(super) fn new(asker: &'a Asker<D>, request: &Request, space: Owner) -> Self {
        Self {
            asker,
            request: *request,
            granted: None,
            place: None,
            space,
            joined: Joined::new(),
            tight: false,
            mixes: false,
            is_first: false,
            has_grown: false,
            has_missed: false,
            again: false,
            failure: None,
        }
    }

    /// What a step got from the device; a failure is no help, and kept for the report.
    pub(super) fn note<R>(&mut self, result: Result<R, Failed<D>>) -> Option<R> {
        result.map_err(|failed| keep(&mut self.failure, failed)).ok()
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Serves a request for which the asker's own space, for the lifetime of its block, has none.
    #[cold]
    pub(super) fn help(
        &self,
        asker: &Asker<D>,
        request: &Request,
        own: Owner,
    ) -> Result<Block, PoolError<D::Error>> {
        let mut failure = None;
        if self.take_due() {
            self.drain(&mut failure);
        }
        self.make_way(true, &mut failure);
        let joined = self.joined_by(asker);
        let tight = self.review(asker.number(), &mut failure);
        self.settle_addresses(asker, own);
        let space = if self.is_shared() && asker.number().is_some() { HUB } else { own };
        let plea = Plea::new(asker, request, space);
        let mut plea = Plea { joined, tight, mixes: tight, failure, ..plea };
        if let Some(block) = self.attempt(&mut plea, self.is_shared())? {
            self.grow_ahead(true, &mut plea.failure);
            return Ok(block);
        }
        let mut appeals = MOST_APPEALS;
        let mut made_way = false;
        loop {
            // What a step changes may help one that came before it: so as often as a round changes
            // anything, and no second call would find more.
            let (mut rounds, mut lost) = (0, 0);
            while rounds < MOST_ROUNDS {
                let before = (self.state(), self.given());
                if let Some(block) = self.take_steps(&mut plea)? {
                    self.grow_ahead(true, &mut plea.failure);
                    return Ok(block);
                }
                // Asked first: what they give after that is seen in what there is now.
                let others_have_some = !ASKS_LATE.is_out() && self.others_have_some();
                let now = (self.state(), self.given());
                // There was memory, and others have it: there may be more.
                let is_lost = core::mem::take(&mut plea.has_grown) || now.1 != before.1;
                if is_lost && lost < MOST_LOST {
                    lost += 1;
                } else {
                    rounds += 1;
                }
                if now == before {
                    if !(others_have_some || ASKS_LATE.is_out() && self.others_have_some()) {
                        break;
                    }
                    // What they have in their hands is looked for once they have given it.
                    pause();
                }
            }
            if self.is_pressed() && !core::mem::replace(&mut made_way, true) {
                // Else a second call would find given back what this one could have.
                self.make_way_at_last(&mut plea.failure);
                continue;
            }
            let shortage = Shortage { tried: Tried::All, ..self.shortage(&mut plea) };
            // A device that is lost may say until then that it has no memory, and no more.
            self.check_not_lost(&mut plea)?;
            let before = self.free_bytes_anywhere();
            let freed = appeals > 0
                && self.on_shortage.as_ref().is_some_and(|callback| callback(&shortage));
            // What it freed is looked for before it is asked again, or given up on.
            if !freed || self.free_bytes_anywhere() <= before {
                return Err(refused(shortage, plea));
            }
            appeals -= 1;
        }
    }

    /// Takes every step once, each followed by a search.
    fn take_steps(&self, plea: &mut Plea<'_, D>) -> Result<Option<Block>, PoolError<D::Error>> {
        for step in ORDER {
            while self.take_step(step, plea) {
                if let Some(block) = self.attempt(plea, step > Step::PollOwn)? {
                    return Ok(Some(block));
                }
                self.check_not_retired(plea.asker)?;
                if !core::mem::take(&mut plea.again) {
                    break;
                }
            }
            self.check_not_lost(plea)?;
        }
        Ok(self.allocate_crumb(plea))
    }

    pub(super) fn check_not_lost(&self, plea: &mut Plea<'_, D>) -> Result<(), PoolError<D::Error>> {
        if !self.is_poisoned() {
            return Ok(());
        }
        let failure = plea.failure.take();
        Err(failure.map_or(PoolError::Poisoned, PoolError::from))
    }

    /// Whether other threads have memory in their hands, which nobody finds there.
    fn others_have_some(&self) -> bool {
        self.with_books(|books| {
            books.in_transit_bytes > 0 || books.in_hand_blocks > 0 || !books.growers.is_empty()
        })
    }

    /// How often memory of the hub was given to a space: a thread that looked in both meanwhile may have
    /// seen it in neither.
    fn given(&self) -> u64 {
        self.with_books(|books| books.given)
    }

    /// What steps change: what waits, for how much, what lies together, and what is where.
    fn state(&self) -> [u64; 6] {
        let (blocks, stains, fences, reserved) = self.with_books(|books| {
            let sources = books.sources.iter().map(|(_, source)| source.fences.len());
            let fences: usize = sources.sum();
            let stained: u64 = books.stains.all().map(|(stretch, _)| stretch.len).sum();
            (books.deferred().0, stained, fences as u64, books.reserved_bytes)
        });
        let longest = self.shared.use_of(HUB).longest_run_bytes;
        [blocks, stains, fences, reserved, longest, self.counters.commits.get()]
    }

    /// Looks whether memory is short, and changes with that how it is kept: while the pool can
    /// hardly grow, and has not seen that half of what it has is enough, streams have nothing to
    /// themselves. True if it can hardly grow.
    fn review(&self, asker: Option<u32>, failure: &mut Option<Failed<D>>) -> bool {
        let used = self.shared.used_bytes();
        let (short, tight) = self.with_books(|books| {
            if let Some(number) = asker {
                books.company.note(number, books.reserved_bytes);
            }
            books.recent.note(used);
            let most = self.most_bytes(books);
            // What streams have to themselves in pages is cut up for good: so from half of it on.
            let half = most.filter(|_| books.paging.is_some()).map_or(0, |most| most / 2);
            let grown = books.reserved_bytes.saturating_add(books.growth.floor_bytes.max(half));
            let tight = most.is_some_and(|most| grown > most)
                || books.short_from_bytes.is_some_and(|from| books.reserved_bytes >= from);
            let several = books.company.is_several();
            let short = tight && several && !books.plenty.review(used, books.reserved_bytes);
            // What is to be given back lies together, too.
            (short || self.is_pressed(), tight)
        });
        if short != self.is_shared() {
            self.set_shared(short);
            if short {
                self.with_books(|books| self.bring_addresses_back(books));
                self.clear_shelves(None);
                self.gather_all(failure, true, Gathered::All);
            }
        }
        tight
    }

    /// Looks in the asker's space, and then in the hub: for what the asker need not wait for, or,
    /// if it may, for anything.
    fn attempt(
        &self,
        plea: &mut Plea<'_, D>,
        may_wait: bool,
    ) -> Result<Option<Block>, PoolError<D::Error>> {
        if let Some(space) = plea.granted.take()
            && let Ok(block) = self.shared.allocate_in(space, &plea.request)
        {
            return Ok(Some(block));
        }
        if let Some(place) = plea.place.take() {
            let usual = plea.request;
            plea.request = usual.at_place(place);
            let served = self.attempt_once(plea, may_wait);
            plea.request = usual;
            if let Ok(Some(_)) | Err(_) = served {
                return served;
            }
            plea.has_missed = true;
        }
        self.attempt_once(plea, may_wait)
    }

    fn attempt_once(
        &self,
        plea: &mut Plea<'_, D>,
        may_wait: bool,
    ) -> Result<Option<Block>, PoolError<D::Error>> {
        let may_wait = may_wait && plea.asker.waits().is_some();
        let served = if plea.space == HUB {
            self.allocate_from_hub(plea, may_wait)
        } else {
            match self.shared.allocate_in(plea.space, &plea.request) {
                Err(AllocError::OutOfMemory { .. }) if self.take_from_hub(plea, may_wait) => {
                    self.shared.allocate_in(plea.space, &plea.request).map(Some)
                }
                served => served.map(Some),
            }
        };
        match served {
            Ok(served) => Ok(served),
            Err(AllocError::OutOfMetadata(_)) => Err(PoolError::OutOfHostMemory),
            Err(_) => Ok(None),
        }
    }

    /// Takes a step. False: it changed nothing, so that a new search is not worth while.
    fn take_step(&self, step: Step, plea: &mut Plea<'_, D>) -> bool {
        let capturing = self.is_capturing();
        let waits = plea.asker.waits().is_some();
        match step {
            Step::Poll if capturing && !QUERIES_IN_CAPTURE.is_out() => false,
            Step::Poll => {
                let closed = self.close_resting(&mut plea.failure);
                self.poll(&mut plea.failure) || closed
            }
            Step::Shelves => self.clear_shelves(Some(plea.space)),
            Step::Steal | Step::StealAgain if self.keeps_apart(plea) => false,
            Step::Mix => self.mix(plea),
            Step::OwnParcels => waits && self.collect_own(plea),
            Step::Join => waits,
            Step::Steal | Step::StealAgain => waits && plea.space != HUB && self.steal(plea),
            Step::Caches => {
                self.flush();
                true
            }
            Step::PollOwn => self.rather_grows(plea) && self.poll_own(plea),
            Step::GrowFirst => {
                plea.is_first = self.rather_grows(plea);
                let grown = plea.is_first && self.make_room(plea);
                plea.is_first = false;
                plea.has_grown |= grown;
                grown
            }
            Step::Gather => self.gather(plea),
            Step::Grow => {
                let grown = self.make_room(plea);
                plea.has_grown |= grown;
                grown
            }
            Step::WaitOnHost => !capturing && self.wait_for_enough(plea),
            Step::Exchange => !capturing && self.exchange(plea),
        }
    }

    /// Whether no other stream asked lately, and nobody else has memory: then a stream gets all there
    /// is.
    pub(super) fn is_alone(&self, books: &Books<D>, space: Owner) -> bool {
        let others = books.spaces.iter().enumerate().skip(CLEAN.0 as usize);
        !books.company.is_several()
            && !books.is_apart(space)
            && others.filter(|&(place, _)| place as u32 != space.0).all(|(place, holder)| {
                *holder == Holder::Nobody
                    || books.is_apart(Owner(place as u32))
                    || self.shared.use_of(Owner(place as u32)).owned_bytes == 0
            })
    }

    /// The sizes and alignments of stretches that would serve a request, the most wanted first.
    pub(super) fn portions(
        &self,
        plea: &Plea<'_, D>,
        longest_bytes: u64,
        alone: bool,
    ) -> Vec<(u64, u64)> {
        let shape = self.shared.shape();
        let size_bytes = plea.request.size_bytes.checked_next_multiple_of(shape.bytes(1));
        let Some(mut size_bytes) = size_bytes else { return Vec::new() };
        let mut align_bytes = plea.request.align_bytes.max(shape.bytes(1));
        if self.rounds() {
            // A buddy of this size is aligned, and one of less serves nothing of it.
            let Some(buddy_bytes) = size_bytes.max(align_bytes).checked_next_power_of_two() else {
                return Vec::new();
            };
            (size_bytes, align_bytes) = (buddy_bytes, shape.bytes(1));
        }
        if plea.request.place_bytes().is_some() {
            return alloc::vec![(size_bytes, align_bytes)];
        }
        if self.keeps_apart(plea) {
            return self.portion_apart(size_bytes, align_bytes, longest_bytes);
        }
        let mut portions = Vec::new();
        if alone {
            portions.push((longest_bytes, 1));
        } else {
            let owned = self.shared.use_of(plea.space).owned_bytes;
            let portion =
                (owned / PORTIONS_OF_OWNED).max(self.least_portion(plea)).min(longest_bytes / 2);
            // In a shorter one a search may miss the aligned place.
            let least = size_bytes.saturating_add(align_bytes - shape.bytes(1));
            if portion > least && !plea.tight {
                portions.push((portion & !(shape.bytes(1) - 1), align_bytes));
            }
        }
        let is_small = shape.has_spans() && size_bytes <= shape.bytes(shape.small_granules);
        if is_small && align_bytes == shape.bytes(1) {
            let span_bytes = shape.bytes(shape.span_granules.into());
            portions.push((span_bytes, span_bytes));
        }
        if align_bytes > shape.bytes(1) {
            // A search finds a place in a run of this length, wherever it begins; in one that is
            // exact it may not.
            let slack = align_bytes - shape.bytes(1);
            portions.extend(size_bytes.checked_add(slack).map(|bytes| (bytes, shape.bytes(1))));
        }
        portions.push((size_bytes, align_bytes));
        portions.retain(|&(portion, _)| portion >= size_bytes && portion <= longest_bytes);
        portions
    }

    /// Bytes in spaces and caches that are not given out.
    pub(super) fn free_bytes_anywhere(&self) -> u64 {
        let reserved = self.with_books(|books| books.reserved_bytes);
        reserved.saturating_sub(self.shared.stats().live_bytes)
    }

    /// What is where, for a person. Whether the device is lost is known then, and why.
    #[cold]
    pub(super) fn shortage(&self, plea: &mut Plea<'_, D>) -> Shortage {
        let stats = self.stats();
        let mut by_stream: Vec<(StreamId, u64)> = Vec::new();
        let (limit_bytes, captures) = self.with_books(|books| {
            for (place, holder) in books.spaces.iter().enumerate() {
                let Holder::Stream(number) = holder else { continue };
                let space = Owner(place as u32);
                let in_use = self.shared.use_of(space);
                let deferred: u64 = books
                    .open
                    .iter()
                    .chain(&books.closed)
                    .filter(|parcel| parcel.home == space)
                    .map(|parcel| parcel.size_bytes)
                    .sum();
                let free = in_use.owned_bytes.saturating_sub(in_use.used_bytes) + deferred;
                if Some(*number) == plea.asker.number() || free == 0 {
                    continue;
                }
                // It may have several.
                let usual = books.spaces_of(*number)[0].unwrap_or(space);
                match by_stream.iter_mut().find(|(stream, _)| stream.number == *number) {
                    Some((_, sum)) => *sum += free,
                    None => by_stream.push((StreamId::new(*number, Some(usual)), free)),
                }
            }
            for (source, granules) in books.stains.by_source() {
                let Some(known) = books.streams.get(&source) else { continue };
                let bytes = self.shared.shape().bytes(granules);
                match by_stream.iter_mut().find(|(stream, _)| stream.number == source) {
                    Some((_, sum)) => *sum += bytes,
                    None if Some(source) != plea.asker.number() => {
                        by_stream.push((StreamId::new(source, known.space), bytes));
                    }
                    None => {}
                }
            }
            let captures = books.captures.iter().map(|capture| capture.graph).collect::<Vec<_>>();
            (books.limit_bytes, captures)
        });
        let size_bytes = plea.request.size_bytes;
        let is_unplaced = self.with_books(|books| {
            books.paging.is_none() && books.arenas.place(size_bytes, 0).is_none()
        });
        let tenancy = self.seat.as_ref().map(|seat| seat.stats());
        let remedy =
            if !captures.is_empty() && stats.deferred_bytes + stats.free_bytes >= size_bytes {
                Remedy::EndCapture
            } else if stats.free_bytes.saturating_sub(self.withheld_bytes()) >= size_bytes {
                Remedy::Defragment
            } else if limit_bytes
                .is_some_and(|limit| limit < stats.reserved_bytes.saturating_add(size_bytes))
            {
                Remedy::RaiseLimit
            } else if is_unplaced {
                Remedy::MoreAddresses
            } else {
                tenancy.and_then(|tenancy| remedy_of(&tenancy, size_bytes)).unwrap_or_default()
            };
        let mut shortage = Shortage {
            size_bytes,
            align_bytes: plea.request.align_bytes,
            live_bytes: stats.live_bytes,
            cached_bytes: stats.cached_bytes,
            free_bytes: stats.free_bytes,
            deferred_bytes: stats.deferred_bytes,
            by_stream,
            largest_free_bytes: self.largest_free_bytes(),
            reserved_bytes: stats.reserved_bytes,
            limit_bytes,
            tenancy,
            captures,
            remedy,
            ..Shortage::default()
        };
        self.look_for_settings(&mut shortage, &mut plea.failure);
        shortage
    }
}

/// A request that nothing served.
fn refused<D: Device>(shortage: Shortage, plea: Plea<'_, D>) -> PoolError<D::Error> {
    PoolError::OutOfMemory { shortage: Box::new(shortage), cause: Cause(plea.failure) }
}

/// Of what a stream has, so large a part is added at a time.
const PORTIONS_OF_OWNED: u64 = 4;
