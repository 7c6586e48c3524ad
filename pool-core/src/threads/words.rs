//! The words of all blocks in spans: the table that decides their frees, without a lock.
//!
//! For each granule there is a word, of the block that begins there, and the generation under
//! which that block was given to the program last. A place of a span gets them when a block first
//! begins in it; they never move or go, so that a handle is looked up while others are added.
//!
//! # Protocol
//!
//! - A free steps the word on to the block's next generation by one compare-exchange. Of all
//!   threads that free one handle, one wins, and has the block; the others have a stale handle.
//! - Only who has the block writes anything else: the centre how it is cut, when it gives it out;
//!   a cache the generation under which it gives it to the program.
//! - A block is the program's while both generations are the same.
//!
//! Frees and allocations write to different tables: where one thread allocates and another
//! frees, a block's word stays in the cache of the one's processor and its given generation in
//! that of the other's. Nothing is ordered by them: blocks pass from hand to hand by the slots of
//! caches, the depot's rings, the centre's locks, and whatever a program passes handles by.

use alloc::boxed::Box;

use super::sabotage::{FINDS_CACHED, LOSES_GENERATIONS, TORN_FREE};
use super::tables::{NoTable, Rows, filled};
use super::word::{Cut, Given, Giver, Step, Word};
use crate::range::{Generation, Handle, HandleError, Shape};
use crate::sync::{AtomicU32, AtomicU64, Ordering, instance_number};

/// The words of a range.
pub(crate) struct Words {
    /// What the first generations are drawn from.
    seed: u64,
    step: Step,
    /// Granules of a span in powers of two.
    span_bits: u32,
    spans: Rows<SpanWords>,
}

/// What is kept for each granule of a span.
struct SpanWords {
    /// The word of the block that begins there.
    words: Box<[AtomicU64]>,
    /// Under which generation it was given to the program last, and by whom.
    given: Box<[AtomicU32]>,
}

/// A block whose word agrees with a handle.
pub(crate) struct Found<'a> {
    cell: &'a AtomicU64,
    word: Word,
    step: Step,
}

impl Words {
    /// The words of a range, none made yet. Allocators of one process draw different generations,
    /// whatever their seeds.
    pub(crate) fn new(shape: &Shape, seed: u32) -> Result<Self, NoTable> {
        let seed = scatter(u64::from(instance_number()) << 32 | u64::from(seed));
        Ok(Self {
            seed,
            step: Step::of(seed as u32),
            span_bits: shape.span_granules.max(1).trailing_zeros(),
            spans: Rows::new(shape.span_places().into())?,
        })
    }

    #[inline(always)]
    fn span(&self, granule: u32) -> Option<(&SpanWords, usize)> {
        let span = self.spans.get(granule >> self.span_bits)?;
        Some((span, (granule & ((1 << self.span_bits) - 1)) as usize))
    }

    #[inline(always)]
    fn cell(&self, granule: u32) -> Option<&AtomicU64> {
        let (span, inside) = self.span(granule)?;
        span.words.get(inside)
    }

    #[cold]
    fn make(&self, granule: u32) -> Result<&AtomicU64, NoTable> {
        let count = 1 << self.span_bits;
        self.spans.make(granule >> self.span_bits, || {
            Ok(SpanWords {
                words: filled(count, || AtomicU64::new(Word::UNUSED.0))?,
                given: filled(count, || AtomicU32::new(Given::NEVER.0))?,
            })
        })?;
        self.cell(granule).ok_or(NoTable)
    }

    /// Takes a block from the centre, which the caller has just been given: the handle that it
    /// will have.
    #[inline(always)]
    pub(crate) fn admit(&self, granule: u32, cut: Cut) -> Result<Handle, NoTable> {
        let cell = match self.cell(granule) {
            Some(cell) => cell,
            None => self.make(granule)?,
        };
        let before = Word(cell.load(Ordering::Relaxed));
        let generation = if before == Word::UNUSED {
            // Each granule begins elsewhere, so that a handle with a wrong bit names no block.
            Generation::first(scatter(self.seed ^ u64::from(granule)) as u32).bits()
        } else {
            before.generation_bits()
        };
        let word = Word::new(generation, cut);
        if word != before {
            cell.store(word.0, Ordering::Relaxed);
        }
        Ok(word.handle(granule))
    }

    /// Gives a block that the caller has to the program.
    #[inline(always)]
    pub(crate) fn give(&self, handle: Handle, giver: Giver) {
        if let Some((span, inside)) = self.span(handle.slot().index())
            && let Some(given) = span.given.get(inside)
        {
            given.store(Given::new(handle.generation_bits(), giver).0, Ordering::Relaxed);
        }
    }

    /// Who gave a block to the program last.
    pub(crate) fn giver(&self, granule: u32) -> Giver {
        let given = self.span(granule).and_then(|(span, inside)| span.given.get(inside));
        given.map_or(Given::NEVER, |given| Given(given.load(Ordering::Relaxed))).giver()
    }

    /// Finds the block of a handle.
    #[inline(always)]
    pub(crate) fn find(&self, handle: Handle, granule: u32) -> Result<Found<'_>, HandleError> {
        let cell = self.cell(granule).ok_or(HandleError::Foreign)?;
        let word = Word(cell.load(Ordering::Relaxed));
        if word.generation_bits() == handle.generation_bits() {
            Ok(Found { cell, word, step: self.step })
        } else if word == Word::UNUSED {
            Err(HandleError::Foreign)
        } else {
            Err(HandleError::Stale)
        }
    }

    /// How a block is cut that the caller has.
    #[inline(always)]
    pub(crate) fn cut(&self, granule: u32) -> Cut {
        self.cell(granule).map_or(Word::UNUSED, |cell| Word(cell.load(Ordering::Relaxed))).cut()
    }

    /// The word of the live block that begins at a granule.
    pub(crate) fn live_at(&self, granule: u32) -> Option<Word> {
        let (span, inside) = self.span(granule)?;
        // In this order: a block that has both when the second is read is live then.
        let given = Given(span.given.get(inside)?.load(Ordering::Acquire));
        let word = Word(span.words.get(inside)?.load(Ordering::Acquire));
        (word != Word::UNUSED && (given.is_of(word) || FINDS_CACHED.is_out())).then_some(word)
    }
}

impl Found<'_> {
    /// How the block is cut.
    #[inline(always)]
    pub(crate) fn cut(&self) -> Cut {
        self.word.cut()
    }

    /// Frees the block: of all threads that try, one gets it, under the handle that it will have
    /// next.
    #[inline(always)]
    pub(crate) fn free(self, granule: u32) -> Result<Handle, HandleError> {
        let next = if LOSES_GENERATIONS.is_out() { self.word } else { self.word.after(self.step) };
        let won = if TORN_FREE.is_out() {
            self.cell.store(next.0, Ordering::Relaxed);
            true
        } else {
            let (from, to) = (self.word.0, next.0);
            self.cell.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        if won { Ok(next.handle(granule)) } else { Err(HandleError::Stale) }
    }

    /// Frees the block, which no other thread tries meanwhile.
    #[inline(always)]
    pub(crate) fn free_alone(self, granule: u32) -> Handle {
        let next = self.word.after(self.step);
        self.cell.store(next.0, Ordering::Relaxed);
        next.handle(granule)
    }
}

/// Spreads a number over all bits (the finish of Steele, Lea and Flood's `SplitMix`).
fn scatter(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}
