//! The words of all blocks: the table that decides every free, without a lock.
//!
//! A word belongs to a granule, and speaks of the block that begins there. The tables for it are
//! made when a block first begins in their part of the range, and never move or go: a handle is
//! looked up while they are added to. Blocks in spans have a dense table for each place of a
//! span; blocks outside are few and far between, so theirs are small leaves.
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
use alloc::vec::Vec;

use super::sabotage::{ACQUIRE_RELEASE, LOSES_GENERATIONS, TORN_FREE, TORN_TAKE};
use super::word::{Place, State, Word};
use crate::range::{Generation, Handle, HandleError, Shape, Slot};
use crate::sync::{AtomicU64, Once, Ordering};

/// Granules of a leaf, and leaves of a branch, in powers of two.
const LEAF_BITS: u32 = 6;
const BRANCH_BITS: u32 = 6;

type Leaf = Box<[AtomicU64]>;
type Branch = Box<[Once<Leaf>]>;

/// The host's heap refused a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoTable;

/// The words of a range.
pub(crate) struct Words {
    first: Generation,
    /// Granules of a span in powers of two.
    span_bits: u32,
    /// For each place of a span, a word for each granule of it.
    spans: Box<[Once<Leaf>]>,
    /// For the blocks outside spans, by granule.
    outside: Box<[Once<Branch>]>,
}

impl Words {
    /// Tables for a range, empty. `None` if the heap refuses.
    pub(crate) fn new(shape: &Shape, seed: u32) -> Option<Self> {
        Some(Self {
            first: Generation::first(seed),
            span_bits: shape.span_granules.max(1).trailing_zeros(),
            spans: cells(shape.span_places() as usize)?,
            outside: cells(
                usize::try_from(shape.capacity.div_ceil(1 << (LEAF_BITS + BRANCH_BITS))).ok()?,
            )?,
        })
    }

    /// The word of a block that begins at a granule in a span.
    #[inline(always)]
    fn in_span(&self, granule: u32) -> Option<&AtomicU64> {
        let span = self.spans.get((granule >> self.span_bits) as usize)?.get()?;
        span.get((granule & ((1 << self.span_bits) - 1)) as usize)
    }

    /// The word of a block that begins at a granule outside spans.
    #[inline(always)]
    fn outside(&self, granule: u32) -> Option<&AtomicU64> {
        let branch = self.outside.get((granule >> (LEAF_BITS + BRANCH_BITS)) as usize)?.get()?;
        let leaf = branch.get((granule >> LEAF_BITS & ((1 << BRANCH_BITS) - 1)) as usize)?.get()?;
        leaf.get((granule & ((1 << LEAF_BITS) - 1)) as usize)
    }

    /// The word of a block, if its table was made.
    #[inline(always)]
    fn find(&self, slot: Slot) -> Option<&AtomicU64> {
        match slot {
            Slot::Granule(granule) => self.in_span(granule),
            Slot::Node(granule) => self.outside(granule),
        }
    }

    /// The word of a block, whose table is made if it is missing.
    #[inline(always)]
    fn find_or_make(&self, slot: Slot) -> Result<&AtomicU64, NoTable> {
        match self.find(slot) {
            Some(word) => Ok(word),
            None => self.make(slot),
        }
    }

    #[cold]
    fn make(&self, slot: Slot) -> Result<&AtomicU64, NoTable> {
        match slot {
            Slot::Granule(granule) => {
                let span = self.spans.get((granule >> self.span_bits) as usize).ok_or(NoTable)?;
                span.try_call_once(|| words(1 << self.span_bits))?;
            }
            Slot::Node(granule) => {
                let branch = (granule >> (LEAF_BITS + BRANCH_BITS)) as usize;
                let branch = self.outside.get(branch).ok_or(NoTable)?;
                let branch = branch.try_call_once(|| cells(1 << BRANCH_BITS).ok_or(NoTable))?;
                let leaf = branch.get((granule >> LEAF_BITS & ((1 << BRANCH_BITS) - 1)) as usize);
                leaf.ok_or(NoTable)?.try_call_once(|| words(1 << LEAF_BITS))?;
            }
        }
        self.find(slot).ok_or(NoTable)
    }

    /// Takes a block from the centre, which the caller has just been given: its handle.
    #[inline(always)]
    pub(crate) fn admit(&self, slot: Slot, state: State, place: Place) -> Result<Handle, NoTable> {
        let cell = self.find_or_make(slot)?;
        let before = Word(cell.load(Ordering::Relaxed));
        let generation =
            if before == Word::UNUSED { self.first.bits() } else { before.generation_bits() };
        debug_assert_eq!(before.state(), State::Central, "{slot:?} is given out twice");
        let word = Word::new(generation, state, place);
        cell.store(word.0, Ordering::Release);
        Ok(word.handle(slot.index()))
    }

    /// Finds a block in a span that is live.
    #[inline(always)]
    pub(crate) fn look_in_span(&self, handle: Handle, granule: u32) -> Option<Found<'_>> {
        let cell = self.in_span(granule)?;
        let word = Word(cell.load(Ordering::Relaxed));
        (word.is_of(handle) && word.state() == State::Live).then_some(Found { cell, word })
    }

    /// Finds a block that is live.
    #[inline(always)]
    pub(crate) fn look(&self, handle: Handle) -> Result<Found<'_>, HandleError> {
        let cell = self.find(handle.slot()).ok_or(HandleError::Foreign)?;
        let word = Word(cell.load(Ordering::Relaxed));
        if word.is_of(handle) && word.state() == State::Live {
            Ok(Found { cell, word })
        } else if word == Word::UNUSED {
            Err(HandleError::Foreign)
        } else {
            Err(HandleError::Stale)
        }
    }

    /// Makes a cached block live, for the cache that holds a hint of it; false if a flush was
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
        let cell = self.find(hint.slot())?;
        let word = Word(cell.load(Ordering::Relaxed));
        if !word.is_of(hint) || word.state() != State::Cached {
            return None;
        }
        let taken = make(word);
        exchange(cell, word, taken, torn).then_some(taken)
    }

    /// The handle of the live block that begins at a granule.
    #[inline]
    pub(crate) fn live_at(&self, granule: u32) -> Option<Handle> {
        let live = |cell: &AtomicU64| {
            let word = Word(cell.load(Ordering::Acquire));
            (word.state() == State::Live).then(|| word.handle(granule))
        };
        self.in_span(granule).and_then(live).or_else(|| self.outside(granule).and_then(live))
    }

    /// The state of a block and its place, for checks.
    pub(crate) fn word(&self, slot: Slot) -> Word {
        self.find(slot).map_or(Word::UNUSED, |cell| Word(cell.load(Ordering::Acquire)))
    }
}

/// A block that was live when it was looked at.
pub(crate) struct Found<'a> {
    cell: &'a AtomicU64,
    pub(crate) word: Word,
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

/// Empty cells, or `None` if the heap refuses.
fn cells<T>(count: usize) -> Option<Box<[Once<T>]>> {
    let mut cells = Vec::new();
    cells.try_reserve_exact(count).ok()?;
    cells.resize_with(count, Once::new);
    Some(cells.into_boxed_slice())
}

/// Unused words.
fn words(count: usize) -> Result<Leaf, NoTable> {
    let mut words = Vec::new();
    words.try_reserve_exact(count).map_err(|_| NoTable)?;
    words.resize_with(count, || AtomicU64::new(Word::UNUSED.0));
    Ok(words.into_boxed_slice())
}
