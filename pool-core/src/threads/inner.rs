//! What all handles and caches of one shared allocator share.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::centre::{Centre, Given, Home, More, NoMore};
use super::classes::Classes;
use super::config::SharedConfig;
use super::depot::Depot;
use super::owner::Owner;
use super::platform::Threads;
use super::stock::{Counts, Large, Stock};
use super::word::{Inside, State, Word};
use super::words::{NoTable, Words};
use crate::range::{
    AllocError, Block, ConfigError, Handle, HandleError, Metadata, Request, Shape, Slot,
};
use crate::sync::{Counter, Lock};

/// The parts of the thread layer, from the front to the back.
pub(crate) struct Inner<T: Threads> {
    pub(crate) classes: Classes,
    pub(crate) words: Words,
    pub(crate) depot: Depot,
    pub(crate) centre: Centre<T>,
    /// The stock of every cache there is.
    pub(crate) stocks: T::Lock<Vec<Arc<Stock>>>,
    /// What caches counted that are gone.
    pub(crate) retired: Counts,
    /// What calls counted that named no cache.
    pub(crate) loose: Large,
    pub(crate) flushes: Counter,
}

/// The depot keeps at most this part of a range, and no more than so many bytes of a class.
const DEPOTS_IN_RANGE: u64 = 256;
const MOST_DEPOT_BYTES: u64 = 1 << 20;

impl<T: Threads> Inner<T> {
    pub(crate) fn new(config: &SharedConfig) -> Result<Self, ConfigError> {
        let centre = Centre::new(&config.range, config.shards)?;
        let shape = centre.shape();
        let classes = Classes::new(shape, config.cache_bytes);
        let of_range = shape.bytes(shape.capacity) / DEPOTS_IN_RANGE;
        let depot_bytes =
            of_range.checked_div(classes.count() as u64).unwrap_or(0).min(MOST_DEPOT_BYTES);
        let refused = |bytes| ConfigError::OutOfHostMemory { bytes };
        let words = Words::new(shape, config.range.handle_seed)
            .ok_or(refused(shape.span_places() as usize * size_of::<usize>()))?;
        let depot = Depot::new(&classes, depot_bytes).ok_or(refused(size_of::<Depot>()))?;
        Ok(Self {
            classes,
            words,
            depot,
            centre,
            stocks: Lock::new(Vec::new()),
            retired: Counts::default(),
            loose: Large::default(),
            flushes: Counter::default(),
        })
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> &Shape {
        self.centre.shape()
    }

    /// Serves a request at the centre, and gives `more` as many of the same as it wants; when
    /// there is no free block, after all that is kept elsewhere was called back.
    #[inline(always)]
    pub(crate) fn allocate_centrally(
        &self,
        home: &mut Home,
        request: &Request,
        mut more: impl More,
    ) -> Result<Block, AllocError> {
        if let Some(given) = self.centre.allocate_plainly(home, request, &mut more) {
            return self.admit(given);
        }
        let given = self.allocate_at_last(home, request, more)?;
        self.admit(given)
    }

    /// What a request goes through that found nothing at the first look, before it is refused.
    #[cold]
    fn allocate_at_last(
        &self,
        home: &mut Home,
        request: &Request,
        more: impl More,
    ) -> Result<Given, AllocError> {
        if let Some(given) = self.centre.allocate(home, request, more)? {
            return Ok(given);
        }
        self.centre.recall();
        if let Some(given) = self.centre.allocate_anywhere(request)? {
            return Ok(given);
        }
        self.flushes.add_shared(1);
        self.flush();
        self.centre.recall();
        match self.centre.allocate_anywhere(request)? {
            Some(given) => Ok(given),
            None => Err(self.centre.refusal(request)),
        }
    }

    /// Makes a block that the centre gave out the program's, under the handle it is known by.
    #[inline(always)]
    fn admit(&self, given: Given) -> Result<Block, AllocError> {
        if let Ok(handle) = self.word_of(given, State::Live) {
            return Ok(Block { handle, ..given.block });
        }
        self.centre.free(given.place, self.granule_of(&given.block));
        Err(AllocError::OutOfMetadata(Metadata::Words))
    }

    /// Writes the word of a block that the centre gave out: the handle that it is known by.
    #[inline(always)]
    pub(crate) fn word_of(&self, given: Given, state: State) -> Result<Handle, NoTable> {
        let granule = self.granule_of(&given.block);
        let slot = match given.place.inside {
            Inside::Span { .. } => Slot::Granule(granule),
            Inside::Node(_) => Slot::Node(granule),
        };
        self.words.admit(slot, state, given.place)
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

    /// Gives a block that was won by its word back to the centre. It is described as the handle
    /// knew it.
    #[inline(always)]
    pub(crate) fn free_centrally(&self, handle: Handle, word: Word) -> Block {
        let granule = handle.slot().index();
        let size_bytes = self.shape().bytes(self.centre.free(word.place(), granule));
        Block { handle, offset_bytes: self.shape().bytes(granule.into()), size_bytes }
    }

    /// Takes the blocks that hints name, where they are not old, back to the centre.
    pub(crate) fn return_all(&self, hints: impl Iterator<Item = Handle>) {
        self.centre.free_all(hints.filter_map(|hint| {
            let word = self.words.steal(hint)?;
            Some((word.place(), hint.slot().index()))
        }));
    }

    /// Empties every cache, whoever's it is, and the depot.
    pub(crate) fn flush(&self) {
        let stocks = self.stocks.lock();
        for stock in stocks.iter() {
            self.return_all(stock.hints());
        }
        self.drain_depot();
    }

    fn drain_depot(&self) {
        self.depot.drain(|hint| self.return_all(core::iter::once(hint)));
    }

    /// Allocates for a call that names no cache.
    pub(crate) fn allocate_loosely(
        &self,
        owner: Owner,
        request: &Request,
    ) -> Result<Block, AllocError> {
        let mut home = self.centre.home_of(owner);
        let block = self.allocate_centrally(&mut home, request, NoMore)?;
        self.loose.allocated.add_shared(1);
        self.loose.allocated_bytes.add_shared(block.size_bytes);
        Ok(block)
    }

    /// Frees for a call that names no cache.
    pub(crate) fn free_loosely(&self, handle: Handle) -> Result<Block, HandleError> {
        let word = self.words.look(handle)?.free(State::Central)?;
        let block = self.free_centrally(handle, word);
        self.loose.freed.add_shared(1);
        self.loose.freed_bytes.add_shared(block.size_bytes);
        Ok(block)
    }
}
