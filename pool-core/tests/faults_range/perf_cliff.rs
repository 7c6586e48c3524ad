//! Work that grows with the number of free blocks, seen by counting visits.

use pool_core::{Chunked, OffsetAllocator, Options, Placement, Request};

use crate::support::{GRANULE, range_of};

/// A range with `count` free runs of different lengths, each between two live blocks.
fn with_holes(count: u64, placement: Placement) -> OffsetAllocator<Chunked> {
    let mut range = range_of(1 << 32, placement);
    let mut holes = vec![];
    for length in 1..=count {
        holes.push(range.allocate(length * GRANULE).unwrap());
        range.allocate(GRANULE).unwrap();
    }
    for hole in holes {
        range.free(hole.handle()).unwrap();
    }
    range
}

/// The most visits of requests of many sizes and options, and whether the first look sufficed.
fn most_visits(range: &OffsetAllocator<Chunked>, count: u64) -> (u32, u32) {
    let mut first_look = 0;
    let mut any = 0;
    for step in 0..200 {
        for length in [count * step / 200 + 1, step * step + 1, (1 << 32) - step] {
            for align_bytes in [1, 16 * GRANULE, 1 << 20] {
                for options in [Options::empty(), Options::HIGH_END] {
                    let request = Request::new(length * GRANULE);
                    let visits = range.visits(request.align_bytes(align_bytes).options(options));
                    any = any.max(visits.blocks);
                    if visits.first_look {
                        first_look = first_look.max(visits.blocks);
                    }
                }
            }
        }
    }
    (first_look, any)
}

#[test]
fn p044_a_search_visits_as_many_blocks_however_many_are_free() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        for count in [10, 1000, 40_000] {
            let range = with_holes(count, placement);
            let (first_look, any) = most_visits(&range, count);
            // A first look goes 8 deep into each of two classes, along two branches in the
            // first, and compares 4 of a size.
            let constant = if placement == Placement::FirstFit { 33 } else { 3 * 8 + 4 };
            assert!(first_look <= constant, "{placement:?}, {count} free: {first_look}");
            // Then two for each bit of a size, for the size and for the size with its alignment.
            assert!(any <= constant + 2 * (2 * 32 + 4), "{placement:?}, {count} free: {any}");
        }
    }
}

/// Allocations that empty a class and frees that fill it again: the same run serves each time, and
/// the search for it stays as short as it was.
#[test]
fn p044_emptying_a_class_rebuilds_nothing() {
    let mut range = with_holes(4096, Placement::BestFit);
    let before: Vec<_> = (1..=4096).map(|length| range.visits(length * GRANULE)).collect();
    for round in 0..20_000_u64 {
        let length = 1 + round * 7 % 4096;
        let block = range.allocate(length * GRANULE).unwrap();
        range.free(block.handle()).unwrap();
    }
    let after: Vec<_> = (1..=4096).map(|length| range.visits(length * GRANULE)).collect();
    let most = |visits: &[pool_core::Visits]| visits.iter().map(|v| v.blocks).max();
    assert!(most(&after) <= most(&before).max(Some(28)), "{:?}", most(&after));
    range.verify().unwrap();
}
