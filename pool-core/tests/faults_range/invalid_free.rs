//! Frees of what is not live.

use pool_core::{Chunked, Handle, HandleError, OffsetAllocator, Options, RangeConfig, Request};

use crate::support::{GRANULE, PLACEMENTS, dump, range_of, range_with_spans};

fn each_kind(granules: u64) -> impl Iterator<Item = OffsetAllocator<Chunked>> {
    PLACEMENTS
        .map(|placement| range_of(granules, placement))
        .into_iter()
        .chain([range_with_spans(granules)])
}

#[test]
fn p009_a_second_free_and_a_foreign_one_are_errors_that_change_nothing() {
    for mut range in each_kind(512) {
        let block = range.allocate(512).unwrap();
        let other = range.allocate(40 * GRANULE).unwrap();
        range.free(block.handle()).unwrap();
        let before = dump(&range);
        for _ in 0..3 {
            assert_eq!(range.free(block.handle()), Err(HandleError::Stale));
            assert_eq!(range.block(block.handle()), Err(HandleError::Stale));
            assert!(range.resize(block.handle(), 1).is_err());
        }
        assert_eq!(dump(&range), before);
        // The slot serves again; the old handle still does not.
        let again = range.allocate(512).unwrap();
        let before = dump(&range);
        assert!(range.free(block.handle()).is_err());
        assert_eq!(dump(&range), before);
        assert_eq!(range.free(again.handle()), Ok(again));
        assert_eq!(range.free(other.handle()), Ok(other));
    }
}

#[test]
fn p009_no_bits_that_were_not_given_out_are_a_handle() {
    for mut range in each_kind(512) {
        let live = [1, 3, 16, 70].map(|size| range.allocate(size * GRANULE).unwrap());
        let before = dump(&range);
        let bits = [0xdead_0000, 0xdead_0000_0000, 1, u64::MAX, 1 << 63, 1 << 33, 1 << 32];
        let damaged = live
            .iter()
            .flat_map(|block| (0..64).map(move |bit| block.handle().to_raw() ^ 1 << bit));
        let swapped = live.iter().flat_map(|a| {
            live.iter().map(move |b| {
                a.handle().to_raw() & 0x1_FFFF_FFFF | b.handle().to_raw() & !0x1_FFFF_FFFF
            })
        });
        let is_live = |handle| live.iter().any(|block| block.handle() == handle);
        let forged = bits.into_iter().chain(damaged).chain(swapped);
        for handle in forged.filter_map(Handle::from_raw).filter(|&handle| !is_live(handle)) {
            assert!(range.free(handle).is_err(), "{handle:?}");
            assert!(range.block(handle).is_err(), "{handle:?}");
            assert!(range.resize(handle, GRANULE).is_err(), "{handle:?}");
        }
        assert_eq!(dump(&range), before);
    }
}

#[test]
fn p009_the_handle_of_another_range_is_refused() {
    for placement in PLACEMENTS {
        let range = |seed| {
            let config = RangeConfig::new(1 << 20).placement(placement).handle_seed(seed);
            OffsetAllocator::new(&config).unwrap()
        };
        let mut ranges = [0, 1, 2, 77].map(range);
        let blocks = ranges.each_mut().map(|range| range.allocate(4096).unwrap());
        for (at, range) in ranges.iter_mut().enumerate() {
            let before = dump(range);
            for (from, block) in blocks.iter().enumerate() {
                assert_eq!(range.block(block.handle()).is_ok(), at == from);
                assert!(at == from || range.free(block.handle()).is_err());
            }
            assert_eq!(dump(range), before);
        }
    }
}

/// Spans and runs side by side: a block at the very end of one, and at the start of the next.
#[test]
fn p025_a_block_at_a_border_belongs_to_the_side_that_it_starts_on() {
    let mut range = range_with_spans(64 * 5);
    let outside = |size| Request::new(size * GRANULE).options(Options::OUTSIDE_SPANS);
    let in_first: Vec<_> = (0..64).map(|_| range.allocate(GRANULE).unwrap()).collect();
    let between = range.allocate(outside(64)).unwrap();
    let in_second: Vec<_> = (0..64).map(|_| range.allocate(GRANULE).unwrap()).collect();
    assert_eq!(range.spans().count(), 2);
    let last = in_first.iter().max_by_key(|block| block.offset_bytes()).unwrap();
    assert_eq!(last.offset_bytes() + last.size_bytes(), between.offset_bytes());
    let first = in_second.iter().min_by_key(|block| block.offset_bytes()).unwrap();
    assert_eq!(between.offset_bytes() + between.size_bytes(), first.offset_bytes());
    for block in [between, *last, *first] {
        let free_bytes = range.stats().free_bytes;
        assert_eq!(range.free(block.handle()), Ok(block));
        assert_eq!(range.stats().free_bytes, free_bytes + block.size_bytes());
        range.verify().unwrap();
    }
}

/// Where a block came from is in its handle, not in what is asked for when it is freed.
#[test]
fn p043_a_free_goes_to_where_the_block_came_from() {
    let mut range = range_with_spans(1024);
    let mut blocks = vec![];
    for turn in 0..64 {
        let options = if turn % 2 == 0 { Options::empty() } else { Options::OUTSIDE_SPANS };
        blocks.push(range.allocate(Request::new(GRANULE).options(options)).unwrap());
    }
    let spans: Vec<_> = range.spans().collect();
    let in_span = |offset_bytes| {
        spans.iter().any(|span| {
            (span.offset_bytes..span.offset_bytes + span.size_bytes).contains(&offset_bytes)
        })
    };
    for (turn, block) in blocks.iter().enumerate() {
        assert_eq!(in_span(block.offset_bytes()), turn % 2 == 0);
        assert_eq!(range.free(block.handle()), Ok(*block));
        range.verify().unwrap();
    }
    assert_eq!(range.largest_free_bytes(), 1024 * GRANULE);
}

#[test]
fn p057_a_second_free_leaves_the_books_as_they_are() {
    for mut range in each_kind(16) {
        let blocks: Vec<_> = (0..16).map(|_| range.allocate(GRANULE).unwrap()).collect();
        assert_eq!(range.stats().live_blocks, 16);
        assert!(range.free(blocks[0].handle()).is_ok());
        let before = dump(&range);
        for _ in 0..2 {
            assert_eq!(range.free(blocks[0].handle()), Err(HandleError::Stale));
        }
        assert_eq!(dump(&range), before);
        // One place is free, however often it was freed.
        assert!(range.allocate(GRANULE).is_ok());
        assert!(range.allocate(GRANULE).is_err());
        assert_eq!(range.stats().live_bytes, range.capacity_bytes());
    }
}

/// Both kinds of block, of every size, however they were asked for, go back the right way.
#[test]
fn p101_a_block_knows_how_it_was_obtained() {
    let mut range = range_with_spans(4096);
    let kinds = [
        Options::empty(),
        Options::OUTSIDE_SPANS,
        Options::HIGH_END,
        Options::NO_NEW_SPAN,
        Options::HIGH_END | Options::OUTSIDE_SPANS,
    ];
    for size in 1..40 {
        for options in kinds {
            let request = Request::new(size * GRANULE).options(options);
            let block = range.allocate(request).unwrap();
            let twin = range.allocate(request).unwrap();
            assert_eq!(range.free(block.handle()), Ok(block));
            assert_eq!(range.free(twin.handle()), Ok(twin));
            range.verify().unwrap();
        }
    }
    assert_eq!(range.stats().free_bytes, range.capacity_bytes());
    assert_eq!(range.largest_free_bytes(), range.capacity_bytes());
}
