//! How much threads' caches keep.

use crate::pool::advice::evidence::Evidence;
use crate::pool::advice::reason::Reason;
use crate::pool::policy::Settings;
use crate::threads::{CLASS_SHARE, ClassUse, MOST_DEPTH};

/// A class is judged by no fewer operations, and by no smaller part of all, in hundredths.
const LEAST_OPERATIONS: u64 = 4096;
const LEAST_PERCENT: u64 = 5;

/// Below this, in thousandths, a class misses too often.
const LEAST_HITS_PER_MILLE: u64 = 900;

/// Places that a class is to have then.
const PLACES: u64 = 16;

/// A cache's bytes in which a class has so many places.
fn bytes_for(class: &ClassUse, places: u64) -> u64 {
    class.size_bytes.saturating_mul(places).saturating_mul(CLASS_SHARE)
}

/// Gives caches more bytes if they miss often in a class for which they have few places.
pub(super) fn raise(had: &Settings, advised: &mut Settings, evidence: &Evidence) -> Option<Reason> {
    let from_bytes = had.cache_bytes;
    // No caches are a choice.
    if from_bytes == 0 {
        return None;
    }
    let all: u64 = evidence.classes.iter().map(|class| class.operations).sum();
    let least = LEAST_OPERATIONS.max(all / 100 * LEAST_PERCENT);
    let poor = evidence.classes.iter().filter(|class| {
        class.operations >= least
            && class.hits_per_mille() < LEAST_HITS_PER_MILLE
            && bytes_for(class, PLACES) > from_bytes
    });
    let class = poor.max_by_key(|class| class.size_bytes)?;
    let to_bytes = bytes_for(class, PLACES);
    advised.cache_bytes = to_bytes;
    Some(Reason::CacheRaised {
        from_bytes,
        to_bytes,
        class_bytes: class.size_bytes,
        hits_per_mille: class.hits_per_mille(),
        operations: class.operations,
    })
}

/// Takes bytes from caches that no class that was used can fill.
pub(super) fn lower(had: &Settings, advised: &mut Settings, evidence: &Evidence) -> Option<Reason> {
    let from_bytes = had.cache_bytes;
    let used = evidence.classes.iter().filter(|class| class.operations > 0);
    let largest = used.max_by_key(|class| class.size_bytes)?;
    // Until there was something to see: the classes of a program's start are not all.
    let all: u64 = evidence.classes.iter().map(|class| class.operations).sum();
    let to_bytes = bytes_for(largest, MOST_DEPTH as u64).max(Settings::new().cache_bytes);
    (all >= LEAST_OPERATIONS && from_bytes / 2 > to_bytes).then(|| {
        advised.cache_bytes = to_bytes;
        Reason::CacheLowered { from_bytes, to_bytes, class_bytes: largest.size_bytes }
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const KIB: u64 = 1 << 10;

    fn class(size_bytes: u64, operations: u64, missed: u64) -> ClassUse {
        ClassUse { size_bytes, operations, missed }
    }

    fn with(cache_bytes: u64) -> Settings {
        Settings { cache_bytes, ..Settings::default() }
    }

    fn evidence(classes: &[ClassUse]) -> Evidence {
        Evidence { classes: classes.to_vec(), ..Evidence::default() }
    }

    #[test]
    fn a_class_with_few_places_and_many_misses_gets_more() {
        let evidence = evidence(&[class(KIB, 100_000, 5), class(64 * KIB, 10_000, 3000)]);
        let had = Settings::default();
        let mut advised = had;
        let reason = raise(&had, &mut advised, &evidence);
        let raised = Some(Reason::CacheRaised {
            from_bytes: 1024 * KIB,
            to_bytes: 4096 * KIB,
            class_bytes: 64 * KIB,
            hits_per_mille: 700,
            operations: 10_000,
        });
        assert_eq!(reason, raised);
        assert_eq!(advised.cache_bytes, 4096 * KIB);
        assert_eq!(raise(&advised.clone(), &mut advised, &evidence), None);
    }

    #[test]
    fn classes_that_hit_are_rare_or_have_places_stay() {
        for classes in [
            vec![class(64 * KIB, 10_000, 900)],
            vec![class(64 * KIB, 4000, 3000)],
            vec![class(KIB, 1_000_000, 5), class(64 * KIB, 10_000, 3000)],
            vec![class(16 * KIB, 10_000, 9000)],
            vec![],
        ] {
            let mut advised = Settings::default();
            assert_eq!(raise(&Settings::default(), &mut advised, &evidence(&classes)), None);
        }
        let poor = evidence(&[class(64 * KIB, 10_000, 3000)]);
        assert_eq!(raise(&with(0), &mut with(0), &poor), None);
    }

    #[test]
    fn caches_that_nobody_can_fill_are_lowered_but_not_below_the_default() {
        let small = evidence(&[class(KIB, 100_000, 5), class(64 * KIB, 0, 0)]);
        let had = with(64 << 20);
        let mut advised = had;
        assert!(matches!(lower(&had, &mut advised, &small), Some(Reason::CacheLowered { .. })));
        assert_eq!(advised.cache_bytes, 1 << 20);
        assert_eq!(lower(&advised.clone(), &mut advised, &small), None);
        let large = evidence(&[class(64 * KIB, 100_000, 5)]);
        assert!(lower(&had, &mut advised, &large).is_some());
        assert_eq!(advised.cache_bytes, 16 << 20);
        assert_eq!(lower(&with(17 << 20), &mut advised, &large), None);
        assert_eq!(lower(&had, &mut advised, &evidence(&[class(KIB, 10, 5)])), None);
    }
}
