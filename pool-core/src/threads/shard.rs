//! One shard: a part of the range that is worked on under its own lock.

use alloc::vec::Vec;

use super::names::MOST_NODES;
use crate::range::{
    AllocError, Block, Chunked, ConfigError, Handle, Metadata, OffsetAllocator, RangeConfig,
    Request, Shape, Slot, Stretch,
};

/// A part of the range under one lock. The first shard is the range itself, which lends
/// stretches; the others own what they borrowed.
pub(crate) struct Shard {
    pub(crate) range: OffsetAllocator<Chunked>,
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
        Self { range, lent: Vec::new(), lent_granules: 0, locks: 0, waits: 0, seen_granules: 0 }
    }

    /// Serves a request of a plain length from this shard alone, at the first look.
    #[inline(always)]
    pub(crate) fn serve_len(&mut self, len: u64) -> Option<Block> {
        let block = self.range.serve_len(len)?;
        self.nameable(block).ok()
    }

    /// Serves a request from this shard alone.
    pub(crate) fn serve(&mut self, request: &Request) -> Result<Option<Block>, AllocError> {
        match self.range.serve(request)? {
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
                let _ = self.range.free(block.handle);
                Err(AllocError::OutOfMetadata(Metadata::Nodes(1)))
            }
            _ => Ok(block),
        }
    }

    /// Granules of blocks that were given out and not taken back.
    #[inline(always)]
    pub(crate) fn used_granules(&self) -> u64 {
        self.range.live_granules() - self.lent_granules
    }

    /// Blocks that were given out and not taken back.
    pub(crate) fn used_blocks(&self) -> u64 {
        self.range.live_blocks() - self.lent.len() as u64
    }

    pub(crate) fn lent_granules(&self) -> u64 {
        self.lent_granules
    }

    /// Lends a stretch of so many bytes, aligned to `align_bytes`; none if there is none free.
    pub(crate) fn lend(&mut self, bytes: u64, align_bytes: u64) -> Option<Stretch> {
        self.lent.try_reserve(1).ok()?;
        let (node, stretch) = self.range.lend(bytes, align_bytes)?;
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
        let Ok(node) = self.range.adopt_lent(stretch) else { return false };
        self.enter_lent(stretch, node);
        true
    }

    /// Lends all free runs, as far as there is room to note them.
    pub(crate) fn lend_all(&mut self, shape: &Shape, stretches: &mut Vec<Stretch>) {
        self.range.gather();
        while self.range.longest_run() > 0 && stretches.try_reserve(1).is_ok() {
            let longest_bytes = shape.bytes(self.range.longest_run());
            let Some(stretch) = self.lend(longest_bytes, 1) else { break };
            stretches.push(stretch);
        }
    }

    /// Lends every free run of an island of the range, as far as there is room to note them.
    pub(crate) fn lend_free_of(&mut self, island: Stretch, stretches: &mut Vec<Stretch>) {
        let mut taken = Vec::new();
        self.range.lend_free_of(island, &mut taken);
        for (node, stretch) in taken {
            if self.lent.try_reserve(1).is_err() || stretches.try_reserve(1).is_err() {
                // It was free just now: that takes no metadata.
                let returned = self.range.take_back(node, stretch);
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
        let (node, stretch) = self.range.lend_live(handle)?;
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
        let Ok(second) = self.range.split_lent(node, at) else { return false };
        self.lent.insert(behind, (at, second));
        true
    }

    /// Enters a stretch that nobody had, as a live block.
    pub(crate) fn adopt_live(&mut self, stretch: Stretch) -> Option<Block> {
        let block = self.range.adopt_live(stretch).ok()?;
        if let Slot::Node(node) = block.handle.slot()
            && node >= MOST_NODES
        {
            // No handle of the program's can name it.
            self.range.take_live(block.handle);
            return None;
        }
        Some(block)
    }

    /// Takes a part of what was lent back. False if there is no metadata for that: all is as
    /// before.
    pub(crate) fn take_back(&mut self, part: Stretch) -> bool {
        let behind = self.lent.partition_point(|&(first, _)| first <= part.start);
        let Some(place) = behind.checked_sub(1) else { return false };
        let Some(&(first, node)) = self.lent.get(place) else { return false };
        // Only a part from within leaves two where there was one.
        if part.start != first && self.lent.try_reserve(1).is_err() {
            return false;
        }
        let Ok(rest) = self.range.take_back(node, part) else { return false };
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
}
