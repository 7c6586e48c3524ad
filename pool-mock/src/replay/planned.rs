//! An allocator that serves a program from a plan as long as it does what it did.

use std::collections::{BTreeMap, VecDeque};

use pool_core::{Chunked, ConfigError, Handle, OffsetAllocator, RangeConfig};

use super::{
    placer::{Extent, Locate, Placer},
    plan::{Plan, Planned as Step},
};

/// Among so many of the plan's blocks a request is looked for that is not the next one, and so many
/// behind it are not expected any more.
const WINDOW: usize = 32;

/// After more unexpected requests than this in a row other blocks are expected.
const MOST_MISSES: usize = 8;

/// Serves requests from a [`Plan`], and those that depart from it from a range of their own behind
/// it.
///
/// As long as every call is the plan's next one, a call looks at one entry of it. From the first
/// departure on, to the end of the iteration, each planned place is checked to be free, since
/// blocks may live longer than planned; a request is looked for among those that the plan expects
/// next, so that one more, one less or one of another size does not lose the rest.
///
/// # Example
///
/// ```
/// use pool_mock::{Trace, replay::{Plan, Planned, Script, survey}};
///
/// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,700,0\nfree,0xa0,700,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// let plan = Plan::of(&script);
/// let mut planned = Planned::new(&plan, 256, 1 << 20)?;
/// assert_eq!(survey(&script, &mut planned).peak_reserved_granules, 3);
/// assert_eq!((planned.followed(), planned.departed()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Planned<'a> {
    plan: &'a Plan,
    /// The next step of the plan, while all is as planned.
    next_step: Option<usize>,
    /// From the first departure on, the plan's blocks that are expected next, in their order, and
    /// the first behind them.
    expected: VecDeque<usize>,
    next_block: usize,
    /// Requests in a row that the plan did not expect.
    misses: usize,
    /// The ends of planned blocks that are live, by their starts.
    live: BTreeMap<u64, u64>,
    /// Planned blocks that are live.
    live_blocks: usize,
    rest: OffsetAllocator<Chunked>,
    rest_peak_granules: u64,
    followed: u64,
    departed: u64,
}

/// A block, and where it is from.
#[derive(Clone, Copy, Debug)]
pub struct PlannedBlock {
    extent: Extent,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Source {
    /// The block of the plan by its number.
    Plan(u32),
    Rest(Handle),
}

impl<'a> Planned<'a> {
    /// At the beginning of the plan, with a range of so many granules for departures.
    ///
    /// # Errors
    ///
    /// There is no such range.
    pub fn new(
        plan: &'a Plan,
        granule_bytes: u64,
        rest_granules: u64,
    ) -> Result<Self, ConfigError> {
        let rest_bytes = rest_granules.max(1).saturating_mul(granule_bytes);
        let rest =
            OffsetAllocator::new(&RangeConfig::new(rest_bytes).granule_bytes(granule_bytes))?;
        Ok(Self {
            plan,
            next_step: Some(0),
            expected: VecDeque::new(),
            next_block: 0,
            misses: 0,
            live: BTreeMap::new(),
            live_blocks: 0,
            rest,
            rest_peak_granules: 0,
            followed: 0,
            departed: 0,
        })
    }

    /// The next iteration begins: if no planned block is live any more, the plan is followed from
    /// its beginning again.
    pub fn restart(&mut self) {
        if self.live_blocks == 0 {
            self.next_step = Some(0);
        }
    }

    /// Requests that were served as planned.
    #[must_use]
    pub fn followed(&self) -> u64 {
        self.followed
    }

    /// Requests that were not.
    #[must_use]
    pub fn departed(&self) -> u64 {
        self.departed
    }

    /// The granules of the plan, and the highest end of a departure behind it.
    #[must_use]
    pub fn capacity_granules(&self) -> u64 {
        self.plan.capacity_granules().saturating_add(self.rest_peak_granules)
    }

    /// The first call that is not as planned: which blocks are live is known from the plan.
    #[cold]
    fn depart(&mut self, step: usize) {
        self.next_step = None;
        self.live.clear();
        self.expected.clear();
        self.next_block = 0;
        for step in &self.plan.steps()[..step] {
            match *step {
                Step::Allocate(block) => {
                    let extent = self.plan.extents()[block as usize];
                    self.live.insert(extent.offset_granules, extent.end_granules());
                    self.next_block = block as usize + 1;
                }
                Step::Free(block) => {
                    self.live.remove(&self.plan.extents()[block as usize].offset_granules);
                }
            }
        }
    }

    /// The place of a request behind a departure, if the plan expects one like it and its place is
    /// free.
    fn find(&mut self, granules: u64) -> Option<PlannedBlock> {
        let extents = self.plan.extents();
        while self.expected.len() < WINDOW && self.next_block < extents.len() {
            self.expected.push_back(self.next_block);
            self.next_block += 1;
        }
        let same = |&block: &usize| extents[block].granules == granules;
        let Some(at) = self.expected.iter().position(same) else {
            self.misses += 1;
            if self.misses > MOST_MISSES {
                // All that is expected may be what was left out.
                self.expected.pop_front();
            }
            return None;
        };
        self.misses = 0;
        let place = self.expected.remove(at)?;
        // The program does not come back to what it left out long ago.
        while self.expected.front().is_some_and(|&block| block + WINDOW < place) {
            self.expected.pop_front();
        }
        let extent = extents[place];
        let (start, end) = (extent.offset_granules, extent.end_granules());
        let is_taken =
            self.live.range(..end).next_back().is_some_and(|(_, &other_end)| other_end > start);
        if is_taken {
            return None;
        }
        self.live.insert(start, end);
        // Of the blocks of a trace, which has numbers of 32 bits for them.
        let block = u32::try_from(place).ok()?;
        Some(PlannedBlock { extent, source: Source::Plan(block) })
    }

    fn place_in_rest(&mut self, granules: u64) -> Option<PlannedBlock> {
        let handle = self.rest.place(granules)?;
        let extent = self.rest.locate(&handle);
        self.rest_peak_granules = self.rest_peak_granules.max(extent.end_granules());
        let offset_granules = self.plan.capacity_granules().saturating_add(extent.offset_granules);
        let extent = Extent { offset_granules, ..extent };
        Some(PlannedBlock { extent, source: Source::Rest(handle) })
    }
}

impl Placer for Planned<'_> {
    type Block = PlannedBlock;

    #[inline]
    fn place(&mut self, granules: u64) -> Option<PlannedBlock> {
        if let Some(step) = self.next_step {
            if let Some(&Step::Allocate(block)) = self.plan.steps().get(step) {
                let extent = self.plan.extents()[block as usize];
                if extent.granules == granules {
                    self.next_step = Some(step + 1);
                    self.live_blocks += 1;
                    self.followed += 1;
                    return Some(PlannedBlock { extent, source: Source::Plan(block) });
                }
            }
            self.depart(step);
        }
        if let Some(block) = self.find(granules) {
            self.live_blocks += 1;
            self.followed += 1;
            return Some(block);
        }
        self.departed += 1;
        self.place_in_rest(granules)
    }

    #[inline]
    fn release(&mut self, block: PlannedBlock) {
        let number = match block.source {
            Source::Rest(handle) => return self.rest.release(handle),
            Source::Plan(number) => number,
        };
        self.live_blocks -= 1;
        if let Some(step) = self.next_step {
            if self.plan.steps().get(step) == Some(&Step::Free(number)) {
                self.next_step = Some(step + 1);
                return;
            }
            self.depart(step);
        }
        self.live.remove(&block.extent.offset_granules);
    }
}

impl Locate for Planned<'_> {
    fn locate(&self, block: &PlannedBlock) -> Extent {
        block.extent
    }
}

impl core::fmt::Debug for Planned<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Planned")
            .field("followed", &self.followed)
            .field("departed", &self.departed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::replay::script::{Event, Script, Step as ScriptStep};

    fn script(seed: u64) -> Script {
        let mut rng = Rng::with_seed(seed);
        let (mut events, mut live) = (Vec::new(), Vec::new());
        for block in 0..400 {
            events.push(Event::Allocate { block, size_bytes: rng.u64(1..=300) });
            live.push(block);
            while live.len() > 20 || (!live.is_empty() && rng.bool()) {
                let block = live.swap_remove(rng.usize(0..live.len()));
                events.push(Event::Free { block });
            }
        }
        Script::of_events(events.into_iter(), 400, 1)
    }

    /// Replays, and checks each block against all that are live.
    fn check(script: &Script, planned: &mut Planned<'_>) {
        let mut slots: Vec<Option<PlannedBlock>> = Vec::new();
        slots.resize_with(script.peak_live_blocks() as usize, || None);
        for step in script.steps() {
            match *step {
                ScriptStep::Allocate { slot, granules } => {
                    let block = planned.place(granules).unwrap();
                    let extent = planned.locate(&block);
                    assert!(extent.granules >= granules);
                    for other in slots.iter().flatten() {
                        let other = planned.locate(other);
                        assert!(
                            extent.end_granules() <= other.offset_granules
                                || other.end_granules() <= extent.offset_granules
                        );
                    }
                    slots[slot as usize] = Some(block);
                }
                ScriptStep::Free { slot } => {
                    planned.release(slots[slot as usize].take().unwrap());
                }
            }
        }
        for block in slots.into_iter().flatten() {
            planned.release(block);
        }
    }

    #[test]
    fn a_program_that_does_the_same_again_is_served_from_the_plan_alone() {
        for seed in 0..20 {
            let script = script(seed);
            let plan = Plan::of(&script);
            let mut planned = Planned::new(&plan, 256, 1 << 20).unwrap();
            for iteration in 1..=3 {
                check(&script, &mut planned);
                planned.restart();
                assert_eq!((planned.followed(), planned.departed()), (400 * iteration, 0));
            }
            assert_eq!(planned.capacity_granules(), plan.capacity_granules());
        }
    }

    #[test]
    fn one_that_departs_is_served_without_overlap_and_mostly_from_the_plan() {
        let (mut followed, mut all) = (0, 0);
        for seed in 0..40 {
            let script = script(seed);
            let plan = Plan::of(&script);
            let mut planned = Planned::new(&plan, 256, 1 << 20).unwrap();
            check(&script.perturbed(50, seed), &mut planned);
            assert!(planned.departed() > 0);
            followed += planned.followed();
            all += planned.followed() + planned.departed();
            // The next iteration follows again.
            let departed = planned.departed();
            planned.restart();
            check(&script, &mut planned);
            assert_eq!(planned.departed(), departed);
            assert_eq!(planned.rest.stats().live_bytes, 0);
        }
        assert!(followed * 10 > all * 6, "{followed} of {all}");
    }

    #[test]
    fn a_block_that_outlives_its_iteration_keeps_its_place() {
        let events = [Event::Allocate { block: 0, size_bytes: 8 }, Event::Free { block: 0 }];
        let plan = Plan::of(&Script::of_events(events.into_iter(), 1, 1));
        let mut planned = Planned::new(&plan, 256, 100).unwrap();
        let kept = planned.place(8).unwrap();
        planned.restart();
        let other = planned.place(8).unwrap();
        assert_ne!(planned.locate(&kept).offset_granules, planned.locate(&other).offset_granules);
        planned.release(kept);
        planned.release(other);
        planned.restart();
        assert_eq!(planned.place(8).map(|block| planned.locate(&block).offset_granules), Some(0));
    }

    #[test]
    fn another_program_is_served_too() {
        for seed in 0..20 {
            let plan = Plan::of(&script(seed));
            check(&script(seed + 100), &mut Planned::new(&plan, 256, 1 << 20).unwrap());
        }
    }
}
