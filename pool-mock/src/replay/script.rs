//! A trace made ready for replay: a flat list of steps over numbered slots.

use crate::log::{Action, Trace};

/// One step of a [`Script`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Ask for `granules` and keep the block in `slot`, which is empty.
    Allocate {
        /// Where to keep the block.
        slot: u32,
        /// The size, at least one granule.
        granules: u64,
    },
    /// Give back the block in `slot`; the slot is empty if its request was refused.
    Free {
        /// Where the block is.
        slot: u32,
    },
}

/// What happens to a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Allocate { block: u32, size_bytes: u64 },
    Free { block: u32 },
}

/// The allocations and frees of a trace, sizes in granules, blocks in slots.
///
/// A slot is used again as soon as its block is freed, so the table that a replay keeps has one
/// entry for each block of the most that are live at once, and the replay looks nothing up.
///
/// # Example
///
/// ```
/// use pool_mock::{Trace, replay::Script};
///
/// let log = "Action,Pointer,Size,Stream\n\
///            allocate,0xa0,257,0\n\
///            allocate,0xb0,100,0\n\
///            free,0xa0,257,0\n";
/// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
/// assert_eq!(script.operations(), 3);
/// assert_eq!((script.peak_live_blocks(), script.peak_live_granules()), (2, 3));
/// assert_eq!((script.granule_bytes(), script.peak_live_bytes()), (256, 768));
/// let sizes: Vec<_> = script.steps_and_bytes().map(|(_, size_bytes)| size_bytes).collect();
/// assert_eq!(sizes, [257, 100, 0]);
/// # Ok::<(), pool_mock::LogError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Script {
    steps: Vec<Step>,
    /// Of each step, the bytes asked for; of a free, none.
    sizes_bytes: Vec<u64>,
    granule_bytes: u64,
    slots: u32,
    peak_live_granules: u64,
}

impl Script {
    /// Compiles a trace for granules of `granule_bytes` (0 counts as 1). Linear.
    ///
    /// Operations that no trace read from a log has are left out: a second allocation of a
    /// block, a free of a block that is not live.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::{Trace, replay::{Script, Step}};
    ///
    /// let log = "Action,Pointer,Size,Stream\n\
    ///            allocate,0xa0,257,0\n\
    ///            free,0xa0,257,0\n\
    ///            free,0xb0,1,0\n";
    /// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
    /// assert_eq!(
    ///     script.steps(),
    ///     [Step::Allocate { slot: 0, granules: 2 }, Step::Free { slot: 0 }]
    /// );
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn new(trace: &Trace, granule_bytes: u64) -> Self {
        let events = trace.operations.iter().filter_map(|operation| match operation.action {
            Action::Allocate { block, size_bytes } => {
                Some(Event::Allocate { block: block.0, size_bytes })
            }
            Action::Free { block } => Some(Event::Free { block: block.0 }),
            Action::Failure { .. } | Action::UnknownFree => None,
        });
        Self::of_events(events, trace.blocks(), granule_bytes)
    }

    /// The script of what happens to numbered blocks, all below `blocks`. A second allocation of a
    /// block and a free of one that is not live are left out.
    pub(super) fn of_events(
        events: impl Iterator<Item = Event>,
        blocks: u32,
        granule_bytes: u64,
    ) -> Self {
        let granule_bytes = granule_bytes.max(1);
        let mut script = Self {
            steps: Vec::with_capacity(events.size_hint().0),
            sizes_bytes: Vec::with_capacity(events.size_hint().0),
            granule_bytes,
            slots: 0,
            peak_live_granules: 0,
        };
        // Of each live block, its slot and its length.
        let mut live: Vec<Option<(u32, u64)>> = vec![None; blocks as usize];
        let mut empty_slots = Vec::new();
        let mut live_granules = 0_u128;
        for event in events {
            match event {
                Event::Allocate { block, size_bytes } => {
                    let Some(entry @ None) = live.get_mut(block as usize) else { continue };
                    let slot = empty_slots.pop().unwrap_or_else(|| {
                        script.slots += 1;
                        script.slots - 1
                    });
                    let granules = size_bytes.div_ceil(granule_bytes).max(1);
                    *entry = Some((slot, granules));
                    live_granules += u128::from(granules);
                    let live_granules = u64::try_from(live_granules).unwrap_or(u64::MAX);
                    script.peak_live_granules = script.peak_live_granules.max(live_granules);
                    script.push(Step::Allocate { slot, granules }, size_bytes);
                }
                Event::Free { block } => {
                    let entry = live.get_mut(block as usize).and_then(Option::take);
                    let Some((slot, granules)) = entry else { continue };
                    live_granules -= u128::from(granules);
                    empty_slots.push(slot);
                    script.push(Step::Free { slot }, 0);
                }
            }
        }
        script
    }

    fn push(&mut self, step: Step, size_bytes: u64) {
        self.steps.push(step);
        self.sizes_bytes.push(size_bytes);
    }

    /// The program several times at once, in lockstep: each step once for every copy, in the
    /// copies' order, before the next step. `None` if more than `u32::MAX` blocks would be live.
    ///
    /// [`Lockstep`](super::Lockstep) replays it with an allocator for each copy.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::{Trace, replay::{Script, Step}};
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,1,0\nfree,0xa0,1,0\n";
    /// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
    /// let two = script.copies(2).unwrap();
    /// let allocate = |slot| Step::Allocate { slot, granules: 1 };
    /// let free = |slot| Step::Free { slot };
    /// assert_eq!(two.steps(), [allocate(0), allocate(1), free(0), free(1)]);
    /// assert_eq!((two.peak_live_blocks(), two.peak_live_granules()), (2, 2));
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn copies(&self, copies: u32) -> Option<Self> {
        let steps = self.steps.len().checked_mul(copies as usize)?;
        let mut script = Self {
            steps: Vec::with_capacity(steps),
            sizes_bytes: Vec::with_capacity(steps),
            granule_bytes: self.granule_bytes,
            slots: self.slots.checked_mul(copies)?,
            peak_live_granules: self.peak_live_granules.saturating_mul(u64::from(copies)),
        };
        for (step, size_bytes) in self.steps_and_bytes() {
            for copy in 0..copies {
                // Below `slots` in all.
                let slot_of_copy = |slot| copy * self.slots + slot;
                let step = match step {
                    Step::Allocate { slot, granules } => {
                        Step::Allocate { slot: slot_of_copy(slot), granules }
                    }
                    Step::Free { slot } => Step::Free { slot: slot_of_copy(slot) },
                };
                script.push(step, size_bytes);
            }
        }
        Some(script)
    }

    /// The steps, in order.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps, each with the bytes that the program asked for (of a free: 0).
    pub fn steps_and_bytes(&self) -> impl Iterator<Item = (Step, u64)> + '_ {
        self.steps.iter().copied().zip(self.sizes_bytes.iter().copied())
    }

    /// How many steps there are.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.steps.len()
    }

    /// The granule that sizes are counted in.
    #[must_use]
    pub fn granule_bytes(&self) -> u64 {
        self.granule_bytes
    }

    /// How many slots there are: the most blocks live at once.
    #[must_use]
    pub fn peak_live_blocks(&self) -> u32 {
        self.slots
    }

    /// The most granules live at once, no request being refused. A sum past `u64::MAX` is
    /// `u64::MAX`.
    #[must_use]
    pub fn peak_live_granules(&self) -> u64 {
        self.peak_live_granules
    }

    /// [`peak_live_granules`](Self::peak_live_granules) in bytes, at most `u64::MAX`.
    #[must_use]
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_granules.saturating_mul(self.granule_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "Action,Pointer,Size,Stream\n\
                       allocate,0xa0,100,0\n\
                       allocate,0xb0,300,0\n\
                       free,0xa0,100,0\n\
                       allocate failure,0x0,999999,0\n\
                       free,0xdead,1,0\n\
                       allocate,0xc0,1024,0\n\
                       free,0xb0,300,0\n\
                       free,0xc0,1024,0\n";

    #[test]
    fn slots_are_used_again_and_what_was_not_served_is_left_out() {
        let script = Script::new(&Trace::read(LOG.as_bytes()).unwrap(), 256);
        assert_eq!(
            script.steps(),
            [
                Step::Allocate { slot: 0, granules: 1 },
                Step::Allocate { slot: 1, granules: 2 },
                Step::Free { slot: 0 },
                Step::Allocate { slot: 0, granules: 4 },
                Step::Free { slot: 1 },
                Step::Free { slot: 0 },
            ]
        );
        assert_eq!((script.peak_live_blocks(), script.peak_live_granules()), (2, 6));
    }

    #[test]
    fn the_peak_is_the_traces_at_any_granule() {
        let trace = Trace::read(LOG.as_bytes()).unwrap();
        for granule_bytes in [0, 1, 16, 256, 1000, 1 << 20] {
            let script = Script::new(&trace, granule_bytes);
            assert_eq!(script.peak_live_bytes(), trace.peak_live_bytes(granule_bytes));
        }
    }

    #[test]
    fn sizes_past_everything_saturate() {
        let log = "Action,Pointer,Size,Stream\n\
                   allocate,0xa0,18446744073709551615,0\n\
                   allocate,0xb0,18446744073709551615,0\n";
        let script = Script::new(&Trace::read(log.as_bytes()).unwrap(), 1);
        assert_eq!(script.peak_live_granules(), u64::MAX);
        assert_eq!(script.peak_live_bytes(), u64::MAX);
    }
}
