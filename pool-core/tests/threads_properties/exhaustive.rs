//! Every short sequence of operations on allocators so small that all can be tried.

use pool_core::Placement;

use crate::check::check;
use crate::setting::{GRANULE, Setting};
use crate::step::{Door, Step};

const PLACEMENTS: [Placement; 3] = [Placement::BestFit, Placement::FirstFit, Placement::Buddy];

/// Checks every sequence of `length` steps out of `alphabet` (and with them all shorter ones),
/// and returns how many there were.
fn every_sequence(setting: Setting, alphabet: &[Step], length: u32) -> usize {
    let count = alphabet.len().pow(length);
    for number in 0..count {
        let mut rest = number;
        let steps: Vec<_> = (0..length)
            .map(|_| {
                let step = alphabet[rest % alphabet.len()];
                rest /= alphabet.len();
                step
            })
            .collect();
        if let Err(what) = check(setting, &steps, 1) {
            panic!("{what}\n{setting:?}\n{steps:?}");
        }
    }
    count
}

const FIRST: Door = Door::Cache(0);
const SECOND: Door = Door::Cache(1);

/// Two caches, on two shards if there are two, around four granules.
#[test]
fn all_sequences_of_two_caches_on_four_granules() {
    let alphabet = [
        Step::granules(FIRST, 1),
        Step::granules(SECOND, 1),
        Step::granules(FIRST, 2),
        Step::granules(Door::Shared, 4),
        Step::free(FIRST, 0),
        Step::free(SECOND, 0),
        Step::free(SECOND, 1),
        Step::Flush(SECOND),
    ];
    for placement in PLACEMENTS {
        for (shards, cache_bytes) in [(1, 0), (1, 2 * GRANULE), (2, 0), (2, 1 << 20)] {
            let setting = Setting { granules: 4, placement, span_granules: 0, shards, cache_bytes };
            assert_eq!(every_sequence(setting, &alphabet, 4), 4096);
        }
    }
}

/// A cache that comes and goes, and blocks freed twice.
#[test]
fn all_sequences_with_a_cache_that_ends() {
    let alphabet = [
        Step::granules(FIRST, 1),
        Step::granules(SECOND, 2),
        Step::free(FIRST, 0),
        Step::free(SECOND, 1),
        Step::FreeAgain { door: FIRST, pick: 0 },
        Step::Renew { cache: 0, shard: 1 },
        Step::UseShard { cache: 1, shard: 1 },
    ];
    for placement in PLACEMENTS {
        for shards in [1, 2] {
            let setting =
                Setting { granules: 5, placement, span_granules: 0, shards, cache_bytes: 1 << 20 };
            assert_eq!(every_sequence(setting, &alphabet, 4), 2401);
        }
    }
}

/// Two owners whose cached blocks are not for each other, in a range with one span and little else.
#[test]
fn all_sequences_of_two_owners_around_a_span() {
    let free = |owner, pick| Step::Free { door: FIRST, owner, pick };
    let allocate = |owner| match Step::granules(FIRST, 8) {
        Step::Allocate { door, size, align_bytes, options, limit, .. } => {
            Step::Allocate { door, owner, size, align_bytes, options, limit }
        }
        step => step,
    };
    let alphabet = [
        allocate(1),
        allocate(2),
        free(1, 0),
        free(2, 1),
        Step::granules(SECOND, 64),
        Step::granules(Door::Shared, 3),
    ];
    for shards in [1, 2] {
        let setting = Setting {
            granules: 67,
            placement: Placement::BestFit,
            span_granules: 64,
            shards,
            cache_bytes: 1 << 20,
        };
        assert_eq!(every_sequence(setting, &alphabet, 5), 7776);
    }
}
