//! Settings whose least and greatest values mean what they say.

use pool_core::{ConfigError, OffsetAllocator, Placement, RangeConfig, Request, Spans};

use crate::support::{GRANULE, PLACEMENTS};

fn refused(config: &RangeConfig) -> ConfigError {
    OffsetAllocator::new(config).map(drop).unwrap_err()
}

#[test]
fn p114_a_granule_is_taken_as_it_is_or_refused() {
    for granule_bytes in [0, 1, 2, 3, 4, 8, 15, 17, 24, 48, 255, 257, 3 << 20, u64::MAX] {
        let config = RangeConfig::new(1 << 30).granule_bytes(granule_bytes);
        assert_eq!(refused(&config), ConfigError::Granule { granule_bytes });
    }
    for shift in 4..=30 {
        for placement in PLACEMENTS {
            let config = RangeConfig::new(1 << 30).granule_bytes(1 << shift).placement(placement);
            let mut range = OffsetAllocator::new(&config).unwrap();
            assert_eq!(range.granule_bytes(), 1 << shift);
            let block = range.allocate(1).unwrap();
            assert_eq!(block.size_bytes(), 1 << shift, "one is one");
            if shift < 30 {
                let second = range.allocate(1).unwrap();
                assert_eq!(second.offset_bytes().abs_diff(block.offset_bytes()), 1 << shift);
            }
        }
    }
    // A granule over the capacity leaves nothing, whatever its size.
    for granule_bytes in [1 << 31, 1 << 40, 1 << 63] {
        let config = RangeConfig::new(1 << 30).granule_bytes(granule_bytes);
        let expected = ConfigError::CapacityBelowGranule { capacity_bytes: 1 << 30, granule_bytes };
        assert_eq!(refused(&config), expected);
    }
}

#[test]
fn p114_spans_are_taken_as_they_are_or_refused() {
    let sized = |span: u64, small: u64| {
        RangeConfig::new(1 << 30).spans(Spans::Sized { span_bytes: span, small_bytes: small })
    };
    for span_granules in [0, 1, 2, 3, 32, 63, 65, 96, 8192, 1 << 20] {
        let span_bytes = span_granules * GRANULE;
        let expected = ConfigError::SpanSize { span_bytes, granule_bytes: GRANULE };
        assert_eq!(refused(&sized(span_bytes, GRANULE)), expected);
    }
    let uneven = ConfigError::SpanSize { span_bytes: 64 * GRANULE + 1, granule_bytes: GRANULE };
    assert_eq!(refused(&sized(64 * GRANULE + 1, GRANULE)), uneven);
    for shift in 6..=12 {
        let span_bytes = GRANULE << shift;
        for small_bytes in [0, 1, 255, span_bytes / 2 + GRANULE, span_bytes, u64::MAX] {
            let expected = ConfigError::SmallLimit { small_bytes, span_bytes };
            assert_eq!(refused(&sized(span_bytes, small_bytes)), expected);
        }
        for small_granules in [1, 2, 3, 1 << (shift - 1)] {
            let config = sized(span_bytes, small_granules * GRANULE);
            let mut range = OffsetAllocator::new(&config).unwrap();
            range.allocate((small_granules + 1) * GRANULE).unwrap();
            assert_eq!(range.spans().count(), 0, "one over the limit comes from no span");
            range.allocate(small_granules * GRANULE).unwrap();
            let opened: Vec<_> = range.spans().map(|span| span.size_bytes).collect();
            assert_eq!(opened, [span_bytes], "the limit itself does");
        }
    }
}

#[test]
fn p114_least_values_are_not_taken_for_unset() {
    for placement in PLACEMENTS {
        let config = RangeConfig::new(GRANULE).placement(placement).expect_blocks(0).handle_seed(0);
        let mut range = OffsetAllocator::new(&config).unwrap();
        assert_eq!(range.placement(), placement);
        let only = range.allocate(1).unwrap();
        assert!(range.allocate(1).is_err());
        range.free(only.handle()).unwrap();
        // A split limit of zero forbids every split, and no split is needed here.
        let careful = Request::new(GRANULE).never_split_above(0);
        assert!(range.allocate(careful).is_ok());
        let mut range =
            OffsetAllocator::new(&RangeConfig::new(2 * GRANULE).placement(placement)).unwrap();
        assert!(range.allocate(careful).is_err());
    }
    // Spans are best fit's alone; set for another placement they are not looked at.
    for placement in [Placement::FirstFit, Placement::Buddy] {
        let odd = Spans::Sized { span_bytes: 3, small_bytes: 0 };
        let config = RangeConfig::new(1 << 20).placement(placement).spans(odd);
        let mut range = OffsetAllocator::new(&config).unwrap();
        range.allocate(1).unwrap();
        assert_eq!(range.spans().count(), 0);
    }
}
