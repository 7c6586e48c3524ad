//! Blocks that a rounded size class hides, or hands out though they are too small.

use pool_core::{Options, Placement, Request};
use pool_mock::oracle::{Case, Operation, Shape, Size, Verify, check};

use crate::support::{FITS, GRANULE, Numbers, PLACEMENTS, around_class_limits, holes, range_of};

#[test]
fn p002_a_block_between_two_class_limits_is_found() {
    for placement in FITS {
        let mut range = range_of(324, placement);
        range.allocate(255 * GRANULE).unwrap();
        assert!(range.allocate(67 * GRANULE).is_ok(), "of the 69 granules left");

        // Every hole serves every request of its own class and just below.
        for hole in (1..300).chain(around_class_limits(1 << 22)) {
            for request in [hole, hole - 1, hole - hole / 100, hole - hole / 50] {
                if request == 0 {
                    continue;
                }
                let mut range = range_of(hole + 1, placement);
                range.allocate(GRANULE).unwrap();
                assert!(range.fits(request * GRANULE), "{request} of {hole}, {placement:?}");
                assert!(range.allocate(request * GRANULE).is_ok(), "{request} of {hole}");
            }
        }
    }
}

#[test]
fn p003_nothing_overlaps_around_class_limits() {
    for placement in FITS {
        let mut range = range_of(699_050, placement);
        assert!(range.allocate(664_908 * GRANULE).is_ok(), "{placement:?}");
    }
    let limits: Vec<u32> =
        around_class_limits(3000).map(|granules| u32::try_from(granules).unwrap()).collect();
    for placement in PLACEMENTS {
        let mut numbers = Numbers::new(3);
        let operations = (0..600)
            .map(|_| {
                let pick = numbers.below(limits.len() as u64);
                if numbers.below(5) < 3 {
                    let granules = limits[usize::try_from(pick).unwrap()];
                    Operation::allocate(Size::Granules(granules))
                } else {
                    Operation::Free(u16::try_from(pick).unwrap())
                }
            })
            .collect();
        // The map of every granule in the oracle is what sees an overlap.
        let case = Case { shape: Shape::new(19_999).placement(placement), operations };
        let summary = check(&case, Verify::Every(20)).unwrap();
        assert!(summary.served > 100 && summary.refused > 10, "{summary:?}");
    }
}

#[test]
fn p013_a_block_is_never_smaller_than_asked() {
    for placement in PLACEMENTS {
        for small in [1, 2, 3, 7, 31, 33, 64, 100] {
            for large in [small + 1, 2 * small, 4 * small, 127 * small] {
                // Two holes, the small one first in every order: lower, and freed last.
                let mut range = range_of(1 << 16, placement);
                let first = range.allocate(small * GRANULE).unwrap();
                range.allocate(GRANULE).unwrap();
                let second = range.allocate(large * GRANULE).unwrap();
                range.allocate(GRANULE).unwrap();
                range.free(second.handle()).unwrap();
                range.free(first.handle()).unwrap();
                let block = range.allocate(large * GRANULE).unwrap();
                assert!(block.size_bytes() >= large * GRANULE, "{block:?}");
                if placement != Placement::Buddy {
                    assert_eq!(block.offset_bytes(), second.offset_bytes(), "the one hole of it");
                }
            }
        }
    }
}

#[test]
fn p067_the_same_request_is_served_again_after_its_free() {
    for placement in FITS {
        for granules in around_class_limits(1 << 20) {
            let mut range = range_of(1 << 21, placement);
            let first = range.allocate(granules * GRANULE).unwrap();
            let rest = range.largest_free_bytes();
            range.allocate(rest).unwrap();
            assert_eq!(holes(&range), []);
            range.free(first.handle()).unwrap();
            let again = range.allocate(granules * GRANULE).unwrap();
            assert_eq!(again.offset_bytes(), first.offset_bytes(), "{granules}");
        }
    }
    // Under buddy placement for the rounded size, and for a request at the high end.
    for placement in PLACEMENTS {
        let mut range = range_of(1 << 10, placement);
        let high = Request::new(33 * GRANULE).options(Options::HIGH_END);
        let first = range.allocate(high).unwrap();
        while range.allocate(range.largest_free_bytes()).is_ok() {}
        range.free(first.handle()).unwrap();
        assert_eq!(range.allocate(high).unwrap().offset_bytes(), first.offset_bytes());
    }
}
