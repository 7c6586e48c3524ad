//! What the fuzz target found, each as the shortest sequence that shows it.

use pool_core::{Handle, OffsetAllocator, Options, RangeConfig};
use pool_mock::oracle::{Case, Operation, Shape, Size, Verify, check};

const fn outside(granules: u32) -> Operation {
    Operation::allocate_with(Size::Granules(granules), Options::OUTSIDE_SPANS)
}

/// A small over-aligned request that only a new span has a place for: the shorter hole has no
/// aligned place, and the longer one holds no size plus alignment. `fits` said no, `allocate`
/// served it.
#[test]
fn fits_knows_the_place_that_a_new_span_gives() {
    let case = Case {
        shape: Shape::new(129).spans(64, 16),
        operations: vec![
            outside(1),
            outside(16),
            outside(47),
            outside(64),
            outside(1),
            Operation::Free(3),
            Operation::Free(1),
            Operation::allocate_aligned(Size::Granules(2), 64 * 256),
        ],
    };
    check(&case, Verify::EachStep).unwrap();
}

/// A table of nodes that is full but can grow: a small block went into a hole outside, for want of
/// the nodes to cut a span out, where a range with nodes to spare opened one.
#[test]
fn a_full_table_that_grows_places_nothing_elsewhere() {
    let mut operations = vec![outside(1); 34];
    operations.extend([Operation::Free(1), Operation::allocate(Size::Granules(1))]);
    let case = Case { shape: Shape::new(256).spans(64, 16).with_twin(), operations };
    check(&case, Verify::EachStep).unwrap();
}

/// A number with generation zero, which is that of a free block: it was taken for the handle of a
/// block in a quick list.
#[test]
fn no_handle_has_generation_zero() {
    let mut range = OffsetAllocator::new(&RangeConfig::new(1 << 30)).unwrap();
    let block = range.allocate(256).unwrap();
    let slot = block.handle().to_raw() & (u64::MAX >> 31);
    range.free(block.handle()).unwrap();
    assert_eq!(Handle::from_raw(slot), None);
    for bits in [0, 1, 1 << 32, u64::MAX >> 31] {
        assert_eq!(Handle::from_raw(bits), None);
    }
}
