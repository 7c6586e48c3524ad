//! Frees of what is not live, by several threads.

use pool_core::{Block, Handle, HandleError, Owner};

use crate::support::{GRANULE, KIB, MIB, assert_empty, books, caches, each_kind, served};
use crate::threads::on_threads;

/// Sizes that caches keep, and larger ones.
const SIZES: [u64; 6] = [1, 512, 5 * KIB, 16 * KIB, 16 * KIB + 1, 300 * KIB];

#[test]
fn p009_of_many_frees_at_once_one_succeeds() {
    for shared in each_kind(8 * MIB) {
        for size in SIZES {
            for round in 0..8 {
                let block = shared.allocate(size).unwrap();
                let answers = on_threads(4, |number| {
                    let mut cache = shared.cache();
                    match (number + round) % 4 {
                        0 => shared.free(block.handle()),
                        1 => cache.free(block.handle()),
                        2 => cache.free_for(Owner(3), block.handle()),
                        _ => shared.free_for(Owner(3), block.handle()),
                    }
                });
                assert_eq!(answers.iter().filter(|&&answer| answer == Ok(block)).count(), 1);
                let stale = Err(HandleError::Stale);
                assert_eq!(answers.iter().filter(|&&answer| answer == stale).count(), 3);
                assert_eq!(books(&shared).live_blocks, 0);
            }
        }
        assert_empty(&shared);
    }
}

#[test]
fn p009_a_second_free_by_another_thread_changes_nothing() {
    for shared in each_kind(8 * MIB) {
        for size in SIZES {
            let [mut first, mut second] = caches(&shared);
            let block = first.allocate(size).unwrap();
            assert_eq!(second.free(block.handle()), Ok(block));
            let before = books(&shared);
            for _ in 0..3 {
                assert_eq!(first.free(block.handle()), Err(HandleError::Stale));
                assert_eq!(second.free(block.handle()), Err(HandleError::Stale));
                assert_eq!(shared.free(block.handle()), Err(HandleError::Stale));
                assert_eq!(shared.block(block.handle()), Err(HandleError::Stale));
            }
            assert_eq!(books(&shared), before);
            // The same place serves again; the old handle still does not name it.
            let again = second.allocate(size).unwrap();
            let before = books(&shared);
            on_threads(3, |_| assert!(shared.free(block.handle()).is_err()));
            assert_eq!(books(&shared), before);
            assert_eq!(first.free(again.handle()), Ok(again));
        }
        assert_empty(&shared);
    }
}

/// While one thread frees its block again and again, others get the place: never are theirs freed.
#[test]
fn p009_a_second_free_never_hits_the_next_holder() {
    for size in [GRANULE, 16 * KIB] {
        // Room for one block a thread, so that a place that is freed serves another at once.
        for shared in each_kind(4 * size) {
            on_threads(4, |_| {
                let mut cache = shared.cache();
                for _ in 0..200 {
                    let block = served(|| cache.allocate(size));
                    assert_eq!(shared.block(block.handle()), Ok(block));
                    assert_eq!(cache.free(block.handle()), Ok(block));
                    assert!(cache.free(block.handle()).is_err());
                    assert!(shared.free(block.handle()).is_err());
                }
            });
            assert_empty(&shared);
        }
    }
}

#[test]
fn p009_no_bits_that_were_not_given_out_are_a_handle() {
    for shared in each_kind(4 * MIB) {
        let mut cache = shared.cache();
        let live = [1, 3, 16, 70].map(|size| cache.allocate(size * GRANULE).unwrap());
        let gone = [1, 3, 16, 70].map(|size| cache.allocate(size * GRANULE).unwrap());
        for block in gone {
            cache.free(block.handle()).unwrap();
        }
        let before = books(&shared);
        let bits = [0xdead_0000, 0xdead_0000_0000, 1, u64::MAX, 1 << 63, 1 << 33, 1 << 32];
        let damaged = live
            .iter()
            .chain(&gone)
            .flat_map(|block| (0..64).map(move |bit| block.handle().to_raw() ^ 1 << bit));
        let is_live = |handle| live.iter().any(|block| block.handle() == handle);
        let forged: Vec<_> = (bits.into_iter().chain(damaged))
            .filter_map(Handle::from_raw)
            .filter(|&handle| !is_live(handle))
            .collect();
        on_threads(2, |_| {
            let mut cache = shared.cache();
            for &handle in &forged {
                assert!(cache.free(handle).is_err(), "{handle:?}");
                assert!(shared.free(handle).is_err(), "{handle:?}");
                assert!(shared.block(handle).is_err(), "{handle:?}");
            }
        });
        assert_eq!(books(&shared), before);
        for block in live {
            cache.free(block.handle()).unwrap();
        }
        drop(cache);
        assert_empty(&shared);
    }
}

/// Where a block came from is asked by its address, not told by who frees it.
#[test]
fn p043_a_free_asks_by_address() {
    for shared in each_kind(8 * MIB) {
        let [mut first, mut second] = caches(&shared);
        let mut blocks = vec![];
        for (turn, size) in (0..).zip((0..10).flat_map(|_| SIZES)) {
            let owner = Owner(turn % 3);
            let block = match turn % 4 {
                0 => shared.allocate(size),
                1 => first.allocate_for(owner, size),
                2 => second.allocate(size),
                _ => shared.allocate_for(owner, size),
            };
            blocks.push(block.unwrap());
        }
        for (turn, block) in blocks.iter().enumerate() {
            let handle = shared.block_at(block.offset_bytes()).unwrap();
            assert_eq!(handle, block.handle());
            let freed = match turn % 3 {
                0 => shared.free(handle),
                1 => first.free(handle),
                _ => second.free_for(Owner(2), handle),
            };
            assert_eq!(freed, Ok(*block));
            // In a cache or not: what is freed is nobody's.
            assert_eq!(shared.block_at(block.offset_bytes()), None);
        }
        drop((first, second));
        assert_empty(&shared);
    }
}

#[test]
fn p043_only_the_start_of_a_live_block_has_a_handle() {
    for shared in each_kind(8 * MIB) {
        let mut cache = shared.cache();
        let blocks = SIZES.map(|size| cache.allocate(size).unwrap());
        let mut starts = vec![];
        for granule in 0..8 * MIB / GRANULE + 4 {
            let offset_bytes = granule * GRANULE;
            if let Some(handle) = shared.block_at(offset_bytes) {
                starts.push((offset_bytes, handle));
            }
        }
        let mut expected = blocks.map(|block| (block.offset_bytes(), block.handle())).to_vec();
        expected.sort_unstable();
        assert_eq!(starts, expected);
        for block in blocks {
            for inside in [1, 8, GRANULE - 1] {
                assert_eq!(shared.block_at(block.offset_bytes() + inside), None);
            }
        }
        for beyond in [8 * MIB, 1 << 40, 1 << 63, u64::MAX, u64::MAX - GRANULE + 1] {
            assert_eq!(shared.block_at(beyond), None);
        }
        for block in blocks {
            cache.free(block.handle()).unwrap();
        }
        for block in blocks {
            assert_eq!(shared.block_at(block.offset_bytes()), None);
        }
        drop(cache);
        assert_empty(&shared);
    }
}

/// A lookup by address while others free and allocate there: a handle that was live, or none.
#[test]
fn p043_an_address_is_asked_for_while_its_block_changes_hands() {
    for size in [GRANULE, 16 * KIB] {
        for shared in each_kind(16 * size) {
            on_threads(3, |number| {
                let mut cache = shared.cache();
                for turn in 0..200u64 {
                    if number == 0 {
                        let at = turn % 16 * size;
                        if let Some(handle) = shared.block_at(at)
                            && let Ok(block) = shared.block(handle)
                        {
                            assert_eq!((block.offset_bytes(), block.size_bytes()), (at, size));
                        }
                    } else {
                        let block = served(|| cache.allocate(size));
                        assert_eq!(shared.block_at(block.offset_bytes()), Some(block.handle()));
                        cache.free(block.handle()).unwrap();
                        assert_ne!(shared.block_at(block.offset_bytes()), Some(block.handle()));
                    }
                }
            });
            assert_empty(&shared);
        }
    }
}

#[test]
fn p057_a_second_free_makes_no_room() {
    for size in [GRANULE, 16 * KIB] {
        for shared in each_kind(16 * size) {
            let mut blocks = on_threads(16, |_| served(|| shared.allocate(size)));
            blocks.sort_unstable_by_key(Block::offset_bytes);
            assert!(blocks.windows(2).all(|pair| pair[0].offset_bytes() < pair[1].offset_bytes()));
            assert!(shared.allocate(size).is_err());
            let first = blocks[0];
            let answers = on_threads(3, |_| shared.cache().free(first.handle()));
            assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1);
            // One place is free, however often and by whomever it was freed.
            let answers = on_threads(3, |_| shared.allocate(size));
            assert!(answers.iter().filter(|answer| answer.is_ok()).count() <= 1);
            // All three are refused if each was between two steps of another.
            blocks[0] = answers
                .into_iter()
                .find_map(Result::ok)
                .unwrap_or_else(|| shared.allocate(size).unwrap());
            let stats = shared.stats();
            assert_eq!(stats.live_bytes, shared.capacity_bytes());
            assert_eq!(stats.live_blocks, 16);
            assert_eq!((stats.cached_blocks, stats.free_bytes), (0, 0));
            on_threads(16, |number| shared.free(blocks[number].handle()).unwrap());
            assert_empty(&shared);
        }
    }
}
