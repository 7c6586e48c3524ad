//! What goes back, and how long freed blocks wait.

use super::start::{advised_bytes, part};
use crate::pool::advice::evidence::Evidence;
use crate::pool::advice::reason::Reason;
use crate::pool::policy::{Deferred, Settings};

/// A queue that is drained because it is full should have had so many blocks: a drain costs a
/// fence a stream and a query for each that is pending.
const BLOCKS_OF_A_DRAIN: u64 = 64;

/// And is worth a change only if that happened so often.
const LEAST_DRAINS: u64 = 16;

/// The part of the start that a queue may have, in hundredths.
const QUEUE_PERCENT: u64 = 25;

/// Raises a watermark above which memory was given back and taken again to the start.
pub(super) fn keep_more(
    had: &Settings,
    advised: &mut Settings,
    evidence: &Evidence,
) -> Option<Reason> {
    let from_bytes = had.reclaim.watermark_bytes?;
    let to_bytes = advised_bytes(advised)?;
    let taken = evidence.start_bytes(had).saturating_add(evidence.growth_bytes);
    let again_bytes = taken.saturating_sub(evidence.peak_reserved_bytes);
    (again_bytes > 0 && to_bytes > from_bytes).then(|| {
        advised.reclaim.watermark_bytes = Some(to_bytes);
        Reason::Watermark { from_bytes, to_bytes, again_bytes }
    })
}

/// Gives a queue that was full for a few blocks each time a part of the start's bytes. What waits
/// in it is waited for before the pool grows, so it takes no memory from anyone.
pub(super) fn wait_longer(
    had: &Settings,
    advised: &mut Settings,
    evidence: &Evidence,
) -> Option<Reason> {
    let Deferred::Queue { blocks, bytes: from_bytes } = had.reclaim.deferred else { return None };
    let to_bytes = part(advised_bytes(advised)?, QUEUE_PERCENT);
    let (drains, waited) = (evidence.drains, evidence.deferred_blocks);
    let is_often = drains >= LEAST_DRAINS && waited / drains < BLOCKS_OF_A_DRAIN;
    (is_often && to_bytes / 2 >= from_bytes).then(|| {
        advised.reclaim.deferred = Deferred::Queue { blocks, bytes: to_bytes };
        Reason::Queue { from_bytes, to_bytes, drains, blocks: waited }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::policy::{Preallocation, Reclaim};

    const MIB: u64 = 1 << 20;

    fn with(reclaim: Reclaim) -> Settings {
        let preallocation = Preallocation::Bytes(4096 * MIB);
        Settings { preallocation, reclaim, ..Settings::default() }
    }

    #[test]
    fn what_goes_back_and_forth_is_kept() {
        let had = with(Reclaim { watermark_bytes: Some(100 * MIB), ..Reclaim::default() });
        let evidence = Evidence {
            initial_bytes: 4096 * MIB,
            peak_reserved_bytes: 4096 * MIB,
            growth_bytes: 900 * MIB,
            ..Evidence::default()
        };
        let mut advised = had;
        let reason = keep_more(&had, &mut advised, &evidence);
        assert!(
            matches!(reason, Some(Reason::Watermark { again_bytes, .. }) if again_bytes == 900 * MIB)
        );
        assert_eq!(advised.reclaim.watermark_bytes, Some(4096 * MIB));
        assert_eq!(keep_more(&advised.clone(), &mut advised, &evidence), None);
        // Nothing was taken twice.
        let evidence = Evidence { growth_bytes: 0, ..evidence };
        assert_eq!(keep_more(&had, &mut advised, &evidence), None);
    }

    #[test]
    fn a_queue_that_is_full_for_a_few_blocks_gets_a_quarter_of_the_start() {
        let had = with(Reclaim::default());
        let evidence = Evidence { drains: 100, deferred_blocks: 1300, ..Evidence::default() };
        let mut advised = had;
        let reason = wait_longer(&had, &mut advised, &evidence);
        assert!(matches!(reason, Some(Reason::Queue { drains: 100, blocks: 1300, .. })));
        let queue = Deferred::Queue { blocks: 1024, bytes: 1024 * MIB };
        assert_eq!(advised.reclaim.deferred, queue);
        assert_eq!(wait_longer(&advised.clone(), &mut advised, &evidence), None);
        for rare in [(100, 6400), (15, 100), (0, 0)] {
            let (drains, deferred_blocks) = rare;
            let evidence = Evidence { deferred_blocks, drains, ..Evidence::default() };
            assert_eq!(wait_longer(&had, &mut advised, &evidence), None);
        }
        let had = with(Reclaim { deferred: Deferred::AtOnce, ..Reclaim::default() });
        assert_eq!(wait_longer(&had, &mut advised, &evidence), None);
    }
}
