//! Merging: too far, not far enough, or with books that drift.

use pool_core::{
    AllocError, Metadata, Node, OffsetAllocator, Options, Placement, RangeConfig, Request, Spans,
};

use crate::support::{
    FITS, GRANULE, Numbers, PLACEMENTS, dump, dump_lent, free_each, holes, range_of,
    range_with_spans,
};

#[test]
fn p015_buddies_merge_up_to_the_top_and_no_further() {
    for capacity in (1..140).chain([2 << 10, 3 << 10, (1 << 12) - 1]) {
        let mut range = range_of(capacity, Placement::Buddy);
        let whole = holes(&range);
        let top = (1 << capacity.ilog2()) * GRANULE;
        // Blocks of the top order, then all granules one by one, freed in three orders.
        let first = range.allocate(top).unwrap();
        assert!(range.allocate(top).is_err(), "there is one piece of that order");
        range.free(first.handle()).unwrap();
        for order in 0..3 {
            let mut blocks: Vec<_> =
                (0..capacity).map(|_| range.allocate(GRANULE).unwrap()).collect();
            assert_eq!(range.stats().free_bytes, 0);
            match order {
                0 => {}
                1 => blocks.reverse(),
                _ => Numbers::new(15).shuffle(&mut blocks),
            }
            free_each(&mut range, blocks);
            assert_eq!(holes(&range), whole);
            range.verify().unwrap();
        }
        assert_eq!(range.largest_free_bytes(), top);
    }
    // Two neighbours of one size that are no buddies stay two.
    let mut range = range_of(8, Placement::Buddy);
    let mut by_offset: Vec<_> = (0..4).map(|_| range.allocate(2 * GRANULE).unwrap()).collect();
    by_offset.sort_by_key(pool_core::Block::offset_bytes);
    free_each(&mut range, [by_offset[1], by_offset[2]]);
    assert_eq!(holes(&range), [(2, 2), (4, 2)]);
    assert!(range.allocate(4 * GRANULE).is_err());
}

#[test]
fn p029_runs_merge_over_no_span_that_is_in_use() {
    let mut range = range_with_spans(64 * 3);
    let whole = range.largest_free_bytes();
    let pin = range.allocate(GRANULE).unwrap();
    let outside = |size: u64| Request::new(size * GRANULE).options(Options::OUTSIDE_SPANS);
    // All outside, taken and freed: never more than the longer side of the span.
    let blocks: Vec<_> = (0..128).map(|_| range.allocate(outside(1)).unwrap()).collect();
    free_each(&mut range, blocks);
    let span = range.spans().next().unwrap();
    let before = span.offset_bytes;
    let behind = whole - span.offset_bytes - span.size_bytes;
    assert_eq!(range.largest_free_bytes(), before.max(behind));
    assert!(range.allocate(before.max(behind) + GRANULE).is_err());
    range.free(pin.handle()).unwrap();
    assert_eq!(range.allocate(whole).unwrap().size_bytes(), whole);
}

#[test]
fn p029_a_range_that_grew_shrinks_back_to_exactly_what_it_was() {
    for placement in PLACEMENTS {
        for granules in [1, 7, 8, 100] {
            for more in [1, 3, 8, 57] {
                let mut range = range_of(granules, placement);
                let before = dump(&range);
                range.grow(more * GRANULE).unwrap();
                let made_so = dump(&range_of(granules + more, placement));
                assert_eq!(dump(&range), made_so);
                range.shrink(more * GRANULE).unwrap();
                assert_eq!(dump(&range), before);
            }
        }
    }
}

#[test]
fn p030_padding_comes_back_with_the_block() {
    for placement in PLACEMENTS {
        let mut range = range_of(1024, placement);
        let pin = range.allocate(GRANULE).unwrap();
        let free_bytes = range.stats().free_bytes;
        let before = holes(&range);
        for turn in 0..20_000_u64 {
            let request = Request::new((1 + turn % 13) * GRANULE - turn % 256)
                .align_bytes(512 << (turn % 5))
                .options(if turn % 3 == 0 { Options::HIGH_END } else { Options::empty() });
            let block = range.allocate(request).unwrap();
            assert_eq!(range.stats().free_bytes + block.size_bytes(), free_bytes);
            range.free(block.handle()).unwrap();
        }
        assert_eq!(holes(&range), before);
        assert_eq!(range.block(pin.handle()), Ok(pin));
    }
}

/// Every order of the numbers below `count`.
fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![vec![]];
    }
    let shorter = permutations(count - 1);
    (0..count)
        .flat_map(|at| {
            shorter.iter().map(move |order| {
                let mut order = order.clone();
                order.insert(at, count - 1);
                order
            })
        })
        .collect()
}

#[test]
fn p064_books_hold_in_every_order_of_frees() {
    // One request for each branch: at the low end, aligned with a gap before, at the high end,
    // exactly a hole, small.
    let requests = [
        Request::new(10 * GRANULE),
        Request::new(3 * GRANULE).align_bytes(16 * GRANULE),
        Request::new(7 * GRANULE).options(Options::HIGH_END),
        Request::new(6 * GRANULE),
        Request::new(GRANULE),
        Request::new(20 * GRANULE).align_bytes(32 * GRANULE).options(Options::HIGH_END),
    ];
    for count in 1..=requests.len() {
        for order in permutations(count) {
            let ranges = PLACEMENTS.map(|placement| range_of(200, placement));
            for mut range in ranges.into_iter().chain([range_with_spans(200)]) {
                let whole_bytes = range.largest_free_bytes();
                let blocks = requests.map(|request| range.allocate(request).unwrap());
                let mut live: u64 = blocks.iter().map(pool_core::Block::size_bytes).sum();
                for &at in &order {
                    range.free(blocks[at].handle()).unwrap();
                    live -= blocks[at].size_bytes();
                    let stats = range.stats();
                    assert_eq!((stats.live_bytes, stats.free_bytes), (live, 200 * GRANULE - live));
                }
                range.verify().unwrap();
                if count == requests.len() {
                    assert_eq!(range.largest_free_bytes(), whole_bytes);
                }
            }
        }
    }
}

#[test]
fn p065_a_gap_of_any_length_keeps_its_length() {
    for placement in FITS {
        for shift in 0..=31 {
            for gap in [(1_u64 << shift) - 1, 1 << shift, (1 << shift) + 1, 3 << shift] {
                if gap == 0 || gap > (1 << 32) - 3 {
                    continue;
                }
                // A gap between two blocks, then the range grows and the gap stays what it is.
                let mut range = range_of(gap + 2, placement);
                range.allocate(GRANULE).unwrap();
                range.allocate(Request::new(GRANULE).options(Options::HIGH_END)).unwrap();
                assert_eq!(holes(&range), [(1, gap)]);
                range.grow(GRANULE).unwrap();
                assert_eq!(holes(&range), [(1, gap), (gap + 2, 1)]);
                let block = range.allocate(gap * GRANULE).unwrap();
                assert_eq!((block.offset_bytes(), block.size_bytes()), (GRANULE, gap * GRANULE));
                assert_eq!(range.free(block.handle()), Ok(block));
                range.verify().unwrap();
            }
        }
    }
}

#[test]
fn p066_a_request_that_fails_half_way_leaves_no_trace() {
    // Buddy: 16 granules and nodes for two splits; a single granule needs four.
    let config = RangeConfig::new(16 * GRANULE).placement(Placement::Buddy);
    let mut nodes = [Node::UNUSED; 3];
    let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut []).unwrap();
    let before = dump_lent(&range);
    let missing = AllocError::OutOfMetadata(Metadata::Nodes(2));
    assert_eq!(range.allocate(GRANULE), Err(missing));
    assert_eq!(dump_lent(&range), before);
    let quarter = range.allocate(4 * GRANULE).unwrap();
    assert!(range.allocate(GRANULE).is_err());
    range.free(quarter.handle()).unwrap();
    assert_eq!(range.allocate(16 * GRANULE).unwrap().size_bytes(), 16 * GRANULE);

    // The others: one node to spare, and a request that leaves a piece on either side.
    for placement in FITS {
        let config = RangeConfig::new(64 * GRANULE).placement(placement).spans(Spans::Off);
        let mut nodes = [Node::UNUSED; 3];
        let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut []).unwrap();
        range.allocate(GRANULE).unwrap();
        let before = dump_lent(&range);
        let both = Request::new(GRANULE).align_bytes(16 * GRANULE);
        assert_eq!(range.allocate(both), Err(AllocError::OutOfMetadata(Metadata::Nodes(1))));
        assert_eq!(dump_lent(&range), before);
        assert!(range.allocate(63 * GRANULE).is_ok());
    }
}
