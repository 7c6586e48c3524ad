//! Alignment of offsets, apart from rounding of sizes.

use pool_core::{AllocError, Options, Request};

use crate::support::{FITS, GRANULE, PLACEMENTS, dump, holes, range_of, range_with_spans};

#[test]
fn p026_the_offset_is_aligned_and_the_size_is_not() {
    for placement in PLACEMENTS {
        for align_shift in 0..=22 {
            for size_bytes in [1, 255, 256, 257, 1000, 4096, 65_537] {
                for options in [Options::empty(), Options::HIGH_END] {
                    let mut range = range_of(1 << 16, placement);
                    // One block in the way, so that neither end is aligned by chance.
                    range.allocate(GRANULE).unwrap();
                    range.allocate(Request::new(GRANULE).options(Options::HIGH_END)).unwrap();
                    let request =
                        Request::new(size_bytes).align_bytes(1 << align_shift).options(options);
                    let block = range.allocate(request).unwrap();
                    assert_eq!(block.offset_bytes() % (1 << align_shift), 0, "{request:?}");
                    let granules = size_bytes.div_ceil(GRANULE);
                    if FITS.contains(&placement) {
                        assert_eq!(block.size_bytes(), granules * GRANULE, "{request:?}");
                    } else {
                        assert_eq!(block.size_bytes(), granules.next_power_of_two() * GRANULE);
                    }
                }
            }
        }
    }
}

#[test]
fn p027_an_alignment_over_the_size_holds_and_costs_nothing() {
    for placement in PLACEMENTS {
        let mut range = range_of(1 << 15, placement);
        range.allocate(4096).unwrap();
        let page = range.allocate(Request::new(4096).align_bytes(2 << 20)).unwrap();
        assert_eq!(page.offset_bytes() % (2 << 20), 0);
        let small = range.allocate(Request::new(256).align_bytes(64 << 10)).unwrap();
        assert_eq!(small.offset_bytes() % (64 << 10), 0);
        // What lies before and behind is free again, to the last granule.
        assert_eq!(range.stats().live_bytes, 4096 + 4096 + 256);
        let free: u64 = holes(&range).iter().map(|(_, granules)| granules * GRANULE).sum();
        assert_eq!(free, range.stats().free_bytes);
        while range.allocate(range.largest_free_bytes()).is_ok() {}
        assert_eq!(range.stats().free_bytes, 0);
        range.verify().unwrap();
    }
    // In a span as well, whose blocks are aligned only to their own size by nature.
    let mut range = range_with_spans(1 << 10);
    for align_granules in [1, 2, 4, 8, 16, 32, 64, 128, 256] {
        let request = Request::new(GRANULE).align_bytes(align_granules * GRANULE);
        let block = range.allocate(request).unwrap();
        assert_eq!(block.offset_bytes() % (align_granules * GRANULE), 0, "{align_granules}");
        assert_eq!(block.size_bytes(), GRANULE);
    }
    range.verify().unwrap();
}

#[test]
fn p059_every_power_of_two_is_an_alignment_and_nothing_else_is() {
    for placement in PLACEMENTS {
        for shift in 0..64 {
            // Offset zero has every alignment there is; the next one is past the range.
            let request = Request::new(GRANULE).align_bytes(1 << shift);
            let mut range = range_of(1000, placement);
            if shift <= 16 {
                let first = range.allocate(request).unwrap();
                let second = range.allocate(request).unwrap();
                assert_ne!(first.offset_bytes(), second.offset_bytes());
                assert_eq!(second.offset_bytes() % (1 << shift), 0);
            } else if shift >= 18
                && let Ok(block) = range.allocate(request)
            {
                assert_eq!(block.offset_bytes(), 0, "2^{shift}");
                assert!(range.allocate(request).is_err());
            }
            range.verify().unwrap();
        }
        let mut range = range_of(1000, placement);
        let before = dump(&range);
        for align_bytes in [0, 3, 255, 257, 768, u64::MAX, u64::MAX - 1] {
            let refused = range.allocate(Request::new(1).align_bytes(align_bytes));
            assert_eq!(refused, Err(AllocError::Alignment { align_bytes }));
        }
        assert_eq!(dump(&range), before);
    }
}
