//! The words of all blocks in spans: the table that decides their frees, without a lock.
//!
//! A word belongs to a granule, and speaks of the block that begins there. A place of a span gets
//! its words when a block first begins in it; they never move or go, so that a handle is looked
//! up while others are added.
//!
//! # Protocol
//!
//! A block is always in exactly one hand, and only that hand changes its word:
//!
//! - [`Central`](State::Central): whoever holds the lock of the shard, which gives it out by
//!   [`admit`](Words::admit).
//! - [`Live`](State::Live): whoever wins [`free`](Found::free). Two threads that free one block
//!   do so by one compare-exchange, which one of them loses.
//! - [`Cached`](State::Cached): whoever wins [`take`](Words::take) or
//!   [`steal`](Words::steal). A cache gives a block out by the first; a flush takes it away from
//!   any cache by the second. What caches and magazines hold are hints (block and generation)
//!   that decide nothing.
//!
//! Whoever wins sees what the last hand did before it let go: the exchanges release and acquire.

use alloc::boxed::Box;

use super::sabotage::{ACQUIRE_RELEASE, LOSES_GENERATIONS, TORN_FREE, TORN_TAKE};
use super::tables::{NoTable, cells, filled};
use super::word::{State, Word};
use crate::range::{Generation, Handle, HandleError, Shape};
use crate::sync::{AtomicU64, Once, Ordering};

/// The words of a range.
pub(crate) struct Words {
    first: Generation,
    /// Granules of a span in powers of two.
    span_bits: u32,
    /// For each place of a span, a word for each granule of it.
    spans: Box<[Once<Box<[AtomicU64]>>]>,
}

/// A block that was live when it was looked at.
pub(crate) struct Found<'a> {
    cell: &'a AtomicU64,
    pub(crate) word: Word,
}

impl Words {
    /// The words of a range, none made yet.
    pub(crate) fn new(shape: &Shape, seed: u32) -> Result<Self, NoTable> {
        Ok(Self {
            first: Generation::first(seed),
            span_bits: shape.span_granules.max(1).trailing_zeros(),
            spans: cells(shape.span_places().into())?,
        })
    }

    /// The word of the block that begins at a granule, if there ever was one in its span.
    #[inline(always)]
    fn find(&self, granule: u32) -> Option<&AtomicU64> {
        let span = self.spans.get((granule >> self.span_bits) as usize)?.get()?;
        span.get((granule & ((1 << self.span_bits) - 1)) as usize)
    }

    #[cold]
    fn make(&self, granule: u32) -> Result<&AtomicU64, NoTable> {
        let span = self.spans.get((granule >> self.span_bits) as usize).ok_or(NoTable)?;
        span.try_call_once(|| filled(1 << self.span_bits, || AtomicU64::new(Word::UNUSED.0)))?;
        self.find(granule).ok_or(NoTable)
    }

    /// Takes a block from the centre, which the caller has just been given: its handle.
    #[inline(always)]
    pub(crate) fn admit(
        &self,
        granule: u32,
        state: State,
        shard: u32,
        order: u32,
    ) -> Result<Handle, NoTable> {
        let cell = match self.find(granule) {
            Some(cell) => cell,
            None => self.make(granule)?,
        };
        let before = Word(cell.load(Ordering::Relaxed));
        let generation =
            if before == Word::UNUSED { self.first.bits() } else { before.generation_bits() };
        debug_assert_eq!(before.state(), State::Central, "{granule} is given out twice");
        let word = Word::new(generation, state, shard, order);
        cell.store(word.0, Ordering::Release);
        Ok(word.handle(granule))
    }

    /// Finds a block that is live.
    #[inline(always)]
    pub(crate) fn look(&self, handle: Handle, granule: u32) -> Option<Found<'_>> {
        let cell = self.find(granule)?;
        let word = Word(cell.load(Ordering::Relaxed));
        word.is(handle, State::Live).then_some(Found { cell, word })
    }

    /// Why a block was not found.
    #[cold]
    pub(crate) fn why_not(&self, granule: u32) -> HandleError {
        if self.word(granule) == Word::UNUSED { HandleError::Foreign } else { HandleError::Stale }
    }

    /// Makes a cached block live, for the cache that holds a hint of it; none if a flush was
    /// there before.
    #[inline(always)]
    pub(crate) fn take(&self, hint: Handle) -> Option<Word> {
        self.win(hint, |word| word.with(State::Live), TORN_TAKE)
    }

    /// Takes a cached block out of whatever cache or magazine holds a hint of it, for the
    /// centre; none if the hint is old.
    #[inline]
    pub(crate) fn steal(&self, hint: Handle) -> Option<Word> {
        self.win(hint, |word| next(word.with(State::Central)), false)
    }

    #[inline(always)]
    fn win(&self, hint: Handle, make: impl FnOnce(Word) -> Word, torn: bool) -> Option<Word> {
        let cell = self.find(hint.slot().index())?;
        let word = Word(cell.load(Ordering::Relaxed));
        if !word.is(hint, State::Cached) {
            return None;
        }
        let won = make(word);
        exchange(cell, word, won, torn).then_some(won)
    }

    /// The handle of the live block that begins at a granule.
    #[inline]
    pub(crate) fn live_at(&self, granule: u32) -> Option<Handle> {
        let word = self.word(granule);
        (word.state() == State::Live).then(|| word.handle(granule))
    }

    /// The word of a granule, whatever it says.
    #[inline]
    pub(crate) fn word(&self, granule: u32) -> Word {
        self.find(granule).map_or(Word::UNUSED, |cell| Word(cell.load(Ordering::Acquire)))
    }
}

impl Found<'_> {
    /// Frees the block: of all threads that try, one gets it. It is then
    /// [`Cached`](State::Cached), or [`Central`](State::Central) to be given back to the centre.
    #[inline(always)]
    pub(crate) fn free(self, to: State) -> Result<Word, HandleError> {
        let freed = next(self.word.with(to));
        let won = exchange(self.cell, self.word, freed, TORN_FREE);
        if won { Ok(freed) } else { Err(HandleError::Stale) }
    }
}

/// The word of a block that changes hands: its next generation.
#[inline(always)]
fn next(word: Word) -> Word {
    if LOSES_GENERATIONS { word } else { word.of_next_generation() }
}

/// The atomic step that decides whose a block is.
#[inline(always)]
fn exchange(cell: &AtomicU64, from: Word, to: Word, torn: bool) -> bool {
    if torn {
        // What the compare-exchange is there to prevent: between the look and the step, another
        // thread takes the block too.
        cell.store(to.0, Ordering::Release);
        return true;
    }
    cell.compare_exchange(from.0, to.0, ACQUIRE_RELEASE, Ordering::Relaxed).is_ok()
}
