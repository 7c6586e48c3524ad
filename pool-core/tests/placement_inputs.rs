//! Inputs that are known to break placement algorithms, as tests of every placement that promises
//! to withstand them.

use pool_core::{
    Block, Chunked, OffsetAllocator, Options, Piece, Placement, RangeConfig, Request, Spans,
};

const GRANULE: u64 = 256;
const FITS: [Placement; 2] = [Placement::BestFit, Placement::FirstFit];
const ALL: [Placement; 3] = [Placement::BestFit, Placement::FirstFit, Placement::Buddy];

fn range_of(granules: u64, placement: Placement) -> OffsetAllocator<Chunked> {
    let config = RangeConfig::new(granules * GRANULE).placement(placement).spans(Spans::Off);
    OffsetAllocator::new(&config).unwrap()
}

fn free_pieces(range: &OffsetAllocator<Chunked>) -> usize {
    range.blocks().filter(|piece| matches!(piece, Piece::Free { .. })).count()
}

fn below(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
    (*state >> 33) % limit
}

fn shuffle<T>(items: &mut [T], mut state: u64) {
    for last in (1..items.len()).rev() {
        let other = below(&mut state, last as u64 + 1);
        items.swap(last, usize::try_from(other).unwrap());
    }
}

/// The lowest size of each of 64 classes a power of two, up to `most`.
fn class_floors(most: u64) -> impl Iterator<Item = u64> {
    let floors = (0..26).flat_map(|shift| (64..128).map(move |step| step << shift));
    floors.take_while(move |&floor| floor <= most)
}

/// A full range, and in it exactly one hole of the size asked for, among others that are smaller.
#[test]
fn exactly_the_hole_is_found() {
    for placement in FITS {
        for size in (1..300).chain(class_floors(1 << 20)) {
            let mut range = range_of(1 << 22, placement);
            let smaller = range.allocate((size / 2).max(1) * GRANULE).unwrap();
            range.allocate(GRANULE).unwrap();
            let hole = range.allocate(size * GRANULE).unwrap();
            range.allocate(GRANULE).unwrap();
            range.allocate(range.largest_free_bytes()).unwrap();
            if size > 1 {
                range.free(smaller.handle()).unwrap();
            }
            range.free(hole.handle()).unwrap();
            assert_eq!(range.largest_free_bytes(), size * GRANULE);
            let again = range.allocate(size * GRANULE).unwrap();
            assert_eq!(again.offset_bytes(), hole.offset_bytes(), "{size}");
        }
    }
}

/// Of holes of one size the lowest serves, in whatever order they were freed: what is live stays
/// together.
#[test]
fn of_equal_holes_the_lowest_serves() {
    for placement in FITS {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut range = range_of(10_000, placement);
            let holes = [(); 3].map(|()| {
                let hole = range.allocate(300 * GRANULE).unwrap();
                range.allocate(GRANULE).unwrap();
                hole
            });
            for at in order {
                range.free(holes[at].handle()).unwrap();
            }
            for hole in holes {
                let served = range.allocate(300 * GRANULE).unwrap();
                assert_eq!(served.offset_bytes(), hole.offset_bytes(), "{placement:?}, {order:?}");
            }
        }
    }
}

/// Many runs in the request's own class, all but one too small: the one is found wherever it lies
/// among them.
#[test]
fn a_fit_behind_many_that_are_too_small_is_found() {
    for placement in FITS {
        for many in [9, 16, 40, 200] {
            for place in [0, many / 2, many] {
                // 32 classes a power of two: 4096 to 4223 granules are one.
                let request = 4223;
                let mut range = range_of(1 << 22, placement);
                let mut holes: Vec<Block> = vec![];
                for at in 0..=many {
                    let size = if at == place { request } else { 4096 + at * 7 % 127 };
                    holes.push(range.allocate(size * GRANULE).unwrap());
                    range.allocate(GRANULE).unwrap();
                }
                range.allocate(range.largest_free_bytes()).unwrap();
                for hole in &holes {
                    range.free(hole.handle()).unwrap();
                }
                assert!(range.visits(request * GRANULE).blocks < 140);
                let found = range.allocate(request * GRANULE).unwrap();
                let fit = holes[usize::try_from(place).unwrap()];
                assert_eq!(found.offset_bytes(), fit.offset_bytes(), "{many}, {place}");
            }
        }
    }
}

/// Robson's staircase: in each step the holes that are left are one granule too small for the
/// next size. Nothing is refused while the granules for it are in one piece.
#[test]
fn robsons_staircase_refuses_nothing_that_fits() {
    for placement in ALL {
        let mut range = range_of(20_000, placement);
        let mut live: Vec<Block> = vec![];
        for size in 1..100 {
            while live.len() < 400 {
                let fits = range.largest_free_bytes() >= size * GRANULE;
                let served = range.allocate(size * GRANULE);
                let rounds = placement == Placement::Buddy && !size.is_power_of_two();
                assert!(served.is_ok() == fits || rounds, "{placement:?}, size {size}");
                let Ok(block) = served else { break };
                live.push(block);
            }
            // Every other block goes, and leaves holes of this size.
            let mut keep = false;
            live.retain(|block| {
                keep = !keep;
                keep || range.free(block.handle()).is_err()
            });
        }
        range.verify().unwrap();
        for block in live {
            range.free(block.handle()).unwrap();
        }
        let whole = if placement == Placement::Buddy { 16_384 } else { 20_000 };
        assert_eq!(range.largest_free_bytes(), whole * GRANULE);
    }
}

/// A buffer that is freed and made again a little larger each time, beside others that stay.
#[test]
fn a_size_that_grows_slowly_is_served_from_what_it_freed() {
    for placement in ALL {
        let mut range = range_of(1 << 20, placement);
        let mut highest = 0;
        for step in 0..100_000_u64 {
            let block = range.allocate((1 << 20) + step * 512).unwrap();
            highest = highest.max(block.offset_bytes() + block.size_bytes());
            range.free(block.handle()).unwrap();
        }
        assert_eq!(free_pieces(&range), 1);
        let last = (1 << 20) + 99_999 * 512_u64;
        let most = if placement == Placement::Buddy { last.next_power_of_two() } else { last };
        assert!(highest <= most.next_multiple_of(GRANULE), "{placement:?}: {highest}");
    }
    // Doubled: the new one is made before the old one is freed. Two holes and no more.
    for placement in FITS {
        let mut range = range_of(1 << 20, placement);
        let mut old: Option<Block> = None;
        for step in 0..20_000_u64 {
            let new = range.allocate((1 << 20) + step * 512).unwrap();
            if let Some(old) = old.replace(new) {
                range.free(old.handle()).unwrap();
            }
            assert!(free_pieces(&range) <= 2, "{placement:?}, step {step}");
        }
    }
}

/// 8 KiB blocks at 64 KiB, until a range of 4 GiB has room for no more.
#[test]
fn small_blocks_at_a_large_alignment_fill_the_range() {
    for placement in ALL {
        let mut range = range_of((4 << 30) / GRANULE, placement);
        let request = Request::new(8 << 10).align_bytes(64 << 10);
        let blocks: Vec<Block> = core::iter::from_fn(|| range.allocate(request).ok()).collect();
        assert_eq!(blocks.len(), (4 << 30) / (64 << 10), "one in each 64 KiB");
        let pieces = if placement == Placement::Buddy { 3 } else { 1 };
        assert_eq!(free_pieces(&range), blocks.len() * pieces);
        assert!(range.visits(request).blocks <= 160, "{:?}", range.visits(request));
        for block in blocks {
            range.free(block.handle()).unwrap();
        }
        assert_eq!(range.largest_free_bytes(), 4 << 30);
    }
}

/// Blocks of one size, so that every hole is in one class, freed in every order: a free and a
/// search visit as many blocks at the end as at the start.
#[test]
fn freeing_one_class_in_any_order_costs_the_same() {
    const BLOCKS: usize = 20_000;
    for placement in ALL {
        for size in [1, 5, 100] {
            for order in 0..4 {
                let mut range = range_of(1 << 23, placement);
                let mut blocks: Vec<Block> =
                    (0..BLOCKS).map(|_| range.allocate(size * GRANULE).unwrap()).collect();
                match order {
                    0 => {}
                    1 => blocks.reverse(),
                    2 => shuffle(&mut blocks, 1),
                    // Every other one first: as many holes as there can be.
                    _ => {
                        let (even, odd): (Vec<_>, Vec<_>) =
                            blocks.iter().enumerate().partition(|(at, _)| at % 2 == 0);
                        blocks = even.into_iter().chain(odd).map(|(_, block)| *block).collect();
                    }
                }
                for (freed, block) in blocks.iter().enumerate() {
                    range.free(block.handle()).unwrap();
                    if freed % 500 == 0 {
                        let visits = range.visits(size * GRANULE);
                        assert!(visits.served && visits.blocks <= 33, "{placement:?}: {visits:?}");
                    }
                }
                assert_eq!(free_pieces(&range), 1, "{placement:?}, size {size}, order {order}");
            }
        }
    }
}

/// Sizes whose deviation is above their mean, live blocks at random.
#[test]
fn sizes_of_high_variance_refuse_nothing_that_fits() {
    for placement in FITS {
        let mut state = 7;
        let mut range = range_of(60_000, placement);
        let mut live: Vec<Block> = vec![];
        let mut refused = 0;
        for _ in 0..20_000 {
            // Mostly small, one in sixteen up to 64 times as large.
            let most = if below(&mut state, 16) == 0 { 4096 } else { 64 };
            let size_bytes = (1 + below(&mut state, most)) * GRANULE;
            let largest = range.largest_free_bytes();
            if let Ok(block) = range.allocate(size_bytes) {
                assert!(size_bytes <= largest);
                live.push(block);
            } else {
                assert!(size_bytes > largest, "{size_bytes} refused, {largest} in one piece");
                refused += 1;
                for _ in 0..8 {
                    if !live.is_empty() {
                        let pick = below(&mut state, live.len() as u64);
                        let gone = live.swap_remove(usize::try_from(pick).unwrap());
                        range.free(gone.handle()).unwrap();
                    }
                }
            }
        }
        assert!(refused > 100 && live.len() > 100, "{refused} refused, {} live", live.len());
        range.verify().unwrap();
    }
}

/// Blocks at both ends by turns, and every other one freed: the middle stays whole.
#[test]
fn blocks_from_both_ends_leave_the_middle_whole() {
    for placement in FITS {
        let mut range = range_of(10_000, placement);
        let mut blocks = vec![];
        for turn in 0..200 {
            let options = if turn % 2 == 0 { Options::empty() } else { Options::HIGH_END };
            let request = Request::new((1 + turn % 20) * GRANULE).options(options);
            blocks.push(range.allocate(request).unwrap());
        }
        let live_bytes = range.stats().live_bytes;
        assert_eq!(free_pieces(&range), 1);
        assert_eq!(range.largest_free_bytes(), 10_000 * GRANULE - live_bytes);
        for block in blocks.iter().step_by(2) {
            range.free(block.handle()).unwrap();
        }
        assert!(range.largest_free_bytes() >= 10_000 * GRANULE - live_bytes);
    }
}

/// The largest range there is, cut and joined at its far end.
#[test]
fn a_range_of_2_to_the_32_granules_works_to_its_last_granule() {
    for placement in ALL {
        let mut range = range_of(1 << 32, placement);
        let high = Request::new(GRANULE).options(Options::HIGH_END);
        let last = range.allocate(high).unwrap();
        assert_eq!(last.offset_bytes(), ((1 << 32) - 1) * GRANULE);
        let rest = range.allocate(range.largest_free_bytes()).unwrap();
        assert_eq!(rest.offset_bytes(), 0);
        range.free(last.handle()).unwrap();
        range.free(rest.handle()).unwrap();
        assert_eq!(range.largest_free_bytes(), 1 << 40);
        assert!(range.allocate((1 << 40) + 1).is_err());
        assert!(range.allocate(1 << 40).is_ok());
        range.verify().unwrap();
    }
}
