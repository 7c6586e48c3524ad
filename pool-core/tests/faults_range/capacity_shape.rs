//! Capacities that are no power of two, and requests for all of them.

use pool_core::{AllocError, ConfigError, OffsetAllocator, Placement, RangeConfig};

use crate::support::{FITS, GRANULE, PLACEMENTS, dump, range_of};

const GIB: u64 = 1 << 30;

#[test]
fn p016_a_request_that_rounds_up_past_the_capacity_is_no_fault() {
    for bytes in [9 * GIB, 10 * GIB, 8 * GIB + 256] {
        for placement in FITS {
            assert!(range_of(10 * GIB / GRANULE, placement).allocate(bytes).is_ok());
        }
        let mut range = range_of(10 * GIB / GRANULE, Placement::Buddy);
        let before = dump(&range);
        let Err(AllocError::OutOfMemory { largest_free_bytes, .. }) = range.allocate(bytes) else {
            panic!("{bytes} bytes round up to 16 GiB");
        };
        assert_eq!(largest_free_bytes, 8 * GIB, "what could be had is said");
        assert_eq!(dump(&range), before);
        assert_eq!(range.allocate(largest_free_bytes).unwrap().size_bytes(), 8 * GIB);
    }
    // The kind: every size around half, three quarters and all of odd capacities.
    for shift in 1..24 {
        for capacity in [3 << shift, (1 << shift) - 1, (1 << shift) + 1] {
            for placement in PLACEMENTS {
                for granules in [capacity / 2 + 1, capacity * 3 / 4, capacity, capacity + 1] {
                    let mut range = range_of(capacity, placement);
                    let most = range.largest_free_bytes();
                    let bytes = granules * GRANULE;
                    let rounded = if placement == Placement::Buddy {
                        granules.next_power_of_two() * GRANULE
                    } else {
                        bytes
                    };
                    assert_eq!(
                        bytes == 0 || range.allocate(bytes).is_ok(),
                        bytes == 0 || rounded <= most,
                        "{granules} of {capacity}, {placement:?}"
                    );
                    range.verify().unwrap();
                }
            }
        }
    }
}

#[test]
fn p017_a_capacity_rounds_down_to_the_granule_and_says_so() {
    for (bytes, usable) in [(1000, 768), (1001, 768), (256, 256), (511, 256), (512, 512)] {
        for placement in PLACEMENTS {
            let config = RangeConfig::new(bytes).placement(placement);
            let range = OffsetAllocator::new(&config).unwrap();
            assert_eq!(range.capacity_bytes(), usable);
            assert_eq!(range.stats().free_bytes, usable);
        }
    }
    for bytes in [0, 1, 255] {
        let error = OffsetAllocator::new(&RangeConfig::new(bytes)).map(drop).unwrap_err();
        let expected =
            ConfigError::CapacityBelowGranule { capacity_bytes: bytes, granule_bytes: 256 };
        assert_eq!(error, expected);
    }
}

#[test]
fn p061_the_whole_range_is_served_in_one_piece() {
    let named = [1, 2, 511, 512, 513, 1000, 4097, (1 << 20) + 1];
    for granules in (1..700).chain(named) {
        for placement in FITS {
            let mut range = range_of(granules, placement);
            let whole = range.allocate(granules * GRANULE).unwrap();
            assert_eq!((whole.offset_bytes(), whole.size_bytes()), (0, granules * GRANULE));
            // And in two pieces, and again.
            range.free(whole.handle()).unwrap();
            if granules > 1 {
                let one = range.allocate(GRANULE).unwrap();
                let most = range.allocate((granules - 1) * GRANULE).unwrap();
                range.free(one.handle()).unwrap();
                range.free(most.handle()).unwrap();
            }
            assert!(range.allocate(granules * GRANULE).is_ok());
        }
        let mut range = range_of(granules, Placement::Buddy);
        let whole = range.allocate(range.largest_free_bytes()).unwrap();
        assert_eq!(whole.size_bytes(), (1 << granules.ilog2()) * GRANULE);
    }
}

#[test]
fn p106_a_range_of_so_many_bytes_serves_so_many() {
    for placement in PLACEMENTS {
        assert!(range_of((1 << 20) / GRANULE, placement).allocate(1 << 20).is_ok());
        let mut range = range_of((1 << 20) / GRANULE, placement);
        assert!(range.allocate(512 << 10).is_ok() && range.allocate(512 << 10).is_ok());
        // In every size that divides it, with nothing left over.
        for shift in 0..=12 {
            let mut range = range_of(1 << 12, placement);
            for _ in 0..1 << (12 - shift) {
                range.allocate(GRANULE << shift).unwrap();
            }
            assert_eq!(range.stats().free_bytes, 0);
            assert_eq!(range.largest_free_bytes(), 0);
        }
    }
}
