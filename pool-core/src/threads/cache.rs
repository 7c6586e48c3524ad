//! A cache: free small blocks that one thread at a time gives out and takes back.

use alloc::sync::{Arc, Weak};

use super::SharedAllocator;
use super::centre::{Given, Home, More, NoMore};
use super::classes::{MOST_CLASSES, MOST_DEPTH};
use super::inner::Inner;
use super::owner::Owner;
use super::platform::{DefaultThreads, Threads};
use super::stock::{SETS, Stock};
use super::word::{Inside, State, Word};
use crate::range::{AllocError, Block, Handle, HandleError, Request};
use crate::sync::Lock;

/// The first blocks of a class that a cache keeps; twice as many each time that this proves too
/// few, up to the class's depth.
const FIRST_LIMIT: usize = 4;

/// Free small blocks of a [`SharedAllocator`], kept by one thread (or core, or queue) at a time.
///
/// A cache is a value: an embedding runtime keeps one wherever it runs one thing at a time. With
/// the feature `std` every thread has one by itself, and [`SharedAllocator::allocate`] uses it.
///
/// A request of up to 16 KiB takes a block that was freed here before, for the same
/// [`Owner`], without a lock; a free puts one here. Empty, a cache is refilled with a magazine
/// that another cache filled, or with some blocks from the centre; full, it passes a magazine
/// on. Other requests go to the centre. Blocks may be freed on any cache, whichever they came
/// from.
///
/// Dropped, it gives its blocks back; that is harmless also when the allocator is gone.
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
    /// The set in use: that of the owner who came last.
    set: usize,
    owners: [Owner; SETS],
    bins: [[Bin; MOST_CLASSES]; SETS],
    /// Bytes that no bin's limit has taken yet.
    spare_bytes: u64,
    home: Home,
}

/// How full a bin is, and may be.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    len: usize,
    limit: usize,
}

impl<T: Threads> Cache<T> {
    pub(super) fn new(inner: Arc<Inner<T>>, allocator: Weak<()>) -> Self {
        let stock = Arc::new(Stock::new(&inner.classes));
        inner.stocks.lock().push(stock.clone());
        let spare_bytes = inner.classes.cache_bytes();
        Self {
            inner,
            allocator,
            stock,
            set: 0,
            owners: [Owner::CLEAN; SETS],
            bins: [[Bin::default(); MOST_CLASSES]; SETS],
            spare_bytes,
            home: Home::RANGE,
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
    #[inline]
    pub fn allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> {
        self.allocate_for(Owner::CLEAN, request)
    }

    /// Serves a request with a block that is clean or was freed for the same owner.
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
    #[inline]
    pub fn allocate_for(
        &mut self,
        owner: Owner,
        request: impl Into<Request>,
    ) -> Result<Block, AllocError> {
        let request = request.into();
        if let Some(class) = self.inner.classes.of(&request, self.inner.shape())
            && owner == self.owners[self.set]
            && let Some(block) = self.take(class)
        {
            return Ok(block);
        }
        self.allocate_slowly(owner, request)
    }

    /// Gives out the block that was cached last.
    #[inline(always)]
    fn take(&mut self, class: usize) -> Option<Block> {
        let first = self.stock.bin(self.set, class);
        let bin = &mut self.bins[self.set][class];
        loop {
            bin.len = bin.len.checked_sub(1)?;
            let hint = self.stock.hint(first + bin.len)?;
            // A flush may have been here; its hints are old then.
            if self.inner.words.take(hint).is_some() {
                self.stock.counts.allocated[class].add(1);
                return Some(self.describe(hint, class));
            }
        }
    }

    #[inline(always)]
    fn describe(&self, handle: Handle, class: usize) -> Block {
        Block {
            handle,
            offset_bytes: self.inner.shape().bytes(handle.slot().index().into()),
            size_bytes: self.inner.classes.bytes(class),
        }
    }

    #[inline(never)]
    fn allocate_slowly(&mut self, owner: Owner, request: Request) -> Result<Block, AllocError> {
        let Some(class) = self.inner.classes.of(&request, self.inner.shape()) else {
            return self.allocate_large(request);
        };
        self.stock.counts.missed.add(1);
        self.use_set_of(owner);
        if let Some(block) = self.take(class) {
            return Ok(block);
        }
        self.deepen(class);
        if self.receive(class, owner)
            && let Some(block) = self.take(class)
        {
            self.stock.counts.magazines.add(1);
            return Ok(block);
        }
        self.refill(class)
    }

    fn allocate_large(&mut self, request: Request) -> Result<Block, AllocError> {
        let (block, _) = self.inner.allocate_centrally(&mut self.home, request, NoMore)?;
        self.count_large(&block);
        Ok(block)
    }

    fn count_large(&self, block: &Block) {
        let large = &self.stock.counts.large;
        large.allocated.add(1);
        large.allocated_bytes.add(block.size_bytes);
    }

    /// Takes a magazine from the depot: one of the owner, or a clean one.
    fn receive(&mut self, class: usize, owner: Owner) -> bool {
        let first = self.stock.bin(self.set, class);
        let mut len = 0;
        let stock = &self.stock;
        let mut each = |hint| {
            if len < MOST_DEPTH {
                stock.set_hint(first + len, hint);
                len += 1;
            }
        };
        let depot = &self.inner.depot;
        let received = depot.get(class, owner, &mut each)
            || (owner != Owner::CLEAN && depot.get(class, Owner::CLEAN, &mut each));
        let bin = &mut self.bins[self.set][class];
        bin.len = len;
        if len > bin.limit {
            let more_bytes = (len - bin.limit) as u64 * self.inner.classes.bytes(class);
            bin.limit = len;
            self.spare_bytes = self.spare_bytes.saturating_sub(more_bytes);
        }
        received
    }

    /// Serves a request of a class from the centre, and takes half of what the bin may hold.
    fn refill(&mut self, class: usize) -> Result<Block, AllocError> {
        let request = Request::new(self.inner.classes.bytes(class));
        let bin = &mut self.bins[self.set][class];
        let mut batch = Batch {
            inner: &self.inner,
            stock: &self.stock,
            first: self.stock.bin(self.set, class),
            class,
            wanted: bin.limit / 2,
            len: &mut bin.len,
        };
        let (block, place) = self.inner.allocate_centrally(&mut self.home, request, &mut batch)?;
        match place.inside {
            Inside::Span { order } if order as usize == class => {
                self.stock.counts.allocated[class].add(1);
            }
            // No span had room.
            _ => self.count_large(&block),
        }
        Ok(block)
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
    #[inline]
    pub fn free(&mut self, handle: Handle) -> Result<Block, HandleError> {
        self.free_for(Owner::CLEAN, handle)
    }

    /// Frees a block that only requests of an owner may get from a cache again.
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
    #[inline]
    pub fn free_for(&mut self, owner: Owner, handle: Handle) -> Result<Block, HandleError> {
        if owner != self.owners[self.set] {
            return self.free_slowly(owner, handle);
        }
        let found = self.inner.words.look(handle)?;
        if let Some(class) = self.class_of(found.word) {
            let bin = &mut self.bins[self.set][class];
            if bin.len < bin.limit {
                let freed = found.free(State::Cached)?;
                let place = self.stock.bin(self.set, class) + bin.len;
                bin.len += 1;
                self.stock.set_hint(place, freed.handle(handle.slot().index()));
                self.stock.counts.freed[class].add(1);
                return Ok(self.describe(handle, class));
            }
        }
        self.free_slowly(owner, handle)
    }

    /// The class of a block, if caches keep it.
    #[inline(always)]
    fn class_of(&self, word: Word) -> Option<usize> {
        match word.place().inside {
            Inside::Span { order } => self.inner.classes.of_order(order),
            Inside::Node(_) => None,
        }
    }

    #[inline(never)]
    fn free_slowly(&mut self, owner: Owner, handle: Handle) -> Result<Block, HandleError> {
        let Some(class) = self.class_of(self.inner.words.look(handle)?.word) else {
            return self.free_large(handle);
        };
        self.use_set_of(owner);
        let state = if self.make_room(class) { State::Cached } else { State::Central };
        let freed = self.inner.words.look(handle)?.free(state)?;
        self.stock.counts.freed[class].add(1);
        self.stock.counts.missed.add(1);
        if state == State::Cached {
            self.keep(class, freed.handle(handle.slot().index()));
            Ok(self.describe(handle, class))
        } else {
            Ok(self.inner.free_centrally(handle, freed))
        }
    }

    fn free_large(&mut self, handle: Handle) -> Result<Block, HandleError> {
        let word = self.inner.words.look(handle)?.free(State::Central)?;
        let block = self.inner.free_centrally(handle, word);
        let large = &self.stock.counts.large;
        large.freed.add(1);
        large.freed_bytes.add(block.size_bytes);
        Ok(block)
    }

    fn keep(&mut self, class: usize, hint: Handle) {
        let bin = &mut self.bins[self.set][class];
        self.stock.set_hint(self.stock.bin(self.set, class) + bin.len, hint);
        bin.len += 1;
    }

    /// Room for one more block of a class: by a higher limit, or by passing some on.
    fn make_room(&mut self, class: usize) -> bool {
        let bin = self.bins[self.set][class];
        if bin.len < bin.limit {
            return true;
        }
        self.deepen(class);
        if self.bins[self.set][class].len >= self.bins[self.set][class].limit {
            self.pass_on(self.set, class);
        }
        let bin = self.bins[self.set][class];
        bin.len < bin.limit
    }

    /// Raises a bin's limit, if the cache has bytes to spare. A bin that has none yet may take
    /// them from another owner's.
    fn deepen(&mut self, class: usize) {
        let depth = self.inner.classes.depth(class);
        let block_bytes = self.inner.classes.bytes(class);
        let limit = self.bins[self.set][class].limit;
        let mut wanted = (limit * 2).max(FIRST_LIMIT).min(depth);
        if limit == 0 && self.spare_bytes < block_bytes {
            self.empty_set((self.set + 1) % SETS);
        }
        while wanted > limit && (wanted - limit) as u64 * block_bytes > self.spare_bytes {
            wanted = limit + (wanted - limit) / 2;
        }
        if wanted > limit {
            self.spare_bytes -= (wanted - limit) as u64 * block_bytes;
            self.bins[self.set][class].limit = wanted;
        }
    }

    /// Passes the blocks that were cached first on: a magazine to the depot, or, if that is full,
    /// to the centre.
    fn pass_on(&mut self, set: usize, class: usize) {
        let bin = self.bins[set][class];
        let first = self.stock.bin(set, class);
        let count = self.inner.classes.magazine_len(class).min(bin.len);
        let hints = (first..first + count).filter_map(|place| self.stock.hint(place));
        if self.inner.depot.put(class, self.owners[set], hints.clone()) {
            self.stock.counts.magazines.add(1);
        } else {
            self.inner.return_all(hints);
        }
        for place in first + count..first + bin.len {
            if let Some(hint) = self.stock.hint(place) {
                self.stock.set_hint(place - count, hint);
            }
        }
        self.bins[set][class].len = bin.len - count;
    }

    /// Makes an owner's set the one in use; if no set is the owner's, the next one is emptied for
    /// it.
    fn use_set_of(&mut self, owner: Owner) {
        if self.owners[self.set] == owner {
            return;
        }
        match self.owners.iter().position(|&other| other == owner) {
            Some(set) => self.set = set,
            None => {
                let next = (self.set + 1) % SETS;
                self.empty_set(next);
                self.owners[next] = owner;
                self.set = next;
            }
        }
    }

    /// Gives a set's blocks back to the centre, and its limits up.
    fn empty_set(&mut self, set: usize) {
        for class in 0..self.inner.classes.count() {
            let first = self.stock.bin(set, class);
            let bin = core::mem::take(&mut self.bins[set][class]);
            let places = first..first + bin.len;
            self.inner.return_all(places.filter_map(|place| self.stock.hint(place)));
            self.spare_bytes += bin.limit as u64 * self.inner.classes.bytes(class);
        }
        self.spare_bytes = self.spare_bytes.min(self.inner.classes.cache_bytes());
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

    /// Whether it is a cache of an allocator.
    #[cfg(feature = "std")]
    #[inline(always)]
    pub(super) fn is_of(&self, shared: &SharedAllocator<T>) -> bool {
        Arc::ptr_eq(&self.inner, shared.inner())
    }

    /// Whether nobody has the allocator any more.
    #[cfg(feature = "std")]
    pub(super) fn is_orphaned(&self) -> bool {
        self.allocator.strong_count() == 0
    }
}

/// Blocks of a class for a bin.
struct Batch<'a, T: Threads> {
    inner: &'a Inner<T>,
    stock: &'a Stock,
    first: usize,
    class: usize,
    wanted: usize,
    len: &'a mut usize,
}

impl<T: Threads> More for &mut Batch<'_, T> {
    fn wants(&self) -> bool {
        *self.len < self.wanted
    }

    fn take(&mut self, given: Given) -> bool {
        match given.place.inside {
            Inside::Span { order } if order as usize == self.class => {}
            _ => return false,
        }
        let Ok(hint) = self.inner.word_of(given, State::Cached) else { return false };
        self.stock.set_hint(self.first + *self.len, hint);
        *self.len += 1;
        true
    }
}

impl<T: Threads> Drop for Cache<T> {
    fn drop(&mut self) {
        self.flush();
        let mut stocks = self.inner.stocks.lock();
        stocks.retain(|stock| !Arc::ptr_eq(stock, &self.stock));
        self.inner.retired.absorb(&self.stock.counts);
    }
}

impl<T: Threads> core::fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Cache").field("shard", &self.home.shard).finish_non_exhaustive()
    }
}
