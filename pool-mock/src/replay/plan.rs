//! Where each block of a program lies whose lifetimes are known.

use core::cmp::Reverse;
use std::collections::BTreeMap;

use super::{
    placer::Extent,
    script::{Script, Step},
};

/// A step of a program that a [`Plan`] was made for: its blocks are numbered as they are
/// allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Planned {
    Allocate(u32),
    Free(u32),
}

/// A place for every block of a script, so that no two that are live at once overlap: the largest
/// blocks first, each at the lowest offset that is free for as long as it lives.
///
/// # Example
///
/// ```
/// use pool_mock::{Trace, replay::{Plan, Script}};
///
/// let log = "Action,Pointer,Size,Stream\n\
///            allocate,0xa0,256,0\n\
///            allocate,0xb0,256,0\n\
///            free,0xa0,256,0\n\
///            allocate,0xc0,512,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// // Best fit needs four: the third block does not fit the hole that the first one leaves.
/// assert_eq!(Plan::of(&script).capacity_granules(), 3);
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    steps: Vec<Planned>,
    /// Where each block lies, in the order of allocations.
    extents: Vec<Extent>,
    capacity_granules: u64,
}

/// When a block lives: from a step on, and before another.
#[derive(Clone, Copy, Debug)]
struct Life {
    birth: usize,
    death: usize,
    granules: u64,
}

impl Plan {
    /// Plans a script.
    ///
    /// # Complexity
    ///
    /// For n blocks n log n, and for each block k log n and k log k, k being the blocks at least as
    /// large that live at the same time: in programs that were recorded hundreds, at worst n.
    #[must_use]
    pub fn of(script: &Script) -> Self {
        let (steps, lives) = lives_of(script);
        let mut order: Vec<usize> = (0..lives.len()).collect();
        // Of equals the one that lives longest, then the first.
        order.sort_by_key(|&block| {
            let life = lives[block];
            (Reverse(life.granules), Reverse(life.death - life.birth), life.birth)
        });
        let mut placed = Deaths::of(lives.len());
        let mut extents = vec![Extent::default(); lives.len()];
        let mut capacity_granules = 0;
        let mut taken: Vec<Extent> = Vec::new();
        for block in order {
            let Life { birth, death, granules } = lives[block];
            // Blocks are in the order of their births: of those that were placed and are born
            // before this one dies, the ones that die after it is born.
            let born_before = lives.partition_point(|other| other.birth < death);
            taken.clear();
            placed.each_after(birth, born_before, &mut |other| taken.push(extents[other]));
            taken.sort_unstable_by_key(|extent| extent.offset_granules);
            let mut offset_granules = 0_u64;
            for extent in &taken {
                if extent.offset_granules.saturating_sub(offset_granules) >= granules {
                    break;
                }
                offset_granules = offset_granules.max(extent.end_granules());
            }
            extents[block] = Extent { offset_granules, granules };
            capacity_granules = capacity_granules.max(extents[block].end_granules());
            placed.set(block, death);
        }
        Self { steps, extents, capacity_granules }
    }

    /// The granules that the plan needs.
    #[must_use]
    pub fn capacity_granules(&self) -> u64 {
        self.capacity_granules
    }

    /// Where each block lies, in the order in which they are allocated.
    #[must_use]
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// How many blocks begin on memory whose last use was on another stream, so that a stream
    /// waits for another first. `streams` is that of each block, in the order of allocations.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::{Trace, replay::{Plan, Script}};
    ///
    /// let log = "Action,Pointer,Size,Stream\n\
    ///            allocate,0xa0,256,1\nfree,0xa0,256,1\nallocate,0xb0,256,2\n";
    /// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
    /// assert_eq!(Plan::of(&script).crossings(&[1, 2]), 1);
    /// assert_eq!(Plan::of(&script).crossings(&[1, 1]), 0);
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn crossings(&self, streams: &[u32]) -> u64 {
        // Who had each stretch last: its end and its stream, by its start.
        let mut last: BTreeMap<u64, (u64, u32)> = BTreeMap::new();
        let mut crossings = 0;
        for (extent, &stream) in self.extents.iter().zip(streams) {
            let (start, end) = (extent.offset_granules, extent.end_granules());
            let below = last.range(..start).next_back().map(|(&at, &had)| (at, had));
            let inside: Vec<_> = last.range(start..end).map(|(&at, &had)| (at, had)).collect();
            let mut others = false;
            for (at, (until, had)) in below.into_iter().chain(inside) {
                if until <= start {
                    continue;
                }
                others |= had != stream;
                last.remove(&at);
                if at < start {
                    last.insert(at, (start, had));
                }
                if until > end {
                    last.insert(end, (until, had));
                }
            }
            last.insert(start, (end, stream));
            crossings += u64::from(others);
        }
        crossings
    }

    pub(super) fn steps(&self) -> &[Planned] {
        &self.steps
    }
}

/// The steps with numbered blocks, and when each block lives.
fn lives_of(script: &Script) -> (Vec<Planned>, Vec<Life>) {
    let mut steps = Vec::with_capacity(script.operations());
    let mut lives: Vec<Life> = Vec::new();
    let mut in_slot = vec![0_u32; script.peak_live_blocks() as usize];
    for (place, step) in script.steps().iter().enumerate() {
        match *step {
            Step::Allocate { slot, granules } => {
                // There are fewer than steps in a trace, which has numbers of 32 bits for blocks.
                let block = u32::try_from(lives.len()).unwrap_or(u32::MAX);
                in_slot[slot as usize] = block;
                lives.push(Life { birth: place, death: script.operations(), granules });
                steps.push(Planned::Allocate(block));
            }
            Step::Free { slot } => {
                let block = in_slot[slot as usize];
                lives[block as usize].death = place;
                steps.push(Planned::Free(block));
            }
        }
    }
    (steps, lives)
}

/// When the blocks die that were placed, in a tree over all blocks in the order of their births:
/// each node has the latest death below it.
struct Deaths {
    leaves: usize,
    latest: Vec<usize>,
}

impl Deaths {
    fn of(blocks: usize) -> Self {
        let leaves = blocks.next_power_of_two();
        Self { leaves, latest: vec![0; 2 * leaves] }
    }

    fn set(&mut self, block: usize, death: usize) {
        let mut node = self.leaves + block;
        while node > 0 {
            self.latest[node] = self.latest[node].max(death);
            node /= 2;
        }
    }

    /// Each of the first `count` blocks that dies after a moment.
    fn each_after(&self, moment: usize, count: usize, each: &mut impl FnMut(usize)) {
        self.visit(1, 0, self.leaves, moment, count, each);
    }

    fn visit(
        &self,
        node: usize,
        first: usize,
        len: usize,
        moment: usize,
        count: usize,
        each: &mut impl FnMut(usize),
    ) {
        if first >= count || self.latest[node] <= moment {
            return;
        }
        if len == 1 {
            return each(first);
        }
        let half = len / 2;
        self.visit(2 * node, first, half, moment, count, each);
        self.visit(2 * node + 1, first + half, half, moment, count, each);
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::replay::script::Event;

    /// Blocks that live at random.
    fn script(seed: u64, blocks: u32) -> Script {
        let mut rng = Rng::with_seed(seed);
        let (mut events, mut live) = (Vec::new(), Vec::new());
        for block in 0..blocks {
            let power = rng.u32(0..10);
            events.push(Event::Allocate { block, size_bytes: rng.u64(1..=1 << power) });
            live.push(block);
            while !live.is_empty() && rng.usize(0..live.len() + 8) > 7 {
                let block = live.swap_remove(rng.usize(0..live.len()));
                events.push(Event::Free { block });
            }
        }
        Script::of_events(events.into_iter(), blocks, 1)
    }

    /// Every pair, and every block's lowest place, one by one.
    #[test]
    fn no_two_live_blocks_overlap_and_each_lies_as_low_as_it_can() {
        for seed in 0..40 {
            let script = script(seed, 150);
            let plan = Plan::of(&script);
            let (_, lives) = lives_of(&script);
            assert_eq!(plan.extents().len(), lives.len());
            let together = |a: usize, b: usize| {
                lives[a].birth < lives[b].death && lives[b].birth < lives[a].death
            };
            for (a, extent) in plan.extents().iter().enumerate() {
                assert_eq!(extent.granules, lives[a].granules);
                for (b, other) in plan.extents().iter().enumerate().take(a) {
                    let apart = extent.end_granules() <= other.offset_granules
                        || other.end_granules() <= extent.offset_granules;
                    assert!(apart || !together(a, b), "seed {seed}: {a} and {b}");
                }
                // At the bottom, or right above one that lives at the same time.
                let rests = extent.offset_granules == 0
                    || plan.extents().iter().enumerate().any(|(b, other)| {
                        b != a && together(a, b) && other.end_granules() == extent.offset_granules
                    });
                assert!(rests, "seed {seed}: {a} floats");
            }
            assert!(plan.capacity_granules() >= script.peak_live_granules());
        }
    }

    #[test]
    fn nothing_needs_nothing_and_one_block_itself() {
        assert_eq!(Plan::of(&script(0, 0)).capacity_granules(), 0);
        let one =
            Script::of_events([Event::Allocate { block: 0, size_bytes: 9 }].into_iter(), 1, 1);
        assert_eq!(Plan::of(&one).capacity_granules(), 9);
    }

    #[test]
    fn crossings_are_counted_once_a_block() {
        let events = [
            Event::Allocate { block: 0, size_bytes: 4 },
            Event::Allocate { block: 1, size_bytes: 4 },
            Event::Free { block: 0 },
            Event::Free { block: 1 },
            Event::Allocate { block: 2, size_bytes: 8 },
            Event::Free { block: 2 },
            Event::Allocate { block: 3, size_bytes: 4 },
        ];
        let plan = Plan::of(&Script::of_events(events.into_iter(), 4, 1));
        assert_eq!(plan.capacity_granules(), 8);
        assert_eq!(plan.crossings(&[1, 2, 3, 3]), 1);
        assert_eq!(plan.crossings(&[1, 2, 3, 1]), 2);
        assert_eq!(plan.crossings(&[1, 1, 1, 1]), 0);
    }
}
