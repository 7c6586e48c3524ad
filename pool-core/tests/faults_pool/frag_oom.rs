//! Memory that is there, in pieces that nobody puts together.

use pool_core::device::Call;
use pool_core::{On, Request};

use crate::support::{KIB, LATE, MIB, World, each_way};
use crate::threads::on_threads;

/// What idle streams have freed is one piece for whoever needs it.
#[test]
fn p022_idle_streams_give_up_what_they_freed() {
    each_way(|way| {
        for (streams, blocks, block_bytes) in [(2, 512, MIB), (2, 64, 4 * KIB), (7, 140, 64 * KIB)]
        {
            let capacity = blocks as u64 * block_bytes;
            let world = way.fixed(capacity);
            let streams: Vec<_> = (0..streams).map(|_| world.stream()).collect();
            let buffers: Vec<_> = (0..blocks)
                .map(|place| {
                    let on = streams[place % streams.len()];
                    (on, world.used(on, block_bytes))
                })
                .collect();
            for (on, buffer) in buffers {
                world.free(on, buffer);
            }
            for round in 0..2 {
                if round == 0 {
                    for &stream in &streams {
                        world.device.host_wait_stream(world.raw(stream)).unwrap();
                    }
                }
                for part in [1, 2, 1] {
                    for &stream in &streams {
                        world.pass(stream, capacity / part);
                    }
                }
                let clean = world.allocate(On::Nothing, capacity);
                world.free(On::Nothing, clean);
            }
            assert_eq!(world.calls(Call::Allocate), 1);
            world.end();
        }
    });
}

/// Pieces that other threads free, again and again in other sizes, do not wear memory down.
#[test]
fn p048_pieces_freed_elsewhere_come_together_again() {
    for cache_bytes in [0, MIB] {
        let config = LATE.pool().cache_bytes(cache_bytes);
        let world = World::new(LATE.device(), config.initial_bytes(4 * MIB).limit_bytes(4 * MIB));
        let streams: [_; 2] = world.streams();
        let mut size_bytes = 16 * KIB;
        for round in 0..100 {
            size_bytes = if size_bytes > 60 * KIB { 16 * KIB } else { size_bytes * 13 / 10 };
            let pieces: Vec<_> = (0..64)
                .filter_map(|_| world.try_allocate(streams[round % 2], size_bytes).ok())
                .collect();
            assert!(!pieces.is_empty());
            let pieces: Vec<_> = pieces
                .into_iter()
                .inspect(|piece| world.touch(piece, world.raw(streams[round % 2])))
                .map(|piece| std::sync::Mutex::new(Some(piece)))
                .collect();
            on_threads(2, |thread| {
                let mut order: Vec<usize> = (thread..pieces.len()).step_by(2).collect();
                fastrand::Rng::with_seed(round as u64).shuffle(&mut order);
                for place in order {
                    let piece = pieces[place].lock().unwrap().take().unwrap();
                    world.free(streams[(round + place) % 2], piece);
                }
            });
            if round % 10 == 0 {
                world.pass(streams[0], 4 * MIB);
            }
        }
        world.pass(streams[1], 4 * MIB);
        world.end();
    }
}

/// Small blocks on wide alignments use what is aligned already; after them all is one piece.
#[test]
fn p060_small_blocks_on_wide_alignments_leave_one_piece() {
    for (count, size_bytes, align_bytes) in [(1000, 8 * KIB, 256 * KIB), (100, 512, MIB)] {
        let capacity = count as u64 * align_bytes;
        let world = LATE.fixed(capacity);
        let [stream, other] = world.streams();
        let mut buffers: Vec<_> = (0..count)
            .filter_map(|_| {
                world.try_allocate(stream, Request::new(size_bytes).align_bytes(align_bytes)).ok()
            })
            .collect();
        assert_eq!(buffers.len(), count, "each on a place of its own");
        // The gaps serve what fits in them.
        let gap = world.used(other, align_bytes / 2);
        world.free(other, gap);
        while let Some(buffer) = buffers.pop() {
            world.free(stream, buffer);
        }
        world.pass(other, capacity);
        world.end();
    }
}
