//! Sizes and capacities over 32 bits.

use pool_core::{ConfigError, OffsetAllocator, Options, Placement, RangeConfig, Request, Spans};

use crate::support::{FITS, PLACEMENTS};

#[test]
fn p028_a_block_over_4_gib_is_as_large_as_asked() {
    for placement in PLACEMENTS {
        // 2^31 granules: 8 TiB.
        let config = RangeConfig::new(8 << 40).granule_bytes(4096).placement(placement);
        let mut range = OffsetAllocator::new(&config).unwrap();
        for shift in 30..=42 {
            for size_bytes in (1 << shift) - 5..=(1 << shift) + 5_u64 {
                let block = range.allocate(size_bytes).unwrap();
                assert!(block.size_bytes() >= size_bytes, "2^{shift}: {block:?}");
                if placement != Placement::Buddy {
                    assert!(block.size_bytes() < size_bytes + 4096, "2^{shift}: {block:?}");
                }
                assert_eq!(range.free(block.handle()), Ok(block));
            }
        }
        range.verify().unwrap();
    }
}

#[test]
fn p062_the_whole_of_a_large_range_is_usable() {
    let capacities =
        [((1 << 32) + 256, 256), (1 << 40, 256), ((1 << 40) + 4096, 4096), (1 << 44, 4096)];
    for (capacity_bytes, granule_bytes) in capacities {
        for placement in PLACEMENTS {
            let config =
                RangeConfig::new(capacity_bytes).granule_bytes(granule_bytes).placement(placement);
            let mut range = OffsetAllocator::new(&config).unwrap();
            let mut total_bytes = 0;
            while let Ok(block) = range.allocate(1 << 30) {
                assert_eq!(block.size_bytes(), 1 << 30);
                total_bytes += block.size_bytes();
            }
            assert_eq!(total_bytes, capacity_bytes >> 30 << 30);
            let rest_bytes = capacity_bytes - total_bytes;
            assert_eq!(range.stats().free_bytes, rest_bytes);
            assert!(rest_bytes == 0 || range.allocate(rest_bytes).is_ok());
            range.verify().unwrap();
        }
    }
}

#[test]
fn p062_a_capacity_over_the_limit_is_refused_not_cut() {
    for (capacity_bytes, granule_bytes) in [((1 << 40) + 256, 256), (1 << 44, 256), (u64::MAX, 16)]
    {
        let config = RangeConfig::new(capacity_bytes).granule_bytes(granule_bytes);
        let expected = ConfigError::CapacityTooLarge { capacity_bytes, granule_bytes };
        assert_eq!(OffsetAllocator::new(&config).map(drop), Err(expected));
    }
    // A part of a granule over it is rounded away.
    let range = OffsetAllocator::new(&RangeConfig::new((1 << 40) + 255)).unwrap();
    assert_eq!(range.capacity_bytes(), 1 << 40);
}

#[test]
fn p107_offset_zero_is_an_offset_like_any_other() {
    for placement in PLACEMENTS {
        let config = RangeConfig::new(120_000_000_000).placement(placement);
        let mut range = OffsetAllocator::new(&config).unwrap();
        assert_eq!(range.capacity_bytes(), 120_000_000_000 / 256 * 256);
        for _ in 0..2 {
            let first = range.allocate(1).unwrap();
            assert_eq!(range.block(first.handle()), Ok(first));
            let is_low = placement != Placement::Buddy;
            assert!(first.offset_bytes() == 0 || !is_low, "{first:?}");
            range.free(first.handle()).unwrap();
        }
        if FITS.contains(&placement) {
            let whole = range.allocate(range.capacity_bytes()).unwrap();
            assert_eq!(whole.offset_bytes(), 0);
            assert!(range.free(whole.handle()).is_ok());
        }
    }
}

#[test]
fn p107_a_length_of_2_to_the_32_granules_is_a_length_like_any_other() {
    for placement in PLACEMENTS {
        for spans in [Spans::Off, Spans::Automatic] {
            let config = RangeConfig::new(1 << 40).placement(placement).spans(spans);
            let mut range = OffsetAllocator::new(&config).unwrap();
            let whole = range.allocate(1 << 40).unwrap();
            assert_eq!((whole.offset_bytes(), whole.size_bytes()), (0, 1 << 40));
            assert_eq!(range.resize(whole.handle(), 256).unwrap().size_bytes(), 256);
            assert_eq!(range.resize(whole.handle(), 1 << 40).unwrap().size_bytes(), 1 << 40);
            assert_eq!(range.free(whole.handle()).unwrap().size_bytes(), 1 << 40);
            assert_eq!(range.largest_free_bytes(), 1 << 40);
            // The last granule, whose end is no 32-bit number of granules.
            let last = range.allocate(Request::new(1).options(Options::HIGH_END)).unwrap();
            assert_eq!(last.offset_bytes() + last.size_bytes(), 1 << 40, "{placement:?}");
            range.verify().unwrap();
        }
    }
}
