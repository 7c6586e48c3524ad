//! Handles kept by others while blocks and spans come and go.

use std::collections::HashSet;

use pool_core::{Handle, HandleError, Options, Request};

use crate::support::{GRANULE, Numbers, PLACEMENTS, free_each, range_of, range_with_spans};

#[test]
fn p099_cleaning_up_renumbers_nothing() {
    let mut range = range_with_spans(1 << 12);
    // Spans full of blocks, with one block kept in the last span and one outside.
    let small: Vec<_> = (0..640).map(|_| range.allocate(GRANULE).unwrap()).collect();
    let kept_small = range.allocate(2 * GRANULE).unwrap();
    let outside = Request::new(GRANULE).options(Options::OUTSIDE_SPANS);
    let large: Vec<_> = (0..100).map(|_| range.allocate(outside).unwrap()).collect();
    let kept_large = range.allocate(100 * GRANULE).unwrap();
    assert_eq!(range.spans().count(), 11);
    // Spans are dissolved and runs merge.
    free_each(&mut range, small);
    free_each(&mut range, large);
    assert_eq!(range.spans().count(), 2, "one in use and one to spare");
    let end = kept_large.offset_bytes() + kept_large.size_bytes();
    range.shrink(range.capacity_bytes() - end).unwrap();
    for kept in [kept_small, kept_large] {
        assert_eq!(range.block(kept.handle()), Ok(kept));
        assert_eq!(range.free(kept.handle()), Ok(kept));
    }
    assert_eq!(range.stats().live_blocks, 0);
}

#[test]
fn p099_a_stale_handle_never_names_the_block_that_has_its_slot() {
    let ranges = PLACEMENTS.map(|placement| range_of(256, placement));
    for mut range in ranges.into_iter().chain([range_with_spans(256)]) {
        let mut numbers = Numbers::new(99);
        let mut live: Vec<Handle> = vec![];
        let mut dead: HashSet<Handle> = HashSet::new();
        let mut reused = 0;
        for _ in 0..4000 {
            let size = 1 + numbers.below(8);
            if numbers.below(2) == 0
                && let Ok(block) = range.allocate(size * GRANULE)
            {
                let slot = block.handle().to_raw() & 0x1_FFFF_FFFF;
                reused +=
                    usize::from(dead.iter().any(|dead| dead.to_raw() & 0x1_FFFF_FFFF == slot));
                assert!(!dead.contains(&block.handle()), "a handle is given out once");
                live.push(block.handle());
            } else if !live.is_empty() {
                let pick = numbers.below(live.len() as u64);
                let handle = live.swap_remove(usize::try_from(pick).unwrap());
                range.free(handle).unwrap();
                assert_eq!(range.free(handle), Err(HandleError::Stale));
                dead.insert(handle);
            }
        }
        assert!(reused > 500, "slots were reused only {reused} times");
        for &handle in &dead {
            assert_eq!(range.block(handle), Err(HandleError::Stale));
        }
        for &handle in &live {
            assert!(range.block(handle).is_ok());
        }
        range.verify().unwrap();
    }
}
