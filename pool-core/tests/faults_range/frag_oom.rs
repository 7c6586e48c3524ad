//! Memory that is free but cut up.

use pool_core::{OffsetAllocator, Placement, RangeConfig, Request};

use crate::support::{FITS, GRANULE, Numbers, PLACEMENTS, free_each, holes, range_of};

const MIB: u64 = 1 << 20;

/// Long-lived small blocks among large ones that come and go: the default keeps them together.
#[test]
fn p021_small_blocks_do_not_pin_large_ones() {
    for placement in FITS {
        let mut range =
            OffsetAllocator::new(&RangeConfig::new(4 << 30).placement(placement)).unwrap();
        let mut highest = 0;
        let mut small_bytes = 0;
        for turn in 0..200 {
            let large = range.allocate((64 + turn * 37 % 193) * MIB).unwrap();
            highest = highest.max(large.offset_bytes() + large.size_bytes());
            range.free(large.handle()).unwrap();
            let pinned = range.allocate(4096).unwrap();
            small_bytes += pinned.size_bytes();
            highest = highest.max(pinned.offset_bytes() + pinned.size_bytes());
        }
        let last = range.allocate(256 * MIB).unwrap();
        highest = highest.max(last.offset_bytes() + last.size_bytes());
        let peak = range.stats().peak_live_bytes;
        assert!(peak <= 257 * MIB + small_bytes);
        assert!(highest <= 2 * peak, "{placement:?}: reached {highest}, live {peak} at the most");
    }
}

/// Two interleaved sets, freed one after the other: nothing stays apart.
#[test]
fn p022_interleaved_sets_merge_when_both_are_freed() {
    for placement in PLACEMENTS {
        let mut range = range_of(1024 * MIB / GRANULE, placement);
        let blocks: Vec<_> = (0..1024).map(|_| range.allocate(MIB).unwrap()).collect();
        let set = |remainder| blocks.iter().copied().skip(remainder).step_by(2);
        free_each(&mut range, set(0));
        assert_eq!(range.largest_free_bytes(), MIB);
        free_each(&mut range, set(1));
        assert!(range.allocate(512 * MIB).is_ok(), "{placement:?}");
        assert!(range.allocate(512 * MIB).is_ok(), "{placement:?}");
    }
}

/// A chunk cut into 64, freed in random order, with sizes that drift: whole again each time.
#[test]
fn p048_pieces_freed_in_any_order_become_the_chunk_again() {
    for placement in PLACEMENTS {
        let mut range = range_of(16 * MIB / GRANULE, placement);
        let mut numbers = Numbers::new(48);
        let mut piece_bytes = 64 << 10;
        for _ in 0..1000 {
            let mut pieces: Vec<_> =
                (0..64).map(|_| range.allocate(piece_bytes).unwrap()).collect();
            numbers.shuffle(&mut pieces);
            free_each(&mut range, pieces);
            piece_bytes = piece_bytes * 13 / 10;
            if piece_bytes > 128 << 10 {
                piece_bytes = 1 + piece_bytes / 8;
            }
            let chunk = range.allocate(4 * MIB).unwrap();
            range.free(chunk.handle()).unwrap();
        }
        assert_eq!(holes(&range), [(0, 16 * MIB / GRANULE)], "{placement:?}");
    }
}

/// Small blocks at a large alignment: the gaps between them stay whole.
#[test]
fn p060_small_aligned_blocks_shred_nothing() {
    for placement in PLACEMENTS {
        let mut range = range_of((4 << 30) / GRANULE, placement);
        let request = Request::new(8 << 10).align_bytes(256 << 10);
        let blocks: Vec<_> = (0..4000).map(|_| range.allocate(request).unwrap()).collect();
        let free = holes(&range).len();
        // One gap a block; buddy cuts each into the orders between 8 and 128 KiB.
        let factor = if placement == Placement::Buddy { 5 } else { 1 };
        let most = 4000 * factor + 32;
        assert!(free <= most, "{placement:?}: {free} free pieces");
        free_each(&mut range, blocks.into_iter().rev());
        assert_eq!(holes(&range), [(0, (4 << 30) / GRANULE)]);
    }
}
