//! Which free memory serves a request: placement, and how much longer a block may be.

use pool_core::policy::Reuse;
use pool_core::{
    Block, OffsetAllocator, Piece, Placement, Pool, PoolConfig, RangeConfig, Request, Spans,
};
use pool_mock::device::{SimConfig, SimDevice};

use crate::support::{GIB, GRANULE, KIB, LATE, MIB, SimPool, World, each_way};

const PLACEMENTS: [Placement; 3] = [Placement::BestFit, Placement::FirstFit, Placement::Buddy];

fn placed(placement: Placement) -> Reuse {
    Reuse { placement, ..Reuse::default() }
}

/// What a load came to.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    asked_bytes: u64,
    given_bytes: u64,
    peak_asked_bytes: u64,
    offsets: Vec<u64>,
}

/// Blocks of all sizes from 1 KiB to 2 MiB that come and go in an order that a seed chooses, at
/// most 96 at a time. None if one is refused.
fn load(pool: &SimPool, seed: u64) -> Option<Outcome> {
    let stream = pool.create_stream().unwrap();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut live: Vec<(u64, Block)> = Vec::new();
    let (mut outcome, mut live_bytes) = (Outcome::default(), 0);
    for _ in 0..3000 {
        if live.len() == 96 || (!live.is_empty() && random.u8(..5) < 2) {
            let (asked, block) = live.swap_remove(random.usize(0..live.len()));
            live_bytes -= asked;
            pool.free_on(stream, block.handle()).unwrap();
            continue;
        }
        let least = KIB << random.u32(0..11);
        let asked = random.u64(least..=2 * least);
        let block = pool.allocate_on(stream, asked).ok()?;
        live_bytes += asked;
        outcome.peak_asked_bytes = outcome.peak_asked_bytes.max(live_bytes);
        outcome.asked_bytes += asked;
        outcome.given_bytes += block.size_bytes();
        outcome.offsets.push(block.offset_bytes());
        live.push((asked, block));
    }
    Some(outcome)
}

/// A pool that has so much and no more.
fn fixed(reuse: Reuse, capacity_bytes: u64) -> SimPool {
    let device = SimDevice::new(SimConfig::new().memory_bytes(GIB));
    let config = PoolConfig::new().reuse(reuse).cache_bytes(0);
    Pool::new(device, config.initial_bytes(capacity_bytes).limit_bytes(capacity_bytes)).unwrap()
}

/// The smallest capacity, in whole MiB, under which a load is served, over what it asks for at its
/// peak, in hundredths.
fn need_percent(reuse: Reuse, seed: u64) -> u64 {
    let peak = load(&fixed(reuse, GIB), seed).unwrap().peak_asked_bytes;
    let (mut too_little, mut enough) = (0u64, 1024u64);
    while enough - too_little > 1 {
        let middle = too_little.midpoint(enough);
        let served = load(&fixed(reuse, middle * MIB), seed).is_some();
        *(if served { &mut enough } else { &mut too_little }) = middle;
    }
    enough * MIB * 100 / peak
}

/// What each placement needs over what is asked for, and rounds up: best fit and first fit 1.18 and
/// 1.19 here, buddy 1.40, for its blocks are larger than asked for by a third on average, and those
/// of the others by nothing but for small ones.
#[test]
fn each_placement_has_its_price() {
    let seeds = 0..6;
    let mean = |figure: &dyn Fn(u64) -> u64| seeds.clone().map(figure).sum::<u64>() / 6;
    let figures = PLACEMENTS.map(|placement| {
        let reuse = placed(placement);
        let rounding = mean(&|seed| {
            let outcome = load(&fixed(reuse, GIB), seed).unwrap();
            (outcome.given_bytes - outcome.asked_bytes) * 1000 / outcome.asked_bytes
        });
        (mean(&|seed| need_percent(reuse, seed)), rounding)
    });
    let [(best, best_over), (first, first_over), (buddy, buddy_over)] = figures;
    assert!((100..=122).contains(&best) && (100..=124).contains(&first), "{figures:?}");
    assert!((132..=150).contains(&buddy), "{figures:?}");
    assert!(best_over <= 12 && first_over <= 1, "{figures:?}");
    assert!((300..=350).contains(&buddy_over), "{figures:?}");
}

/// First fit keeps to low offsets: after a load that rises and falls, what lives lies lower.
#[test]
fn first_fit_keeps_low_what_lives_long() {
    let highest = PLACEMENTS.map(|placement| {
        let world = World::new(LATE.device(), LATE.pool().reuse(placed(placement)));
        let stream = world.stream();
        let mut random = fastrand::Rng::with_seed(5);
        let mut kept = Vec::new();
        for _ in 0..40 {
            let mut passing: Vec<_> =
                (0..24).map(|_| world.allocate(stream, random.u64(64 * KIB..MIB))).collect();
            while passing.len() > 1 {
                let place = random.usize(0..passing.len());
                world.free(stream, passing.swap_remove(place));
                if passing.len() == 12 {
                    kept.push(world.allocate(stream, random.u64(16 * KIB..128 * KIB)));
                }
            }
            for last in passing {
                world.free(stream, last);
            }
        }
        let end = kept.iter().map(|block| block.offset_bytes + block.size_bytes).max().unwrap();
        let bytes: u64 = kept.iter().map(|block| block.size_bytes).sum();
        for block in kept {
            world.free(stream, block);
        }
        world.end();
        (end / KIB, bytes / KIB)
    });
    let [(best, best_bytes), (first, first_bytes), (buddy, buddy_bytes)] = highest;
    // The end of the highest, over what lives: 1.3, where the others have 5.
    assert!(first * 10 < first_bytes * 14, "{highest:?}");
    assert!(best > 4 * best_bytes && buddy > 4 * buddy_bytes, "{highest:?}");
}

/// The same calls give the same offsets under each placement, and with a tolerance.
#[test]
fn placement_is_deterministic_in_a_pool() {
    for placement in PLACEMENTS {
        for tolerance_percent in [0, 20] {
            let reuse = Reuse { tolerance_percent, ..placed(placement) };
            let first = load(&fixed(reuse, 512 * MIB), 3).unwrap();
            assert_eq!(load(&fixed(reuse, 512 * MIB), 3), Some(first));
        }
    }
}

/// Under buddy placement every block is a power of two of granules, at a multiple of its size; and
/// two free halves are one block again, whoever freed them.
#[test]
fn buddies_are_aligned_and_merge_across_streams() {
    each_way(|way| {
        let config = way.pool().reuse(placed(Placement::Buddy));
        let capacity = 32 * MIB;
        let config = config.initial_bytes(capacity).limit_bytes(capacity);
        let world = World::new(way.device(), config);
        let streams: [_; 2] = world.streams();
        let mut random = fastrand::Rng::with_seed(11);
        let mut live = Vec::new();
        for turn in 0..300 {
            let on = streams[turn % 2];
            let order = random.u32(0..13);
            let size_bytes = random.u64(1..=GRANULE << order);
            if let Ok(buffer) = world.try_allocate(on, size_bytes) {
                let size = size_bytes.div_ceil(GRANULE).next_power_of_two() * GRANULE;
                assert_eq!(buffer.size_bytes, size);
                assert_eq!(buffer.offset_bytes % size, 0);
                world.touch(&buffer, world.raw(on));
                live.push((on, buffer));
            }
            if live.len() > 20 {
                let (on, buffer) = live.swap_remove(random.usize(0..live.len()));
                world.free(on, buffer);
            }
        }
        for (on, buffer) in live {
            world.free(on, buffer);
        }
        // 20 MiB are 32.
        assert_eq!(world.allocate(streams[0], 20 * MIB).size_bytes, capacity);
        world.end();
    });
}

/// A buddy has to lie in its arena, wherever the device puts that.
#[test]
fn arenas_hold_the_buddies_that_they_are_taken_for() {
    for misalign_bytes in [0, GRANULE, 3 * GRANULE] {
        for size_bytes in [MIB, 3 * MIB, 4 * MIB, 24 * MIB] {
            let device = LATE.device().misalign_bytes(misalign_bytes);
            let config = LATE.pool().arena_bytes(MIB).reuse(placed(Placement::Buddy));
            let world = World::new(device, config);
            let stream = world.stream();
            let buffers: Vec<_> = (0..4).map(|_| world.used(stream, size_bytes)).collect();
            let taken = world.pool.stats().reserved_bytes;
            let given: u64 = buffers.iter().map(|buffer| buffer.size_bytes).sum();
            // Where its ranges begin anywhere, up to a window is lost in each; the first is too short.
            let lost = if misalign_bytes == 0 { 0 } else { given + 4 * 2 * MIB };
            assert!(taken <= given.max(4 * 2 * MIB) + lost, "{taken} for {given}");
            for buffer in buffers {
                world.free(stream, buffer);
            }
            world.end();
        }
    }
}

/// A small block on a wide alignment is a part of a buddy of that size, which goes to the stream
/// whole: what lies at the right place and is shorter would serve nothing there.
#[test]
fn a_wide_alignment_is_served_at_once_or_never() {
    for misalign_bytes in [0, 2 * GRANULE] {
        let device = LATE.device().misalign_bytes(misalign_bytes);
        let config = LATE.pool().reuse(placed(Placement::Buddy)).arena_bytes(64 * KIB);
        let config = config.initial_bytes(64 * KIB).limit_bytes(192 * KIB);
        let world = World::new(device, config);
        let streams: [_; 4] = world.streams();
        let request = Request::new(1000).align_bytes(64 * KIB);
        for on in streams {
            let buffer = world.allocate(on, request);
            assert_eq!(buffer.size_bytes, 1024);
            world.free(on, buffer);
        }
        world.end();
    }
}

/// Streams that are short of memory share it under every placement.
#[test]
fn streams_share_what_there_is_under_every_placement() {
    each_way(|way| {
        for placement in PLACEMENTS {
            let capacity = 16 * MIB;
            let config = way.pool().reuse(placed(placement));
            let world =
                World::new(way.device(), config.initial_bytes(capacity).limit_bytes(capacity));
            let streams: [_; 3] = world.streams();
            for round in 0..3 {
                let buffers: Vec<_> = (0..48)
                    .map(|place| {
                        let on = streams[(place + round) % 3];
                        (on, world.used(on, 256 * KIB))
                    })
                    .collect();
                for (on, buffer) in buffers {
                    world.free(on, buffer);
                }
                for &on in &streams {
                    world.pass(on, capacity);
                }
            }
            world.end();
        }
    });
}

/// Free pieces of a range after a load, those of less than 16 KiB, and what was given over.
fn crumbs(placement: Placement, tolerance_percent: u8) -> (usize, usize, u64) {
    let config = RangeConfig::new(256 * MIB)
        .placement(placement)
        .spans(Spans::Off)
        .tolerance_percent(tolerance_percent);
    let mut range = OffsetAllocator::new(&config).unwrap();
    let mut random = fastrand::Rng::with_seed(9);
    let mut live = Vec::new();
    let (mut asked_bytes, mut given_bytes) = (0, 0);
    for _ in 0..8000 {
        if live.len() == 200 || (!live.is_empty() && random.u8(..5) < 2) {
            let handle = live.swap_remove(random.usize(0..live.len()));
            range.free(handle).unwrap();
            continue;
        }
        // Sizes as of batches that vary a little.
        let usual = (64 * KIB) << random.u32(0..4);
        let asked = usual + random.u64(0..usual / 10);
        let block = range.allocate(asked).unwrap();
        asked_bytes += asked;
        given_bytes += block.size_bytes();
        live.push(block.handle());
    }
    let free: Vec<u64> = range
        .blocks()
        .filter_map(|piece| match piece {
            Piece::Free { size_bytes, .. } => Some(size_bytes),
            _ => None,
        })
        .collect();
    let small = free.iter().filter(|&&bytes| bytes < 16 * KIB).count();
    range.verify().unwrap();
    (free.len(), small, (given_bytes - asked_bytes) * 1000 / asked_bytes)
}

/// With a tolerance of 12 % hardly any crumb is left, for blocks that are 2 % larger than asked for.
#[test]
fn a_tolerance_leaves_fewer_crumbs() {
    for placement in [Placement::BestFit, Placement::FirstFit] {
        let [exact, tolerant] = [0, 12].map(|percent| crumbs(placement, percent));
        assert!(exact.0 > 90 && exact.1 > 30 && exact.2 == 0, "{placement:?}: {exact:?}");
        assert!(tolerant.0 < 60 && tolerant.1 <= 3, "{placement:?}: {tolerant:?}");
        assert!((5..=25).contains(&tolerant.2), "{placement:?}: {tolerant:?}");
    }
}

/// In a pool: a run that is a little longer is given whole, one that is longer than that is split;
/// and without a tolerance every one is.
#[test]
fn a_tolerance_is_how_much_longer_a_block_may_be() {
    for placement in [Placement::BestFit, Placement::FirstFit] {
        for (percent, asked, given) in [
            (0, 1023 * KIB, 1023 * KIB),
            (1, 1014 * KIB, MIB),
            (1, 1013 * KIB, 1013 * KIB),
            (25, 820 * KIB, MIB),
            (25, 819 * KIB, 819 * KIB),
            (100, 512 * KIB, MIB),
            (100, 511 * KIB, 511 * KIB),
        ] {
            let reuse = Reuse { tolerance_percent: percent, ..placed(placement) };
            let world = World::new(LATE.device(), LATE.pool().reuse(reuse));
            let stream = world.stream();
            let hole = world.allocate(stream, MIB);
            let behind = world.allocate(stream, MIB);
            world.free(stream, hole);
            let block = world.allocate(stream, asked);
            assert_eq!(block.size_bytes, given, "{percent} %, {placement:?}");
            world.free(stream, block);
            world.free(stream, behind);
            world.end();
        }
    }
}
