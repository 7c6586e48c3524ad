//! One shard: a part of the range that is worked on under its own lock.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::latest::Latest;
use super::names::MOST_NODES;
use crate::range::{
    AllocError, Block, Chunked, ConfigError, Handle, HandleError, Metadata, OffsetAllocator,
    RangeConfig, Request, Rest, Shape, Slot, Stretch,
};

/// A part of the range under one lock. The first shard is the range itself, which lends
/// stretches; the others own what they borrowed.
pub(crate) struct Shard {
    /// Only [`range`](Self::range) gives access, so that nobody looks at what is not so yet.
    settled: OffsetAllocator<Chunked>,
    latest: Option<Latest>,
    /// Granules of that one if it is free, which the range counts as live.
    pending_granules: u64,
    /// What the range has lent, by its first granule: the node that stands for it.
    lent: Vec<(u32, u32)>,
    lent_granules: u64,
    /// Times that the lock was taken, and those when it had to be waited for.
    pub(crate) locks: u64,
    pub(crate) waits: u64,
    /// Granules in use when the peak was last looked at; of an owner's shard, the most since then.
    pub(crate) seen_granules: u64,
}

impl Shard {
    /// The range itself.
    pub(crate) fn of_range(config: &RangeConfig) -> Result<Self, ConfigError> {
        Ok(Self::over(OffsetAllocator::new(config)?))
    }

    /// A shard that owns nothing yet.
    pub(crate) fn of_islands(config: &RangeConfig) -> Result<Self, ConfigError> {
        // A shard's blocks are a fraction of all; more metadata follows as it needs it.
        Ok(Self::over(OffsetAllocator::of_islands(&config.expect_blocks(8192))?))
    }

    fn over(range: OffsetAllocator<Chunked>) -> Self {
        Self {
            settled: range,
            latest: None,
            pending_granules: 0,
            lent: Vec::new(),
            lent_granules: 0,
            locks: 0,
            waits: 0,
            seen_granules: 0,
        }
    }

    /// The allocator of its part of the range, with all that was freed merged.
    #[inline(always)]
    pub(crate) fn range(&mut self) -> &mut OffsetAllocator<Chunked> {
        if let Some(latest) = self.latest.take()
            && latest.is_free
        {
            self.merge(&latest);
        }
        &mut self.settled
    }

    /// Frees what the program has freed before.
    #[inline(never)]
    fn merge(&mut self, latest: &Latest) {
        let merged = self.settled.free_stretch(latest.handle);
        debug_assert!(merged.is_some(), "nobody else has the handle of {latest:?}");
        self.pending_granules = 0;
    }

    /// Serves a request of a plain length from this shard alone, at the first look.
    #[inline(always)]
    pub(crate) fn serve_len(&mut self, len: u64) -> Option<Block> {
        if let Some((handle, Stretch { start, len })) = self.serve_again(len) {
            return Some(self.settled.describe(handle, start, len));
        }
        let block = self.range().serve_len(len)?;
        let block = self.nameable(block).ok()?;
        if let Slot::Node(_) = block.handle.slot() {
            self.latest = Some(Latest::served(block.handle, self.settled.stretch_of(&block)));
        }
        Some(block)
    }

    /// The same for a length that spans do not serve: the handle that the shard knows the block by,
    /// and where it lies.
    #[inline(always)]
    pub(crate) fn serve_outside(&mut self, len: u64) -> Option<(Handle, Stretch)> {
        if let Some(served) = self.serve_again(len) {
            return Some(served);
        }
        let (handle, start) = self.serve_anew(len)?;
        Some((handle, Stretch { start, len }))
    }

    /// The block that was served and freed last, to a request of the same length.
    #[inline(always)]
    fn serve_again(&mut self, len: u64) -> Option<(Handle, Stretch)> {
        let served = self.latest.as_mut()?.serve(len)?;
        self.pending_granules = 0;
        Some(served)
    }

    /// A call, so that those who do without it save no registers.
    #[inline(never)]
    fn serve_anew(&mut self, len: u64) -> Option<(Handle, u32)> {
        let block = self.serve_len(len)?;
        Some((block.handle, self.settled.stretch_of(&block).start))
    }

    /// Frees the live block outside spans that a handle names: where it was.
    #[inline(always)]
    pub(crate) fn free_outside(&mut self, handle: Handle) -> Option<Stretch> {
        if let Some(latest) = &mut self.latest
            && latest.is_of(handle)
        {
            // No copy of the program's handle is good any more.
            latest.handle = self.settled.renew(handle);
            latest.is_free = true;
            self.pending_granules = latest.stretch.len;
            return Some(latest.stretch);
        }
        let (len, start) = self.free_now(handle);
        Some(Stretch { start, len: len?.get() })
    }

    /// A call, as above: its length and start.
    #[inline(never)]
    fn free_now(&mut self, handle: Handle) -> (Option<NonZeroU64>, u32) {
        match self.range().free_stretch(handle) {
            Some(Stretch { start, len }) => (NonZeroU64::new(len), start),
            None => (None, 0),
        }
    }

    /// The live block outside spans that the program has by a handle.
    pub(crate) fn block(&self, handle: Handle) -> Result<Block, HandleError> {
        // What is freed has another handle.
        self.settled.block(handle)
    }

    /// Serves a request from this shard alone.
    pub(crate) fn serve(&mut self, request: &Request) -> Result<Option<Block>, AllocError> {
        match self.range().serve(request)? {
            Some(block) => self.nameable(block).map(Some),
            None => Ok(None),
        }
    }

    /// That a handle can name a block; else it goes back.
    #[inline(always)]
    fn nameable(&mut self, block: Block) -> Result<Block, AllocError> {
        match block.handle.slot() {
            Slot::Node(node) if node >= MOST_NODES => {
                // It was allocated just now.
                let _ = self.range().free(block.handle);
                Err(AllocError::OutOfMetadata(Metadata::Nodes(1)))
            }
            _ => Ok(block),
        }
    }

    /// Granules that it owns; none for the whole range.
    pub(crate) fn owned_granules(&self) -> Option<u64> {
        self.settled.owned_granules()
    }

    /// The most granules that were live at once. What waits to be merged was, before it was freed.
    pub(crate) fn peak_granules(&self) -> u64 {
        self.settled.peak_live_granules()
    }

    /// Granules of blocks that were given out and not taken back.
    #[inline(always)]
    pub(crate) fn used_granules(&self) -> u64 {
        self.settled.live_granules() - self.lent_granules - self.pending_granules
    }

    /// Blocks that were given out and not taken back.
    pub(crate) fn used_blocks(&self) -> u64 {
        self.settled.live_blocks() - self.lent.len() as u64 - u64::from(self.pending_granules > 0)
    }

    pub(crate) fn lent_granules(&self) -> u64 {
        self.lent_granules
    }

    /// Lends a stretch of so many bytes, aligned to `align_bytes`; none if there is none free.
    pub(crate) fn lend(&mut self, bytes: u64, align_bytes: u64) -> Option<Stretch> {
        self.lent.try_reserve(1).ok()?;
        let (node, stretch) = self.range().lend(bytes, align_bytes)?;
        self.enter_lent(stretch, node);
        Some(stretch)
    }

    /// Lends a stretch at a place; none if it is not free.
    pub(crate) fn lend_at(&mut self, offset_bytes: u64, bytes: u64) -> Option<Stretch> {
        self.lent.try_reserve(1).ok()?;
        let request = Request::new(bytes).at_place(offset_bytes);
        let (node, stretch) = self.range().lend_for(&request)?;
        self.enter_lent(stretch, node);
        Some(stretch)
    }

    /// Notes what is lent, and by which node. The caller has made sure of the room.
    fn enter_lent(&mut self, stretch: Stretch, node: u32) {
        let place = self.lent.partition_point(|&(first, _)| first < stretch.start);
        self.lent.insert(place, (stretch.start, node));
        self.lent_granules += stretch.len;
    }

    /// Enters a stretch that nobody had as one that is lent. False for want of metadata.
    pub(crate) fn adopt_lent(&mut self, stretch: Stretch) -> bool {
        if self.lent.try_reserve(1).is_err() {
            return false;
        }
        let Ok(node) = self.range().adopt_lent(stretch) else { return false };
        self.enter_lent(stretch, node);
        true
    }

    /// Lends all free runs, as far as there is room to note them.
    pub(crate) fn lend_all(&mut self, shape: &Shape, stretches: &mut Vec<Stretch>) {
        self.range().gather();
        while self.range().longest_run() > 0 && stretches.try_reserve(1).is_ok() {
            let longest_bytes = shape.bytes(self.range().longest_run());
            let Some(stretch) = self.lend(longest_bytes, 1) else { break };
            stretches.push(stretch);
        }
    }

    /// Lends every free run of an island of the range, as far as there is room to note them.
    pub(crate) fn lend_free_of(&mut self, island: Stretch, stretches: &mut Vec<Stretch>) {
        let mut taken = Vec::new();
        self.range().lend_free_of(island, &mut taken);
        for (node, stretch) in taken {
            if self.lent.try_reserve(1).is_err() || stretches.try_reserve(1).is_err() {
                // It was free just now: that takes no metadata.
                let returned = self.range().take_back(node, stretch);
                debug_assert!(returned.is_ok(), "a free run is nobody's");
                continue;
            }
            self.enter_lent(stretch, node);
            stretches.push(stretch);
        }
    }

    /// Lends what a live block outside spans has, under whose handle nobody finds it any more.
    pub(crate) fn lend_live(&mut self, handle: Handle) -> Option<Stretch> {
        self.lent.try_reserve(1).ok()?;
        let (node, stretch) = self.range().lend_live(handle)?;
        self.enter_lent(stretch, node);
        Some(stretch)
    }

    /// Has what is lent end before a granule, and begin anew there, so that each part comes back
    /// whole. False if there is no metadata for that: all is as before.
    pub(crate) fn split_lent(&mut self, at: u32) -> bool {
        let behind = self.lent.partition_point(|&(first, _)| first <= at);
        let Some(place) = behind.checked_sub(1) else { return false };
        let Some(&(first, node)) = self.lent.get(place) else { return false };
        if first == at {
            return true;
        }
        if self.lent.try_reserve(1).is_err() {
            return false;
        }
        let Ok(second) = self.range().split_lent(node, at) else { return false };
        self.lent.insert(behind, (at, second));
        true
    }

    /// Enters a stretch that nobody had, as a live block.
    pub(crate) fn adopt_live(&mut self, stretch: Stretch) -> Option<Block> {
        let block = self.range().adopt_live(stretch).ok()?;
        if let Slot::Node(node) = block.handle.slot()
            && node >= MOST_NODES
        {
            // No handle of the program's can name it.
            self.range().take_live(block.handle);
            return None;
        }
        Some(block)
    }

    /// Takes a part of what was lent back. False if there is no metadata for that: all is as
    /// before.
    pub(crate) fn take_back(&mut self, part: Stretch) -> bool {
        self.take_back_by(part, OffsetAllocator::take_back)
    }

    /// The same for a part that no memory is behind.
    pub(crate) fn take_bare_back(&mut self, part: Stretch) -> bool {
        self.take_back_by(part, OffsetAllocator::take_bare_back)
    }

    fn take_back_by(
        &mut self,
        part: Stretch,
        mut take: impl FnMut(&mut OffsetAllocator<Chunked>, u32, Stretch) -> Result<Rest, Metadata>,
    ) -> bool {
        if part.end() <= self.next_lent(part.start) {
            return self.take_piece_back(part, take);
        }
        // What was lent in several pieces comes back in as many: of the first an end, of the last a
        // beginning, each of which takes a node.
        if self.range().prepare(2).is_err() || self.lent.try_reserve(1).is_err() {
            return false;
        }
        let mut at = part;
        while at.len > 0 {
            let len = self.next_lent(at.start).min(at.end()) - u64::from(at.start);
            let piece = Stretch { len, ..at };
            let taken = self.take_piece_back(piece, &mut take);
            debug_assert!(taken, "{piece:?} of {part:?} did not come back");
            at = Stretch { start: piece.end() as u32, len: at.len - len };
        }
        true
    }

    /// Where what is lent next behind a granule begins.
    fn next_lent(&self, granule: u32) -> u64 {
        let behind = self.lent.partition_point(|&(first, _)| first <= granule);
        self.lent.get(behind).map_or(u64::MAX, |&(first, _)| first.into())
    }

    /// Takes a part of one piece back.
    fn take_piece_back(
        &mut self,
        part: Stretch,
        take: impl FnOnce(&mut OffsetAllocator<Chunked>, u32, Stretch) -> Result<Rest, Metadata>,
    ) -> bool {
        let behind = self.lent.partition_point(|&(first, _)| first <= part.start);
        let Some(place) = behind.checked_sub(1) else { return false };
        let Some(&(first, node)) = self.lent.get(place) else { return false };
        // Only a part from within leaves two where there was one.
        if part.start != first && self.lent.try_reserve(1).is_err() {
            return false;
        }
        let Ok(rest) = take(self.range(), node, part) else { return false };
        if let Some(node) = rest.behind {
            let start = u64::from(part.start) + part.len;
            self.lent.insert(behind, (start as u32, node));
        }
        if rest.before.is_none() {
            self.lent.remove(place);
        }
        self.lent_granules -= part.len;
        true
    }

    /// Lends a part that was bare. False for want of metadata.
    pub(crate) fn lend_bare(&mut self, part: Stretch) -> bool {
        if self.lent.try_reserve(1).is_err() {
            return false;
        }
        let Ok(node) = self.range().lend_bare(part) else { return false };
        self.enter_lent(part, node);
        true
    }

    /// Lends an island that is all there, whatever memory is behind it. False for want of
    /// metadata.
    pub(crate) fn lend_island(&mut self, island: Stretch, bare: &[Stretch]) -> bool {
        let mut lent = Vec::new();
        if self.lent.try_reserve(1).is_err() || lent.try_reserve(1).is_err() {
            return false;
        }
        for &part in bare {
            // A whole piece, which takes no metadata.
            let free = self.range().back(part);
            debug_assert!(free.is_ok(), "{part:?} is no piece");
        }
        self.lend_free_of(island, &mut lent);
        debug_assert_eq!(lent, [island], "a part of it is somebody's");
        true
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::range::{Placement, Spans};

    const CAPACITY_BYTES: u64 = 1 << 20;

    /// A shard and a range that are asked for the same.
    struct Twins {
        shard: Shard,
        range: OffsetAllocator<Chunked>,
        live: Vec<(Handle, Handle)>,
        again: u32,
    }

    impl Twins {
        fn new(placement: Placement) -> Self {
            let config = RangeConfig::new(CAPACITY_BYTES).placement(placement).spans(Spans::Off);
            Self {
                shard: Shard::of_range(&config).unwrap(),
                range: OffsetAllocator::new(&config).unwrap(),
                live: Vec::new(),
                again: 0,
            }
        }

        fn allocate(&mut self, len: u64) {
            let pending = self.shard.latest.filter(|latest| latest.is_free);
            let request = Request::new(len * 256);
            let mine = match self.shard.serve_outside(len) {
                Some((handle, stretch)) => Some((handle, u64::from(stretch.start), stretch.len)),
                None => {
                    self.shard.serve(&request).unwrap().map(|block| {
                        (block.handle, block.offset_bytes / 256, block.size_bytes / 256)
                    })
                }
            };
            let again =
                pending.is_some_and(|pending| mine.is_some_and(|it| it.0 == pending.handle));
            self.again += u32::from(again);
            let other = self.range.serve(&request).unwrap();
            let place = other.map(|block| (block.offset_bytes / 256, block.size_bytes / 256));
            assert_eq!(mine.map(|(_, start, len)| (start, len)), place, "{len} granules");
            self.live.extend(mine.zip(other).map(|((handle, ..), other)| (handle, other.handle)));
        }

        fn free(&mut self, place: usize) {
            let (mine, other) = self.live.remove(place);
            let stretch = self.shard.free_outside(mine).unwrap();
            let block = self.range.free(other).unwrap();
            assert_eq!(self.range.stretch_of(&block), stretch);
            assert!(self.shard.block(mine).is_err());
            if self.live.len().is_multiple_of(7) {
                assert_eq!(self.shard.free_outside(mine), None, "it is freed");
            }
        }

        fn check(&self) {
            assert_eq!(self.shard.used_granules(), self.range.live_granules());
            assert_eq!(self.shard.used_blocks(), self.range.live_blocks());
            assert_eq!(self.shard.peak_granules(), self.range.peak_live_granules());
        }
    }

    /// Blocks that come and go lie where they would lie if each free merged at once; and whatever
    /// looks sees them merged.
    #[test]
    fn what_is_served_again_lies_where_it_would_lie_anyway() {
        for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
            let mut again = 0;
            for seed in 0..200 {
                let mut random = fastrand::Rng::with_seed(seed);
                let kinds = random.u64(1..40);
                let mut twins = Twins::new(placement);
                for _ in 0..2000 {
                    let count = twins.live.len();
                    match random.u32(0..8) {
                        0..4 => twins.allocate(1 + random.u64(0..kinds) * 37 % 300),
                        // What came last goes first, mostly.
                        4..7 if count > 0 => twins.free(count - 1),
                        7 if count > 0 => twins.free(random.usize(0..count)),
                        _ => {
                            let longest = twins.shard.range().longest_run();
                            assert_eq!(longest, twins.range.longest_run());
                            twins.shard.range().verify().unwrap();
                        }
                    }
                    twins.check();
                }
                again += twins.again;
            }
            // Buddies have no first look at a length.
            assert_eq!(again > 1000, placement != Placement::Buddy, "{again} of {placement:?}");
        }
    }
}
