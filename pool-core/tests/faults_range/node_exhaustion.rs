//! Metadata that run out too early, or leave a mess.

use pool_core::{
    AllocError, ConfigError, Metadata, Node, OffsetAllocator, Options, Piece, Placement,
    RangeConfig, Request, Spans,
};
use pool_mock::oracle::{Case, NodeBudget, Operation, Shape, Size, Storage, Verify, check};

use crate::support::{GRANULE, Numbers, PLACEMENTS, dump_lent};

/// Nodes for `blocks` live blocks are enough for that many in layouts full of holes.
#[test]
fn p063_the_promised_number_of_blocks_is_reached_in_any_layout() {
    for placement in PLACEMENTS {
        for blocks in 1..40u32 {
            let config = RangeConfig::new(4096 * GRANULE).placement(placement).spans(Spans::Off);
            let mut nodes = vec![Node::UNUSED; config.nodes_for(blocks).unwrap()];
            let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut []).unwrap();
            // Each at the last multiple of 64 before the one above it: a hole on either side of
            // each; under buddy placement a free buddy of every order below.
            let apart = Request::new(GRANULE).align_bytes(64 * GRANULE).options(Options::HIGH_END);
            let placed: Vec<_> = (0..blocks).map(|_| range.allocate(apart).unwrap()).collect();
            let free = range.blocks().filter(|piece| matches!(piece, Piece::Free { .. })).count();
            assert!(free > placed.len(), "{free} holes");
            // One more needs what nobody promised; then every other is freed and made again.
            let _ = range.allocate(apart);
            for block in placed.iter().step_by(2) {
                range.free(block.handle()).unwrap();
            }
            while range.stats().live_blocks < blocks.into() {
                range.allocate(apart).unwrap();
            }
            range.verify().unwrap();
        }
    }
}

/// The same for random sequences: the oracle says which refusal breaks the promise.
#[test]
fn p063_no_sequence_breaks_the_promise() {
    for placement in PLACEMENTS {
        let mut starved = 0;
        for seed in 0..60 {
            let mut numbers = Numbers::new(seed);
            let blocks = 1 + u32::try_from(seed).unwrap() % 12;
            let storage = Storage::Borrowed { nodes: NodeBudget::Blocks(blocks), spans: 3 };
            let shape = Shape::new(777).placement(placement).spans(64, 8).storage(storage);
            let operations = (0..80)
                .map(|_| {
                    let number = numbers.below(40);
                    let granules = Size::Granules(1 + u32::try_from(number).unwrap());
                    let pick = u16::try_from(number).unwrap();
                    let by = i8::try_from(number).unwrap() - 20;
                    match numbers.below(8) {
                        0..4 => Operation::allocate(granules),
                        4 => Operation::allocate_aligned(granules, GRANULE << (number % 8)),
                        5 => Operation::ResizeBy { pick, by },
                        _ => Operation::Free(pick),
                    }
                })
                .collect();
            let summary = check(&Case { shape, operations }, Verify::EachStep).unwrap();
            starved += summary.starved;
        }
        assert!(starved > 20, "the nodes never ran out");
    }
}

#[test]
fn p063_exhaustion_is_its_own_error_and_changes_nothing() {
    for placement in PLACEMENTS {
        let config = RangeConfig::new(64 * GRANULE).placement(placement).spans(Spans::Off);
        let mut nodes = vec![Node::UNUSED; config.nodes_for(2).unwrap().min(7)];
        let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut []).unwrap();
        let mut blocks = vec![];
        let before = loop {
            let before = dump_lent(&range);
            match range.allocate(GRANULE) {
                Ok(block) => blocks.push(block),
                Err(AllocError::OutOfMetadata(Metadata::Nodes(missing))) => {
                    assert!(missing >= 1);
                    break before;
                }
                Err(other) => panic!("memory is not what ran out: {other}"),
            }
        };
        assert_eq!(dump_lent(&range), before);
        assert!(blocks.len() >= 2, "{placement:?}: {blocks:?}");
        assert!(range.fits(GRANULE), "there is room, but for metadata");
        // A free needs no node, and makes room for the next block.
        let last = blocks.pop().unwrap();
        range.free(last.handle()).unwrap();
        assert!(range.allocate(GRANULE).is_ok());
        range.verify().unwrap();
    }
}

#[test]
fn p063_too_few_nodes_for_an_empty_range_are_refused() {
    for (placement, granules, needed) in
        [(Placement::BestFit, 100, 1), (Placement::FirstFit, 100, 1), (Placement::Buddy, 7, 3)]
    {
        let config = RangeConfig::new(granules * GRANULE).placement(placement);
        for given in 0..needed {
            let mut nodes = vec![Node::UNUSED; given];
            let refused = OffsetAllocator::in_storage(&config, &mut nodes, &mut []).map(drop);
            assert_eq!(refused, Err(ConfigError::TooFewNodes { nodes: given, needed }));
        }
        let mut nodes = vec![Node::UNUSED; needed];
        assert!(OffsetAllocator::in_storage(&config, &mut nodes, &mut []).is_ok());
    }
}

#[test]
fn p063_a_shrink_without_a_node_keeps_the_size() {
    // One node: the block is the whole range, and there is none for what a shrink would free.
    for placement in PLACEMENTS {
        let config = RangeConfig::new(64 * GRANULE).placement(placement).spans(Spans::Off);
        let mut nodes = [Node::UNUSED; 1];
        let mut range = OffsetAllocator::in_storage(&config, &mut nodes, &mut []).unwrap();
        let whole = range.allocate(64 * GRANULE).unwrap();
        assert_eq!(range.resize(whole.handle(), GRANULE), Ok(whole));
        assert_eq!(range.stats().live_bytes, 64 * GRANULE);
        assert_eq!(range.free(whole.handle()), Ok(whole));
    }
}
