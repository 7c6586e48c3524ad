//! The allocator of one range: a request against spans and runs, in order.

use core::mem::MaybeUninit;
use core::num::NonZeroU64;

use super::address_index::AddressIndex;
use super::block::Block;
use super::buddies::{Buddies, order_of};
use super::config::{Placement, RangeConfig, Shape};
use super::error::{AllocError, ConfigError, HandleError, Metadata};
use super::handle::{Generation, Handle, Slot};
use super::need::Need;
use super::node::Node;
use super::request::{Options, Request};
use super::runs::Runs;
use super::size_index::SizeIndex;
use super::spans::{SpanBlock, Spans};
#[cfg(feature = "alloc")]
use super::storage::Chunked;
use super::storage::{Borrowed, Storage};
use super::table::Table;
use super::tolerance::Tolerance;

/// Manages the offsets of one range: allocate a size, free by handle, ask, and verify it all.
///
/// One owner at a time (`&mut self`), no locks, no streams. The memory itself is never touched;
/// the metadata are outside of it, in storage that the caller lends ([`Borrowed`]) or in chunks
/// from the heap (`Chunked`, feature `alloc`).
///
/// # Promises
///
/// - **A block that fits is found.** A request at the granule's alignment is refused only if no
///   free block fits it; an over-aligned one only if no free block holds its size plus its
///   alignment less a granule. A free block is a maximal run of free granules outside spans (an
///   empty span counts as such granules), or a free buddy inside a span. Under buddy placement
///   this holds for sizes (and alignments) rounded up to powers of two. A free block that an
///   option rules out is not counted.
/// - **The same calls give the same offsets** under the same configuration, in every run and on
///   every platform; in lent storage as long as it has nodes and tables to spare. Programs that
///   capture offsets and replay their work rely on it.
/// - **An error changes nothing** that any call shows, and a free never fails for lack of
///   metadata.
/// - **No call panics**, whatever its arguments.
///
/// # Complexity
///
/// Best fit: a request that the first look serves visits a constant number of blocks, a second
/// look (taken only when the first fails) and the upkeep of the index at most two for each bit
/// of a size. [`Placement`] states the bounds of the others. No call but those that say so
/// depends on the number of blocks.
///
/// # Example
///
/// ```
/// use pool_core::{OffsetAllocator, RangeConfig};
///
/// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 30))?;
/// let weights = range.allocate(400 << 20)?;
/// let batch = range.allocate(8 << 20)?;
/// assert_eq!(range.stats().live_bytes, 408 << 20);
///
/// range.free(weights.handle())?;
/// assert!(range.free(weights.handle()).is_err(), "a second free is an error");
/// range.free(batch.handle())?;
/// assert_eq!(range.largest_free_bytes(), 1 << 30);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct OffsetAllocator<S: Storage> {
    pub(super) shape: Shape,
    pub(super) placement: Placement,
    pub(super) table: Table<S>,
    pub(super) free: Free,
    pub(super) books: Books,
    pub(super) generation: Generation,
    pub(super) tolerance: Tolerance,
    /// Granules owned, if these are not those of a whole range but of islands.
    pub(super) islands: Option<u64>,
    /// Of these, granules that no memory is behind.
    pub(super) bare: u64,
}

/// The free granules of a range, as its placement keeps them.
#[expect(clippy::large_enum_variant, reason = "there is no heap to put the larger one on")]
pub(super) enum Free {
    /// Best fit and first fit.
    Runs(Runs, Spans),
    /// Buddy.
    Buddies(Buddies),
}

/// What is counted as it changes; free is what is not live.
#[derive(Clone, Copy)]
pub(super) struct Books {
    pub(super) live_granules: u64,
    pub(super) peak_live_granules: u64,
    pub(super) live_blocks: u64,
}

impl Books {
    #[inline]
    fn add(&mut self, granules: u64) {
        self.live_granules += granules;
        self.peak_live_granules = self.peak_live_granules.max(self.live_granules);
        self.live_blocks += 1;
    }

    #[inline]
    fn remove(&mut self, granules: u64) {
        self.live_granules -= granules;
        self.live_blocks -= 1;
    }

    /// A live block changed its length.
    pub(super) fn resize(&mut self, from: u64, to: u64) {
        self.live_granules = self.live_granules - from + to;
        self.peak_live_granules = self.peak_live_granules.max(self.live_granules);
    }
}

/// A live block, found by its handle.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// Outside spans, or under buddy placement.
    Node(u32),
    /// In a span.
    InSpan(SpanBlock),
}

#[cfg(feature = "alloc")]
impl OffsetAllocator<Chunked> {
    /// A range whose metadata are on the heap, in chunks that are added when needed.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the configuration is none, or the heap refuses the first chunk.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{OffsetAllocator, RangeConfig};
    ///
    /// let range = OffsetAllocator::new(&RangeConfig::new(24 << 30))?;
    /// assert_eq!(range.largest_free_bytes(), 24 << 30);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    pub fn new(config: &RangeConfig) -> Result<Self, ConfigError> {
        let shape = Shape::of(config)?;
        let nodes =
            config.nodes_for(config.expected_blocks)?.max(Self::first_nodes(config, &shape));
        let storage = Chunked::new(nodes).ok_or(ConfigError::OutOfHostMemory {
            bytes: nodes.saturating_mul(size_of::<Node>()),
        })?;
        Self::over(config, shape, storage)
    }
}

impl<'a> OffsetAllocator<Borrowed<'a>> {
    /// A range whose metadata are in storage that the caller lends. Nothing is ever allocated.
    ///
    /// [`RangeConfig::nodes_for`] and [`RangeConfig::span_words_for`] say how much is enough;
    /// less works too, until it runs out. What the storage held before does not matter.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the configuration is none, or there are too few nodes for even an
    /// empty range.
    ///
    /// # Complexity
    ///
    /// Linear in the storage, which is cleared.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Node, OffsetAllocator, RangeConfig};
    ///
    /// let mut nodes = [Node::UNUSED; 203];
    /// let mut span_words = [0; 8192];
    /// let config = RangeConfig::new(64 << 20);
    /// assert_eq!(config.nodes_for(100)?, nodes.len());
    /// let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut span_words)?;
    /// assert_eq!(range.allocate(64 << 20)?.offset_bytes(), 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn in_storage(
        config: &RangeConfig,
        nodes: &'a mut [Node],
        span_words: &'a mut [u64],
    ) -> Result<Self, ConfigError> {
        let shape = Shape::of(config)?;
        Self::over(config, shape, Borrowed::new(&shape, nodes, span_words))
    }

    /// The same, made in the place where it is to stay: a range has some kilobytes of its own,
    /// which no stack needs to hold then. The place may be in the storage that is lent, too.
    ///
    /// # Errors
    ///
    /// As of [`in_storage`](Self::in_storage); nothing is changed.
    ///
    /// # Complexity
    ///
    /// Linear in the storage, which is cleared.
    ///
    /// # Example
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use pool_core::{Node, OffsetAllocator, RangeConfig};
    ///
    /// let mut nodes = [Node::UNUSED; 203];
    /// let mut place = MaybeUninit::uninit();
    /// let config = RangeConfig::new(1 << 20);
    /// let range = OffsetAllocator::emplace(&mut place, &config, &mut nodes, &mut [])?;
    /// assert_eq!(range.allocate(1 << 20)?.offset_bytes(), 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn emplace<'p>(
        place: &'p mut MaybeUninit<Self>,
        config: &RangeConfig,
        nodes: &'a mut [Node],
        span_words: &'a mut [u64],
    ) -> Result<&'p mut Self, ConfigError> {
        let shape = Shape::of(config)?;
        let tolerance = Tolerance::new(config.tolerance_percent)?;
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        Self::check_nodes(count, config, &shape)?;
        let range = place.write(Self::EMPTY);
        range.table.storage = Borrowed::new(&shape, nodes, span_words);
        range.begin(config, shape, tolerance);
        Ok(range)
    }

    const EMPTY: Self = Self::empty(Borrowed::none());
}

impl<S: Storage> OffsetAllocator<S> {
    /// A range that manages nothing, under best fit: what [`begin`](Self::begin) makes a range of.
    const fn empty(storage: S) -> Self {
        Self {
            shape: Shape::NONE,
            placement: Placement::BestFit,
            table: Table::new(storage),
            free: Free::Runs(Runs::BySize(SizeIndex::new()), Spans::new()),
            books: Books { live_granules: 0, peak_live_granules: 0, live_blocks: 0 },
            generation: Generation::FIRST,
            tolerance: Tolerance::NONE,
            islands: None,
            bare: 0,
        }
    }

    /// The nodes of an empty range.
    fn first_nodes(config: &RangeConfig, shape: &Shape) -> usize {
        match config.placement {
            Placement::BestFit | Placement::FirstFit => 1,
            Placement::Buddy => shape.capacity.count_ones() as usize,
        }
    }

    /// That an empty range has enough nodes.
    fn check_nodes(nodes: u32, config: &RangeConfig, shape: &Shape) -> Result<(), ConfigError> {
        let (nodes, needed) = (nodes as usize, Self::first_nodes(config, shape));
        if nodes < needed { Err(ConfigError::TooFewNodes { nodes, needed }) } else { Ok(()) }
    }

    fn over(config: &RangeConfig, shape: Shape, storage: S) -> Result<Self, ConfigError> {
        let tolerance = Tolerance::new(config.tolerance_percent)?;
        Self::check_nodes(storage.count(), config, &shape)?;
        let mut range = Self::empty(storage);
        range.begin(config, shape, tolerance);
        Ok(range)
    }

    /// Makes an [empty](Self::empty) range what its configuration says. The storage was found
    /// large enough.
    fn begin(&mut self, config: &RangeConfig, shape: Shape, tolerance: Tolerance) {
        self.shape = shape;
        self.placement = config.placement;
        self.generation = Generation::first(config.handle_seed);
        self.tolerance = tolerance;
        // Each part is changed where it lies: whole, they are too large for the stacks of small
        // machines.
        match (config.placement, &mut self.free) {
            (Placement::Buddy, free) => *free = Free::Buddies(Buddies::new()),
            (Placement::FirstFit, Free::Runs(runs, _)) => {
                *runs = Runs::ByAddress(AddressIndex::new());
            }
            (_, Free::Runs(_, spans)) => spans.set_shape(&shape),
            // A range is empty as best fit is.
            (_, Free::Buddies(_)) => {}
        }
        // The nodes for it are there, as was checked.
        let _ = match &mut self.free {
            Free::Runs(runs, _) => runs.grow(&mut self.table, 0, shape.capacity),
            Free::Buddies(buddies) => buddies.grow(&mut self.table, 0, shape.capacity),
        };
    }

    /// Serves a request, adding metadata from the heap if the storage can grow.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; the range is as before.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{AllocError, OffsetAllocator, RangeConfig, Request};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(Request::new(10_000).align_bytes(4096))?;
    /// assert_eq!(block.offset_bytes() % 4096, 0);
    ///
    /// let refused = range.allocate(1 << 20).unwrap_err();
    /// assert!(matches!(refused, AllocError::OutOfMemory { .. }));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> {
        let request = request.into();
        match self.try_allocate(request) {
            Err(AllocError::OutOfMetadata(missing)) if S::GROWS => self.replenish(request, missing),
            result => result,
        }
    }

    #[cold]
    pub(super) fn replenish(
        &mut self,
        mut request: Request,
        mut missing: Metadata,
    ) -> Result<Block, AllocError> {
        loop {
            if !self.table.storage.replenish(&self.shape, missing) {
                if request.options.contains(Options::NO_NEW_SPAN) {
                    return Err(AllocError::OutOfMetadata(missing));
                }
                // Without metadata for one more span the block may still lie outside.
                request = request.options(Options::NO_NEW_SPAN);
            }
            match self.try_allocate(request) {
                Err(AllocError::OutOfMetadata(more)) => missing = more,
                result => return result,
            }
        }
    }

    /// Serves a request from the metadata there are: nothing is allocated, whatever the storage.
    ///
    /// # Errors
    ///
    /// [`AllocError`]; the range is as before. [`AllocError::OutOfMetadata`] says which step
    /// would help: [`add_metadata`](Self::add_metadata), then the call again.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{AllocError, OffsetAllocator, RangeConfig, Spans};
    ///
    /// let config = RangeConfig::new(1 << 20).spans(Spans::Off).expect_blocks(1);
    /// let mut range = OffsetAllocator::new(&config)?;
    /// let first = range.try_allocate(256)?;
    /// let second = range.try_allocate(256)?;
    /// let AllocError::OutOfMetadata(step) = range.try_allocate(256).unwrap_err() else { panic!() };
    /// assert!(range.add_metadata(step));
    /// range.try_allocate(256)?;
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn try_allocate(&mut self, request: impl Into<Request>) -> Result<Block, AllocError> {
        let request = request.into();
        match self.serve_plainly(&request) {
            Some(block) => Ok(block),
            None => self.allocate_at_last(&request),
        }
    }

    /// The way of most requests, if this one may take it and finds something there.
    #[inline(always)]
    pub(crate) fn serve_plainly(&mut self, request: &Request) -> Option<Block> {
        self.serve_len(Need::plain_len(request, &self.shape)?)
    }

    /// The same for a length that [`Need::plain_len`] found.
    #[inline(always)]
    pub(crate) fn serve_len(&mut self, len: u64) -> Option<Block> {
        let (Some(handle), start) = self.allocate_plainly(len) else { return None };
        let len = match handle.slot() {
            Slot::Node(_) => len,
            Slot::Granule(_) => len.next_power_of_two(),
        };
        Some(self.describe(handle, start, len))
    }

    /// What most requests take: a small block freed before, or the run that a first look shows.
    /// Its handle and start.
    #[inline(always)]
    fn allocate_plainly(&mut self, len: u64) -> (Option<Handle>, u32) {
        let Free::Runs(runs, spans) = &mut self.free else { return (None, 0) };
        let (generation, tolerance) = (self.generation, self.tolerance);
        let (slot, start, len) = if len <= self.shape.small_granules {
            let order = order_of(len);
            let block = spans.allocate_quickly(&mut self.table, order, generation.bits());
            let Some(SpanBlock { granule, .. }) = block else { return (None, 0) };
            (Slot::Granule(granule), granule, 1 << order)
        } else {
            let Table { storage, chain } = &mut self.table;
            let claimed = match storage.slice() {
                Some(nodes) => runs.claim_at_first_look(nodes, chain, len, generation, tolerance),
                None => runs.claim_at_first_look(storage, chain, len, generation, tolerance),
            };
            let Some((node, start)) = claimed else { return (None, 0) };
            (Slot::Node(node), start, len)
        };
        (Some(self.admit(slot, len)), start)
    }

    /// Adds metadata: the step that [`AllocError::OutOfMetadata`] or
    /// [`EndError::OutOfMetadata`](crate::EndError::OutOfMetadata) asks for. False if the storage
    /// does not grow or the heap refuses; then all is as before.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{Metadata, Node, OffsetAllocator, RangeConfig};
    ///
    /// let mut nodes = [Node::UNUSED; 8];
    /// let config = RangeConfig::new(1 << 20);
    /// let mut fixed = OffsetAllocator::in_storage(&config, &mut nodes, &mut [])?;
    /// assert!(!fixed.add_metadata(Metadata::Nodes(1)));
    /// assert!(OffsetAllocator::new(&config)?.add_metadata(Metadata::Nodes(1)));
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    pub fn add_metadata(&mut self, step: Metadata) -> bool {
        self.table.storage.replenish(&self.shape, step)
    }

    /// Enters a new live block, stamped with the present generation, into the books.
    #[inline(always)]
    pub(super) fn admit(&mut self, slot: Slot, len: u64) -> Handle {
        let handle = Handle::new(slot, self.generation);
        self.generation = self.generation.next();
        self.books.add(len);
        handle
    }

    #[inline(always)]
    pub(crate) fn describe(&self, handle: Handle, start: u32, len: u64) -> Block {
        Block {
            handle,
            offset_bytes: self.shape.bytes(start.into()),
            size_bytes: self.shape.bytes(len),
        }
    }

    /// A new block outside spans.
    pub(super) fn admit_node(&mut self, node: u32) -> Block {
        let piece = self.table.storage.node(node);
        let (start, len) = (piece.start, piece.len());
        let handle = self.admit(Slot::Node(node), len);
        self.describe(handle, start, len)
    }

    /// The start and the length of a live block.
    #[inline(always)]
    fn extent(&self, found: Found) -> (u32, u64) {
        match found {
            Found::Node(node) => {
                let piece = self.table.storage.node(node);
                (piece.start, piece.len())
            }
            Found::InSpan(block) => (block.granule, 1 << block.order),
        }
    }

    /// Finds the live block that a handle names.
    #[inline(always)]
    pub(super) fn find(&self, handle: Handle) -> Result<Found, HandleError> {
        let generation = handle.generation_bits();
        match handle.slot() {
            Slot::Node(node) => {
                if node >= self.table.touched() {
                    return Err(HandleError::Foreign);
                }
                let piece = self.table.storage.node(node);
                if piece.is_live(generation) {
                    Ok(Found::Node(node))
                } else {
                    Err(HandleError::Stale)
                }
            }
            Slot::Granule(granule) => {
                let Free::Runs(_, spans) = &self.free else { return Err(HandleError::Foreign) };
                match spans.live_block(&self.table, granule, generation) {
                    Some(block) => Ok(Found::InSpan(block)),
                    None if self.shape.has_spans() => Err(HandleError::Stale),
                    None => Err(HandleError::Foreign),
                }
            }
        }
    }

    /// Frees a block. Returns what it was.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if the handle names no live block; nothing is changed.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_core::{HandleError, OffsetAllocator, RangeConfig};
    ///
    /// let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(4096)?;
    /// assert_eq!(range.free(block.handle()), Ok(block));
    /// assert_eq!(range.free(block.handle()), Err(HandleError::Stale));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn free(&mut self, handle: Handle) -> Result<Block, HandleError> {
        match self.release(handle) {
            (Some(len), start) => Ok(self.describe(handle, start, len.get())),
            (None, _) => Err(self.find(handle).err().unwrap_or(HandleError::Stale)),
        }
    }

    /// Frees a block: its length and start. `None` if there is no such block.
    #[inline(always)]
    pub(super) fn release(&mut self, handle: Handle) -> (Option<NonZeroU64>, u32) {
        let generation = handle.generation_bits();
        let (len, start) = match (&mut self.free, handle.slot()) {
            (Free::Runs(runs, _), Slot::Node(node)) => {
                let Table { storage, chain } = &mut self.table;
                match storage.slice() {
                    Some(nodes) => runs.free(nodes, chain, node, generation),
                    None => runs.free(storage, chain, node, generation),
                }
            }
            (Free::Runs(runs, spans), Slot::Granule(granule)) => {
                match spans.live_block(&self.table, granule, generation) {
                    Some(block) => {
                        if let Some(node) = spans.free(&mut self.table, block) {
                            runs.release_span(&mut self.table, node);
                        }
                        (NonZeroU64::new(1 << block.order), granule)
                    }
                    None => (None, 0),
                }
            }
            (Free::Buddies(buddies), Slot::Node(node)) => {
                buddies.free(&mut self.table, node, generation)
            }
            (Free::Buddies(_), Slot::Granule(_)) => (None, 0),
        };
        if let Some(len) = len {
            self.books.remove(len.get());
        }
        (len, start)
    }

    /// The live block that a handle names.
    ///
    /// # Errors
    ///
    /// [`HandleError`] if it names none.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let block = range.allocate(1)?;
    /// assert_eq!(range.block(block.handle())?.size_bytes(), 256);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[inline]
    pub fn block(&self, handle: Handle) -> Result<Block, HandleError> {
        let (start, len) = self.extent(self.find(handle)?);
        Ok(self.describe(handle, start, len))
    }
}
