//! A range made in its place is the same as one that is made and moved there.

use core::mem::MaybeUninit;

use pool_core::{ConfigError, Node, OffsetAllocator, Placement, RangeConfig, Spans};

#[test]
fn a_range_made_in_its_place_gives_the_same_offsets() {
    for placement in [Placement::BestFit, Placement::FirstFit, Placement::Buddy] {
        for spans in [Spans::Off, Spans::Automatic] {
            let config = RangeConfig::new((8 << 20) - 256)
                .placement(placement)
                .spans(spans)
                .handle_seed(3)
                .tolerance_percent(5);
            let (mut nodes, mut others) = (vec![Node::UNUSED; 1000], vec![Node::UNUSED; 1000]);
            let (mut words, mut other_words) = (vec![!0; 2000], vec![0; 2000]);
            let mut place = MaybeUninit::uninit();
            let placed =
                OffsetAllocator::emplace(&mut place, &config, &mut nodes, &mut words).unwrap();
            let mut moved =
                OffsetAllocator::in_storage(&config, &mut others, &mut other_words).unwrap();
            let mut random = fastrand::Rng::with_seed(5);
            let mut live = Vec::new();
            for _ in 0..2000 {
                if live.len() < 100 && random.bool() {
                    let size_bytes = random.u64(1..20_000);
                    let block = placed.allocate(size_bytes);
                    assert_eq!(block, moved.allocate(size_bytes));
                    live.extend(block);
                } else if !live.is_empty() {
                    let block = live.swap_remove(random.usize(0..live.len()));
                    assert_eq!(placed.free(block.handle()), Ok(block));
                    assert_eq!(moved.free(block.handle()), Ok(block));
                }
                assert_eq!(placed.stats(), moved.stats());
            }
            placed.verify().unwrap();
            assert!(placed.blocks().eq(moved.blocks()));
            assert_eq!(placed.placement(), placement);
        }
    }
}

#[test]
fn what_no_range_can_be_made_of_is_refused_in_both_ways() {
    let good = RangeConfig::new(7 << 8);
    let refused = [
        (RangeConfig::new(255), 9),
        (good.granule_bytes(3), 9),
        (good.tolerance_percent(101), 9),
        (good.spans(Spans::Sized { span_bytes: 5, small_bytes: 1 }), 9),
        (good, 0),
        // Seven granules are three buddies.
        (good.placement(Placement::Buddy), 2),
    ];
    for (config, count) in refused {
        let (mut nodes, mut others) = ([Node::UNUSED; 9], [Node::UNUSED; 9]);
        let mut place = MaybeUninit::uninit();
        let (nodes, others) = (&mut nodes[..count], &mut others[..count]);
        let placed: Result<_, ConfigError> =
            OffsetAllocator::emplace(&mut place, &config, nodes, &mut []).map(|_| ());
        let moved = OffsetAllocator::in_storage(&config, others, &mut []).map(|_| ());
        assert_eq!(placed, moved, "{config:?}");
        assert!(placed.is_err(), "{config:?}");
    }
}
