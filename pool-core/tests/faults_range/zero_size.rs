//! Requests for nothing.

use pool_core::{AllocError, EndError, Options, Request, ResizeError};

use crate::support::{PLACEMENTS, dump, range_of, range_with_spans};

#[test]
fn p058_zero_bytes_are_refused_and_take_no_place() {
    let ranges = PLACEMENTS.map(|placement| range_of(100, placement));
    for mut range in ranges.into_iter().chain([range_with_spans(100)]) {
        let block = range.allocate(1).unwrap();
        let before = dump(&range);
        for align_bytes in [1, 256, 4096, 1 << 63] {
            for bits in 0..16 {
                let request = Request::new(0)
                    .align_bytes(align_bytes)
                    .options(Options::from_bits_retain(bits));
                assert_eq!(range.allocate(request), Err(AllocError::ZeroSize));
                assert_eq!(range.try_allocate(request), Err(AllocError::ZeroSize));
                assert!(!range.fits(request));
                assert!(!range.visits(request).served);
            }
        }
        assert_eq!(range.resize(block.handle(), 0), Err(ResizeError::ZeroSize));
        assert_eq!(dump(&range), before, "and the live block is as it was");
    }
}

#[test]
fn p105_an_end_moved_by_nothing_is_refused() {
    for placement in PLACEMENTS {
        let mut range = range_of(100, placement);
        let before = dump(&range);
        for bytes in [0, 1, 255] {
            let expected = EndError::BelowGranule { bytes, granule_bytes: 256 };
            assert_eq!(range.grow(bytes), Err(expected));
            assert_eq!(range.shrink(bytes), Err(expected));
        }
        assert_eq!(dump(&range), before);
        // Nothing is what is left of no range: one granule stays.
        let most = EndError::InUse { bytes: 100 * 256, free_bytes: 99 * 256 };
        assert_eq!(range.shrink(100 * 256), Err(most));
        assert_eq!(range.shrink(99 * 256), Ok(256));
    }
}
