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
//! - [`Live`](State::Live): whoever wins [`free`](Place::free). Two threads that free one block
//!   do so by one compare-exchange, which one of them loses.
//! - [`Cached`](State::Cached): whoever wins [`take`](Words::take) or
//!   [`steal`](Words::steal). A cache gives a block out by the first; a flush takes it away from
//!   any cache by the second. What caches and magazines hold are hints (block and generation)
//!   that decide nothing.
//!
//! Whoever wins sees what the last hand did before it let go: the exchanges release and acquire.
//! They are made without a look at the word before, for a look would fetch its cache line from
//! another processor once more.

use alloc::boxed::Box;

use super::sabotage::{ACQUIRE_RELEASE, LOSES_GENERATIONS, TORN_FREE, TORN_TAKE};
use super::tables::{NoTable, cells, filled};
use super::word::{Cut, State, Word};
use crate::range::{Generation, Handle, HandleError, Shape};
use crate::sync::{AtomicU16, AtomicU64, Once, Ordering};

/// The words of a range.
pub(crate) struct Words {
    first: Generation,
    /// Granules of a span in powers of two.
    span_bits: u32,
    spans: Box<[Once<SpanWords>]>,
}

/// For each granule of a span, the word of the block that begins there and how that is cut.
struct SpanWords {
    words: Box<[AtomicU64]>,
    cuts: Box<[AtomicU16]>,
}

/// Where a block in a span begins.
pub(crate) struct Place<'a> {
    word: &'a AtomicU64,
    cut: &'a AtomicU16,
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

    /// The place of a granule, if a block ever began in its span.
    #[inline(always)]
    pub(crate) fn find(&self, granule: u32) -> Option<Place<'_>> {
        let span = self.spans.get((granule >> self.span_bits) as usize)?.get()?;
        let inside = (granule & ((1 << self.span_bits) - 1)) as usize;
        Some(Place { word: span.words.get(inside)?, cut: span.cuts.get(inside)? })
    }

    /// The word of a granule alone.
    #[inline(always)]
    fn find_word(&self, granule: u32) -> Option<&AtomicU64> {
        let span = self.spans.get((granule >> self.span_bits) as usize)?.get()?;
        span.words.get((granule & ((1 << self.span_bits) - 1)) as usize)
    }

    #[cold]
    fn make(&self, granule: u32) -> Result<Place<'_>, NoTable> {
        let span = self.spans.get((granule >> self.span_bits) as usize).ok_or(NoTable)?;
        span.try_call_once(|| {
            Ok(SpanWords {
                words: filled(1 << self.span_bits, || AtomicU64::new(Word::UNUSED.0))?,
                cuts: filled(1 << self.span_bits, || AtomicU16::new(0))?,
            })
        })?;
        self.find(granule).ok_or(NoTable)
    }

    /// Takes a block from the centre, which the caller has just been given: its handle.
    #[inline(always)]
    pub(crate) fn admit(&self, granule: u32, state: State, cut: Cut) -> Result<Handle, NoTable> {
        let place = match self.find(granule) {
            Some(place) => place,
            None => self.make(granule)?,
        };
        let before = Word(place.word.load(Ordering::Relaxed));
        debug_assert_eq!(before.state(), State::Central, "{granule} is given out twice");
        let generation =
            if before == Word::UNUSED { self.first.bits() } else { before.generation_bits() };
        place.set_cut(cut);
        let word = Word::new(generation, state);
        place.word.store(word.0, Ordering::Release);
        Ok(word.handle(granule))
    }

    /// Makes a cached block live, for the cache that holds a hint of it; false if a flush was
    /// there before.
    #[inline(always)]
    pub(crate) fn take(&self, hint: Handle) -> bool {
        let Some(word) = self.find_word(hint.slot().index()) else { return false };
        let cached = Word::of(hint, State::Cached);
        exchange(word, cached, Word::of(hint, State::Live), TORN_TAKE).is_ok()
    }

    /// Takes a cached block out of whatever cache or magazine holds a hint of it, for the
    /// centre: how it is cut; none if the hint is old.
    #[inline]
    pub(crate) fn steal(&self, hint: Handle) -> Option<Cut> {
        let place = self.find(hint.slot().index())?;
        let central = next(Word::of(hint, State::Central));
        exchange(place.word, Word::of(hint, State::Cached), central, false).ok()?;
        Some(place.cut())
    }

    /// How the live block of a handle is cut.
    pub(crate) fn look(&self, handle: Handle, granule: u32) -> Result<Cut, HandleError> {
        let place = self.find(granule).ok_or(HandleError::Foreign)?;
        let cut = place.cut();
        match Word(place.word.load(Ordering::Acquire)) {
            word if word == Word::of(handle, State::Live) => Ok(cut),
            word => Err(why_not(word)),
        }
    }

    /// The handle of the live block that begins at a granule.
    #[inline]
    pub(crate) fn live_at(&self, granule: u32) -> Option<Handle> {
        let word = Word(self.find_word(granule)?.load(Ordering::Acquire));
        (word.state() == State::Live).then(|| word.handle(granule))
    }

    /// The state of the block that begins at a granule and how it is cut, for checks.
    pub(crate) fn state(&self, granule: u32) -> Option<(State, Cut)> {
        let place = self.find(granule)?;
        Some((Word(place.word.load(Ordering::Acquire)).state(), place.cut()))
    }
}

impl Place<'_> {
    /// How the block is cut: of any block that began here, unless the caller knows better.
    #[inline(always)]
    pub(crate) fn cut(&self) -> Cut {
        Cut(self.cut.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn set_cut(&self, cut: Cut) {
        // Mostly it is what it was, and others read the line.
        if self.cut() != cut {
            self.cut.store(cut.0, Ordering::Relaxed);
        }
    }

    /// Frees the block of a handle: of all threads that try, one gets it. It is then
    /// [`Cached`](State::Cached), or [`Central`](State::Central) to be given back to the centre;
    /// its next generation.
    #[inline(always)]
    pub(crate) fn free(&self, handle: Handle, to: State) -> Result<Word, HandleError> {
        let freed = next(Word::of(handle, to));
        match exchange(self.word, Word::of(handle, State::Live), freed, TORN_FREE) {
            Ok(()) => Ok(freed),
            Err(word) => Err(why_not(word)),
        }
    }
}

/// Why a handle names no live block, from the word that its block has.
#[cold]
fn why_not(word: Word) -> HandleError {
    if word == Word::UNUSED { HandleError::Foreign } else { HandleError::Stale }
}

/// The word of a block that changes hands: its next generation.
#[inline(always)]
fn next(word: Word) -> Word {
    if LOSES_GENERATIONS { word } else { word.of_next_generation() }
}

/// The atomic step that decides whose a block is; what its word is if it is another's.
#[inline(always)]
fn exchange(cell: &AtomicU64, from: Word, to: Word, torn: bool) -> Result<(), Word> {
    if torn {
        // What the compare-exchange is there to prevent: between the look and the step, another
        // thread takes the block too.
        let word = Word(cell.load(Ordering::Acquire));
        if word != from {
            return Err(word);
        }
        cell.store(to.0, Ordering::Release);
        return Ok(());
    }
    match cell.compare_exchange(from.0, to.0, ACQUIRE_RELEASE, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(word) => Err(Word(word)),
    }
}
