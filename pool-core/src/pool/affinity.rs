//! Requests that have something in common with others: served by what those freed, or from memory
//! for blocks that live as long.

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::Pool;
use super::asker::Asker;
use super::books::{Books, Holder};
use super::error::PoolError;
use super::gather::Gathered;
use super::help::Plea;
use super::inner::{CLEAN, Inner};
use super::policy::{Affinity, CoolDown, Lifetime};
use super::shelves::Fit;
use super::stream::On;
use crate::device::Device;
use crate::range::{AllocError, Block, Handle, HandleError, Options, Request, Stretch};
use crate::threads::{HUB, Owner, Threads};

/// Lifetimes for which a stream has memory beside that of most blocks.
pub(super) const LIFETIMES_APART: usize = 2;

/// What is added to the memory for a lifetime where the pool cannot grow: a part of an arena.
const PORTIONS_OF_ARENA: u64 = 4;

impl Lifetime {
    /// Where a stream keeps the space for it; none for the usual one.
    fn place(self) -> Option<usize> {
        match self {
            Self::Usual => None,
            Self::Short => Some(0),
            Self::Long => Some(1),
        }
    }
}

impl<D: Device, T: Threads> Inner<D, T> {
    /// Serves a request, under an affinity if it has one.
    pub(super) fn serve(
        &self,
        asker: &Asker<D>,
        request: &Request,
        affinity: Option<&Affinity>,
    ) -> Result<Block, PoolError<D::Error>> {
        let Some(affinity) = affinity else {
            return self.help(asker, request, self.space_for(asker)?);
        };
        let own = self.space_for_lifetime(asker, affinity.lifetime)?;
        if let Some(block) = self.take_from_shelf(asker, own, affinity.key, request) {
            return Ok(block);
        }
        if own != HUB
            && self.is_calm()
            && let Ok(block) = self.shared.allocate_in(own, request)
        {
            return Ok(block);
        }
        self.help(asker, request, own)
    }

    /// The key under which a block goes on a shelf when it is freed; none if it does not.
    pub(super) fn key_of_block(
        &self,
        asker: &Asker<D>,
        affinity: Option<&Affinity>,
    ) -> Option<u32> {
        let has_shelf = self.reuse.shelf_bytes > 0
            && match asker {
                Asker::Known { space, .. } => space.is_some(),
                Asker::Nobody => !self.has_fences(),
                Asker::Raw { .. } | Asker::Captured { .. } => false,
            };
        affinity.filter(|_| has_shelf).map(|affinity| affinity.key)
    }

    /// The space that a request for a lifetime is served from.
    fn space_for_lifetime(
        &self,
        asker: &Asker<D>,
        lifetime: Lifetime,
    ) -> Result<Owner, PoolError<D::Error>> {
        if let Asker::Known { number, space: Some(usual), .. } = asker
            && !self.is_paged()
            && let Some(place) = lifetime.place()
        {
            return Ok(self.space_apart(*number, place).unwrap_or(*usual));
        }
        self.space_for(asker)
    }

    /// The space of a stream for a lifetime, which is made if there is none. None if all spaces are
    /// taken, or the stream is gone.
    fn space_apart(&self, number: u32, place: usize) -> Option<Owner> {
        let known = |books: &Books<D>| *books.streams.get(&number)?.apart.get(place)?;
        if let Some(space) = self.with_books(|books| known(books)) {
            return Some(space);
        }
        let space = self.new_space(Holder::Stream(number))?;
        self.with_books(|books| {
            let stream = books.streams.get_mut(&number).filter(|stream| !stream.retiring);
            let slot = stream.and_then(|stream| stream.apart.get_mut(place));
            if let Some(slot @ None) = slot {
                *slot = Some(space);
                return Some(space);
            }
            // Another thread was faster, or the stream is going.
            books.set_holder(space, Holder::Nobody);
            known(books)
        })
    }

    /// A block that was freed under a key into a space, if the asker's stream is that space's and
    /// there is one that fits.
    fn take_from_shelf(
        &self,
        asker: &Asker<D>,
        space: Owner,
        key: u32,
        request: &Request,
    ) -> Option<Block> {
        if self.reuse.shelf_bytes == 0 || !request.options.is_empty() {
            return None;
        }
        let fit = self.fit_of(request)?;
        let block = self.with_books(|books| {
            if !self.is_own(books, asker, space) {
                return None;
            }
            let block = books.shelves.take(space, key, &fit)?;
            self.shared.take_up(block)
        })?;
        self.counters.shelf_hits.add_shared(1);
        Some(block)
    }

    /// What serves a request, and what size a fresh block for it has.
    fn fit_of(&self, request: &Request) -> Option<Fit> {
        let shape = self.shared.shape();
        let size_bytes = request.size_bytes.checked_next_multiple_of(shape.bytes(1))?;
        let rounds = self.rounds() || self.shared.is_small(request);
        let usual_bytes = if rounds { size_bytes.checked_next_power_of_two()? } else { size_bytes };
        Some(Fit { least: size_bytes, usual: usual_bytes, align: request.align_bytes })
    }

    /// Puts a freed block that nothing but its space's stream has to be waited for on the shelf of
    /// its key. False if it has none, or memory is short: it is still live then.
    pub(super) fn shelve(
        &self,
        asker: &Asker<D>,
        home: Owner,
        handle: Handle,
        key: u32,
    ) -> Result<bool, HandleError> {
        if self.is_shared() {
            return Ok(false);
        }
        let size_bytes = self.shared.block(handle)?.size_bytes();
        self.with_books(|books| {
            let may = self.is_own(books, asker, home)
                && books.shelves.have_room_for(size_bytes)
                && books.reclaim.cool_down == CoolDown::Off;
            if may {
                books.shelves.push(key, self.shared.set_aside(handle)?);
                while let Some(oldest) = books.shelves.pop_excess() {
                    self.shared.put_back(oldest);
                }
            }
            Ok(may)
        })
    }

    /// Whether what is free in a space waits for nothing but the asker's own work.
    fn is_own(&self, books: &Books<D>, asker: &Asker<D>, space: Owner) -> bool {
        match asker {
            Asker::Known { number, .. } => books.stream_of(space) == Some(*number),
            // One queue: every call is in its order.
            Asker::Nobody => !self.has_fences() && space == CLEAN,
            Asker::Raw { .. } | Asker::Captured { .. } => false,
        }
    }

    /// Whether a request is for a lifetime whose memory is kept apart, and has not to take what there
    /// is: it is served from arenas of its own.
    pub(super) fn keeps_apart(&self, plea: &Plea<'_, D>) -> bool {
        !plea.mixes && self.with_books(|books| books.is_apart(plea.space))
    }

    /// The stretch that is added to memory that is kept apart: an arena's worth.
    pub(super) fn portion_apart(
        &self,
        size_bytes: u64,
        align_bytes: u64,
        longest_bytes: u64,
    ) -> Vec<(u64, u64)> {
        let granule = self.shared.shape().bytes(1);
        // In a shorter one a search may miss the aligned place.
        let sure_bytes = size_bytes.saturating_add(align_bytes - granule);
        let floor_bytes = self.with_books(|books| books.growth.floor_bytes);
        let wanted = sure_bytes.max(floor_bytes & !(granule - 1));
        let rest = longest_bytes.checked_sub(wanted);
        // What would be left for another lifetime is not less.
        let portion = rest.map(|rest| if rest < wanted { longest_bytes } else { wanted });
        portion.map(|portion| (portion, granule)).into_iter().collect()
    }

    /// Moves arenas that are a space's alone, and free, to the hub. False if it has none.
    pub(super) fn give_idle_to_hub(&self, books: &mut Books<D>, space: Owner) -> bool {
        // An empty span is free, but in no run.
        let span_bytes = self.shared.shape().bytes(self.shared.shape().span_granules.into());
        let most = self.shared.use_of(space).longest_run_bytes.saturating_mul(2) + span_bytes;
        let arenas = books.arenas.iter().filter(|arena| arena.size_bytes <= most);
        let arenas: Vec<Stretch> = arenas.map(|arena| arena.stretch).collect();
        arenas.into_iter().fold(false, |moved, arena| {
            let idle = self.shared.take_island(space, arena);
            moved | (idle && self.give_to_hub(books, space, arena))
        })
    }

    /// The least that is added to the memory for a lifetime when it cannot be an arena's worth: in
    /// pieces as small as blocks, it would be mixed with that of others after all.
    pub(super) fn least_portion(&self, plea: &Plea<'_, D>) -> u64 {
        self.with_books(|books| {
            let is_apart = books.is_apart(plea.space);
            if is_apart { books.growth.floor_bytes / PORTIONS_OF_ARENA } else { 0 }
        })
    }

    /// Takes memory wherever it is, for want of more: of what the stream has for other lifetimes, or
    /// of what all have. From here on the request is served from whatever there is. False if there was
    /// nothing apart.
    pub(super) fn mix(&self, plea: &mut Plea<'_, D>) -> bool {
        let (waits, kept) = (plea.asker.waits().is_some(), self.keeps_apart(plea));
        plea.mixes = true;
        let any = self.with_books(|books| books.gatherable().any(|space| books.is_apart(space)));
        any && (plea.space != HUB && self.take_from_apart(plea)
            || self.gather_all(&mut plea.failure, waits, Gathered::All)
            || kept)
    }

    /// Takes a free stretch that serves the request of what the asker's stream has for blocks of other
    /// lifetimes: nothing has to be waited for. False if there is none.
    pub(super) fn take_from_apart(&self, plea: &Plea<'_, D>) -> bool {
        let Some(number) = plea.asker.number() else { return false };
        let spaces = self.with_books(|books| books.spaces_of(number));
        let others = spaces.into_iter().flatten().filter(|&space| space != plea.space);
        let longest = |space: Owner| self.shared.use_of(space).longest_run_bytes;
        let mut others: Vec<(u64, Owner)> = others.map(|space| (longest(space), space)).collect();
        others.sort_by_key(|&(longest_bytes, _)| Reverse(longest_bytes));
        others.into_iter().any(|(longest_bytes, other)| {
            let portions = self.portions(plea, longest_bytes, false);
            portions.into_iter().any(|(size_bytes, align_bytes)| {
                self.with_books(|books| {
                    // The stream may have been retired meanwhile.
                    let are_own = [other, plea.space]
                        .into_iter()
                        .all(|space| books.stream_of(space) == Some(number));
                    // Away from where blocks are cut.
                    let high = Options::HIGH_END;
                    let take = || self.shared.take_stretch(other, size_bytes, align_bytes, high);
                    are_own.then(take).flatten().is_some_and(|stretch| {
                        self.shared.give(plea.space, stretch) || {
                            // Its node is spare there.
                            self.shared.give(other, stretch);
                            false
                        }
                    })
                })
            })
        })
    }

    /// Whether a space is one of a stream's.
    pub(super) fn is_of_stream(&self, space: Owner, number: u32) -> bool {
        self.with_books(|books| books.stream_of(space) == Some(number))
    }

    /// Puts what is on shelves back, in one space or in all. False if there was nothing.
    pub(super) fn clear_shelves(&self, space: Option<Owner>) -> bool {
        self.with_books(|books| self.clear_shelves_in(books, space))
    }

    pub(super) fn clear_shelves_in(&self, books: &mut Books<D>, space: Option<Owner>) -> bool {
        let mut cleared = false;
        while let Some(block) = books.shelves.pop(space) {
            self.shared.put_back(block);
            cleared = true;
        }
        cleared
    }

    /// Empties shelves, and the caches of all threads: their blocks go back to their spaces.
    pub(super) fn flush(&self) {
        self.clear_shelves(None);
        self.shared.flush();
    }
}

impl<D: Device> Books<D> {
    /// Whether a space is a stream's for blocks that live shorter or longer than most.
    pub(super) fn is_apart(&self, space: Owner) -> bool {
        let known = self.stream_of(space).and_then(|number| self.streams.get(&number));
        known.is_some_and(|known| known.apart.contains(&Some(space)))
    }

    /// The spaces of a stream.
    pub(super) fn spaces_of(&self, number: u32) -> [Option<Owner>; 1 + LIFETIMES_APART] {
        self.streams.get(&number).map_or([None; 1 + LIFETIMES_APART], |known| {
            let [short, long] = known.apart;
            [known.space, short, long]
        })
    }
}

impl<D: Device, T: Threads> Pool<D, T> {
    /// Serves a request that has something in common with others: by a block that was freed under
    /// the same key on the same stream, if there is one that is not much larger and is aligned; else
    /// from the stream's memory for blocks that live as long. Freed on its stream, with no use on
    /// another, the block waits on a shelf for the next request with the key, until its memory is
    /// wanted otherwise.
    ///
    /// On streams that the pool does not know, and in captures, it is served as without; so is one
    /// that names no stream, but for a device with one queue.
    ///
    /// # Errors
    ///
    /// As [`allocate_on`](Self::allocate_on).
    ///
    /// # Complexity
    ///
    /// Logarithmic in the blocks on shelves, but for those of the right size that are not aligned. It
    /// takes the lock of the pool's books, which a hit of [`allocate_on`](Self::allocate_on) does not,
    /// and so does the free.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Affinity, Pool, PoolConfig};
    /// # use pool_mock::device::{SimConfig, SimDevice};
    /// # let pool = Pool::new(SimDevice::new(SimConfig::new()), PoolConfig::new())?;
    /// let stream = pool.create_stream()?;
    /// let (first, second) = (Affinity::new(1), Affinity::new(2));
    /// let block = pool.allocate_for(stream, first, 1 << 20)?;
    /// pool.free_on(stream, block.handle())?;
    /// // The second layer does not get what the first had, the first does.
    /// let other = pool.allocate_for(stream, second, 1 << 20)?;
    /// assert_ne!(other.offset_bytes(), block.offset_bytes());
    /// let again = pool.allocate_for(stream, first, 1 << 20)?;
    /// assert_eq!(again.offset_bytes(), block.offset_bytes());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn allocate_for<'a>(
        &self,
        on: impl Into<On<'a, D::Stream>>,
        affinity: Affinity,
        request: impl Into<Request>,
    ) -> Result<Block, PoolError<D::Error>>
    where
        D::Stream: 'a,
    {
        let (mut request, align_bytes) = (request.into(), affinity.align_bytes);
        if !align_bytes.is_power_of_two() {
            return Err(PoolError::Request(AllocError::Alignment { align_bytes }));
        }
        request.align_bytes = request.align_bytes.max(align_bytes);
        self.inner().allocate_slowly(&on.into(), &request, None, Some(&affinity))
    }
}
