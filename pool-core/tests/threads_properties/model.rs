//! The live blocks, and what follows from where they lie.

use std::collections::{BTreeMap, HashSet};

use pool_core::{Block, Handle, Placement};

use crate::setting::{GRANULE, Setting};
use crate::step::Demand;

#[derive(Debug)]
pub(crate) struct Model {
    setting: Setting,
    /// By offset.
    live: BTreeMap<u64, Block>,
    dead: Vec<Handle>,
    seen: HashSet<Handle>,
    pub(crate) live_bytes: u64,
    /// Requests served and blocks freed.
    pub(crate) operations: u64,
}

impl Model {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            setting,
            live: BTreeMap::new(),
            dead: vec![],
            seen: HashSet::new(),
            live_bytes: 0,
            operations: 0,
        }
    }

    /// Takes a block in that was handed out; it must lie where nothing lies.
    pub(crate) fn add(&mut self, block: Block, demand: &Demand) -> Result<(), String> {
        let (start, size) = (block.offset_bytes(), block.size_bytes());
        let end = start + size;
        if end > self.setting.capacity_bytes() || !start.is_multiple_of(demand.align() * GRANULE) {
            return Err(format!("{block:?} is outside or not aligned"));
        }
        if size < demand.size_bytes || !size.is_multiple_of(GRANULE) {
            return Err(format!("{block:?} has the wrong size"));
        }
        let rounded = demand.granules().next_power_of_two() * GRANULE;
        if size > rounded {
            return Err(format!("{block:?} has more than the power of two, {rounded}"));
        }
        if let Some((_, below)) = self.live.range(..end).next_back()
            && below.offset_bytes() + below.size_bytes() > start
        {
            return Err(format!("{block:?} overlaps {below:?}"));
        }
        if !self.seen.insert(block.handle()) {
            return Err(format!("{block:?} has a handle that was given out before"));
        }
        self.live.insert(start, block);
        self.live_bytes += size;
        self.operations += 1;
        Ok(())
    }

    /// The live block of a number, counted around.
    pub(crate) fn pick(&self, number: usize) -> Option<Block> {
        let count = self.live.len();
        (count > 0).then(|| *self.live.values().nth(number % count).expect("below the count"))
    }

    /// A handle that was live once.
    pub(crate) fn pick_dead(&self, number: usize) -> Option<Handle> {
        let count = self.dead.len();
        (count > 0).then(|| self.dead[number % count])
    }

    pub(crate) fn remove(&mut self, block: &Block) {
        self.live.remove(&block.offset_bytes());
        self.dead.push(block.handle());
        self.live_bytes -= block.size_bytes();
        self.operations += 1;
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = &Block> {
        self.live.values()
    }

    pub(crate) fn live_blocks(&self) -> u64 {
        self.live.len() as u64
    }

    pub(crate) fn is_live(&self, handle: Handle) -> bool {
        self.live.values().any(|block| block.handle() == handle)
    }

    /// What lies between the live blocks, in granules: start and end.
    fn holes(&self) -> impl Iterator<Item = (u64, u64)> {
        let starts = core::iter::once(0)
            .chain(self.live.values().map(|block| block.offset_bytes() + block.size_bytes()));
        let ends = self.live.keys().copied().chain(core::iter::once(self.setting.capacity_bytes()));
        starts.zip(ends).map(|(start, end)| (start / GRANULE, end / GRANULE))
    }

    /// No free block is longer than the longest hole.
    pub(crate) fn longest_hole_bytes(&self) -> u64 {
        self.holes().map(|(start, end)| end - start).max().unwrap_or(0) * GRANULE
    }

    /// Whether some hole surely serves a demand, when nothing is kept for reuse or lent to shards.
    ///
    /// Surely, since a span that holds a live block keeps its free granules to itself: only what
    /// is free between the limits of spans is one block for certain.
    pub(crate) fn must_serve(&self, demand: &Demand) -> bool {
        if demand.limit {
            return false;
        }
        let (granules, align) = (demand.granules(), demand.align());
        if self.setting.placement == Placement::Buddy {
            let block = granules.next_power_of_two().max(align);
            return self.holes().any(|(start, end)| start.next_multiple_of(block) + block <= end);
        }
        let span = self.setting.span_granules.max(1);
        self.holes().any(|(start, end)| {
            start.next_multiple_of(span) + granules + (align - 1) <= end / span * span
        })
    }
}
