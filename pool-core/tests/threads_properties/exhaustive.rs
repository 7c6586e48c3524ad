//! Every short sequence of operations on allocators so small that all can be tried.

use pool_core::Placement;

use crate::check::check;
use crate::setting::Setting;
use crate::step::{Door, Step};

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
        if let Err(what) = check(setting, &steps, 2) {
            panic!("{what}\n{setting:?}\n{steps:?}");
        }
    }
    count
}

const FIRST: Door = Door::Cache(0);
const SECOND: Door = Door::Cache(1);

/// A best-fit range in spans of 64 granules, of which caches keep blocks of up to 8.
const fn in_spans(granules: u64, shards: u32, cache_bytes: u64) -> Setting {
    Setting { granules, placement: Placement::BestFit, span_granules: 64, shards, cache_bytes }
}

/// The fewest granules of a range that is worked on in shards: each borrows a span at a time.
const SHARDED: u64 = 512;

/// Two caches around four granules, that no cache keeps.
#[test]
fn all_sequences_on_four_granules() {
    let alphabet = [
        Step::granules(FIRST, 1),
        Step::granules(SECOND, 2),
        Step::granules(Door::Shared, 4),
        Step::free(FIRST, 0),
        Step::free(SECOND, 1),
        Step::FreeAgain { door: FIRST, pick: 0 },
    ];
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        let setting =
            Setting { granules: 4, placement, span_granules: 0, shards: 2, cache_bytes: 1 << 20 };
        assert_eq!(every_sequence(setting, &alphabet, 4), 1296);
    }
}

/// Two caches around one span, which is all there is.
#[test]
fn all_sequences_of_two_caches_in_one_span() {
    let alphabet = [
        Step::granules(FIRST, 8),
        Step::granules(SECOND, 8),
        Step::granules(Door::Shared, 64),
        Step::free(FIRST, 0),
        Step::free(SECOND, 0),
        Step::free(SECOND, 1),
        Step::Flush(SECOND),
    ];
    for cache_bytes in [0, 1 << 20] {
        let setting = in_spans(64, 1, cache_bytes);
        assert_eq!(every_sequence(setting, &alphabet, 4), 2401);
    }
}

/// Two caches of which one is on a shard that borrows; what it borrowed is called back.
#[test]
fn all_sequences_with_a_lent_extent() {
    let alphabet = [
        Step::granules(FIRST, 8),
        Step::granules(SECOND, 8),
        Step::granules(SECOND, 16),
        Step::granules(FIRST, SHARDED - 64),
        Step::granules(Door::Shared, SHARDED),
        Step::free(FIRST, 0),
        Step::free(SECOND, 1),
    ];
    for cache_bytes in [0, 1 << 20] {
        let setting = in_spans(SHARDED, 2, cache_bytes);
        assert_eq!(every_sequence(setting, &alphabet, 4), 2401);
    }
}

/// A cache that comes and goes, on one shard and another, and blocks freed twice.
#[test]
fn all_sequences_with_a_cache_that_ends() {
    let alphabet = [
        Step::granules(FIRST, 1),
        Step::granules(SECOND, 8),
        Step::free(FIRST, 0),
        Step::free(SECOND, 1),
        Step::FreeAgain { door: FIRST, pick: 0 },
        Step::Renew { cache: 0, shard: 1 },
        Step::UseShard { cache: 1, shard: 0 },
    ];
    assert_eq!(every_sequence(in_spans(SHARDED, 2, 1 << 20), &alphabet, 4), 2401);
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
    assert_eq!(every_sequence(in_spans(67, 1, 1 << 20), &alphabet, 4), 1296);
}
