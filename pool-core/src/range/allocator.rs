//! The allocator of one range: a request against spans and runs, in order.

use core::num::NonZeroU64;

use super::address_index::AddressIndex;
use super::block::{Block, RangeStats, Visits};
use super::buddies::{Buddies, order_of};
use super::config::{Placement, RangeConfig, Shape};
use super::error::{AllocError, ConfigError, HandleError, Metadata};
use super::handle::{Generation, Handle, Slot};
use super::need::Need;
use super::node::{NONE, Node};
use super::request::{Options, Request};
use super::runs::{Place, Runs};
use super::size_index::SizeIndex;
use super::spans::{SpanBlock, Spans};
#[cfg(feature = "alloc")]
use super::storage::Chunked;
use super::storage::{Borrowed, Storage};
use super::table::Table;

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
/// - **The same calls give the same offsets**, in every run and on every platform. Programs that
///   capture offsets and replay their work rely on it.
/// - **An error changes nothing**, and a free never fails for lack of metadata.
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
    generation: Generation,
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
#[derive(Clone, Copy, Default)]
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
}

impl<S: Storage> OffsetAllocator<S> {
    /// The nodes of an empty range.
    fn first_nodes(config: &RangeConfig, shape: &Shape) -> usize {
        match config.placement {
            Placement::BestFit | Placement::FirstFit => 1,
            Placement::Buddy => shape.capacity.count_ones() as usize,
        }
    }

    fn over(config: &RangeConfig, shape: Shape, storage: S) -> Result<Self, ConfigError> {
        let needed = Self::first_nodes(config, &shape);
        let mut table = Table::new(storage);
        let free = match config.placement {
            Placement::BestFit => Free::Runs(Runs::BySize(SizeIndex::new()), Spans::new(&shape)),
            Placement::FirstFit => {
                Free::Runs(Runs::ByAddress(AddressIndex::new()), Spans::new(&shape))
            }
            Placement::Buddy => Free::Buddies(Buddies::new()),
        };
        let mut range = Self {
            shape,
            placement: config.placement,
            free,
            books: Books::default(),
            generation: Generation::first(config.handle_seed),
            table: {
                let nodes = table.storage.count() as usize;
                if nodes < needed {
                    return Err(ConfigError::TooFewNodes { nodes, needed });
                }
                table.chain.first = NONE;
                table
            },
        };
        // The nodes for it are there, as was checked.
        let _ = match &mut range.free {
            Free::Runs(runs, _) => runs.grow(&mut range.table, 0, shape.capacity),
            Free::Buddies(buddies) => buddies.grow(&mut range.table, 0, shape.capacity),
        };
        Ok(range)
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
    fn replenish(
        &mut self,
        mut request: Request,
        mut missing: Metadata,
    ) -> Result<Block, AllocError> {
        loop {
            if !self.table.storage.replenish(&self.shape, missing) {
                match missing {
                    // Without tables for one more span the block lies outside.
                    Metadata::Span => request = request.options(Options::NO_NEW_SPAN),
                    Metadata::Nodes(_) => return Err(AllocError::OutOfMetadata(missing)),
                }
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
        if let Some(len) = Need::plain_len(&request, &self.shape)
            && let (Some(handle), start) = self.allocate_plainly(len)
        {
            let len = match handle.slot() {
                Slot::Node(_) => len,
                Slot::Granule(_) => len.next_power_of_two(),
            };
            return Ok(self.describe(handle, start, len));
        }
        self.allocate_at_last(&request)
    }

    /// What most requests take: a small block freed before, or the run that a first look shows.
    /// The handle and the start, which fit registers.
    #[inline(always)]
    fn allocate_plainly(&mut self, len: u64) -> (Option<Handle>, u32) {
        let Free::Runs(runs, spans) = &mut self.free else { return (None, 0) };
        let generation = self.generation;
        let (slot, start, len) = if len <= self.shape.small_granules {
            let order = order_of(len);
            let block = spans.allocate_quickly(&mut self.table, order, generation.bits());
            let Some(SpanBlock { granule, .. }) = block else { return (None, 0) };
            (Slot::Granule(granule), granule, 1 << order)
        } else {
            let Table { storage, chain } = &mut self.table;
            let claimed = match storage.slice() {
                Some(nodes) => runs.claim_at_first_look(nodes, chain, len, generation),
                None => runs.claim_at_first_look(storage, chain, len, generation),
            };
            let Some((node, start)) = claimed else { return (None, 0) };
            (Slot::Node(node), start, len)
        };
        (Some(self.admit(slot, len)), start)
    }

    /// Every way to serve a request, in order.
    #[inline(never)]
    fn allocate_at_last(&mut self, request: &Request) -> Result<Block, AllocError> {
        let need = &Need::of(request, &self.shape)?;
        let result = match &mut self.free {
            Free::Runs(..) => self.allocate_from_runs_or_spans(need),
            Free::Buddies(_) => self.allocate_buddy(need),
        };
        match result {
            Ok(Some(block)) => Ok(block),
            Ok(None) => Err(self.refusal(request)),
            Err(missing) => Err(AllocError::OutOfMetadata(missing)),
        }
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

    /// Orders of a request in a span, if it may lie in one at all.
    #[inline]
    fn span_orders(&self, need: &Need) -> Option<(u32, u32)> {
        let forbidden = Options::LIMIT_SPLIT | Options::OUTSIDE_SPANS;
        if need.has(forbidden) || need.len.max(need.align) > u64::from(self.shape.span_granules) {
            return None;
        }
        Some((order_of(need.len), need.align.trailing_zeros()))
    }

    /// Whether a request comes from spans first.
    #[inline]
    fn is_small(&self, need: &Need) -> bool {
        need.len <= self.shape.small_granules
            && !need.has(Options::LIMIT_SPLIT | Options::OUTSIDE_SPANS | Options::HIGH_END)
    }

    fn allocate_buddy(&mut self, need: &Need) -> Result<Option<Block>, Metadata> {
        let Free::Buddies(buddies) = &mut self.free else { return Ok(None) };
        let Some(node) = buddies.find(&self.table, need, &mut 0) else { return Ok(None) };
        let node = buddies.claim(&mut self.table, node, need, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// In order: an open span and a new one (small requests), the first look, the second look,
    /// the granules of the empty span, a free buddy of any span.
    fn allocate_from_runs_or_spans(&mut self, need: &Need) -> Result<Option<Block>, Metadata> {
        let mut missing = None;
        if self.is_small(need) {
            let block = self.allocate_in_spans(need);
            if block.is_some() {
                return Ok(block);
            }
            match self.open_span_for(need) {
                Ok(true) => return Ok(self.allocate_in_spans(need)),
                Ok(false) => {}
                Err(Metadata::Span) => return Err(Metadata::Span),
                // Without nodes to cut a span out, the block itself may still find some.
                Err(nodes) => missing = Some(nodes),
            }
        }
        let block = self.allocate_from_runs(need)?;
        if block.is_some() {
            return Ok(block);
        }
        let Free::Runs(_, spans) = &self.free else { return Ok(None) };
        if let Some(start) = Self::place_over_empty_span(&self.table, spans, need) {
            return self.allocate_over_empty_span(start, need.len);
        }
        let block = self.allocate_in_settled_spans(need);
        match missing {
            Some(missing) if block.is_none() => Err(missing),
            _ => Ok(block),
        }
    }

    /// A free buddy of an open span, once everything freed is merged: an earlier free is finished
    /// here at the latest, so it costs nothing anew.
    fn allocate_in_settled_spans(&mut self, need: &Need) -> Option<Block> {
        if let Free::Runs(_, spans) = &mut self.free {
            spans.settle(&mut self.table);
        }
        self.allocate_in_spans(need)
    }

    /// A block of the run that a look shows.
    fn allocate_from_runs(&mut self, need: &Need) -> Result<Option<Block>, Metadata> {
        let Free::Runs(runs, _) = &self.free else { return Ok(None) };
        let place = runs
            .first_look(&self.table, need, &mut 0)
            .or_else(|| runs.second_look(&self.table, need, &mut 0));
        let Some(place) = place else { return Ok(None) };
        let Free::Runs(runs, _) = &mut self.free else { return Ok(None) };
        let node = runs.claim(&mut self.table, place, need.len, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// A block in an open span.
    fn allocate_in_spans(&mut self, need: &Need) -> Option<Block> {
        let (order, align_order) = self.span_orders(need)?;
        let Free::Runs(_, spans) = &mut self.free else { return None };
        let generation = self.generation.bits();
        let block = spans.allocate(&mut self.table, order, align_order, generation)?;
        let (granule, len) = (block.granule, 1 << block.order);
        let handle = self.admit(Slot::Granule(granule), len);
        Some(self.describe(handle, granule, len))
    }

    /// Opens a span, if there is a run for one, or makes the empty one whole.
    fn open_span_for(&mut self, need: &Need) -> Result<bool, Metadata> {
        let Free::Runs(runs, spans) = &mut self.free else { return Ok(false) };
        let len = u64::from(self.shape.span_granules);
        if need.has(Options::NO_NEW_SPAN) || need.align > len {
            return Ok(false);
        }
        if spans.empty_node(&self.table) != NONE {
            // There is one, but for blocks that were freed and not merged.
            spans.settle(&mut self.table);
            return Ok(true);
        }
        let Some(place) = Self::place_for_span(&self.table, runs, need, len) else {
            return Ok(false);
        };
        if !spans.has_room(&self.table, (place.start / len) as u32) {
            return if S::GROWS { Err(Metadata::Span) } else { Ok(false) };
        }
        let node = runs.claim(&mut self.table, place, len, self.generation)?;
        spans.open(&mut self.table, node);
        Ok(true)
    }

    /// Where a new span of a length would lie, if it serves the request.
    fn place_for_span(table: &Table<S>, runs: &Runs, need: &Need, len: u64) -> Option<Place> {
        if need.align > len {
            return None;
        }
        let span = Need { len, align: len, ..*need };
        runs.first_look(table, &span, &mut 0).or_else(|| runs.second_look(table, &span, &mut 0))
    }

    /// Whether a small request would be served by opening a span.
    fn would_open_span(&self, runs: &Runs, spans: &Spans, need: &Need) -> bool {
        let len = u64::from(self.shape.span_granules);
        self.is_small(need)
            && !need.has(Options::NO_NEW_SPAN)
            && Self::place_for_span(&self.table, runs, need, len).is_some_and(|place| {
                S::GROWS || spans.has_room(&self.table, (place.start / len) as u32)
            })
    }

    /// Closes the empty span and cuts a block out of the run that makes.
    fn allocate_over_empty_span(
        &mut self,
        start: u64,
        len: u64,
    ) -> Result<Option<Block>, Metadata> {
        let Free::Runs(runs, spans) = &mut self.free else { return Ok(None) };
        let span = self.table.storage.node(spans.empty_node(&self.table));
        let merged = [span.before(), span.after()]
            .into_iter()
            .filter_map(|neighbour| self.table.free_neighbour(neighbour))
            .count() as u32;
        let Some((run_start, run_end)) = Self::run_over_empty_span(&self.table, spans) else {
            return Ok(None);
        };
        let pieces = u32::from(run_start < start) + u32::from(start + len < run_end);
        // Merging gives a node back for each neighbour before cutting takes any.
        self.table.require(pieces.saturating_sub(merged))?;
        let Some(node) = spans.close_empty(&mut self.table) else { return Ok(None) };
        let node = runs.release_span(&mut self.table, node);
        let place = Place { node, start };
        let node = runs.claim(&mut self.table, place, len, self.generation)?;
        Ok(Some(self.admit_node(node)))
    }

    /// Where a request would lie in the run that closing the empty span would make.
    fn place_over_empty_span(table: &Table<S>, spans: &Spans, need: &Need) -> Option<u64> {
        let (start, end) = Self::run_over_empty_span(table, spans)?;
        need.place_in(start, end - start)
    }

    /// The run that closing the empty span would make.
    pub(super) fn run_over_empty_span(table: &Table<S>, spans: &Spans) -> Option<(u64, u64)> {
        let node = spans.empty_node(table);
        if node == NONE {
            return None;
        }
        let span = table.storage.node(node);
        let before = table.free_neighbour(span.before());
        let after = table.free_neighbour(span.after());
        let start = before.map_or(span.start, |n| table.storage.node(n).start);
        let end = after.map_or(span.end(), |n| table.storage.node(n).end());
        Some((u64::from(start), end))
    }

    /// Enters a new live block, stamped with the present generation, into the books.
    #[inline(always)]
    fn admit(&mut self, slot: Slot, len: u64) -> Handle {
        let handle = Handle::new(slot, self.generation);
        self.generation = self.generation.next();
        self.books.add(len);
        handle
    }

    #[inline(always)]
    fn describe(&self, handle: Handle, start: u32, len: u64) -> Block {
        Block {
            handle,
            offset_bytes: self.shape.bytes(start.into()),
            size_bytes: self.shape.bytes(len),
        }
    }

    /// A new block outside spans.
    fn admit_node(&mut self, node: u32) -> Block {
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

    #[cold]
    fn refusal(&self, request: &Request) -> AllocError {
        AllocError::OutOfMemory {
            size_bytes: request.size_bytes,
            align_bytes: request.align_bytes.max(self.granule_bytes()),
            free_bytes: self.stats().free_bytes,
            largest_free_bytes: self.largest_free_bytes(),
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
    fn release(&mut self, handle: Handle) -> (Option<NonZeroU64>, u32) {
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

    /// Whether a request would be served now (but for missing metadata).
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig, Request};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// range.allocate(256)?;
    /// assert!(range.fits((1 << 20) - 256));
    /// assert!(!range.fits(Request::new(1 << 19).align_bytes(1 << 20)));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn fits(&self, request: impl Into<Request>) -> bool {
        self.visits(request).served
    }

    /// How many blocks a request would visit, and whether it would be served: what the stated
    /// bounds are about.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// let visits = range.visits(4096);
    /// assert!(visits.served && visits.first_look);
    /// assert_eq!(visits.blocks, 2); // the one free run, found and compared with its like
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn visits(&self, request: impl Into<Request>) -> Visits {
        let mut visits = Visits::default();
        let Ok(need) = Need::of(&request.into(), &self.shape) else { return visits };
        let blocks = &mut visits.blocks;
        let (runs, spans) = match &self.free {
            Free::Runs(runs, spans) => (runs, spans),
            Free::Buddies(buddies) => {
                visits.served = buddies.find(&self.table, &need, blocks).is_some();
                visits.first_look = visits.served;
                return visits;
            }
        };
        let in_spans = self
            .span_orders(&need)
            .is_some_and(|(order, align_order)| spans.serve(&self.table, order, align_order));
        if in_spans && self.is_small(&need) {
            return Visits { served: true, first_look: true, blocks: 1 };
        }
        if runs.first_look(&self.table, &need, blocks).is_some() {
            return Visits { served: true, first_look: true, blocks: *blocks };
        }
        visits.served = runs.second_look(&self.table, &need, blocks).is_some()
            || Self::place_over_empty_span(&self.table, spans, &need).is_some()
            || in_spans
            || self.would_open_span(runs, spans, &need);
        visits
    }

    /// The largest size that would be served now at the granule's alignment, without options.
    ///
    /// # Complexity
    ///
    /// At most one block for each bit of a size.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// range.allocate(512)?;
    /// assert_eq!(range.largest_free_bytes(), (1 << 20) - 512);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn largest_free_bytes(&self) -> u64 {
        let granules = match &self.free {
            Free::Runs(runs, spans) => {
                let run = runs.longest(&self.table);
                let over_span = Self::run_over_empty_span(&self.table, spans);
                let buddy = 1 << spans.settled_rank(&self.table) >> 1;
                run.max(over_span.map_or(0, |(start, end)| end - start)).max(buddy)
            }
            Free::Buddies(buddies) => buddies.longest(),
        };
        self.shape.bytes(granules)
    }

    /// The bytes that the range manages: a whole number of granules.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// assert_eq!(OffsetAllocator::new(&RangeConfig::new(1023))?.capacity_bytes(), 768);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.shape.bytes(self.shape.capacity)
    }

    /// The unit of sizes and offsets.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// assert_eq!(OffsetAllocator::new(&RangeConfig::new(1 << 20))?.granule_bytes(), 256);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        self.shape.bytes(1)
    }

    /// Which free block serves a request.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, Placement, RangeConfig};
    /// let range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// assert_eq!(range.placement(), Placement::BestFit);
    /// # Ok::<(), pool_core::ConfigError>(())
    /// ```
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The books.
    ///
    /// # Example
    ///
    /// ```
    /// # use pool_core::{OffsetAllocator, RangeConfig};
    /// # let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 20))?;
    /// range.allocate(1000)?;
    /// let stats = range.stats();
    /// assert_eq!((stats.live_blocks, stats.live_bytes), (1, 1024));
    /// assert_eq!(stats.live_bytes + stats.free_bytes, stats.capacity_bytes);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> RangeStats {
        RangeStats {
            capacity_bytes: self.capacity_bytes(),
            live_bytes: self.shape.bytes(self.books.live_granules),
            peak_live_bytes: self.shape.bytes(self.books.peak_live_granules),
            free_bytes: self.shape.bytes(self.shape.capacity - self.books.live_granules),
            live_blocks: self.books.live_blocks,
            spans: match &self.free {
                Free::Runs(_, spans) => spans.open_count(),
                Free::Buddies(_) => 0,
            },
            nodes: self.table.used(),
        }
    }
}

impl<S: Storage> core::fmt::Debug for OffsetAllocator<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("OffsetAllocator")
            .field("placement", &self.placement)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
