//! Fences that guard what they should, and are there before what they guard can be seen.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;

use pool_core::device::Call;

use crate::support::{Buffer, MIB, Walk, World, each_way};

/// Memory that went from stream to stream still waits for the first of them.
#[test]
fn p004_memory_that_moves_keeps_every_wait() {
    each_way(|way| {
        for size_bytes in [4 * MIB, MIB, 512, 96 * 256] {
            let world = way.fixed(size_bytes);
            let [first, second, third, fourth] = world.streams();
            let used = world.used(first, size_bytes);
            world.device.hold(world.raw(first)).unwrap();
            world.free(first, used);
            // More than there is: all is put together for nothing.
            assert!(world.pool.allocate_on(second, size_bytes + 256).is_err());
            // Taken, and never used: what is before it is still before whoever comes next.
            for stream in [second, third] {
                let passing = world.allocate(stream, size_bytes);
                world.free(stream, passing);
            }
            world.pass(fourth, size_bytes);
            world.pass(third, size_bytes);
            world.end();
        }
    });
}

/// Pieces of several streams that merge wait for each of these.
#[test]
fn p004_merged_pieces_wait_for_all_their_streams() {
    each_way(|way| {
        for pieces in [2_u64, 5, 16] {
            let piece_bytes = 64 << 10;
            let world = way.fixed(pieces * piece_bytes);
            let streams: Vec<_> = (0..pieces).map(|_| world.stream()).collect();
            let (middle, last) = (world.stream(), world.stream());
            let used: Vec<_> =
                streams.iter().map(|&stream| (stream, world.used(stream, piece_bytes))).collect();
            for (stream, buffer) in used {
                world.device.hold(world.raw(stream)).unwrap();
                world.free(stream, buffer);
            }
            assert!(world.pool.allocate_on(middle, (pieces + 1) * piece_bytes).is_err());
            let whole = world.allocate(middle, pieces * piece_bytes);
            world.free(middle, whole);
            world.pass(last, pieces * piece_bytes);
            world.end();
        }
    });
}

/// The same at random, with memory so scarce that it moves all the time.
#[test]
fn p004_memory_that_moves_at_random_keeps_every_wait() {
    each_way(|way| {
        for seed in 10..14 {
            let world = way.fixed(MIB);
            let streams: [_; 6] = world.streams();
            let mut walk = Walk::new(&world, &streams, seed, MIB);
            for _ in 0..120 {
                walk.step();
            }
            walk.end();
            world.end();
        }
    });
}

/// Whatever a call of the device interrupts, another thread that acts just then gets no memory
/// that is not fenced yet. The other thread is played by a hook before and after every call.
#[test]
fn p005_nothing_is_given_out_before_its_fence_is_there() {
    each_way(|way| {
        for after in [false, true] {
            let world = way.fixed(2 * MIB);
            let streams: [_; 3] = world.streams();
            let other = world.stream();
            let inside = AtomicBool::new(false);
            let served = AtomicU64::new(0);
            let mut walk = Walk::new(&world, &streams, 5, MIB);
            let kept: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());
            // What the hook does is done by hand: it may borrow nothing that ends.
            let intruder = World { device: world.device.clone(), pool: world.pool.clone() };
            let state = std::sync::Arc::new((intruder, inside, served, kept));
            let hooked = state.clone();
            let hook = move |call: Call| {
                let (world, inside, served, kept) = &*hooked;
                let of_interest = matches!(call, Call::Record | Call::RecordAll | Call::Wait);
                if !of_interest || inside.swap(true, Ordering::AcqRel) {
                    return;
                }
                for size_bytes in [MIB, 256 << 10, 4096] {
                    if let Ok(buffer) = world.try_allocate(other, size_bytes) {
                        world.touch(&buffer, world.raw(other));
                        served.fetch_add(1, Ordering::AcqRel);
                        kept.lock().unwrap().push(buffer);
                    }
                }
                for buffer in kept.lock().unwrap().drain(..) {
                    world.free(other, buffer);
                }
                inside.store(false, Ordering::Release);
            };
            if after {
                world.device.after_call(hook);
            } else {
                world.device.on_call(hook);
            }
            for _ in 0..150 {
                walk.step();
            }
            world.device.clear_hooks();
            walk.end();
            let (_, _, served, _) = &*state;
            assert!(served.load(Ordering::Acquire) > 0);
            drop(state);
            world.end();
        }
    });
}
