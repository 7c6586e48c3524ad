//! The centre: the range and its shards, each under a lock.
//!
//! A program of one thread uses the range itself. A thread that has to wait for a lock moves to
//! a shard of its own, which borrows whole extents of the range and cuts blocks from them; large
//! requests, and those with an alignment or options, always go to the range. What a shard does
//! not use any more goes back, and before any request is refused all shards give back every free
//! granule, so that what the range promises holds for all of it.
//!
//! Locks are taken in one order: a shard's, then the range's. No two shards are locked at once.

use alloc::boxed::Box;

use once_cell::race::OnceBox;

use super::names::{MOST_SHARDS, in_shard, outside};
use super::owner::Owner;
use super::platform::Threads;
use super::sabotage::FORGETS_GATHERING;
use super::shard::Shard;
use super::tables::{NoTable, alone, filled};
use crate::range::{
    AllocError, Block, ConfigError, Handle, HandleError, Need, RangeConfig, Request, Shape, Slot,
    Stretch, VerifyError,
};
use crate::sync::{Counter, Lock, Padded};

/// The range's own place among the shards.
pub(crate) const RANGE: u32 = 0;

/// What a shard borrows at a time: this part of the range, and no more than so many bytes.
const EXTENTS_IN_RANGE: u64 = 512;
const MOST_EXTENT_BYTES: u64 = 2 << 20;

/// The largest request that a shard serves from an extent: this part of it.
const REQUESTS_IN_EXTENT: u64 = 8;

/// Extents that a shard keeps though they are idle.
const IDLE_EXTENTS: u64 = 1;

/// The most shards for threads: more would be looked through for each that waits.
const MOST_FOR_THREADS: u32 = 64;

/// The most contentions that a thread bears before it looks for another shard.
const MOST_PATIENCE: u32 = 1 << 10;

/// How far the shards' use may rise without a look at the peak, in bytes.
const PEAK_STEP_BYTES: u64 = 1 << 20;

type ShardLock<T> = <T as Threads>::Lock<Shard>;

/// One that is made when it is needed.
type LazyShard<T> = OnceBox<[Padded<ShardLock<T>>; 1]>;
pub(crate) type Guard<'a, T> = <ShardLock<T> as Lock<Shard>>::Guard<'a>;

/// Which shard a thread works on, and how long it puts up with others there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) shard: u32,
    patience: u32,
    contended: u32,
}

impl Home {
    /// The range itself, until somebody else is there.
    pub(crate) const RANGE: Self = Self::at(RANGE);

    pub(crate) const fn at(shard: u32) -> Self {
        Self { shard, patience: 0, contended: 0 }
    }
}

/// A block that the centre gave out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) shard: u32,
    /// Under the handle that the shard knows it by.
    pub(crate) block: Block,
}

/// Wants more blocks of a small request that was served from a span, while the lock is held
/// anyway.
pub(crate) trait More {
    /// How many.
    fn wanted(&self) -> usize;

    /// Takes one; false: not this one, and no more.
    fn take(&mut self, given: Given) -> bool;
}

/// One block is enough.
pub(crate) struct NoMore;

impl More for NoMore {
    #[inline(always)]
    fn wanted(&self) -> usize {
        0
    }

    fn take(&mut self, _: Given) -> bool {
        false
    }
}

/// The range and its shards.
pub(crate) struct Centre<T: Threads> {
    range: Padded<ShardLock<T>>,
    /// The shards beside the range. Those of a pool's streams are made when they are needed.
    others: Box<[LazyShard<T>]>,
    /// One more than the last shard that was made.
    made: Counter,
    /// Whether the shards belong to owners, not to threads: see `spaces`.
    pub(crate) by_owner: bool,
    /// Granules in use by each shard, once there are several.
    used: Box<[Padded<Counter>]>,
    shape: Shape,
    extent: u64,
    /// Whether anything was ever lent.
    several: Counter,
    /// The most granules that all shards used at once, as far as it was looked at.
    peak: Counter,
    recalls: Counter,
}

impl<T: Threads> Centre<T> {
    pub(crate) fn new(config: &RangeConfig, shards: u32) -> Result<Self, ConfigError> {
        let shape = Shape::of(config)?;
        let extent = extent_of(&shape);
        let count = if extent == 0 { 1 } else { shards.clamp(1, MOST_FOR_THREADS) };
        let centre = Self::over(Shard::of_range(config)?, shape, extent, count)?;
        for shard in RANGE + 1..count {
            centre.make(shard, config)?;
        }
        Ok(centre)
    }

    /// A range of which nothing is there yet, and no shard but it.
    pub(crate) fn by_owner(config: &RangeConfig) -> Result<Self, ConfigError> {
        let shape = Shape::of(config)?;
        let mut centre = Self::over(Shard::of_islands(config)?, shape, 0, MOST_SHARDS)?;
        centre.by_owner = true;
        centre.several.set(1);
        Ok(centre)
    }

    fn over(range: Shard, shape: Shape, extent: u64, count: u32) -> Result<Self, ConfigError> {
        let refused = |NoTable| ConfigError::OutOfHostMemory {
            bytes: count as usize * size_of::<Padded<ShardLock<T>>>(),
        };
        let centre = Self {
            range: Padded(Lock::new(range)),
            others: filled(u64::from(count) - 1, OnceBox::new).map_err(refused)?,
            made: Counter::default(),
            by_owner: false,
            used: filled(count.into(), || Padded(Counter::default())).map_err(refused)?,
            shape,
            extent,
            several: Counter::default(),
            peak: Counter::default(),
            recalls: Counter::default(),
        };
        centre.made.set(1);
        Ok(centre)
    }

    /// Makes a shard that owns nothing yet, unless it is there.
    pub(crate) fn make(&self, shard: u32, config: &RangeConfig) -> Result<(), ConfigError> {
        let Some(cell) = (shard as usize).checked_sub(1).and_then(|place| self.others.get(place))
        else {
            return Ok(());
        };
        let refused = ConfigError::OutOfHostMemory { bytes: size_of::<Padded<ShardLock<T>>>() };
        cell.get_or_try_init(|| {
            alone(Padded(Lock::new(Shard::of_islands(config)?))).map_err(|NoTable| refused)
        })?;
        self.made.raise_to(u64::from(shard) + 1);
        Ok(())
    }

    /// The lock of a shard, if that is there.
    #[inline(always)]
    fn find(&self, shard: u32) -> Option<&ShardLock<T>> {
        match (shard as usize).checked_sub(1) {
            Some(place) => self.others.get(place)?.get().map(|[other]| &other.0),
            None => Some(&self.range.0),
        }
    }

    /// The lock of a shard; that of the range for one that is not there.
    #[inline(always)]
    fn at(&self, shard: u32) -> &ShardLock<T> {
        self.find(shard).unwrap_or(&self.range.0)
    }

    /// Whether a shard is there.
    pub(crate) fn has(&self, shard: u32) -> bool {
        self.find(shard).is_some()
    }

    /// The shards that are there.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        (RANGE..self.made.get() as u32).filter(|&shard| self.has(shard))
    }

    pub(crate) fn shape(&self) -> &Shape {
        &self.shape
    }

    pub(crate) fn count(&self) -> u32 {
        self.others.len() as u32 + 1
    }

    /// The home of a call that names no cache: the range itself if nobody is there, else the
    /// shard of the owner.
    pub(crate) fn home_of(&self, owner: Owner) -> Home {
        if self.by_owner {
            return Home::at(owner.0);
        }
        if self.count() == 1 || self.range.0.try_lock().is_some() {
            return Home::RANGE;
        }
        Home::at(1 + owner.0 % (self.count() - 1))
    }

    /// Takes the lock of a shard.
    #[inline(always)]
    pub(crate) fn lock(&self, shard: u32) -> Guard<'_, T> {
        Self::take(self.at(shard))
    }

    /// Takes a lock.
    #[inline(always)]
    fn take(lock: &ShardLock<T>) -> Guard<'_, T> {
        Self::try_take(lock).unwrap_or_else(|| {
            let mut guard = lock.lock();
            guard.waits += 1;
            guard.locks += 1;
            guard
        })
    }

    /// Takes a lock if nobody has it.
    #[inline(always)]
    fn try_take(lock: &ShardLock<T>) -> Option<Guard<'_, T>> {
        let mut guard = lock.try_lock()?;
        guard.locks += 1;
        Some(guard)
    }

    /// Takes the lock of a shard if nobody has it.
    #[inline(always)]
    fn try_lock(&self, shard: u32) -> Option<Guard<'_, T>> {
        Self::try_take(self.at(shard))
    }

    /// Takes the lock of a thread's shard. If others are there too often, the thread moves to
    /// one where nobody is.
    #[inline(always)]
    fn lock_home(&self, home: &mut Home) -> Guard<'_, T> {
        match self.try_lock(home.shard) {
            Some(guard) => guard,
            None => self.lock_elsewhere(home),
        }
    }

    #[cold]
    fn lock_elsewhere(&self, home: &mut Home) -> Guard<'_, T> {
        home.contended += 1;
        if home.contended > home.patience {
            home.contended = 0;
            home.patience = (home.patience * 2 + 1).min(MOST_PATIENCE);
            for step in 1..self.count() {
                let shard = (home.shard + step) % self.count();
                if let Some(guard) = self.try_lock(shard) {
                    home.shard = shard;
                    return guard;
                }
            }
        }
        self.lock(home.shard)
    }

    /// Takes the lock of the shard that serves a request: a thread's own, or the range. The
    /// length is none if the request has wishes that are about the whole range.
    #[inline(always)]
    fn lock_for(&self, home: &mut Home, plain_len: Option<u64>) -> (u32, Guard<'_, T>) {
        if (home.shard == RANGE || self.by_owner)
            && let Some(guard) = self.try_lock(home.shard)
        {
            return (home.shard, guard);
        }
        self.lock_among_several(home, plain_len)
    }

    #[inline(never)]
    fn lock_among_several(&self, home: &mut Home, plain_len: Option<u64>) -> (u32, Guard<'_, T>) {
        if self.by_owner {
            return (home.shard, self.lock(home.shard));
        }
        let fits = plain_len.is_some_and(|len| len <= self.extent / REQUESTS_IN_EXTENT);
        if self.count() > 1 && fits {
            let guard = self.lock_home(home);
            (home.shard, guard)
        } else {
            (RANGE, self.lock(RANGE))
        }
    }

    /// What most requests take, of a length in granules and no other wish: a thread's shard, or
    /// the range for a large one, has a free block at the first look. Under the same lock `more` gets as many of the same as it wants.
    #[inline(always)]
    pub(crate) fn allocate_plainly(
        &self,
        home: &mut Home,
        len: u64,
        more: &mut impl More,
    ) -> Option<Given> {
        let (shard, mut guard) = self.lock_for(home, Some(len));
        let block = guard.serve_len(len)?;
        self.note_use(&mut guard, shard);
        Self::serve_more(&mut guard, Given { shard, block }, more);
        Some(Given { shard, block })
    }

    /// The same for a length that spans do not serve: the shard, the handle that it knows the block
    /// by, and where that lies.
    #[inline(always)]
    pub(crate) fn serve_outside(
        &self,
        home: &mut Home,
        len: u64,
    ) -> Option<(u32, Handle, Stretch)> {
        if self.by_owner {
            let mut guard = self.lock(home.shard);
            let (handle, stretch) = guard.serve_outside(len)?;
            self.note_use_of_owner(&mut guard, home.shard);
            return Some((home.shard, handle, stretch));
        }
        let (shard, mut guard) = self.lock_for(home, Some(len));
        let (handle, stretch) = guard.serve_outside(len)?;
        self.note_use(&mut guard, shard);
        Some((shard, handle, stretch))
    }

    /// Serves a request from a thread's shard or the range, and under the same lock hands `more`
    /// as many blocks of the same request as it wants and there are. `None` if all shards have to
    /// be recalled first.
    #[cold]
    pub(crate) fn allocate(
        &self,
        home: &mut Home,
        request: &Request,
        more: &mut impl More,
    ) -> Result<Option<Given>, AllocError> {
        match self.lock_for(home, Need::plain_len(request, &self.shape)) {
            (shard, guard) if shard == RANGE || self.by_owner => {
                self.serve(guard, shard, request, more)
            }
            (shard, guard) => self.allocate_in_shard(guard, shard, request, more),
        }
    }

    fn allocate_in_shard(
        &self,
        mut guard: Guard<'_, T>,
        shard: u32,
        request: &Request,
        more: &mut impl More,
    ) -> Result<Option<Given>, AllocError> {
        let mut given = self.serve_in(&mut guard, shard, request)?;
        if given.is_none() && self.borrow(&mut guard) {
            given = self.serve_in(&mut guard, shard, request)?;
        }
        let Some(given) = given else {
            drop(guard);
            // No whole extent is free; the request itself may still fit.
            return self.serve(self.lock(RANGE), RANGE, request, more);
        };
        Self::serve_more(&mut guard, given, more);
        Ok(Some(given))
    }

    fn serve(
        &self,
        mut guard: Guard<'_, T>,
        shard: u32,
        request: &Request,
        more: &mut impl More,
    ) -> Result<Option<Given>, AllocError> {
        let given = self.serve_in(&mut guard, shard, request)?;
        if let Some(given) = given {
            Self::serve_more(&mut guard, given, more);
        }
        Ok(given)
    }

    fn serve_in(
        &self,
        guard: &mut Shard,
        shard: u32,
        request: &Request,
    ) -> Result<Option<Given>, AllocError> {
        let Some(block) = guard.serve(request)? else { return Ok(None) };
        self.note_use(guard, shard);
        Ok(Some(Given { shard, block }))
    }

    /// More blocks like one from a span, while they are wanted and open spans have them.
    #[inline(always)]
    fn serve_more(guard: &mut Shard, first: Given, more: &mut impl More) {
        if more.wanted() == 0 || !matches!(first.block.handle.slot(), Slot::Granule(_)) {
            return;
        }
        let len = guard.range().stretch_of(&first.block).len;
        for _ in 0..more.wanted() {
            let Some(block) = guard.range().serve_from_spans(len) else { return };
            if !more.take(Given { shard: first.shard, block }) {
                // It was allocated just now.
                let _ = guard.range().free(block.handle);
                return;
            }
        }
    }

    /// Keeps the peak of several shards.
    #[inline(always)]
    fn note_use(&self, guard: &mut Shard, shard: u32) {
        if self.by_owner {
            self.note_use_of_owner(guard, shard);
        } else if self.several.get() != 0 {
            self.note_use_of_several(guard, shard);
        }
    }

    /// One owner's peak is exact; how several add up is looked at off the way of a hit.
    #[inline(always)]
    fn note_use_of_owner(&self, guard: &mut Shard, shard: u32) {
        let now = guard.used_granules();
        guard.seen_granules = guard.seen_granules.max(now);
        if let Some(used) = self.used.get(shard as usize) {
            used.0.set(now);
        }
    }

    /// What each owner's shard had in use at most since the last look, in granules, added up.
    pub(crate) fn take_high(&self) -> u64 {
        (0..self.made.get() as u32)
            .filter(|&shard| self.has(shard))
            .map(|shard| {
                let mut guard = self.lock(shard);
                let now = guard.used_granules();
                core::mem::replace(&mut guard.seen_granules, now).max(now)
            })
            .sum()
    }

    #[inline(never)]
    fn note_use_of_several(&self, guard: &mut Shard, shard: u32) {
        let used = guard.used_granules();
        self.used[shard as usize].set(used);
        guard.seen_granules = guard.seen_granules.min(used);
        if used - guard.seen_granules >= PEAK_STEP_BYTES >> self.shape.granule_shift {
            guard.seen_granules = used;
            let used = self.used.iter().take(self.made.get() as usize);
            self.note_peak(used.map(|used| used.0.get()).sum());
        }
    }

    /// Raises the peak to a sum over shards. They are read at different moments, between which a
    /// block may have gone from one to another: but no sum is more than there is.
    fn note_peak(&self, used_granules: u64) {
        self.peak.raise_to(used_granules.min(self.shape.capacity));
    }

    /// Borrows an extent of the range for a shard; false if the range has none.
    fn borrow(&self, shard: &mut Shard) -> bool {
        let bytes = self.shape.bytes(self.extent);
        let align_bytes = self.shape.bytes(self.shape.span_granules.max(1).into());
        let stretch = {
            let mut range = self.lock(RANGE);
            if self.several.get() == 0 {
                self.peak.raise_to(range.peak_granules());
                self.used[RANGE as usize].set(range.used_granules());
                self.several.add_shared(1);
            }
            range.lend(bytes, align_bytes)
        };
        let Some(stretch) = stretch else { return false };
        if shard.range().adopt(stretch).is_err() {
            // What was lent whole just now comes back without new metadata.
            self.lock(RANGE).take_back(stretch);
            return false;
        }
        true
    }

    /// Takes back blocks in spans that a thread has won by their words: shards and first
    /// granules. Those of one shard that follow each other need one lock.
    pub(crate) fn free_in_spans(&self, blocks: impl Iterator<Item = (u32, u32)>) {
        let mut held: Option<(u32, Guard<'_, T>)> = None;
        for (shard, granule) in blocks {
            if held.as_ref().is_none_or(|(held, _)| *held != shard) {
                if let Some((shard, mut guard)) = held.take() {
                    self.after_free(&mut guard, shard);
                }
                held = Some((shard, self.lock(shard)));
            }
            if let Some((_, guard)) = &mut held {
                let freed = guard.range().free_in_span(granule);
                debug_assert!(freed, "the block at {granule} is not live in shard {shard}");
            }
        }
        if let Some((shard, mut guard)) = held {
            self.after_free(&mut guard, shard);
        }
    }

    /// Does something with the block outside spans that the program's handle names, by the handle
    /// that its shard knows it by: the shard, still locked, and what came of it.
    #[inline(always)]
    fn with_outside<R>(
        &self,
        handle: Handle,
        work: impl FnOnce(&mut Shard, Handle) -> Option<R>,
    ) -> Result<(u32, Guard<'_, T>, R), HandleError> {
        let (shard, handle) = in_shard(handle);
        let mut guard = Self::take(self.find(shard).ok_or(HandleError::Foreign)?);
        match work(&mut guard, handle) {
            Some(result) => Ok((shard, guard, result)),
            None => Err(guard.block(handle).err().unwrap_or(HandleError::Stale)),
        }
    }

    /// Frees a block outside spans by the program's handle: where it was. Of all threads that
    /// try, the one that has the lock first gets it. `strike` is called while nothing else can
    /// have its place.
    #[inline(always)]
    pub(crate) fn free_outside(
        &self,
        handle: Handle,
        strike: impl FnOnce(Stretch),
    ) -> Result<Stretch, HandleError> {
        let (shard, handle) = in_shard(handle);
        let mut guard = Self::take(self.find(shard).ok_or(HandleError::Foreign)?);
        let Some(stretch) = guard.free_outside(handle) else {
            return Err(guard.block(handle).err().unwrap_or(HandleError::Stale));
        };
        strike(stretch);
        self.after_free(&mut guard, shard);
        Ok(stretch)
    }

    /// Gives a live block outside spans another name, so that the program's handle is good no
    /// more. `strike` is called while nothing else can have its place.
    pub(crate) fn rename(
        &self,
        handle: Handle,
        strike: impl FnOnce(Stretch),
    ) -> Result<(Handle, Stretch), HandleError> {
        let (shard, _guard, (renamed, stretch)) =
            self.with_outside(handle, |shard, handle| shard.range().rename(handle))?;
        strike(stretch);
        Ok((outside(shard, renamed.slot().index(), renamed), stretch))
    }

    /// Takes a live block outside spans out of its shard, which has that stretch no more.
    pub(crate) fn take_live(
        &self,
        handle: Handle,
        strike: impl FnOnce(Stretch),
    ) -> Result<Stretch, HandleError> {
        let (shard, mut guard, stretch) =
            self.with_outside(handle, |shard, handle| shard.range().take_live(handle))?;
        strike(stretch);
        self.note_use(&mut guard, shard);
        Ok(stretch)
    }

    /// Has the range lend what a live block of its own outside spans has.
    pub(crate) fn lend_live(
        &self,
        handle: Handle,
        strike: impl FnOnce(Stretch),
    ) -> Result<Stretch, HandleError> {
        let (shard, handle) = in_shard(handle);
        if shard != RANGE {
            return Err(HandleError::Foreign);
        }
        let mut guard = self.lock(RANGE);
        let Some(stretch) = guard.lend_live(handle) else {
            return Err(guard.block(handle).err().unwrap_or(HandleError::Stale));
        };
        strike(stretch);
        self.note_use(&mut guard, RANGE);
        Ok(stretch)
    }

    /// Gives a shard a stretch that nobody had, as a live block. None for want of metadata.
    pub(crate) fn adopt_live(&self, shard: u32, stretch: Stretch) -> Option<Block> {
        let mut guard = self.lock(shard);
        let block = guard.adopt_live(stretch)?;
        self.note_use(&mut guard, shard);
        let handle = outside(shard, block.handle.slot().index(), block.handle);
        Some(Block { handle, ..block })
    }

    /// Granules in use by all shards, each as it was when it was looked at last.
    pub(crate) fn used_at_a_glance(&self) -> u64 {
        let used = self.used.iter().take(self.made.get() as usize);
        let used = used.map(|used| used.0.get()).sum();
        self.note_peak(used);
        used
    }

    /// A shard that has more idle than it should gives extents back.
    #[inline(always)]
    fn after_free(&self, guard: &mut Shard, shard: u32) {
        if self.by_owner {
            return self.note_use_of_owner(guard, shard);
        }
        self.note_use(guard, shard);
        if self.has_idle(guard) {
            self.give_idle_back(guard);
        }
    }

    #[inline(always)]
    fn has_idle(&self, guard: &Shard) -> bool {
        let Some(owned) = guard.owned_granules() else { return false };
        owned - guard.used_granules() > self.extent * IDLE_EXTENTS
    }

    #[cold]
    fn give_idle_back(&self, guard: &mut Shard) {
        while self.has_idle(guard)
            && let Some(island) = guard.range().take_idle_island(self.extent / 2)
        {
            if !self.give_back(guard, island) {
                break;
            }
        }
    }

    /// Gives a stretch that a shard has let go of back to the range; false if that is not
    /// possible for want of metadata: the shard has it again.
    fn give_back(&self, guard: &mut Shard, stretch: Stretch) -> bool {
        let back = self.lock(RANGE).take_back(stretch);
        if !back {
            // The node that stood for it is spare.
            let _ = guard.range().adopt(stretch);
        }
        back
    }

    /// Merges every free granule of every shard back into the range.
    pub(crate) fn recall(&self) {
        // Owners' shards keep apart what only the layer above can put together.
        if self.several.get() == 0 || self.by_owner {
            return;
        }
        self.recalls.add_shared(1);
        for shard in self.all().filter(|&shard| shard != RANGE) {
            let mut guard = self.lock(shard);
            if !FORGETS_GATHERING.is_out() {
                guard.range().gather();
            }
            while let Some(stretch) = guard.range().take_longest() {
                if !self.give_back(&mut guard, stretch) {
                    break;
                }
            }
        }
    }

    /// Serves a request from wherever there is a free block for it: the range, or what is free
    /// in the spans of shards.
    pub(crate) fn allocate_anywhere(&self, request: &Request) -> Result<Option<Given>, AllocError> {
        for shard in self.all() {
            let guard = self.lock(shard);
            let given = self.serve(guard, shard, request, &mut NoMore)?;
            if given.is_some() {
                return Ok(given);
            }
        }
        Ok(None)
    }

    /// What to say of a request that nothing served.
    #[cold]
    pub(crate) fn refusal(&self, request: &Request) -> AllocError {
        AllocError::OutOfMemory {
            size_bytes: request.size_bytes,
            align_bytes: request.align_bytes.max(self.shape.bytes(1)),
            free_bytes: self.shape.bytes(self.shape.capacity.saturating_sub(self.used_granules())),
            largest_free_bytes: self.largest_free_bytes(),
        }
    }

    /// The largest block that any shard has free.
    pub(crate) fn largest_free_bytes(&self) -> u64 {
        self.all().map(|shard| self.lock(shard).range().largest_free_bytes()).max().unwrap_or(0)
    }

    /// The live block outside spans that the program's handle names.
    pub(crate) fn block_outside(&self, handle: Handle) -> Result<Block, HandleError> {
        let (shard, in_shard) = in_shard(handle);
        if !self.has(shard) {
            return Err(HandleError::Foreign);
        }
        let block = self.lock(shard).block(in_shard)?;
        Ok(Block { handle, ..block })
    }

    /// Granules that were given out and not taken back.
    pub(crate) fn used_granules(&self) -> u64 {
        self.all().map(|shard| self.at(shard).lock().used_granules()).sum()
    }

    /// What the shards count: blocks given out, locks taken, and those waited for.
    pub(crate) fn totals(&self) -> CentreTotals {
        let mut totals = CentreTotals { recalls: self.recalls.get(), ..CentreTotals::default() };
        for shard in self.all() {
            let guard = self.at(shard).lock();
            totals.used_granules += guard.used_granules();
            totals.used_blocks += guard.used_blocks();
            totals.locks += guard.locks;
            totals.waits += guard.waits;
            if self.by_owner && shard != RANGE {
                self.note_peak(guard.peak_granules());
            } else if shard == RANGE && self.several.get() == 0 {
                totals.peak_granules = guard.peak_granules();
            }
        }
        if self.several.get() != 0 {
            self.note_peak(totals.used_granules);
            totals.peak_granules = self.peak.get();
        }
        totals
    }

    /// Starts the peak anew from what is in use.
    pub(crate) fn reset_peak(&self) {
        let mut used = 0;
        for shard in self.all() {
            let mut guard = self.lock(shard);
            guard.range().rebase_peak();
            guard.seen_granules = guard.used_granules();
            used += guard.used_granules();
        }
        self.peak.set(used);
    }

    /// Checks every shard, and that what is lent is what is owned. Hands every block that was
    /// given out to `each`, with its first granule.
    pub(crate) fn verify(
        &self,
        mut each: impl FnMut(Given, Stretch) -> Result<(), VerifyError>,
    ) -> Result<(), VerifyError> {
        let (mut lent, mut owned) = (0, 0);
        for shard in self.all() {
            let mut guard = self.lock(shard);
            guard.range().verify()?;
            lent += guard.lent_granules();
            if shard != RANGE {
                owned += guard.owned_granules().unwrap_or(0);
            }
            for block in guard.range().live_blocks_of_islands() {
                each(
                    Given { shard, block },
                    self.shape.stretch(block.offset_bytes, block.size_bytes),
                )?;
            }
        }
        if lent == owned {
            Ok(())
        } else {
            Err(VerifyError { what: "lent granules that no shard owns", at: lent.abs_diff(owned) })
        }
    }
}

/// What the shards count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CentreTotals {
    pub(crate) used_granules: u64,
    pub(crate) used_blocks: u64,
    pub(crate) peak_granules: u64,
    pub(crate) locks: u64,
    pub(crate) waits: u64,
    pub(crate) recalls: u64,
}

/// Granules that a shard borrows at a time: whole spans. Zero if the range is not worked on in
/// shards: lowest addresses and buddies are promises about the whole range, and in a small range
/// the parts would be too small.
fn extent_of(shape: &Shape) -> u64 {
    let span = u64::from(shape.span_granules);
    let extent = (shape.capacity / EXTENTS_IN_RANGE).min(MOST_EXTENT_BYTES >> shape.granule_shift);
    match extent.checked_ilog2() {
        Some(order) if span != 0 => (1 << order).max(span),
        _ => 0,
    }
}
