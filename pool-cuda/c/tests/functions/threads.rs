//! Many threads.

use core::ffi::c_void;
use core::ptr::without_provenance_mut;
use std::sync::mpsc;

use pool_cuda_c::poolTrim;
use pool_mock_driver::*;

use crate::bed::*;

const THREADS: usize = 4;
const ROUNDS: usize = 2000;

fn size(random: &mut fastrand::Rng) -> usize {
    let most = 256 << random.u32(..13);
    random.usize(1..=most)
}

/// Each thread on a stream of its own, with what it gets from the one before: it frees that.
#[test]
fn blocks_that_other_threads_free_are_counted_once() {
    let mut bed = Bed::new();
    let context = bed.enter(0).addr();
    let streams: Vec<_> = (0..THREADS).map(|_| bed.stream().addr()).collect();
    let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::channel()).unzip();
    // Each sends to the next.
    senders.rotate_left(1);
    std::thread::scope(|scope| {
        let mut jobs = Vec::new();
        for (number, (sender, receiver)) in senders.into_iter().zip(receivers).enumerate() {
            let stream = streams[number];
            jobs.push(scope.spawn(move || {
                ok!(cuCtxSetCurrent(without_provenance_mut(context)));
                let stream: *mut c_void = without_provenance_mut(stream);
                let mut random = fastrand::Rng::with_seed(number as u64);
                for round in 0..ROUNDS {
                    let block = malloc(size(&mut random), stream);
                    if round % 3 == 0 {
                        free(block, stream);
                    } else {
                        sender.send(block.addr()).unwrap();
                    }
                    if let Ok(other) = receiver.try_recv() {
                        free(without_provenance_mut(other), stream);
                    }
                }
                drop(sender);
                for other in receiver {
                    free(without_provenance_mut(other), stream);
                }
            }));
        }
        // Wholly, which the scope does not wait for.
        for job in jobs {
            job.join().unwrap();
        }
    });
    bed.go();
    let figures = stats(0);
    let all = (THREADS * ROUNDS) as u64;
    assert_eq!((figures.allocations, figures.frees, figures.liveBytes), (all, all, 0));
    assert_eq!(poolTrim(0, 0), SUCCESS);
    bed.assert_clean();
}

/// All threads free the same blocks: one of them is told that it did, for each.
#[test]
fn of_many_frees_of_a_block_one_succeeds() {
    let mut bed = Bed::new();
    let context = bed.enter(0).addr();
    let stream = bed.stream().addr();
    for round in 0..50 {
        let blocks: Vec<usize> = (0..64)
            .map(|number| {
                malloc(256 << ((number + round) % 14), without_provenance_mut(stream)).addr()
            })
            .collect();
        let freed: usize = std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        ok!(cuCtxSetCurrent(without_provenance_mut(context)));
                        let stream = without_provenance_mut(stream);
                        let free = |&block: &usize| try_free(without_provenance_mut(block), stream);
                        let codes: Vec<_> = blocks.iter().map(free).collect();
                        assert!(codes.iter().all(|&code| [SUCCESS, INVALID_VALUE].contains(&code)));
                        codes.iter().filter(|&&code| code == SUCCESS).count()
                    })
                })
                .collect();
            jobs.into_iter().map(|job| job.join().unwrap()).sum()
        });
        assert_eq!(freed, blocks.len());
        let figures = stats(0);
        assert_eq!((figures.liveBytes, figures.frees), (0, figures.allocations));
    }
}
