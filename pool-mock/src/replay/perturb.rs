//! A script that departs from another here and there.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::script::{Event, Script, Step};

/// Extra blocks live for so many steps at most.
const MOST_STEPS: usize = 1000;

impl Script {
    /// The same program with some of its requests changed: of a thousand, so many. A seed chooses
    /// which, and how: a third have another size, from half to twice the old one; a third are not
    /// made, nor their frees; before a third another request of about that size is made, which is
    /// freed up to a thousand steps later.
    ///
    /// # Example
    ///
    /// ```
    /// use pool_mock::{Trace, replay::Script};
    ///
    /// let log = "Action,Pointer,Size,Stream\nallocate,0xa0,700,0\nfree,0xa0,700,0\n";
    /// let script = Script::new(&Trace::read(log.as_bytes())?, 256);
    /// assert_eq!(script.perturbed(0, 7).steps(), script.steps());
    /// # Ok::<(), pool_mock::LogError>(())
    /// ```
    #[must_use]
    pub fn perturbed(&self, per_mille: u32, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut events = Vec::with_capacity(self.operations());
        let mut blocks = 0_u32;
        let mut new_block = || {
            blocks += 1;
            blocks - 1
        };
        // Of each slot, the block in it, if it was not left out.
        let mut in_slot: Vec<Option<u32>> = vec![None; self.peak_live_blocks() as usize];
        // Extra blocks by the step at which they are freed.
        let mut extra: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for (place, (step, size_bytes)) in self.steps_and_bytes().enumerate() {
            for block in extra.remove(&place).unwrap_or_default() {
                events.push(Event::Free { block });
            }
            match step {
                Step::Allocate { slot, .. } => {
                    let changed = rng.u32(0..1000) < per_mille;
                    let other_bytes = |rng: &mut Rng| {
                        rng.u64(size_bytes / 2..=size_bytes.saturating_mul(2)).max(1)
                    };
                    let (mut wanted_bytes, mut left_out) = (size_bytes, false);
                    if changed {
                        match rng.u32(0..3) {
                            0 => wanted_bytes = other_bytes(&mut rng),
                            1 => left_out = true,
                            _ => {
                                let (block, size_bytes) = (new_block(), other_bytes(&mut rng));
                                events.push(Event::Allocate { block, size_bytes });
                                let until = place + rng.usize(1..=MOST_STEPS);
                                extra.entry(until).or_default().push(block);
                            }
                        }
                    }
                    let block = (!left_out).then(&mut new_block);
                    in_slot[slot as usize] = block;
                    if let Some(block) = block {
                        events.push(Event::Allocate { block, size_bytes: wanted_bytes });
                    }
                }
                Step::Free { slot } => {
                    let block = in_slot[slot as usize].take();
                    events.extend(block.map(|block| Event::Free { block }));
                }
            }
        }
        let rest = extra.into_values().flatten();
        events.extend(rest.map(|block| Event::Free { block }));
        Self::of_events(events.into_iter(), blocks, self.granule_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_as_many_requests_change_as_asked_and_the_seed_says_which() {
        let both = |block| [Event::Allocate { block, size_bytes: 100_000 }, Event::Free { block }];
        let script = Script::of_events((0..1000).flat_map(both), 1000, 256);
        let changed = script.perturbed(300, 1);
        assert_eq!(changed.steps(), script.perturbed(300, 1).steps());
        assert_ne!(changed.steps(), script.perturbed(300, 2).steps());
        let allocations = |script: &Script| {
            let of = |step: &&Step| matches!(step, Step::Allocate { .. });
            script.steps().iter().filter(of).count()
        };
        let usual = |step: &&Step| matches!(step, Step::Allocate { granules: 391, .. });
        let usual = changed.steps().iter().filter(usual).count();
        assert!((750..850).contains(&usual), "{usual}");
        assert!((950..1050).contains(&allocations(&changed)), "{}", allocations(&changed));
        // All that is allocated is freed.
        assert_eq!(changed.operations(), 2 * allocations(&changed));
    }
}
