//! Shards that belong to owners: the *spaces* of a pool's streams.
//!
//! The range is the *hub*, which owns what nobody has; each owner's number is that of its own
//! shard. A block is cached only for the owner whose shard it is of, so that it goes back there
//! whenever it leaves the cache. Nothing passes from one space to another by itself: the layer
//! above takes free stretches out of one and puts them into another, once their streams are in
//! order.

use alloc::vec::Vec;

use super::SharedAllocator;
use super::centre::{Centre, RANGE};
use super::config::SharedConfig;
use super::inner::Inner;
use super::names::in_shard;
use super::owner::Owner;
use super::packed::{Folded, Packed};
use super::platform::Threads;
use super::word::Giver;
use crate::range::{
    AllocError, Block, ConfigError, Handle, HandleError, Need, Options, Request, Shape, Slot,
    Stretch,
};

/// The hub's number.
pub(crate) const HUB: Owner = Owner::CLEAN;

/// A block that the program gave back and nobody may use yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aside {
    /// Under which it is known from now on.
    handle: Handle,
    /// Whose space it is of.
    pub(crate) space: Owner,
    pub(crate) offset_bytes: u64,
    pub(crate) size_bytes: u64,
}

impl Aside {
    /// Where it lies.
    pub(crate) fn stretch(&self, shape: &Shape) -> Stretch {
        shape.stretch(self.offset_bytes, self.size_bytes)
    }

    /// Whether it lies in a span.
    pub(crate) fn is_in_span(&self) -> bool {
        matches!(self.handle.slot(), Slot::Granule(_))
    }
}

/// Why a block was not freed into its owner's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotFreed {
    /// It is of another space.
    Elsewhere,
    /// There is no such block.
    Handle(HandleError),
}

/// What a space has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceUse {
    /// What no memory is behind is none.
    pub(crate) owned_bytes: u64,
    /// Blocks that were given out, cached ones and those set aside included.
    pub(crate) used_bytes: u64,
    pub(crate) used_blocks: u64,
    pub(crate) longest_run_bytes: u64,
}

impl<T: Threads> SharedAllocator<T> {
    /// A range of which nothing is there yet, and no space but the hub.
    pub(crate) fn of_spaces(config: &SharedConfig) -> Result<Self, ConfigError> {
        Ok(Self::over(Inner::around(Centre::by_owner(&config.range)?, config)?))
    }

    /// Shows the size of every free piece of every space, one space at a time.
    #[cfg(feature = "record")]
    pub(crate) fn each_free_piece(&self, mut each: impl FnMut(u64)) {
        let centre = &self.inner().centre;
        for shard in centre.all() {
            centre.lock(shard).range().free_pieces().for_each(&mut each);
        }
    }

    /// The blocks that the program has, one space at a time.
    #[cfg(feature = "record")]
    pub(crate) fn live_blocks(&self) -> Vec<Block> {
        let centre = &self.inner().centre;
        let mut blocks = Vec::new();
        for shard in centre.all() {
            blocks.extend(centre.lock(shard).range().live_blocks_of_islands());
        }
        // What is in caches or set aside is the program's no more.
        let live = blocks.iter().filter_map(|block| {
            let handle = self.block_at(block.offset_bytes())?;
            self.block(handle).ok()
        });
        live.collect()
    }

    /// How many spaces there can be, the hub included.
    pub(crate) fn most_spaces(&self) -> u32 {
        self.inner().centre.count()
    }

    pub(crate) fn shape(&self) -> &Shape {
        self.inner().shape()
    }

    /// Makes a space, unless it is there.
    pub(crate) fn make_space(
        &self,
        space: Owner,
        config: &SharedConfig,
    ) -> Result<(), ConfigError> {
        self.inner().centre.make(space.0, &config.range)
    }

    /// A block of an owner's own space, from a cache or from the space itself, if there is one at the
    /// first look. In registers: what passes through memory is waited for there.
    #[inline(always)]
    pub(crate) fn hit_in(&self, space: Owner, request: &Request) -> Option<Packed> {
        self.hit_of_len(space, Need::plain_len(request, self.inner().shape()))
    }

    /// The same for a request that asks for nothing but bytes.
    #[inline(always)]
    pub(crate) fn hit_of_size(&self, space: Owner, size_bytes: u64) -> Option<Packed> {
        self.hit_of_len(space, Need::len_of(size_bytes, self.inner().shape()))
    }

    #[inline(always)]
    fn hit_of_len(&self, space: Owner, plain_len: Option<u64>) -> Option<Packed> {
        let inner = self.inner();
        if let Some(class) = inner.classes.of_len(plain_len) {
            let handle = T::with_cache(self, |cache| cache.hit_by_call(space, class))??;
            let start = handle.slot().index();
            return Some(Packed::new(handle, Stretch { start, len: 1 << class }));
        }
        let len = plain_len.filter(|&len| len > inner.shape().small_granules)?;
        T::with_cache(self, |cache| cache.hit_large(space, len))?.map(Folded::unfold)
    }

    /// A block of an owner's own space, from a cache or from the space itself.
    #[inline(never)]
    pub(crate) fn allocate_in(&self, space: Owner, request: &Request) -> Result<Block, AllocError> {
        self.allocate_by(space, request)
    }

    /// A block of a space, past all caches, which stay as they are.
    pub(crate) fn allocate_past_caches(
        &self,
        space: Owner,
        request: &Request,
    ) -> Result<Block, AllocError> {
        self.inner().allocate_loosely(space, request)
    }

    /// Frees a block into its owner's space, or a cache of it, if it is of that space and that takes
    /// no more than a look.
    #[inline(always)]
    pub(crate) fn free_hit(&self, space: Owner, handle: Handle) -> Option<Packed> {
        self.free_hit_by::<false>(space, handle)
    }

    /// The same, by the only thread that can.
    #[inline(always)]
    pub(crate) fn free_hit_alone(&self, space: Owner, handle: Handle) -> Option<Packed> {
        self.free_hit_by::<true>(space, handle)
    }

    #[inline(always)]
    fn free_hit_by<const ALONE: bool>(&self, space: Owner, handle: Handle) -> Option<Packed> {
        match handle.slot() {
            Slot::Granule(granule) => {
                let absorbed = T::with_cache(self, |cache| {
                    cache.absorb_by_call::<ALONE>(space, handle, granule)
                });
                let class = absorbed??;
                Some(Packed::new(handle, Stretch { start: granule, len: 1 << class }))
            }
            Slot::Node(_) if in_shard(handle).0 == space.0 => {
                T::with_cache(self, |cache| cache.free_large_by_call(handle))?.map(Folded::unfold)
            }
            Slot::Node(_) => None,
        }
    }

    /// Frees a block into its owner's space, or a cache of it, if it is of that space.
    #[inline(never)]
    pub(crate) fn free_in(&self, space: Owner, handle: Handle) -> Result<Block, NotFreed> {
        if self.space_of(handle).map_err(NotFreed::Handle)? != space {
            return Err(NotFreed::Elsewhere);
        }
        self.free_slowly(space, handle).map_err(NotFreed::Handle)
    }

    /// The space that a live block is of.
    pub(crate) fn space_of(&self, handle: Handle) -> Result<Owner, HandleError> {
        match handle.slot() {
            Slot::Granule(granule) => {
                let found = self.inner().words.find(handle, granule)?;
                Ok(Owner(found.cut().shard()))
            }
            Slot::Node(_) => Ok(Owner(in_shard(handle).0)),
        }
    }

    /// Takes a block from the program, of which nobody can use it until it is
    /// [put back](Self::put_back).
    pub(crate) fn set_aside(&self, handle: Handle) -> Result<Aside, HandleError> {
        let inner = self.inner();
        let aside = match handle.slot() {
            Slot::Granule(granule) => {
                let found = inner.words.find(handle, granule)?;
                let cut = found.cut();
                let handle = found.free(granule)?;
                let block = inner.describe(handle, cut.order() as usize);
                Aside {
                    handle,
                    space: Owner(cut.shard()),
                    offset_bytes: block.offset_bytes,
                    size_bytes: block.size_bytes,
                }
            }
            Slot::Node(_) => {
                let strike = |block| inner.starts.strike(block);
                let (handle, stretch) = inner.centre.rename(handle, strike)?;
                Aside {
                    handle,
                    space: Owner(in_shard(handle).0),
                    offset_bytes: inner.shape().bytes(stretch.start.into()),
                    size_bytes: inner.shape().bytes(stretch.len),
                }
            }
        };
        inner.loose.took_shared(aside.size_bytes);
        Ok(aside)
    }

    /// Gives a block that was set aside to the program again. None if the host has no room to note
    /// where it is: then it is free.
    pub(crate) fn take_up(&self, aside: Aside) -> Option<Block> {
        let inner = self.inner();
        let Aside { handle, offset_bytes, size_bytes, .. } = aside;
        match handle.slot() {
            Slot::Granule(_) => inner.words.give(handle, Giver::NO_CACHE),
            Slot::Node(_) => {
                if inner.starts.note(aside.stretch(inner.shape()), handle).is_err() {
                    self.put_back(aside);
                    return None;
                }
            }
        }
        inner.loose.gave_shared(size_bytes);
        Some(Block { handle, offset_bytes, size_bytes })
    }

    /// Frees a block that was set aside, into the space that it is of.
    pub(crate) fn put_back(&self, aside: Aside) {
        let inner = self.inner();
        match aside.handle.slot() {
            Slot::Granule(granule) => {
                inner.centre.free_in_spans(core::iter::once((aside.space.0, granule)));
            }
            Slot::Node(_) => {
                let freed = inner.centre.free_outside(aside.handle, |_| {});
                debug_assert!(freed.is_ok(), "a block that was set aside is gone");
            }
        }
    }

    /// Takes a live block outside spans out of its space, which has it no more: where it lay.
    pub(crate) fn take_live(&self, handle: Handle) -> Result<Block, HandleError> {
        let inner = self.inner();
        let stretch = inner.centre.take_live(handle, |block| inner.starts.strike(block))?;
        let size_bytes = inner.shape().bytes(stretch.len);
        inner.loose.took_shared(size_bytes);
        Ok(Block { handle, offset_bytes: inner.shape().bytes(stretch.start.into()), size_bytes })
    }

    /// Takes a live block outside spans, of whatever space, out of what is given out: where it lay,
    /// which is lent by the hub from then on and in the caller's hands.
    pub(crate) fn take_lent_live(&self, handle: Handle) -> Result<Stretch, HandleError> {
        let inner = self.inner();
        let strike = |block| inner.starts.strike(block);
        let stretch = if self.space_of(handle)? == HUB {
            inner.centre.lend_live(handle, strike)?
        } else {
            inner.centre.take_live(handle, strike)?
        };
        inner.loose.took_shared(inner.shape().bytes(stretch.len));
        Ok(stretch)
    }

    /// Gives an owner's space a stretch that is lent and in the caller's hands, as a live block.
    /// None for want of metadata: then it is in those hands still.
    pub(crate) fn give_live(&self, space: Owner, stretch: Stretch) -> Option<Block> {
        let inner = self.inner();
        let block = inner.centre.adopt_live(space.0, stretch)?;
        if inner.starts.note(stretch, block.handle).is_err() {
            // Nobody knows it yet.
            let taken = inner.centre.take_live(block.handle, |_| {});
            debug_assert!(taken.is_ok(), "a block that was made just now is gone");
            return None;
        }
        inner.loose.gave_shared(block.size_bytes);
        Some(block)
    }

    /// Takes a block that was set aside out of its space, if it lies outside spans.
    pub(crate) fn take_aside(&self, aside: &Aside) -> Option<Stretch> {
        match aside.handle.slot() {
            Slot::Node(_) => self.inner().centre.take_live(aside.handle, |_| {}).ok(),
            Slot::Granule(_) => None,
        }
    }

    /// Bytes of blocks that were given out, cached ones and those set aside included.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.shape().bytes(self.inner().centre.used_at_a_glance())
    }

    /// Whether a request is for a block that spans serve.
    pub(crate) fn is_small(&self, request: &Request) -> bool {
        let shape = self.shape();
        request.size_bytes <= shape.bytes(shape.small_granules)
    }

    /// Gives the hub a stretch that nobody had: a new arena. False for want of metadata.
    pub(crate) fn add_to_hub(&self, arena: Stretch) -> bool {
        self.inner().centre.lock(RANGE).range().adopt(arena).is_ok()
    }

    /// Gives a space a stretch that nobody had, past the hub. False for want of metadata.
    pub(crate) fn add_lent(&self, space: Owner, arena: Stretch) -> bool {
        if !self.inner().centre.lock(RANGE).adopt_lent(arena) {
            return false;
        }
        let given = self.give(space, arena);
        if !given {
            // Back to where it came from: nowhere.
            self.give(HUB, arena);
            self.take_arena(arena);
        }
        given
    }

    /// Gives the hub what lies behind an arena, which nobody had: a part of that. False for want of
    /// metadata.
    pub(crate) fn lengthen(&self, more: Stretch) -> bool {
        self.inner().centre.lock(RANGE).range().append(more).is_ok()
    }

    /// Granules that are free in a space before one.
    pub(crate) fn free_before(&self, space: Owner, end: u64) -> u64 {
        self.inner().centre.lock(space.0).range().free_before(end)
    }

    /// Bytes that were certainly enough since the last look: the most that each space gave out at
    /// once, added up. What is given out now is where the next look begins.
    pub(crate) fn take_high_bytes(&self) -> u64 {
        self.shape().bytes(self.inner().centre.take_high())
    }

    /// Takes an arena out of the hub, if all of it is there and free.
    pub(crate) fn take_arena(&self, arena: Stretch) -> bool {
        self.inner().centre.lock(RANGE).range().take_island(arena)
    }

    /// Takes a stretch out of a space that was given to it whole, if all of it is free.
    pub(crate) fn take_island(&self, space: Owner, stretch: Stretch) -> bool {
        self.inner().centre.lock(space.0).range().take_island(stretch)
    }

    /// Whether all of an arena is in the hub, and free.
    pub(crate) fn is_idle_in_hub(&self, arena: Stretch) -> bool {
        let taken = self.take_arena(arena);
        taken && self.add_to_hub(arena)
    }

    /// Takes a free stretch that serves a request out of the hub, to be given to a space or back.
    pub(crate) fn take_lent(&self, size_bytes: u64, align_bytes: u64) -> Option<Stretch> {
        self.inner().centre.lock(RANGE).lend(size_bytes, align_bytes)
    }

    /// Takes all free runs of the hub out of it, to be given to spaces or back, as far as there is
    /// room to note them.
    pub(crate) fn take_all_lent(&self, stretches: &mut Vec<Stretch>) {
        self.inner().centre.lock(RANGE).lend_all(self.shape(), stretches);
    }

    /// Has what the hub has lent be two at a granule, so that either part can be given back
    /// without metadata. False for want of that.
    pub(crate) fn split_lent(&self, at: u32) -> bool {
        self.inner().centre.lock(RANGE).split_lent(at)
    }

    /// Takes all free runs of an arena out of the hub, to be given to a space or back, as far as there
    /// is room to note them.
    pub(crate) fn take_free_of(&self, arena: Stretch, stretches: &mut Vec<Stretch>) {
        self.inner().centre.lock(RANGE).lend_free_of(arena, stretches);
    }

    /// Bytes of an arena that are free in the hub, outside spans.
    pub(crate) fn free_bytes_of(&self, arena: Stretch) -> u64 {
        let granules = self.inner().centre.lock(RANGE).range().free_granules_of(arena);
        self.shape().bytes(granules)
    }

    /// Takes a free stretch that serves a request out of a space.
    pub(crate) fn take_stretch(
        &self,
        space: Owner,
        size_bytes: u64,
        align_bytes: u64,
        options: Options,
    ) -> Option<Stretch> {
        let mut guard = self.inner().centre.lock(space.0);
        guard.range().take_stretch(size_bytes, align_bytes, options)
    }

    /// Takes all free runs of a space out of it, as far as there is room to note them.
    pub(crate) fn take_all(&self, space: Owner, stretches: &mut Vec<Stretch>) {
        let mut guard = self.inner().centre.lock(space.0);
        guard.range().gather();
        while stretches.try_reserve(1).is_ok() {
            let Some(stretch) = guard.range().take_longest() else { break };
            stretches.push(stretch);
        }
    }

    /// Gives a stretch that was taken out of a space to another, or to the hub. False for want of
    /// metadata: then it is nobody's, and has to be given elsewhere.
    pub(crate) fn give(&self, space: Owner, stretch: Stretch) -> bool {
        let mut guard = self.inner().centre.lock(space.0);
        if space == HUB { guard.take_back(stretch) } else { guard.range().adopt(stretch).is_ok() }
    }

    /// What a space has.
    pub(crate) fn use_of(&self, space: Owner) -> SpaceUse {
        if !self.inner().centre.has(space.0) {
            return SpaceUse::default();
        }
        let shape = self.shape();
        let mut guard = self.inner().centre.lock(space.0);
        let owned = guard.owned_granules().unwrap_or(0);
        let elsewhere = guard.lent_granules() + guard.range().bare_granules();
        SpaceUse {
            owned_bytes: shape.bytes(owned - elsewhere),
            used_bytes: shape.bytes(guard.used_granules()),
            used_blocks: guard.used_blocks(),
            longest_run_bytes: shape.bytes(guard.range().longest_run()),
        }
    }

    /// The largest request that a space could serve.
    pub(crate) fn largest_in(&self, space: Owner) -> u64 {
        self.inner().centre.lock(space.0).range().largest_free_bytes()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::range::{Placement, RangeConfig, Spans};
    use crate::threads::DefaultThreads;

    const ARENAS: [Stretch; 3] = [
        Stretch { start: 0, len: 1 << 12 },
        Stretch { start: 1 << 13, len: 5000 },
        Stretch { start: (1 << 15) + 3, len: 3001 },
    ];

    fn of_arenas(placement: Placement, tolerance_percent: u8) -> SharedAllocator<DefaultThreads> {
        let range = RangeConfig::new(1 << 24).placement(placement).spans(Spans::Off);
        let config = SharedConfig::new(range.tolerance_percent(tolerance_percent));
        let shared = SharedAllocator::of_spaces(&config).unwrap();
        assert_eq!(shared.largest_in(HUB), 0, "nothing is there yet");
        for space in [2, 3] {
            shared.make_space(Owner(space), &config).unwrap();
        }
        for arena in ARENAS {
            assert!(shared.add_to_hub(arena));
        }
        shared
    }

    /// Whatever is lent, cut, freed, and moved about in whatever pieces: each arena is whole again
    /// once all of it is back.
    #[test]
    fn memory_goes_about_between_spaces_under_every_placement() {
        for (placement, percent) in [
            (Placement::BestFit, 0),
            (Placement::BestFit, 30),
            (Placement::FirstFit, 0),
            (Placement::FirstFit, 30),
            (Placement::Buddy, 0),
        ] {
            let shared = of_arenas(placement, percent);
            let mut random = fastrand::Rng::with_seed(7);
            let mut blocks = Vec::new();
            let mut moved = 0;
            for _ in 0..4000 {
                let (space, other) = if random.bool() { (2, 3) } else { (3, 2) };
                let bytes = 256 << random.u32(0..11);
                let bytes = bytes + random.u64(0..bytes);
                match random.u32(0..10) {
                    0..=3 => {
                        if let Ok(block) = shared.allocate_in(Owner(space), &bytes.into()) {
                            assert!(block.size_bytes() >= bytes);
                            blocks.push(block);
                        }
                    }
                    4..=6 if !blocks.is_empty() => {
                        let block = blocks.swap_remove(random.usize(0..blocks.len()));
                        let home = shared.space_of(block.handle()).unwrap();
                        shared.free_in(home, block.handle()).unwrap();
                    }
                    7 => {
                        if let Some(lent) = shared.take_lent(bytes, 256 << random.u32(0..4)) {
                            assert!(shared.give(Owner(space), lent));
                            moved += 1;
                        }
                    }
                    8 => {
                        let high = Options::HIGH_END;
                        if let Some(part) = shared.take_stretch(Owner(other), bytes, 256, high) {
                            assert!(shared.give(Owner(space), part));
                            moved += 1;
                        }
                    }
                    9 if random.u32(0..8) == 0 => {
                        let mut stretches = Vec::new();
                        shared.take_all(Owner(space), &mut stretches);
                        assert!(stretches.into_iter().all(|part| shared.give(HUB, part)));
                    }
                    _ => {}
                }
                shared.verify().unwrap();
            }
            assert!(moved > 300 && !blocks.is_empty(), "{placement:?}: {moved}");
            assert!(ARENAS.iter().any(|&arena| !shared.take_arena(arena)), "some of it is out");
            for block in blocks {
                let home = shared.space_of(block.handle()).unwrap();
                shared.free_in(home, block.handle()).unwrap();
            }
            for space in [2, 3] {
                let mut stretches = Vec::new();
                shared.take_all(Owner(space), &mut stretches);
                assert!(stretches.into_iter().all(|part| shared.give(HUB, part)));
            }
            shared.verify().unwrap();
            for arena in ARENAS {
                assert!(shared.take_arena(arena), "{placement:?}: {arena:?}");
            }
            shared.verify().unwrap();
        }
    }

    /// What is first or highest is so in all islands together, also for a request that walks.
    #[test]
    fn first_fit_knows_every_island() {
        let shared = of_arenas(Placement::FirstFit, 0);
        let careful = |bytes| Request::new(bytes).never_split_above(5000 * 256);
        let low = shared.allocate_past_caches(HUB, &careful(100 * 256)).unwrap();
        assert_eq!(low.offset_bytes(), 0);
        let high = careful(100 * 256).options(Options::HIGH_END);
        let high = shared.allocate_past_caches(HUB, &high).unwrap();
        let end = u64::from(ARENAS[2].start) + ARENAS[2].len;
        assert_eq!(high.offset_bytes(), (end - 100) * 256);
        let long = shared.allocate_past_caches(HUB, &careful(4500 * 256)).unwrap();
        assert_eq!(long.offset_bytes(), u64::from(ARENAS[1].start) * 256);
    }
}
