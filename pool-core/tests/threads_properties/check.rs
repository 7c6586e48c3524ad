//! Drives an allocator and the model through the same steps, and compares them after each.

use pool_core::{
    AllocError, Block, Cache, Handle, HandleError, Owner, Request, SharedAllocator, SharedStats,
};

use crate::model::Model;
use crate::setting::{GRANULE, Setting};
use crate::step::{CACHES, Demand, Door, Size, Step};

/// What a case came to: a run in which nothing happened shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Summary {
    pub(crate) served: u64,
    pub(crate) refused: u64,
    /// Refused although as many bytes were free.
    pub(crate) fragmented: u64,
    pub(crate) misuses: u64,
    pub(crate) in_cache: u64,
    pub(crate) recalls: u64,
    pub(crate) flushes: u64,
}

impl Summary {
    pub(crate) fn add(&mut self, other: &Self) {
        self.served += other.served;
        self.refused += other.refused;
        self.fragmented += other.fragmented;
        self.misuses += other.misuses;
        self.in_cache += other.in_cache;
        self.recalls += other.recalls;
        self.flushes += other.flushes;
    }
}

/// Checks a case, and that its repetition gives the same offsets.
pub(crate) fn check(
    setting: Setting,
    steps: &[Step],
    verify_every: usize,
) -> Result<Summary, String> {
    let (summary, offsets) = Run::new(setting)?.all(steps, verify_every)?;
    let (_, again) = Run::new(setting)?.all(steps, usize::MAX)?;
    if offsets == again {
        Ok(summary)
    } else {
        Err(format!("the same calls gave {offsets:?}, then {again:?}"))
    }
}

struct Run {
    setting: Setting,
    shared: SharedAllocator,
    caches: [Cache; CACHES],
    model: Model,
    /// The highest that live and cached bytes together have been.
    peak_bytes: u64,
    summary: Summary,
    offsets: Vec<u64>,
}

impl Run {
    fn new(setting: Setting) -> Result<Self, String> {
        let shared = SharedAllocator::new(setting.config()).map_err(|error| error.to_string())?;
        let mut next = 0;
        let caches = [(); CACHES].map(|()| {
            let mut cache = shared.cache();
            cache.use_shard(next);
            next += 1;
            cache
        });
        let model = Model::new(setting);
        let summary = Summary::default();
        Ok(Self { setting, shared, caches, model, peak_bytes: 0, summary, offsets: vec![] })
    }

    fn all(mut self, steps: &[Step], verify_every: usize) -> Result<(Summary, Vec<u64>), String> {
        for (number, step) in steps.iter().enumerate() {
            self.step(step)
                .and_then(|()| self.compare((number + 1).is_multiple_of(verify_every)))
                .map_err(|what| format!("step {number}, {step:?}: {what}"))?;
        }
        self.end().map_err(|what| format!("at the end: {what}"))?;
        Ok((self.summary, self.offsets))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Allocate { door, owner, size, align_bytes, options, limit } => {
                let size_bytes = self.resolve(size);
                let demand = Demand { size_bytes, align_bytes, options, limit };
                self.allocate(door, Owner(owner), &demand)
            }
            Step::Free { door, owner, pick } => self.free(door, Owner(owner), pick),
            Step::FreeAgain { door, pick } => match self.model.pick_dead(pick) {
                Some(handle) => self.misuse(door, handle),
                None => Ok(()),
            },
            Step::FreeForeign { door, bits } => match Handle::from_raw(bits) {
                Some(handle) if !self.model.is_live(handle) => self.misuse(door, handle),
                _ => Ok(()),
            },
            Step::Flush(Door::Cache(cache)) => {
                self.caches[cache].flush();
                Ok(())
            }
            Step::Flush(Door::Shared) => self.flush_all(),
            Step::Renew { cache, shard } => {
                self.caches[cache] = self.shared.cache();
                self.use_shard(cache, shard)
            }
            Step::UseShard { cache, shard } => self.use_shard(cache, shard),
            Step::ResetPeak => {
                self.shared.reset_peak();
                self.peak_bytes = 0;
                Ok(())
            }
        }
    }

    fn resolve(&self, size: Size) -> u64 {
        let capacity_bytes = self.setting.capacity_bytes();
        match size {
            Size::Bytes(bytes) => bytes,
            Size::Sixteenths(count) => (capacity_bytes / 16 * count).max(GRANULE),
            Size::Largest(more) => {
                let largest = self.shared.largest_free_bytes() / GRANULE;
                largest.saturating_add_signed(more).max(1) * GRANULE
            }
            Size::BelowTheMost(bytes) => u64::MAX - bytes,
        }
    }

    fn ask(&mut self, door: Door, owner: Owner, request: Request) -> Result<Block, AllocError> {
        match door {
            Door::Shared => self.shared.allocate_for(owner, request),
            Door::Cache(cache) => self.caches[cache].allocate_for(owner, request),
        }
    }

    fn give_back(
        &mut self,
        door: Door,
        owner: Owner,
        handle: Handle,
    ) -> Result<Block, HandleError> {
        match door {
            Door::Shared => self.shared.free_for(owner, handle),
            Door::Cache(cache) => self.caches[cache].free_for(owner, handle),
        }
    }

    fn allocate(&mut self, door: Door, owner: Owner, demand: &Demand) -> Result<(), String> {
        match self.ask(door, owner, demand.request()) {
            Ok(block) => {
                self.model.add(block, demand)?;
                self.summary.served += 1;
                self.offsets.push(block.offset_bytes());
                self.find(&block)
            }
            Err(refusal) => self.refused(door, owner, demand, refusal),
        }
    }

    /// A refusal must be right, and final.
    fn refused(
        &mut self,
        door: Door,
        owner: Owner,
        demand: &Demand,
        refusal: AllocError,
    ) -> Result<(), String> {
        self.summary.refused += 1;
        let stats = self.shared.stats();
        let capacity_bytes = self.setting.capacity_bytes();
        match refusal {
            AllocError::ZeroSize if demand.size_bytes == 0 => return Ok(()),
            AllocError::Alignment { .. } if !demand.align_bytes.is_power_of_two() => return Ok(()),
            AllocError::TooLarge { size_bytes, .. }
                if size_bytes == demand.size_bytes
                    && size_bytes.saturating_add(demand.align_bytes) > capacity_bytes =>
            {
                return Ok(());
            }
            AllocError::OutOfMemory { size_bytes, free_bytes, largest_free_bytes, .. } => {
                if size_bytes != demand.size_bytes
                    || free_bytes != stats.free_bytes
                    || largest_free_bytes != self.shared.largest_free_bytes()
                {
                    return Err(format!(
                        "{refusal:?} but {stats:?}, largest {}",
                        self.shared.largest_free_bytes()
                    ));
                }
                if demand.is_plain() && largest_free_bytes >= size_bytes {
                    return Err(format!("{refusal:?} though the largest free block holds it"));
                }
                self.summary.fragmented += u64::from(free_bytes >= size_bytes);
            }
            _ => return Err(format!("the wrong refusal: {refusal:?}")),
        }
        if stats.cached_bytes != 0 {
            return Err(format!("{refusal:?} while caches keep {} bytes", stats.cached_bytes));
        }
        if self.model.must_serve(demand) {
            return Err(format!("{refusal:?} though a hole serves it: {:?}", self.model));
        }
        let again = self.ask(door, owner, demand.request());
        if again != Err(refusal) {
            return Err(format!("{refusal:?}, then {again:?}"));
        }
        if !self.summary.refused.is_multiple_of(4) {
            return Ok(());
        }
        self.shared.flush();
        for door in [Door::Shared, Door::Cache(0), Door::Cache(1), Door::Cache(2)] {
            let other = self.ask(door, owner, demand.request());
            if other != Err(refusal) {
                return Err(format!("{refusal:?}, but by {door:?} {other:?}"));
            }
        }
        Ok(())
    }

    fn free(&mut self, door: Door, owner: Owner, pick: usize) -> Result<(), String> {
        let Some(block) = self.model.pick(pick) else { return Ok(()) };
        let freed = self.give_back(door, owner, block.handle());
        if freed != Ok(block) {
            return Err(format!("{block:?} was freed as {freed:?}"));
        }
        self.model.remove(&block);
        if self.shared.block_at(block.offset_bytes()).is_some() {
            return Err(format!("{block:?} is free and found"));
        }
        Ok(())
    }

    /// A free of what is not live: an error, and nothing else.
    fn misuse(&mut self, door: Door, handle: Handle) -> Result<(), String> {
        let before = self.shared.stats();
        if self.give_back(door, Owner::CLEAN, handle).is_ok() || self.shared.block(handle).is_ok() {
            return Err(format!("{handle:?} is not live and was accepted"));
        }
        self.summary.misuses += 1;
        let after = self.shared.stats();
        let books = |mut stats: SharedStats| {
            let operations = stats.work.operations;
            stats.work = pool_core::Work::default();
            (stats, operations)
        };
        if books(after) != books(before) {
            return Err(format!("an error changed {before:?} to {after:?}"));
        }
        Ok(())
    }

    fn use_shard(&mut self, cache: usize, shard: u32) -> Result<(), String> {
        self.caches[cache].use_shard(shard);
        // A range that is small, or not best fit, is one shard whatever is asked for.
        match self.caches[cache].shard() {
            got if got == shard % self.setting.shards || got == 0 => Ok(()),
            got => Err(format!("the cache is on shard {got}")),
        }
    }

    fn flush_all(&mut self) -> Result<(), String> {
        self.shared.flush();
        let stats = self.shared.stats();
        let largest = self.shared.largest_free_bytes();
        if stats.cached_bytes != 0 || largest > self.model.longest_hole_bytes() {
            return Err(format!("after a flush {stats:?}, largest {largest}"));
        }
        Ok(())
    }

    fn find(&self, block: &Block) -> Result<(), String> {
        let found = self.shared.block(block.handle());
        let at = self.shared.block_at(block.offset_bytes());
        if found == Ok(*block) && at == Some(block.handle()) {
            Ok(())
        } else {
            Err(format!("{block:?} is found as {found:?}, at its offset {at:?}"))
        }
    }

    /// The books, which are exact while nothing is in flight.
    fn compare(&mut self, verify: bool) -> Result<(), String> {
        let stats = self.shared.stats();
        let SharedStats { live_bytes, cached_bytes, free_bytes, .. } = stats;
        self.peak_bytes = self.peak_bytes.max(live_bytes + cached_bytes);
        let model = &self.model;
        let holds = stats.capacity_bytes == self.setting.capacity_bytes()
            && live_bytes == model.live_bytes
            && stats.live_blocks == model.live_blocks()
            && stats.peak_live_bytes == self.peak_bytes
            && stats.work.operations == model.operations
            && live_bytes + cached_bytes + free_bytes == stats.capacity_bytes
            && (cached_bytes == 0) == (stats.cached_blocks == 0)
            && (cached_bytes == 0 || self.setting.cache_bytes > 0);
        if !holds {
            return Err(format!(
                "{stats:?}, but live are {} bytes in {} blocks, at most {}, and {} operations",
                model.live_bytes,
                model.live_blocks(),
                self.peak_bytes,
                model.operations
            ));
        }
        if verify {
            self.shared.verify().map_err(|error| format!("verify(): {error}"))?;
            for block in model.live() {
                self.find(block)?;
            }
        }
        Ok(())
    }

    /// Frees everything, through each door in turn: the range is one block again.
    fn end(&mut self) -> Result<(), String> {
        let work = self.shared.stats().work;
        self.summary.in_cache += work.in_cache;
        self.summary.recalls += work.recalls;
        self.summary.flushes += work.flushes;
        let doors = [Door::Shared, Door::Cache(0), Door::Cache(1), Door::Cache(2)];
        for door in doors.into_iter().cycle().take(self.model.live().count()) {
            self.free(door, Owner::CLEAN, 0)?;
        }
        self.compare(true)?;
        self.flush_all()?;
        self.compare(true)?;
        let largest = self.shared.largest_free_bytes();
        let whole = match self.setting.placement {
            // A capacity that is no power of two is a row of blocks.
            pool_core::Placement::Buddy => GRANULE << self.setting.granules.ilog2(),
            _ => self.setting.capacity_bytes(),
        };
        if largest == whole { Ok(()) } else { Err(format!("the largest of all is {largest}")) }
    }
}
