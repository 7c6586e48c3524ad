//! Sizes that wrap when they are rounded up or added to.

use pool_core::{AllocError, EndError, Options, Request, ResizeError};

use crate::support::{GRANULE, PLACEMENTS, dump, range_of, range_with_spans};

/// Sizes from which rounding, padding or adding an offset could wrap.
fn enormous() -> impl Iterator<Item = u64> {
    (0..600)
        .map(|below| u64::MAX - below)
        .chain((0..4).map(|more| i64::MAX.unsigned_abs() + more))
        .chain((33..64).flat_map(|shift| [(1 << shift) - 1, 1 << shift, (1 << shift) + 1]))
}

#[test]
fn p010_a_size_that_wraps_is_too_large() {
    let ranges = PLACEMENTS.map(|placement| range_of(1000, placement));
    for mut range in ranges.into_iter().chain([range_with_spans(1000)]) {
        range.allocate(300 * GRANULE).unwrap();
        let before = dump(&range);
        for size_bytes in enormous() {
            for align_bytes in [1, 256, 4096, 1 << 31, 1 << 63] {
                for options in [Options::empty(), Options::HIGH_END, Options::all()] {
                    let request = Request::new(size_bytes)
                        .align_bytes(align_bytes)
                        .options(options)
                        .never_split_above(u64::MAX);
                    let expected =
                        AllocError::TooLarge { size_bytes, capacity_bytes: 1000 * GRANULE };
                    assert_eq!(range.allocate(request), Err(expected));
                    assert!(!range.fits(request));
                }
            }
        }
        assert_eq!(dump(&range), before);
    }
}

#[test]
fn p010_an_end_or_a_block_that_would_wrap_stays() {
    for placement in PLACEMENTS {
        let mut range = range_of(1000, placement);
        let block = range.allocate(GRANULE).unwrap();
        let before = dump(&range);
        for bytes in enormous() {
            let resized = range.resize(block.handle(), bytes);
            assert!(matches!(resized, Err(ResizeError::NoRoom { .. })), "{bytes}: {resized:?}");
            let shrunk = range.shrink(bytes);
            assert!(matches!(shrunk, Err(EndError::InUse { .. })), "{bytes}: {shrunk:?}");
            if bytes / GRANULE > (1 << 32) - 1000 {
                let most_bytes = ((1 << 32) - 1000) * GRANULE;
                assert_eq!(range.grow(bytes), Err(EndError::TooLarge { bytes, most_bytes }));
            }
        }
        assert_eq!(dump(&range), before);
    }
}

#[test]
fn p011_a_wrapped_size_takes_no_cached_block() {
    let ranges = PLACEMENTS.map(|placement| range_of(1000, placement));
    for mut range in ranges.into_iter().chain([range_with_spans(1000)]) {
        // A free block of each small size, for a wrapped class to find.
        let blocks: Vec<_> = (1..20).map(|size| range.allocate(size * GRANULE).unwrap()).collect();
        for block in blocks.iter().step_by(2) {
            range.free(block.handle()).unwrap();
        }
        for size_bytes in enormous() {
            assert!(range.allocate(size_bytes).is_err(), "{size_bytes}");
        }
        let small = range.allocate(512).unwrap();
        assert!(blocks.iter().skip(1).step_by(2).all(|live| {
            live.offset_bytes() + live.size_bytes() <= small.offset_bytes()
                || small.offset_bytes() + small.size_bytes() <= live.offset_bytes()
        }));
        range.verify().unwrap();
    }
}
