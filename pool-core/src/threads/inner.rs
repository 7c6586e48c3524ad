//! What all handles and caches of one shared allocator share.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::centre::{Centre, Given, Home, More, NoMore};
use super::classes::Classes;
use super::config::SharedConfig;
use super::depot::Depot;
use super::names::outside;
use super::owner::Owner;
use super::packed::Packed;
use super::platform::Threads;
use super::sabotage::{FORGETS_DEPOT, HASTY_REFUSAL, LATE_STRIKE};
use super::starts::Starts;
use super::stock::{Counts, Large, Stock, steal_all};
use super::tables::NoTable;
use super::word::{Cut, Giver};
use super::words::Words;
use crate::range::{
    AllocError, Block, ConfigError, Handle, HandleError, Metadata, Need, Request, Shape, Slot,
    Stretch,
};
use crate::sync::{Counter, Lock};

/// The parts of the thread layer, from the front to the back.
pub(crate) struct Inner<T: Threads> {
    pub(crate) classes: Classes,
    /// Of blocks in spans.
    pub(crate) words: Words,
    /// Of blocks outside.
    pub(crate) starts: Starts,
    pub(crate) depot: Depot,
    pub(crate) centre: Centre<T>,
    /// The stock of every cache there is.
    pub(crate) stocks: T::Lock<Vec<Arc<Stock>>>,
    /// Caches that were ever made.
    caches: Counter,
    /// What caches counted that are gone.
    pub(crate) retired: Counts,
    /// What calls counted that named no cache.
    pub(crate) loose: Large,
    /// Requests that had all caches emptied.
    pub(crate) flushes: Counter,
    /// How often all caches were emptied.
    pub(crate) emptied: Counter,
}

/// The depot keeps at most this part of a range, and no more than so many bytes of a class.
const DEPOTS_IN_RANGE: u64 = 256;
const MOST_DEPOT_BYTES: u64 = 8 << 20;

/// An owner's shard has no block for a request. What there is elsewhere was not looked at.
const NOTHING_THERE: AllocError =
    AllocError::OutOfMemory { size_bytes: 0, align_bytes: 0, free_bytes: 0, largest_free_bytes: 0 };

impl<T: Threads> Inner<T> {
    pub(crate) fn new(config: &SharedConfig) -> Result<Self, ConfigError> {
        Self::around(Centre::new(&config.range, config.shards)?, config)
    }

    /// The parts around a centre.
    pub(crate) fn around(centre: Centre<T>, config: &SharedConfig) -> Result<Self, ConfigError> {
        let shape = centre.shape();
        let classes = Classes::new(shape, config.cache_bytes);
        let of_range = shape.bytes(shape.capacity) / DEPOTS_IN_RANGE;
        let depot_bytes =
            of_range.checked_div(classes.count() as u64).unwrap_or(0).min(MOST_DEPOT_BYTES);
        let refused = |bytes| ConfigError::OutOfHostMemory { bytes };
        // How much it was is not known here.
        let refuse = |NoTable| refused(0);
        let words = Words::new(shape, config.range.handle_seed).map_err(refuse)?;
        let starts = Starts::new(shape).map_err(refuse)?;
        let depot = Depot::new(&classes, depot_bytes).map_err(refuse)?;
        Ok(Self {
            classes,
            words,
            starts,
            depot,
            centre,
            stocks: Lock::new(Vec::new()),
            caches: Counter::default(),
            retired: Counts::default(),
            loose: Large::default(),
            flushes: Counter::default(),
            emptied: Counter::default(),
        })
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> &Shape {
        self.centre.shape()
    }

    /// Enters the stock of a new cache; the cache's number.
    pub(crate) fn enter(&self, stock: &Arc<Stock>) -> u32 {
        let mut stocks = self.stocks.lock();
        stocks.push(stock.clone());
        self.caches.add(1);
        self.caches.get() as u32
    }

    /// Serves a request at the centre, and gives `more` as many of the same as it wants; when
    /// there is no free block, after all that is kept elsewhere was called back.
    #[inline(always)]
    pub(crate) fn allocate_centrally(
        &self,
        home: &mut Home,
        request: &Request,
        plain_len: Option<u64>,
        cache: Giver,
        more: &mut impl More,
    ) -> Result<Block, AllocError> {
        if let Some(len) = plain_len
            && let Some(given) = self.centre.allocate_plainly(home, len, more)
        {
            return self.admit(given, cache);
        }
        let given = self.allocate_at_last(home, request, more)?;
        self.admit(given, cache)
    }

    /// What a request goes through that found nothing at the first look, before it is refused.
    #[cold]
    fn allocate_at_last(
        &self,
        home: &mut Home,
        request: &Request,
        more: &mut impl More,
    ) -> Result<Given, AllocError> {
        if let Some(given) = self.centre.allocate(home, request, more)? {
            return Ok(given);
        }
        if self.centre.by_owner {
            // What other owners have is not for this one; the layer above knows what to do.
            return Err(NOTHING_THERE);
        }
        self.centre.recall();
        if let Some(given) = self.centre.allocate_anywhere(request)? {
            return Ok(given);
        }
        if HASTY_REFUSAL.is_out() {
            return Err(self.centre.refusal(request));
        }
        self.flushes.add_shared(1);
        self.flush();
        self.centre.recall();
        match self.centre.allocate_anywhere(request)? {
            Some(given) => Ok(given),
            None => Err(self.centre.refusal(request)),
        }
    }

    /// Makes a block that the centre gave out the program's, under the handle that the program
    /// knows it by.
    #[inline(always)]
    fn admit(&self, given: Given, cache: Giver) -> Result<Block, AllocError> {
        let Given { shard, block } = given;
        let Slot::Node(node) = block.handle.slot() else {
            return self.admit_in_span(given, cache);
        };
        let handle = outside(shard, node, block.handle);
        let stretch = self.shape().stretch(block.offset_bytes, block.size_bytes);
        self.note(stretch, handle)?;
        Ok(Block { handle, ..block })
    }

    /// Notes where a block outside spans begins that the centre gave out; else it goes back.
    #[inline(always)]
    fn note(&self, block: Stretch, handle: Handle) -> Result<(), AllocError> {
        self.starts.note(block, handle).map_err(|NoTable| {
            // It was allocated just now.
            let _ = self.centre.free_outside(handle, |_| {});
            AllocError::OutOfMetadata(Metadata::Words)
        })
    }

    fn admit_in_span(&self, given: Given, cache: Giver) -> Result<Block, AllocError> {
        let Ok(handle) = self.word_of(given) else {
            let granule = self.granule_of(&given.block);
            self.centre.free_in_spans(core::iter::once((given.shard, granule)));
            return Err(AllocError::OutOfMetadata(Metadata::Words));
        };
        self.words.give(handle, cache);
        Ok(Block { handle, ..given.block })
    }

    /// Writes the word of a block in a span that the centre gave out: the handle that the
    /// program will know it by.
    #[inline(always)]
    pub(crate) fn word_of(&self, given: Given) -> Result<Handle, NoTable> {
        let order = given.block.size_bytes.trailing_zeros() - self.shape().granule_shift;
        self.words.admit(self.granule_of(&given.block), Cut::new(given.shard, order))
    }

    /// A block of a class.
    #[inline(always)]
    pub(crate) fn describe(&self, handle: Handle, class: usize) -> Block {
        Block {
            handle,
            offset_bytes: self.shape().bytes(handle.slot().index().into()),
            size_bytes: self.classes.bytes(class),
        }
    }

    #[inline(always)]
    fn granule_of(&self, block: &Block) -> u32 {
        (block.offset_bytes >> self.shape().granule_shift) as u32
    }

    /// A block outside spans of a length, if there is one at the first look.
    #[inline(always)]
    pub(crate) fn hit_outside(&self, home: &mut Home, len: u64) -> Option<Packed> {
        let (shard, handle, stretch) = self.centre.serve_outside(home, len)?;
        let handle = outside(shard, handle.slot().index(), handle);
        self.note(stretch, handle).ok()?;
        Some(Packed::new(handle, stretch))
    }

    /// Frees a block outside spans.
    #[inline(always)]
    pub(crate) fn free_outside(&self, handle: Handle) -> Result<Packed, HandleError> {
        let freed = self.centre.free_outside(handle, |block| {
            if !LATE_STRIKE.is_out() {
                self.starts.strike(block);
            }
        })?;
        if LATE_STRIKE.is_out() {
            self.starts.strike(freed);
        }
        Ok(Packed::new(handle, freed))
    }

    /// Frees a block in a span, past all caches.
    pub(crate) fn free_in_span(&self, handle: Handle, granule: u32) -> Result<Block, HandleError> {
        let found = self.words.find(handle, granule)?;
        let cut = found.cut();
        found.free(granule)?;
        self.centre.free_in_spans(core::iter::once((cut.shard(), granule)));
        Ok(self.describe(handle, cut.order() as usize))
    }

    /// Takes cached blocks back to the centre, which the caller has taken out of their slots.
    pub(crate) fn return_all(&self, blocks: impl Iterator<Item = Handle>) {
        self.centre.free_in_spans(blocks.map(|block| {
            let granule = block.slot().index();
            (self.words.cut(granule).shard(), granule)
        }));
    }

    /// Empties every cache, whoever's it is, and the depot.
    pub(crate) fn flush(&self) {
        let stocks = self.stocks.lock();
        self.emptied.add_shared(1);
        steal_all(&stocks, |blocks| self.return_all(blocks.into_iter()));
        if !FORGETS_DEPOT.is_out() {
            self.drain_depot();
        }
    }

    fn drain_depot(&self) {
        self.depot.drain(|blocks| self.return_all(blocks.into_iter()));
    }

    /// Allocates for a call that names no cache.
    pub(crate) fn allocate_loosely(
        &self,
        owner: Owner,
        request: &Request,
    ) -> Result<Block, AllocError> {
        let mut home = self.centre.home_of(owner);
        let plain_len = Need::plain_len(request, self.shape());
        let block =
            self.allocate_centrally(&mut home, request, plain_len, Giver::NO_CACHE, &mut NoMore)?;
        self.loose.gave_shared(block.size_bytes);
        Ok(block)
    }

    /// Frees for a call that names no cache.
    pub(crate) fn free_loosely(&self, handle: Handle) -> Result<Block, HandleError> {
        let block = match handle.slot() {
            Slot::Node(_) => self.free_outside(handle)?.block(self.shape()),
            Slot::Granule(granule) => self.free_in_span(handle, granule)?,
        };
        self.loose.took_shared(block.size_bytes);
        Ok(block)
    }
}
