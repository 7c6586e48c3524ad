//! Faults that other pools had, by number.
//!
//! | fault | what it is about |
//! | --- | --- |
//! | P009 | a second free, or a foreign one, gives something back |
//! | P025 | a block is not found past a hole in the table of arenas, or at a border of one |
//! | P043 | who frees is decided by a setting, not by the pointer |
//! | P049 | a free on the default stream is not behind other streams' work |
//! | P057 | a second free is counted |
//! | P123 | to find a block by its pointer takes a lock that all devices share |

use core::ptr::{null_mut, without_provenance_mut};

use pool_cuda_c::{poolSetLimit, poolTrim};
use pool_mock_driver::*;

use crate::bed::*;

#[test]
fn p009_a_second_free_and_a_foreign_one_are_errors_that_change_nothing() {
    let bed = Bed::single();
    let stream = bed.stream();
    for size in [512, MIB, 40 * MIB] {
        let block = malloc(size, stream);
        free(block, stream);
        let before = stats(0);
        let calls = bed.calls(|| {
            for pointer in [block, without_provenance_mut(0xdead_0000)] {
                for stream in [stream, null_mut(), per_thread()] {
                    assert_eq!(try_free(pointer, stream), INVALID_VALUE);
                }
            }
        });
        assert_eq!(calls, 0);
        assert_eq!(stats(0), before);
        let (one, other) = (malloc(size, stream), malloc(size, stream));
        assert_ne!(one, other);
        free(one, stream);
        free(other, stream);
    }
}

#[test]
fn p025_blocks_are_found_past_holes_and_at_borders_of_arenas() {
    let bed = Bed::new();
    let stream = bed.stream();
    // Each has an arena of its own, and the next lies where that ends.
    let mut blocks: Vec<_> = (0..6).map(|_| malloc(70 * MIB, stream)).collect();
    for place in [1, 2] {
        free(blocks.remove(place), stream);
        bed.go();
        assert_eq!(poolTrim(0, 0), SUCCESS);
    }
    for &block in &blocks {
        assert_eq!(try_free(block.wrapping_byte_add(70 * MIB - 256), stream), INVALID_VALUE);
    }
    blocks.extend([malloc(70 * MIB, stream), malloc(90 * MIB, stream)]);
    for block in blocks {
        free(block, stream);
    }
    let figures = stats(0);
    assert_eq!((figures.allocations, figures.frees), (8, 8));
}

#[test]
fn p043_a_pointer_of_the_drivers_own_is_refused_and_stays() {
    let bed = Bed::new();
    let stream = bed.stream();
    let own = malloc(512, stream);
    let mut drivers = 0;
    ok!(cuMemAlloc_v2(&raw mut drivers, 512));
    let pointer = without_provenance_mut(usize::try_from(drivers).unwrap());
    assert_eq!(try_free(pointer, stream), INVALID_VALUE);
    // Whatever is set meanwhile.
    assert_eq!(poolSetLimit(0, 1), SUCCESS);
    free(own, stream);
    ok!(cuMemFree_v2(drivers));
}

#[test]
fn p049_a_free_on_the_default_stream_is_behind_the_stream_that_the_block_was_given_out_on() {
    let bed = Bed::new();
    let (one, other) = (bed.stream(), bed.stream());
    let block = malloc(MIB, one);
    write(block, MIB, one);
    free(block, null_mut());
    for _ in 0..2 {
        let next = malloc(MIB, other);
        write(next, MIB, other);
    }
    bed.go();
    bed.assert_clean();
}

#[test]
fn p057_only_the_first_free_is_counted() {
    let bed = Bed::new();
    let stream = bed.stream();
    let blocks: Vec<_> = (0..16).map(|_| malloc(4096, stream)).collect();
    for code in [SUCCESS, INVALID_VALUE, INVALID_VALUE] {
        assert_eq!(try_free(blocks[0], stream), code);
    }
    let figures = stats(0);
    assert_eq!((figures.frees, figures.liveBytes), (1, 15 * 4096));
    let three: Vec<_> = (0..3).map(|_| malloc(4096, stream)).collect();
    let apart = three.iter().all(|block| !blocks[1..].contains(block));
    assert!(apart && three[0] != three[1] && three[1] != three[2]);
}

/// Two threads find blocks of two devices while a third holds the lock that pools are made under, for
/// as long as the driver takes: that is what a look would wait for if it took a lock of all.
#[test]
fn p123_a_block_is_found_by_its_pointer_with_no_lock_of_all() {
    let mut bed = Bed::new();
    let on_first = bed.stream();
    bed.enter(1);
    let on_second = bed.stream();
    let calls = bed.calls(|| {
        // Once each, so that the thread has seen both.
        free(malloc(4096, on_first), on_first);
        free(malloc(4096, on_second), on_second);
    });
    assert!(calls > 0);
    let calls = bed.calls(|| {
        for _ in 0..100 {
            let (one, other) = (malloc(4096, on_first), malloc(4096, on_second));
            free(one, on_first);
            free(other, on_second);
        }
    });
    assert_eq!(calls, 0, "and no call");
}
