//! A cache that serves several owners in turn: what was freed for one is given to no other.
#![cfg(feature = "std")]

use pool_core::{Owner, RangeConfig, SharedAllocator};

/// As many owners as a cache keeps blocks for.
const OWNERS: usize = 4;
const SIZES: [u64; 3] = [256, 1024, 4096];
/// So few blocks, and so small ones, that none is passed on.
const MOST: usize = 3;

#[test]
fn each_of_the_owners_that_take_turns_gets_its_own_blocks_again() {
    for seed in 0..50 {
        let shared = SharedAllocator::new(RangeConfig::new(64 << 20)).unwrap();
        let mut cache = shared.cache();
        let mut random = fastrand::Rng::with_seed(seed);
        let mut live: [[Vec<_>; SIZES.len()]; OWNERS] = Default::default();
        let mut freed: [[Vec<u64>; SIZES.len()]; OWNERS] = Default::default();
        let (mut owner, mut again) = (0, 0);
        let names = [1, 2, 3, 4].map(Owner);
        for step in 0..5000 {
            // Some turns are longer than an operation.
            if random.bool() {
                owner = random.usize(..OWNERS);
            }
            let size = random.usize(..SIZES.len());
            let name = names[owner];
            let count = live[owner][size].len();
            if count < MOST && (count == 0 || random.bool()) {
                let block = cache.allocate_for(name, SIZES[size]).unwrap();
                let place = block.offset_bytes();
                if let Some(last) = freed[owner][size].pop() {
                    assert_eq!(place, last, "seed {seed}, step {step}, {name:?}");
                    again += 1;
                }
                let mut others = freed.iter().flatten().flatten();
                assert!(
                    others.all(|&other| other != place),
                    "seed {seed}, step {step}: it is another's"
                );
                live[owner][size].push(block);
            } else {
                let block = live[owner][size].swap_remove(random.usize(..count));
                assert_eq!(cache.free_for(name, block.handle()), Ok(block));
                freed[owner][size].push(block.offset_bytes());
            }
        }
        assert!(again > 1000, "seed {seed}: {again}");
    }
}

#[test]
fn an_owner_who_was_never_there_finds_nothing_of_those_whose_place_it_takes() {
    let shared = SharedAllocator::new(RangeConfig::new(64 << 20)).unwrap();
    let mut cache = shared.cache();
    let mut random = fastrand::Rng::with_seed(1);
    let mut hits = 0;
    for new in 1..500_u32 {
        let in_cache = || shared.stats().work.in_cache;
        let before = in_cache();
        let block = cache.allocate_for(Owner(new), 256).unwrap();
        assert_eq!(in_cache(), before, "{new}");
        cache.free_for(Owner(new), block.handle()).unwrap();
        // One of those before, whose place then is not the next to be taken.
        let earlier = Owner(random.u32(new.saturating_sub(4)..=new).max(1));
        let before = in_cache();
        let block = cache.allocate_for(earlier, 256).unwrap();
        hits += in_cache() - before;
        cache.free_for(earlier, block.handle()).unwrap();
    }
    assert!(hits > 200, "{hits}");
}
