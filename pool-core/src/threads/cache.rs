//! A cache: free small blocks that one thread at a time gives out and takes back.

use alloc::sync::{Arc, Weak};

use super::SharedAllocator;
use super::centre::{Given, Home, More, NoMore};
use super::classes::{Classes, MOST_CLASSES, MOST_DEPTH};
use super::inner::Inner;
#[cfg(feature = "record")]
use super::journal::Writer;
use super::owner::Owner;
use super::packed::{Folded, Packed};
use super::platform::{DefaultThreads, Threads};
use super::sabotage::{CACHES_ELSEWHERE, FORGETS_END};
use super::stock::{Blocks, SETS, Stock};
use super::word::Giver;
use crate::range::{AllocError, Block, Handle, HandleError, Need, Request, Shape, Slot};
use crate::sync::{Lock, is_left};

/// The first blocks of a class that a cache keeps; twice as many each time that this proves too
/// few, up to the class's depth. A refill brings half of it.
const FIRST_LIMIT: usize = 4;

/// Granules of a first refill: small blocks that lie side by side share cache lines of words, and
/// are better all in one cache.
const FIRST_GRANULES: usize = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// Of so many magazines that are passed on, one is asked whose blocks they are.
const ASK_EVERY: u8 = 4;

/// Free small blocks of a [`SharedAllocator`], kept by one thread (or core, or queue) at a time.
///
/// A cache is a value: an embedding runtime keeps one wherever it runs one thing at a time. With
/// the feature `std` every thread has one by itself, and [`SharedAllocator::allocate`] uses it.
///
/// A small request (of up to 64 KiB, a quarter of the cache's bytes, and what the range's spans
/// serve) takes a block that was freed here before, for the same [`Owner`], without a lock; a free
/// puts one here. Empty, a cache is refilled with a magazine
/// that another cache filled, or with some blocks from the centre; full, it passes a magazine
/// on. Other requests go to the centre. Blocks may be freed on any cache, whichever they came
/// from.
///
/// Dropped, it gives its blocks back; that is harmless also when the allocator is gone, whose tables
/// on the host's heap last as long as any cache.
///
/// # Example
///
/// ```
/// use pool_core::{RangeConfig, SharedAllocator};
///
/// let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
/// let (mut one, mut other) = (shared.cache(), shared.cache());
/// let block = one.allocate(4096)?;
/// other.free(block.handle())?;
/// assert!(one.free(block.handle()).is_err(), "a second free, wherever, is an error");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Cache<T: Threads = DefaultThreads> {
    inner: Arc<Inner<T>>,
    /// Alive while any handle of the allocator is.
    allocator: Weak<()>,
    stock: Arc<Stock>,
    /// How words name it.
    giver: Giver,
    classes: Classes,
    shape: Shape,
    /// The owner who came last, whose set is in use, and the first bin of that.
    owner: Owner,
    first: usize,
    /// Whose each set is.
    owners: [Owner; SETS],
    /// The set that is emptied next for an owner who has none.
    next: usize,
    /// Of all sets, one after the other, as in the stock.
    bins: [Bin; SETS * MOST_CLASSES],
    /// Bytes that no bin's limit has taken yet.
    spare_bytes: u64,
    home: Home,
    /// Whether each owner has a shard of its own, whose blocks alone are kept for it.
    by_owner: bool,
    /// What the layer above has its thread write into.
    #[cfg(feature = "record")]
    pub(crate) writer: Option<Writer>,
}

/// How full a bin is, and may be.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    len: usize,
    limit: usize,
    /// How often all caches had been emptied when the limit was last looked at.
    emptied: u64,
    /// Whose blocks were passed on last, and how often since that was asked.
    giver: Giver,
    passed: u8,
}

impl<T: Threads> Cache<T> {
    pub(super) fn new(shared: &SharedAllocator<T>) -> Self {
        let inner = shared.inner().clone();
        let stock = Arc::new(Stock::new(&inner.classes, T::uneven_fences()));
        let giver = Giver::of_cache(inner.enter(&stock));
        Self {
            classes: inner.classes,
            shape: *inner.shape(),
            spare_bytes: inner.classes.cache_bytes(),
            by_owner: inner.centre.by_owner,
            inner,
            allocator: shared.life(),
            stock,
            giver,
            owner: Owner::CLEAN,
            first: 0,
            owners: [Owner::CLEAN; SETS],
            next: 0,
            bins: [Bin::default(); SETS * MOST_CLASSES],
            home: Home::RANGE,
            #[cfg(feature = "record")]
            writer: None,
        }
    }

    /// Serves a request for nobody in particular ([`Owner::CLEAN`]).
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing is changed, but that caches may have been emptied.
    ///
    /// # Complexity
    ///
    /// Constant, and without a lock, when the cache has a block; else that of the range.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let mut cache = shared.cache();
    /// assert_eq!(cache.allocate(5000)?.size_bytes(), 8192);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> {
        self.allocate_for(Owner::CLEAN, request)
    }

    /// Serves a request with a block that was cached for the same owner, or that no cache has
    /// (see [`Owner`]).
    ///
    /// # Errors
    ///
    /// [`AllocError`]; nothing is changed, but that caches may have been emptied.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Owner, RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let mut cache = shared.cache();
    /// let block = cache.allocate_for(Owner(7), 4096)?;
    /// cache.free_for(Owner(7), block.handle())?;
    /// assert_ne!(cache.allocate_for(Owner(8), 4096)?.offset_bytes(), block.offset_bytes());
    /// assert_eq!(cache.allocate_for(Owner(7), 4096)?.offset_bytes(), block.offset_bytes());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate_for(
        &mut self,
        owner: Owner,
        request: impl Into<Request>,
    ) -> Result<Block, AllocError> {
        let request = &request.into();
        let plain_len = Need::plain_len(request, &self.shape);
        let Some(class) = self.classes.of_len(plain_len) else {
            return self.allocate_large(owner, request, plain_len);
        };
        match self.hit(owner, class) {
            Some(handle) => Ok(self.inner.describe(handle, class)),
            None => self.allocate_slowly(owner, class, request),
        }
    }

    /// Gives out a cached block, if there is one of the class for the owner.
    #[inline(always)]
    pub(super) fn hit(&mut self, owner: Owner, class: usize) -> Option<Handle> {
        if self.turn_to(owner) { self.take(class) } else { None }
    }

    /// The same as a call: where a thread-local's accessor is told to do it, what it is told has to be
    /// small, or it is called itself, and its result passes through memory.
    #[inline(never)]
    pub(super) fn hit_by_call(&mut self, owner: Owner, class: usize) -> Option<Handle> {
        self.hit(owner, class)
    }

    /// [`absorb`](Self::absorb) as a call, for the same reason.
    #[inline(never)]
    pub(super) fn absorb_by_call<const ALONE: bool>(
        &mut self,
        owner: Owner,
        handle: Handle,
        granule: u32,
    ) -> Option<usize> {
        self.absorb_by::<ALONE>(owner, handle, granule)
    }

    /// Makes an owner's set the one in use, if one is.
    #[inline(always)]
    fn turn_to(&mut self, owner: Owner) -> bool {
        owner == self.owner || self.turn_to_other(owner)
    }

    #[inline(never)]
    fn turn_to_other(&mut self, owner: Owner) -> bool {
        let found = self.owners.iter().position(|&other| other == owner);
        if let Some(set) = found {
            self.owner = owner;
            self.first = self.stock.first_of(set);
        }
        found.is_some()
    }

    /// The bin of a class.
    #[inline(always)]
    fn bin_of(&self, class: usize) -> usize {
        self.first + class
    }

    /// Gives out the block that was cached last.
    #[inline(always)]
    fn take(&mut self, class: usize) -> Option<Handle> {
        let place = self.bin_of(class);
        let bin = self.bins.get_mut(place)?;
        loop {
            bin.len = bin.len.checked_sub(1)?;
            // A flush may have been here: then the slot is empty.
            if let Some(handle) = self.stock.take(place, bin.len) {
                self.inner.words.give(handle, self.giver);
                self.stock.counts.allocated.get(class)?.add(1);
                return Some(handle);
            }
        }
    }

    /// A block of a class for which the cache has to do more than look.
    #[inline(never)]
    pub(super) fn allocate_slowly(
        &mut self,
        owner: Owner,
        class: usize,
        request: &Request,
    ) -> Result<Block, AllocError> {
        self.go_home(owner);
        self.use_set_of(owner);
        if let Some(handle) = self.take(class) {
            return Ok(self.inner.describe(handle, class));
        }
        self.stock.counts.missed[class].add(1);
        self.adapt(class);
        if self.receive(class, owner)
            && let Some(handle) = self.take(class)
        {
            self.stock.counts.magazines.add(1);
            return Ok(self.inner.describe(handle, class));
        }
        self.refill(class, request)
    }

    /// A block that no cache keeps.
    #[inline(never)]
    pub(super) fn allocate_large(
        &mut self,
        owner: Owner,
        request: &Request,
        plain_len: Option<u64>,
    ) -> Result<Block, AllocError> {
        self.go_home(owner);
        let result = self.inner.allocate_centrally(
            &mut self.home,
            request,
            plain_len,
            self.giver,
            &mut NoMore,
        );
        if let Ok(block) = &result {
            self.stock.counts.large.gave(block.size_bytes);
        }
        result
    }

    /// A block of a length that spans do not serve, if there is one at the first look.
    #[inline(never)]
    pub(super) fn hit_large(&mut self, owner: Owner, len: u64) -> Option<Folded> {
        self.go_home(owner);
        let packed = self.inner.hit_outside(&mut self.home, len)?;
        self.stock.counts.large.gave(packed.size_bytes(&self.shape));
        Some(packed.fold())
    }

    /// Works on the owner's shard, if each has one.
    #[inline(always)]
    fn go_home(&mut self, owner: Owner) {
        if self.by_owner {
            self.home = Home::at(owner.0);
        }
    }

    /// Takes a magazine from the depot: one of the owner, or a clean one.
    fn receive(&mut self, class: usize, owner: Owner) -> bool {
        let place = self.bin_of(class);
        let mut len = 0;
        let stock = &self.stock;
        let mut each = |block| {
            if len < MOST_DEPTH {
                stock.put(place, len, block);
                len += 1;
            }
        };
        let depot = &self.inner.depot;
        let received = depot.get(class, owner, self.giver, &mut each)
            || (owner != Owner::CLEAN
                && !self.by_owner
                && depot.get(class, Owner::CLEAN, self.giver, &mut each));
        // What the cache has no bytes for goes on to the centre, but for the one that is wanted.
        let block_bytes = self.classes.bytes(class);
        let limit = self.bins[place].limit;
        let room = limit + usize::try_from(self.spare_bytes / block_bytes).unwrap_or(MOST_DEPTH);
        if len > room.max(1) {
            let rest = self.stock.take_many(place, room.max(1)..len);
            self.inner.return_all(rest.into_iter());
            len = room.max(1);
        }
        let bin = &mut self.bins[place];
        bin.len = len;
        if len > limit && len <= room {
            bin.limit = len;
            self.spare_bytes -= (len - limit) as u64 * block_bytes;
        }
        received
    }

    /// Serves a request of a class from the centre, and takes half of what the bin may hold.
    fn refill(&mut self, class: usize, request: &Request) -> Result<Block, AllocError> {
        let place = self.bin_of(class);
        let bin = &mut self.bins[place];
        let mut batch = Batch {
            inner: &self.inner,
            stock: &self.stock,
            bin: place,
            wanted: (bin.limit / 2).saturating_sub(1),
            len: &mut bin.len,
        };
        let plain_len = Need::plain_len(request, &self.shape);
        let result = self.inner.allocate_centrally(
            &mut self.home,
            request,
            plain_len,
            self.giver,
            &mut batch,
        );
        match result.map(|block| (block.handle.slot(), block)) {
            Ok((Slot::Granule(_), _)) => self.stock.counts.allocated[class].add(1),
            // No span had room.
            Ok((Slot::Node(_), block)) => self.stock.counts.large.gave(block.size_bytes),
            Err(_) => {}
        }
        result
    }

    /// Frees a block for nobody in particular: it may serve anyone again.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block, also when another thread freed it at
    /// the same time; nothing is changed.
    ///
    /// # Complexity
    ///
    /// Constant, and without a lock, when the cache has room for the block.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let mut cache = shared.cache();
    /// let block = cache.allocate(4096)?;
    /// assert_eq!(cache.free(block.handle()), Ok(block));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn free(&mut self, handle: Handle) -> Result<Block, HandleError> {
        self.free_for(Owner::CLEAN, handle)
    }

    /// Frees a block that only requests of an owner get from a cache again (see [`Owner`]).
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block; nothing is changed.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{Owner, RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let mut cache = shared.cache();
    /// let block = cache.allocate(4096)?;
    /// cache.free_for(Owner(7), block.handle())?;
    /// assert!(shared.stats().cached_bytes >= 4096);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn free_for(&mut self, owner: Owner, handle: Handle) -> Result<Block, HandleError> {
        match handle.slot() {
            Slot::Granule(granule) => match self.absorb(owner, handle, granule) {
                Some(class) => Ok(self.inner.describe(handle, class)),
                None => self.free_slowly(owner, handle, granule),
            },
            Slot::Node(_) => self.free_large(handle).map(|packed| packed.block(&self.shape)),
        }
    }

    /// Frees a block into the cache, if it is live, of a class and there is room for it: its
    /// class.
    #[inline(always)]
    pub(super) fn absorb(&mut self, owner: Owner, handle: Handle, granule: u32) -> Option<usize> {
        self.absorb_by::<false>(owner, handle, granule)
    }

    /// The same, by the only thread that can free the block, or by one of several.
    #[inline(always)]
    fn absorb_by<const ALONE: bool>(
        &mut self,
        owner: Owner,
        handle: Handle,
        granule: u32,
    ) -> Option<usize> {
        if !self.turn_to(owner) {
            return None;
        }
        let found = self.inner.words.find(handle, granule).ok()?;
        let class = self.classes.of_order(found.cut().order())?;
        let &Bin { len, limit, .. } = self.bins.get(self.bin_of(class))?;
        if len >= limit {
            return None;
        }
        if self.by_owner && found.cut().shard() != owner.0 && !CACHES_ELSEWHERE.is_out() {
            return None;
        }
        let block = if ALONE { found.free_alone(granule) } else { found.free(granule).ok()? };
        self.keep(class, block);
        self.stock.counts.freed.get(class)?.add(1);
        Some(class)
    }

    /// Frees a block for which the cache has to do more than keep it, or says why it cannot.
    #[inline(never)]
    pub(super) fn free_slowly(
        &mut self,
        owner: Owner,
        handle: Handle,
        granule: u32,
    ) -> Result<Block, HandleError> {
        let cut = self.inner.words.find(handle, granule)?.cut();
        let Some(class) = self.classes.of_order(cut.order()) else {
            let block = self.inner.free_in_span(handle, granule)?;
            self.stock.counts.large.took(block.size_bytes);
            return Ok(block);
        };
        self.use_set_of(owner);
        let Bin { len, limit, .. } = self.bins[self.bin_of(class)];
        let block = if len < limit || self.make_room(class) {
            let block = self.inner.words.find(handle, granule)?.free(granule)?;
            self.keep(class, block);
            self.inner.describe(handle, class)
        } else {
            self.inner.free_in_span(handle, granule)?
        };
        self.stock.counts.freed[class].add(1);
        if len >= limit {
            self.stock.counts.missed[class].add(1);
        }
        Ok(block)
    }

    /// [`free_large`](Self::free_large) as a call whose result is in registers.
    #[inline(never)]
    pub(super) fn free_large_by_call(&self, handle: Handle) -> Option<Folded> {
        self.free_large(handle).ok().map(Packed::fold)
    }

    /// Frees a block outside spans.
    #[inline(always)]
    pub(super) fn free_large(&self, handle: Handle) -> Result<Packed, HandleError> {
        let packed = self.inner.free_outside(handle)?;
        self.stock.counts.large.took(packed.size_bytes(&self.shape));
        Ok(packed)
    }

    #[inline(always)]
    fn keep(&mut self, class: usize, block: Handle) {
        let place = self.bin_of(class);
        if let Some(bin) = self.bins.get_mut(place) {
            self.stock.put(place, bin.len, block);
            bin.len += 1;
        }
    }

    /// Room for one more block of a class whose bin is full: by a higher limit, or by passing some
    /// on.
    fn make_room(&mut self, class: usize) -> bool {
        self.deepen(class);
        let place = self.bin_of(class);
        if self.bins[place].len >= self.bins[place].limit {
            self.pass_on(class);
        }
        self.bins[place].len < self.bins[place].limit
    }

    /// Raises the limit of a bin that had too few blocks, or lowers that of one that was emptied by
    /// others: who needs all there is would else have to empty it again, of many more blocks than were
    /// used in between.
    fn adapt(&mut self, class: usize) {
        let emptied = self.inner.emptied.get();
        let first = self.first_limit(class);
        let place = self.bin_of(class);
        let bin = &mut self.bins[place];
        if core::mem::replace(&mut bin.emptied, emptied) == emptied || bin.limit == 0 {
            self.deepen(class);
        } else if bin.limit > first {
            self.spare_bytes += (bin.limit - first) as u64 * self.classes.bytes(class);
            bin.limit = first;
        }
    }

    /// What a bin may have at first.
    fn first_limit(&self, class: usize) -> usize {
        FIRST_LIMIT.max((2 * FIRST_GRANULES) >> class).min(self.classes.depth(class))
    }

    /// Raises a bin's limit, if the cache has bytes to spare. A bin that has none yet may take
    /// them from others.
    fn deepen(&mut self, class: usize) {
        let depth = self.classes.depth(class);
        let block_bytes = self.classes.bytes(class);
        let place = self.bin_of(class);
        let limit = self.bins[place].limit;
        if limit == 0 && self.spare_bytes < block_bytes {
            self.make_spare();
        }
        let mut wanted = (limit * 2).min(depth).max(self.first_limit(class));
        while wanted > limit && (wanted - limit) as u64 * block_bytes > self.spare_bytes {
            wanted = limit + (wanted - limit) / 2;
        }
        if wanted > limit {
            self.spare_bytes -= (wanted - limit) as u64 * block_bytes;
            self.bins[place].limit = wanted;
        }
    }

    /// Has bytes to spare again: half of what the greediest bin of all sets has.
    fn make_spare(&mut self) {
        let classes = self.classes;
        let bytes_of = |place: usize| classes.bytes(place % classes.count());
        let used = self.bins.iter_mut().take(SETS * classes.count()).enumerate();
        let greediest = used.max_by_key(|(place, bin)| bin.limit as u64 * bytes_of(*place));
        let Some((place, bin)) = greediest else { return };
        let given_up = bin.limit.div_ceil(2);
        bin.limit -= given_up;
        let left = bin.len.min(bin.limit);
        let len = core::mem::replace(&mut bin.len, left);
        self.spare_bytes += given_up as u64 * bytes_of(place);
        let blocks = self.stock.take_many(place, left..len);
        self.inner.return_all(blocks.into_iter());
    }

    /// Passes the blocks that were cached last on: a magazine to the depot, or, if that is full,
    /// to the centre.
    fn pass_on(&mut self, class: usize) {
        let place = self.bin_of(class);
        let bin = &mut self.bins[place];
        let left = bin.len - self.classes.magazine_len(class).min(bin.len);
        let len = core::mem::replace(&mut bin.len, left);
        let blocks = self.stock.take_many(place, left..len);
        let Some(last) = blocks.last() else { return };
        // They go where the cache looks for them that gave them to the program, so that a block's
        // word and what is noted beside it stay with the processors of the two. To ask takes a
        // cache line away from that cache's, and mostly it is the one of before.
        if bin.passed == 0 {
            bin.giver = self.inner.words.giver(last.slot().index());
        }
        bin.passed = (bin.passed + 1) % ASK_EVERY;
        let giver = bin.giver;
        let depot = &self.inner.depot;
        let put = || depot.put(class, self.owner, giver, blocks.iter().copied());
        if !put() {
            // The lane is full. What is before all others has waited longest.
            let mut first = Blocks::new();
            depot.get_first(class, self.owner, giver, |block| first.push(block));
            self.inner.return_all(first.into_iter());
            if !put() {
                return self.inner.return_all(blocks.into_iter());
            }
        }
        self.stock.counts.magazines.add(1);
    }

    /// Makes an owner's set the one in use; if no set is the owner's, the next one is emptied for
    /// it.
    fn use_set_of(&mut self, owner: Owner) {
        if self.turn_to(owner) {
            return;
        }
        // In turn, but not the one that was in use just now.
        let turn = (self.next + 1) % SETS;
        let is_in_use = self.stock.first_of(turn) == self.first;
        self.next = if is_in_use { (turn + 1) % SETS } else { turn };
        self.empty_set(self.next);
        self.owners[self.next] = owner;
        self.turn_to(owner);
    }

    /// Gives a set's blocks back to the centre, and its limits up.
    fn empty_set(&mut self, set: usize) {
        let first = self.stock.first_of(set);
        let bins = self.bins.iter_mut().enumerate().skip(first).take(self.classes.count());
        for (class, (place, bin)) in bins.enumerate() {
            let Bin { len, limit, .. } = core::mem::take(bin);
            if len > 0 {
                let blocks = self.stock.take_many(place, 0..len);
                self.inner.return_all(blocks.into_iter());
            }
            self.spare_bytes += limit as u64 * self.classes.bytes(class);
        }
        self.spare_bytes = self.spare_bytes.min(self.classes.cache_bytes());
    }

    /// Gives all blocks of this cache back to the centre. [`SharedAllocator::flush`] does it to
    /// all caches.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// let mut cache = shared.cache();
    /// let block = cache.allocate(4096)?;
    /// cache.free(block.handle())?;
    /// cache.flush();
    /// assert_eq!(shared.stats().cached_bytes, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn flush(&mut self) {
        for set in 0..SETS {
            self.empty_set(set);
        }
    }

    /// The shard that serves this cache; 0 is the range itself.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(64 << 20))?;
    /// assert_eq!(shared.cache().shard(), 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shard(&self) -> u32 {
        self.home.shard
    }

    /// Has a shard serve this cache from now on (taken modulo their number). A cache moves by
    /// itself when it has to wait for a lock; a runtime that knows which of its threads run at
    /// once can tell.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(1 << 30))?;
    /// let mut cache = shared.cache();
    /// cache.use_shard(3);
    /// assert_eq!(cache.shard(), 3);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn use_shard(&mut self, shard: u32) {
        self.home = Home::at(shard % self.inner.centre.count());
    }

    /// Whether it is a cache of an allocator: for platforms that [keep](Threads::with_cache) a
    /// thread's caches.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(1 << 30))?;
    /// # let other = SharedAllocator::new(RangeConfig::new(1 << 30))?;
    /// let cache = shared.cache();
    /// assert!(cache.is_of(&shared) && !cache.is_of(&other));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    #[inline(always)]
    pub fn is_of(&self, shared: &SharedAllocator<T>) -> bool {
        Arc::ptr_eq(&self.inner, shared.inner())
    }

    /// Whether nobody has the allocator any more: then it is of no use.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{RangeConfig, SharedAllocator};
    /// # let shared = SharedAllocator::new(RangeConfig::new(1 << 30))?;
    /// let cache = shared.cache();
    /// drop(shared);
    /// assert!(cache.is_orphaned());
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_orphaned(&self) -> bool {
        self.allocator.strong_count() == 0
    }
}

/// Blocks of a class for a bin.
struct Batch<'a, T: Threads> {
    inner: &'a Inner<T>,
    stock: &'a Stock,
    bin: usize,
    wanted: usize,
    len: &'a mut usize,
}

impl<T: Threads> More for Batch<'_, T> {
    fn wanted(&self) -> usize {
        self.wanted
    }

    fn take(&mut self, given: Given) -> bool {
        let Ok(block) = self.inner.word_of(given) else { return false };
        self.stock.put(self.bin, *self.len, block);
        *self.len += 1;
        true
    }
}

impl<T: Threads> Drop for Cache<T> {
    fn drop(&mut self) {
        if is_left() {
            return;
        }
        if !FORGETS_END.is_out() {
            self.flush();
        }
        let mut stocks = self.inner.stocks.lock();
        stocks.retain(|stock| !Arc::ptr_eq(stock, &self.stock));
        self.inner.retired.absorb(&self.stock.counts);
    }
}

impl<T: Threads> core::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cache")
            .field("shard", &self.home.shard)
            .field("is_orphaned", &self.is_orphaned())
            .finish_non_exhaustive()
    }
}
